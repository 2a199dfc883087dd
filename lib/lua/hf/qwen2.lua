-- Qwen 2 and 2.5: llama's layers with biases of queries, keys and values; later layers may see a window.

local decoder = require "tessera.hf.decoder"
local llama = require "tessera.hf.llama"

local qwen2 = {}

--- The window of layer i: none, or from max_window_layers on, where layer_types does not say it.
function qwen2.window(c, i)
  if c.layer_types then return decoder.window(c, i) end
  return c.use_sliding_window and i >= (c.max_window_layers or 28) and c.sliding_window or nil
end

qwen2.architectures = { Qwen2ForCausalLM = "logits", Qwen2Model = "hidden" }
qwen2.needs = decoder.NEEDS
qwen2.defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 32768 }
qwen2.prefix, qwen2.ignored = "model", decoder.IGNORED
qwen2.build = decoder.build("model", function(c)
  return llama.base(c, { bias = true, window = function(i) return qwen2.window(c, i) end })
end)

return qwen2
