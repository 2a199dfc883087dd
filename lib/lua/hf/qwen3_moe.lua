-- Qwen 3 with experts: qwen3's attention, qwen2_moe's mixtures without the shared expert.

local decoder = require "tessera.hf.decoder"
local llama = require "tessera.hf.llama"
local qwen2 = require "tessera.hf.qwen2"
local qwen2_moe = require "tessera.hf.qwen2_moe"

return {
  architectures = { Qwen3MoeForCausalLM = "logits", Qwen3MoeModel = "hidden" },
  needs = qwen2_moe.needs, aliases = qwen2_moe.aliases,
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 32768, decoder_sparse_step = 1, mlp_only_layers = {},
    norm_topk_prob = false, head_dim = 128 },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    return llama.base(c, { bias = c.attention_bias, out_bias = c.attention_bias, qk_norm = true,
      window = function(i) return qwen2.window(c, i) end, mlp = function(i) return qwen2_moe.mlp(c, i) end })
  end),
}
