-- Llama 1 to 3: norms before attention and a gated perceptron, grouped heads, rotary positions. Families that differ in an
-- option or two are built of it (mistral.lua, qwen2.lua ..).

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local Rope = require "tessera.hf.rope"

local llama = {}

--- base(c, {window = f(i), bias, out_bias, norm = f(width), mlp = f(i), of attention more}): the model without its head; i from 0 on.
function llama.base(c, o)
  local function norm(width) return blocks.RMSNorm(width or c.hidden_size, c.rms_norm_eps) end
  local d = c.head_dim or c.hidden_size / c.num_attention_heads
  local rope = Rope.new(c, decoder.rotary_dims(c, d))
  return decoder.Model(c, {
    norm = norm,
    layer = function(index)
      local heads = attention.Attention(decoder.attention_options(c, { rope = rope, window = o.window and o.window(index - 1), bias = o.bias,
        out_bias = o.out_bias, norm = o.qk_norm and norm, sinks = o.sinks }), index)
      local mlp = o.mlp and o.mlp(index - 1) or blocks.GatedMLP(c.hidden_size, c.intermediate_size, c.hidden_act, c.mlp_bias)
      return decoder.Layer(heads, mlp, norm)
    end,
  })
end

llama.architectures = { LlamaForCausalLM = "logits", LlamaModel = "hidden" }
llama.needs = decoder.NEEDS
llama.defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 2048, attention_bias = false }
llama.prefix, llama.ignored = "model", decoder.IGNORED
llama.build = decoder.build("model", function(c) return llama.base(c, { bias = c.attention_bias, out_bias = c.attention_bias }) end)

return llama
