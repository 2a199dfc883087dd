-- Mixtral: mistral's layers with a mixture of experts in place of the perceptron.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local experts = require "tessera.hf.experts"
local Rope = require "tessera.hf.rope"

return {
  architectures = { MixtralForCausalLM = "logits", MixtralModel = "hidden" },
  needs = { "num_local_experts", "num_experts_per_tok", unpack(decoder.NEEDS) },
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-5, max_position_embeddings = 131072, rope_theta = 1000000, num_key_value_heads = 8 },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    local function norm() return blocks.RMSNorm(c.hidden_size, c.rms_norm_eps) end
    local rope = Rope.new(c, c.head_dim or c.hidden_size / c.num_attention_heads)
    return decoder.Model(c, { norm = norm,
      layer = function(index)
        local heads = attention.Attention(decoder.attention_options(c, { rope = rope, window = decoder.window(c, index - 1) }), index)
        local mixture = experts.Mixture { experts = c.num_local_experts, k = c.num_experts_per_tok, width = c.hidden_size,
          hidden = c.intermediate_size, activation = c.hidden_act, names = { "w1", "w3", "w2" }, normed = true, stacked = c.experts_stacked }
        return decoder.Layer(heads, mixture, norm, { "input_layernorm", "self_attn", "post_attention_layernorm", "block_sparse_moe" })
      end })
  end),
}
