-- Mistral: llama's layers, which see the last sliding_window positions.

local decoder = require "tessera.hf.decoder"
local llama = require "tessera.hf.llama"

return {
  architectures = { MistralForCausalLM = "logits", MistralModel = "hidden" },
  needs = decoder.NEEDS,
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 131072, num_key_value_heads = 8 },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    return llama.base(c, { window = function(i) return decoder.window(c, i) end })
  end),
}
