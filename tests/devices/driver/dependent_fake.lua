-- Which launches may begin before the one in front of them ends (jit/launch/dependent.h): those that touch
-- nothing that it writes. Counted by a driver made of host memory.
package.path = "tests/devices/?.lua;" .. package.path
local fake = require "_fake"()
if not fake then return print "skipped: no C compiler" end
fake.fake_any()
local tessera = require "tessera"
local op = tessera.op
local function there(n) return op.ones { n, 1024 }:to "cuda:0" end
local x, y, small, row = there(256), there(256), there(16), op.ones { 1024 }:to "cuda:0"
local function early(f, ...)
  local before = tonumber(fake.fake_early())
  local z = f(...)
  return tonumber(fake.fake_early()) - before, z
end
local function count(f, ...) return (early(f, ...)) end

-- Behind a copy from the host nothing is known.
count(function() return x * 2 end) --> 0
local _, z = early(function() return x * 3 end)
_ --> 1
-- What the last launch wrote is read; then what the one before it wrote, which is over.
count(function() return z + 1 end) --> 0
local _, w = early(function() return op.softmax(z) end)
_ --> 1
count(function() return op.layernorm(z, row, row) end) --> 1
count(function() return z:add_(y) end) --> 1
count(function() return z:add_(y) end) --> 0
count(function() return x * z end) --> 0
count(function() return op.sum(y, { axis = 1 }) end) --> 1
-- Parts of one storage.
local a, b = x["0:128"], x["128:256"]
count(function() return a:mul_(2) end) --> 1
count(function() return b * 2 end) --> 1
count(function() return a:mul_(2) end) --> 1
count(function() return x + y end) --> 0
-- Few blocks are not worth it, and bytes that move are waited for.
count(function() return small * 2 end) --> 0
count(function() return y * 2 end) --> 1
y["0"]:to "cpu"
count(function() return y * 2 end) --> 1
there(256)
count(function() return y * 2 end) --> 0
-- Two phases: the first begins ahead, and the second one always.
local large = there(8192)
count(function() return op.sum(large) end) --> 1
local _, s = early(function() return op.sum(large) end)
_ --> 2
count(function() return large * s end) --> 0
-- Behind a launch that failed nothing is known: what the one before it writes may be under way.
local _, v = early(function() return y + x end)
fake.fake_fail("cuLaunchKernelEx", 1, 1)
(pcall(function() return y * 5 end)) --> false
count(function() return v * 2 end) --> 0

-- In a record as well: a product of a row reads its matrix ahead, and what has few blocks nothing; a
-- product whose matrix is what the launch in front makes waits.
local function recorded(f, ...)
  local g = tessera.graph.module("recorded", f)
  tessera.jit.eager(true)
  for _ = 1, 8 do g(...) end
  tessera.jit.eager(false)
  return tonumber(fake.fake_ahead()), tonumber(fake.fake_edges()), tonumber(fake.fake_roots())
end
local function half(...) return op.ones({ ... }, { dtype = "bf16" }):to "cuda:0" end
local line, w, v = half(1, 1024), half(1024, 1024), half(1024)
local function layers(h, p, q)
  for _ = 1, 3 do h = op.linear(op.rmsnorm(op.linear(h, p), q), p) end
  return h
end
recorded(layers, line, w, v) --> 8, 8, 1
local function made(h, p)
  for _ = 1, 3 do h = op.linear(h, p + h) end
  return h
end
recorded(made, line, w) --> 0, 5, 1
tessera.jit.ahead(false) --> true
recorded(layers, line, w, v) --> 0, 8, 1
tessera.jit.ahead(true) --> false
