-- Small eager calls that are put off and launched together, with everything that may come between
-- them: against the CPU, bit by bit.
package.path = "tests/devices/?.lua;" .. package.path
local device = require "_device"
if not device.name then return print(device.skipped) end
local tessera = require "tessera"
local op, rng, core = tessera.op, tessera.rng, tessera.core

-- Both sides run the same; `put` brings a tensor to where the side computes.
local function agree(title, run)
  local function side(put)
    rng.seed(7)
    local seen = {}
    local last = run(put, function(v) seen[#seen + 1] = v end)
    seen[#seen + 1] = last:to "cpu":hash()
    return table.concat(seen, " ")
  end
  local here, there = side(function(t) return t end), side(function(t) return t:to(device.name) end)
  assert(here == there, ("%s: %s and %s"):format(title, here, there))
  return true
end

-- One kernel, three, and one that changes now and then.
agree("one", function(put)
  local z, y = put(rng.normal { 16 }), put(rng.normal { 16 })
  for _ = 1, 1000 do z = z + y end
  return z
end)
agree("three", function(put)
  local z, y = put(rng.normal { 5, 3 }), put(rng.normal { 5, 3 })
  for _ = 1, 500 do z = (z * 0.5 + y):sin() end
  return z
end)
agree("changing", function(put)
  local z, y = put(rng.normal { 16 }), put(rng.normal { 16 })
  for i = 1, 2000 do
    z = z * 0.9
    if i % 501 == 0 then z = z - y end
    if i > 1000 then z = z + y end
  end
  return z
end)

-- Who reads, writes, brings bytes or fetches some sees what was computed before.
agree("reading", function(put, see)
  local z, y = put(rng.normal { 16 }), put(rng.normal { 16 })
  for i = 1, 1500 do
    z = z * 0.99 + y
    if i % 400 == 0 then see(z[3]:item()) end
    if i % 700 == 0 then see(z:sum():item()) end
  end
  return z
end)
agree("in place", function(put)
  local z, y = put(rng.normal { 4, 4 }), put(rng.normal { 4, 4 })
  for i = 1, 600 do
    z:add_(y)
    z[i % 4]:mul_(0.5)
  end
  return z
end)
agree("from the CPU", function(put)
  local z = put(rng.normal { 16 })
  for i = 1, 600 do
    z = z * 0.5
    if i % 150 == 0 then z = z + put(op.full({ 16 }, i)) end
  end
  return z
end)
agree("by the CPU", function(put)
  local z = put(rng.normal { 16 })
  for i = 1, 600 do
    z = z * 0.99
    if i % 200 == 0 then z = op.sort(z) end
  end
  return z
end)

-- Memory that was freed belongs to whoever asks next, also while launches that use it wait.
agree("memory", function(put)
  local z, y = put(rng.normal { 64 }), put(rng.normal { 64 })
  local kept = {}
  for i = 1, 900 do
    z = z * 0.5 + y
    kept[i % 7] = z
    if i % 97 == 0 then
      collectgarbage()
      kept[i % 5] = put(rng.normal { 64 })
    end
    if i % 300 == 0 then core.trim() end
  end
  for i = 0, 6 do z = z + kept[i] end
  return z
end)

-- Larger kernels and functions come in their turn.
agree("larger", function(put)
  local z, big = put(rng.normal { 16 }), put(rng.normal { 300, 100 })
  for i = 1, 600 do
    z = z * 0.5 + 1
    if i % 180 == 0 then z = z + (big + z[0]):sum({ axis = 0 })["0:16"] end
  end
  return z
end)
local f = tessera.graph.module("f", function(x) return op.relu(x * 2) - x end)
agree("functions", function(put)
  local z = put(rng.normal { 16 })
  for i = 1, 600 do
    z = z * 0.5 + 1
    if i % 140 == 0 then z = f(z) end
  end
  return z
end)
true --> true
