-- What tests of fused functions share: the bits of a function by the VM beside those of its kernels,
-- and of the interpreter in their place.
local core = require "tessera.core"
local jit = require "tessera".jit
local M = {}

--- Hashes of tensors.
function M.bits(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = select(i, ...):hash() end
  return table.concat(list, " ")
end

--- The first way whose bits are not the VM's, of "compiled" and, interpreted, "block" and
--- "explicit"; nil: none. f is a captured function.
function M.differs(f, interpreted, ...)
  jit.off()
  local want = M.bits(f(...))
  jit.on()
  jit.eager(true)
  local ways, wrong = interpreted and { "compiled", "block", "explicit" } or { "compiled" }
  for _, way in ipairs(ways) do
    if way ~= "compiled" then core.jit_interpret(way) end
    f(...)
    if M.bits(f(...)) ~= want then wrong = wrong or way end
    core.jit_interpret()
  end
  jit.eager(false)
  return wrong
end

return M
