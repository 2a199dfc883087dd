-- StarCoder 2: layer norms with biases, a plain perceptron, grouped heads, rotary positions, a window.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local Rope = require "tessera.hf.rope"

return {
  architectures = { Starcoder2ForCausalLM = "logits", Starcoder2Model = "hidden" },
  needs = decoder.NEEDS,
  defaults = { hidden_act = "gelu_pytorch_tanh", norm_epsilon = 1e-5, use_bias = true, max_position_embeddings = 4096, tie_word_embeddings = true },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    local function norm() return blocks.LayerNorm(c.hidden_size, c.norm_epsilon) end
    local rope = Rope.new(c, c.hidden_size / c.num_attention_heads)
    return decoder.Model(c, { norm = norm,
      layer = function(index)
        local heads = attention.Attention(decoder.attention_options(c, { rope = rope, bias = c.use_bias, out_bias = c.use_bias,
          window = decoder.window(c, index - 1) }), index)
        return decoder.Layer(heads, blocks.MLP(c.hidden_size, c.intermediate_size, { activation = c.hidden_act, bias = c.use_bias, up = "c_fc",
          down = "c_proj" }), norm)
      end })
  end),
}
