-- The numerics contract from Lua: profiles, seeds, hashes.

local core = require "tessera.core"
local numerics = {}

-- numerics.profile() tells the profile, numerics.profile("strict") sets it and
-- returns the old one; with a function, it holds while that runs.
function numerics.profile(name, f)
  if not name then return core.profile() end
  local old = core.profile(name)
  if not f then return old end
  local function finish(ok, ...)
    core.profile(old)
    if not ok then error((...), 0) end
    return ...
  end
  return finish(pcall(f))
end

-- The generator that random operators without seed= use.
function numerics.seed(seed) core.seed(seed) end

-- Hash of the logical elements, the same for equal values in any layout.
function numerics.hash(x) return x:hash() end

-- The instruction set of the CPU kernels: "avx512", "avx2", "base". All give the
-- same bits.
function numerics.isa(name) return core.isa(name) end

return numerics
