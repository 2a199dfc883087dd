-- OLMo 2: norms behind attention and perceptron, not before; one norm of all queries, one of all keys.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local Rope = require "tessera.hf.rope"

local Layer = blocks.define "Olmo2Layer"

function Layer:init(heads, mlp, norm)
  self.self_attn = heads
  self.post_attention_layernorm = norm()
  self.mlp = mlp
  self.post_feedforward_layernorm = norm()
end

function Layer:forward(x, at)
  x = x + self.post_attention_layernorm(self.self_attn(x, at))
  return x + self.post_feedforward_layernorm(self.mlp(x))
end

return {
  architectures = { Olmo2ForCausalLM = "logits", Olmo2Model = "hidden" },
  needs = decoder.NEEDS,
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-5, max_position_embeddings = 2048 },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    local function norm(width) return blocks.RMSNorm(width or c.hidden_size, c.rms_norm_eps) end
    local rope = Rope.new(c, c.head_dim or c.hidden_size / c.num_attention_heads)
    return decoder.Model(c, { norm = norm,
      layer = function(index)
        local heads = attention.Attention(decoder.attention_options(c, { rope = rope, bias = c.attention_bias, out_bias = c.attention_bias,
          norm = norm, whole_norm = true }), index)
        return Layer(heads, blocks.GatedMLP(c.hidden_size, c.intermediate_size, c.hidden_act), norm)
      end })
  end),
}
