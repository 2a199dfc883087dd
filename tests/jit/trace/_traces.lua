-- What tests of hot loops share.

local tessera = require "tessera"
local core, rng, jit = require "tessera.core", tessera.rng, tessera.jit

-- Runs f(note) twice; gives how the tracer's counts changed the second time.
return function(f)
  local function run()
    local seen = {}
    rng.seed(3)
    f(function(v)
      if core.is_tensor(v) then v = v:hash() end
      seen[#seen + 1] = tostring(v)
    end)
    return seen
  end
  jit.off()
  local want = run()
  jit.on()
  jit.flush()
  local before = jit.traces()
  local have = run()
  local after = jit.traces()
  for i = 1, math.max(#want, #have) do
    if want[i] ~= have[i] then
      error(("note %d is %s, not %s"):format(i, tostring(have[i]), tostring(want[i])), 2)
    end
  end
  for k, v in pairs(before) do after[k] = after[k] - v end
  return after
end
