-- Gemma 3 (text): Gemma 2's layers with norms of queries and keys in place of limits; of sliding_window_pattern layers the last
-- sees all positions, and turns by frequencies of its own.

local decoder = require "tessera.hf.decoder"
local gemma = require "tessera.hf.gemma"
local Rope = require "tessera.hf.rope"

local defaults = { query_pre_attn_scalar = 256, sliding_window = 4096, sliding_window_pattern = 6, rope_local_base_freq = 10000 }
for k, v in pairs(gemma.defaults) do defaults[k] = v end
defaults.max_position_embeddings, defaults.rope_theta = 131072, 1000000

return {
  architectures = { Gemma3ForCausalLM = "logits", Gemma3TextModel = "hidden" },
  needs = decoder.NEEDS, defaults = defaults, prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    local by_kind = c.rope_parameters and c.rope_parameters.sliding_attention
    local whole = Rope.new(c, c.head_dim, { which = "full_attention" })
    local near = Rope.new(c, c.head_dim, by_kind and { which = "sliding_attention" } or { theta = c.rope_local_base_freq })
    return gemma.base(c, gemma.Sandwich, function(i)
      local window
      if c.layer_types then window = decoder.window(c, i) elseif (i + 1) % c.sliding_window_pattern ~= 0 then window = c.sliding_window end
      return { rope = window and near or whole, window = window, scale = c.query_pre_attn_scalar ^ -0.5, norm = gemma.norm(c) }
    end)
  end),
}
