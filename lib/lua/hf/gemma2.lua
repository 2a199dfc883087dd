-- Gemma 2: norms on both sides, every other layer with a window, scores and logits limited by tanh.

local decoder = require "tessera.hf.decoder"
local gemma = require "tessera.hf.gemma"
local Rope = require "tessera.hf.rope"

local defaults = { query_pre_attn_scalar = 256, attn_logit_softcapping = 50, final_logit_softcapping = 30, sliding_window = 4096 }
for k, v in pairs(gemma.defaults) do defaults[k] = v end

return {
  architectures = { Gemma2ForCausalLM = "logits", Gemma2Model = "hidden" },
  needs = decoder.NEEDS, defaults = defaults, prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    local rope = Rope.new(c, c.head_dim)
    return gemma.base(c, gemma.Sandwich, function(i)
      local window = c.sliding_window
      if c.layer_types then window = decoder.window(c, i) elseif i % 2 == 1 then window = nil end
      return { rope = rope, window = window, softcap = c.attn_logit_softcapping or nil, scale = c.query_pre_attn_scalar ^ -0.5 }
    end)
  end),
}
