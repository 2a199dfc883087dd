-- Operators that are rows of ir/lower/lower.c, on a device against the CPU, and
-- that the device ran them: what the files of the families share. false where there is no device.
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
local device = require "_device"
local name = device.name
if not name then
  print(device.skipped)
  return false
end
local M = { name = name }

-- f(...) there and here, bit by bit.
function M.check(what, f, ...)
  local x, there = { ... }, {}
  for i, t in ipairs(x) do there[i] = t:to(name) end
  local before = core.jit_device()
  local got, want = { f(unpack(there)) }, { f(unpack(x)) }
  local after = core.jit_device()
  assert(after.fallback == before.fallback, what .. ": the CPU ran it")
  assert(after.refused == before.refused, what .. ": a kernel was refused")
  for i, y in ipairs(want) do
    assert(got[i]:hash() == y:hash(), ("%s: output %d differs"):format(what, i))
  end
end

-- Of 16-bit floats a matrix unit adds up in another order than the CPU: within a rounding or two.
function M.near(what, f, ...)
  local x, there = { ... }, {}
  for i, t in ipairs(x) do there[i] = t:to(name) end
  local before = core.jit_device()
  local got, want = f(unpack(there)):to "cpu", f(unpack(x))
  assert(not device.unit or core.jit_device().fallback == before.fallback, what .. ": the CPU ran it")
  local function f32(t) return op.cast(t, "f32") end
  local most = op.max(op.abs(f32(want))):item()
  local off = op.max(op.abs(f32(got) - f32(want))):item()
  assert(off <= most / (want.dtype == "bf16" and 128 or 1024), what .. ": off by " .. off)
end

function M.random(shape, d) return op.cast(op.mul(rng.normal(shape), 10), d or "f32") end

return M
