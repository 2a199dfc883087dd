-- The numerics contract from Lua: profiles, seeds, hashes.

local core = require "tessera.core"
local numerics = {}

-- numerics.profile() tells the profile, numerics.profile("strict") sets it and
-- returns the old one; numerics.profile("strict", f, ...) holds while f(...) runs.
--   local before = numerics.profile "strict"
function numerics.profile(name, f, ...)
  if not name then return core.profile() end
  if f == nil then return core.profile(name) end
  core.need_function(f, "numerics.profile")
  local old = core.profile()
  return core.guarded(function() core.profile(old) end, function(...)
    core.profile(name)
    return f(...)
  end, ...)
end

-- The generator that random operators without seed= use.
--   numerics.seed(1)
function numerics.seed(seed) core.seed(seed) end

-- numerics.trap(true) stops at the operator that makes the first NaN or infinity; the
-- message tells which, its line, where in the result, and whether in the forward or the
-- backward pass: then the line is that of the operator differentiated. What inputs or
-- options bring in, as a mask of -inf, is no reason to stop. numerics.trap(f, ...) holds
-- while f(...) runs; numerics.trap() tells, numerics.trap(false) ends it. tessera
-- --nan-trap sets it for a whole run.
--   numerics.trap(train)
function numerics.trap(on, ...)
  if on == nil or type(on) == "boolean" then return core.trap(on) end
  core.need_function(on, "numerics.trap")
  local old = core.trap()
  return core.guarded(function() core.trap(old) end, function(...)
    core.trap(true)
    return on(...)
  end, ...)
end

-- Hash of the logical elements, the same for equal values in any layout.
--   print(numerics.hash(x))
function numerics.hash(x)
  if not core.is_tensor(x) then core.fail(("numerics.hash: a tensor is needed, not a %s"):format(type(x))) end
  return x:hash()
end

-- The instruction set of the CPU kernels: "avx512", "avx2", "base". All give the
-- same bits.
--   numerics.isa "avx2"
function numerics.isa(name) return core.isa(name) end

return require("tessera.named")("tessera.numerics", numerics)
