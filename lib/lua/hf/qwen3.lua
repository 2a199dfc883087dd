-- Qwen 3: llama's layers with a norm of each head's queries and keys.

local decoder = require "tessera.hf.decoder"
local llama = require "tessera.hf.llama"
local qwen2 = require "tessera.hf.qwen2"

return {
  architectures = { Qwen3ForCausalLM = "logits", Qwen3Model = "hidden" },
  needs = decoder.NEEDS,
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 32768, head_dim = 128 },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    return llama.base(c, { bias = c.attention_bias, out_bias = c.attention_bias, qk_norm = true,
      window = function(i) return qwen2.window(c, i) end })
  end),
}
