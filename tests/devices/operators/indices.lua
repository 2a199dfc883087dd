-- Indices that only a device has: in range, and out of range, which the host is told before it
-- reads anything. The message is the CPU's, with the place of the call.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, rng, graph = tessera.core, tessera.op, tessera.rng, tessera.graph
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local x = rng.normal { 6, 5 }
local logits = rng.normal { 3, 7 }
local function there(...) return op.cast(tessera.tensor { ... }:to(name), "i64") + 0 end

local calls = {
  embedding = function(t, i) return op.embedding(t, i) end,
  index_select = function(t, i) return op.index_select(t, i, { axis = 0 }) end,
  take = function(t, i) return op.take(t, i * 5) end,
  gather = function(t, i) return op.gather(t, i:reshape(3, 1), { axis = 0 }) end,
  scatter = function(t, i) return op.scatter(t, i:reshape(3, 1), t["0:3, 0:1"] * 2, { axis = 0 }) end,
  index_add = function(t, i) return op.index_add(t, i, t["0:3"] * 2, { axis = 0 }) end,
  segment_reduce = function(t, i) return op.segment_reduce(t["0:3"] * 1, i, { segments = 6 }) end,
  one_hot = function(_, i) return op.one_hot(i, { classes = 6 }) end,
}
for row, f in pairs(calls) do
  local moved, before = x:to(name), core.jit_device().fallback
  assert(f(moved, there(1, 0, 5)):hash() == f(x, tessera.tensor { 1, 0, 5 }:cast "i64"):hash(), row)
  assert(core.jit_device().fallback == before, row .. ": the CPU ran it")
  local _, want = pcall(f, x, tessera.tensor { 1, 9, 5 }:cast "i64")
  local late = f(moved, there(1, 9, 5)) -- nobody has looked yet
  local well, got = pcall(function() return late:hash() end)
  local function words(e) return (e:gsub("^[^:]*:%d+: ", ""):gsub(" %(at [^\n]*", "")) end
  assert(not well and words(got) == words(want), ("%s: %s, not %s"):format(row, got, want))
  assert(got:find("at .*indices.lua:%d+"), got)
  assert(f(moved, there(1, 0, 5)):hash(), row .. ": and goes on")
end

local ok, e = pcall(function() return op.cross_entropy(logits:to(name), there(1, 2, 7)):item() end)
assert(not ok and e:find "target 7 of row 2 is not one of 7 classes", e)

-- functions name the operator's line, and are not held up
local f = graph.module("f", function(t, i) return op.embedding(t, i + 1) * 2 end)
tessera.jit.eager(true)
for r = 1, 4 do
  assert(f(x:to(name), there(1, 2, r)):hash() == f(x, tessera.tensor { 1, 2, r }:cast "i64"):hash())
end
ok, e = pcall(function() return f(x:to(name), there(1, 2, 5)):hash() end)
assert(not ok and e:find "embedding: index 6 is out of range for axis 0 of f32%[6,5%]", e)
tessera.jit.eager(false)

-- an error that nobody looked for is told by whoever waits
local lost = op.embedding(x:to(name), there(0, -7))
ok, e = pcall(tessera.synchronize)
assert(not ok and e:find "index %-7 is out of range", e)
