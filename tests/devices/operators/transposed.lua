-- Copies that turn, maps of operands that are turned on a device against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local check, random = on.check, on.random

-- ---- copies that turn
for _, d in ipairs { "f32", "bf16", "u8", "f64", "bool", "complex64" } do
  local function some(...)
    local x = random({ ... }, d == "complex64" and "f32" or d)
    return d == "complex64" and op.fft(x) or x
  end
  local function turned(...)
    local perm = { ... }
    return function(y) return y:permute(unpack(perm)):contiguous() end
  end
  check("turned " .. d, turned(1, 0), some(256, 192))
  check("turned, odd " .. d, turned(1, 0), some(301, 129))
  check("turned, thin " .. d, turned(1, 0), some(9, 2300))
  check("turned in batches " .. d, turned(0, 1, 3, 2), some(2, 3, 72, 65))
  check("to channels last " .. d, turned(0, 2, 3, 1), some(2, 16, 24, 25))
  check("to channels first " .. d, turned(0, 3, 1, 2), some(2, 24, 25, 16))
  check("all turned " .. d, turned(3, 2, 1, 0), some(8, 5, 9, 64))
  check("a part turned " .. d, function(y)
    return y:narrow(0, 1, 299):narrow(1, 3, 131):T():contiguous()
  end, some(301, 135))
end

-- ---- maps of operands that are turned, eager and captured
for _, d in ipairs { "f32", "bf16", "f64" } do
  for _, c in ipairs { { 256, 192 }, { 301, 129 }, { 9, 2300 } } do
    local x, y = random(c, d), random({ c[2], c[1] }, d)
    local function add(a, b) return a:T() * 2 + b end
    local function both(a, b) return op.tanh(a:T()), op.cast(a:T() + b[0][0], "f32"), a + b:T() end
    check("sum with turned " .. d, add, x, y)
    check("maps of turned " .. d, both, x, y)
    local one, more = graph.module("add", add), graph.module("both", both)
    tessera.jit.eager(true)
    check("captured sum with turned " .. d, one, x, y)
    check("captured maps of turned " .. d, more, x, y)
    tessera.jit.eager(false)
  end
  check("turned in batches, a row " .. d, function(a, b)
    return a:permute(0, 2, 1) + b
  end, random({ 3, 70, 130 }, d), random({ 70 }, d))
end
