-- Sizes that differ between calls become symbols; the text says so and reads back.
local tessera = require "tessera"
local op, graph, core = tessera.op, tessera.graph, tessera.core
graph.verbose = false
local w = op.normal({ 6, 4 }, { seed = 1 })
local f = graph.module("f", function(x)
  local y = op.softmax(op.matmul(x, w))
  return y:square():mean(), y:narrow(0, 0, 1)
end)
local runs = 0
local function eager(x)
  local y = op.softmax(op.matmul(x, w))
  return y:square():mean(), y:narrow(0, 0, 1)
end
local function agrees(n)
  local x = op.normal({ n, 6 }, { seed = n })
  local a, b = f(x)
  local c, d = eager(x)
  return a:hash() == c:hash() and b:hash() == d:hash()
end
agrees(8) --> true
f:ir():match("x: f32%[8,6%]") ~= nil --> true
agrees(16) --> true
f:ir():match("x: f32%[B,6%]") ~= nil --> true
agrees(24) --> true
agrees(40) --> true
agrees(7) --> true
#f.history --> 1
f.history[1]:match "(.*), in [%d.]+ ms$" --> captured: x is f32[16,6], in the closest one f32[8,6]; sizes that differ are symbols now
-- Size 1 broadcasts, so it is no case of B.
agrees(1) --> true
-- The text with symbols is read for any value of them.
local path = os.tmpname() .. ".tgraph"
graph.export(f, path)
graph.load(path) --! the size B has no value
local x = op.normal({ 12, 6 }, { seed = 3 })
local g = graph.load(path, { B = 12 })
g(x, w):hash() == (f(x)):hash() --> true
graph.load(path, { B = 0 }) --! the size B has no value
os.remove(path)
-- What is computed from sizes is read as well: 2*B, B/2+1, B-1, 1/B.
local from_sizes = graph.module("from_sizes", function(x)
  return op.concat({ x, x }, 0) / x.numel, op.rfft(x):abs(), op.narrow(x, 0, 1, x.numel - 1), x * (1 / (2 * x.numel))
end)
for _, n in ipairs { 8, 12, 20 } do from_sizes(op.ones { n }) end
path = os.tmpname() .. ".tgraph"
graph.export(from_sizes, path)
local text = from_sizes:ir()
for _, size in ipairs { "2*B", "B/2+1", "B-1", "1/(2*B)" } do
  assert(text:find(size, 1, true), size .. " in\n" .. text)
end
local x8 = op.normal({ 10 }, { seed = 4 })
local want, have = { from_sizes(x8) }, { graph.load(path, { B = 10 })(x8) }
for i = 1, 4 do assert(want[i]:hash() == have[i]:hash()) end
os.remove(path)
-- The first line says what must divide.
local divided = graph.module("divided", function(x, y)
  return x:reshape(-1, 4):sum { axis = 1 }, x:reshape(-1, 6):sum { axis = 1 }, y:reshape(-1, 6)
end)
for _, n in ipairs { 12, 24, 36 } do divided(op.ones { n }, op.ones { n, n / 4 + 1, 12 }) end
divided:ir():match "[^\n]*" --> // where B % 12 == 0
-- Sizes whose cubes do not fit 64 bits.
local twice = graph.module("twice", function(x) return op.concat({ x, x }, 0) end)
for n = 3000000, 3000001 do twice(op.zeros({ n }, { dtype = "i8" })) end
twice:ir():match("i8%[2%*B%]") ~= nil --> true
-- Gradients, products and halves of sizes, two symbols.
local h = graph.grad(function(x) return (op.rfft(x, { axis = 1 }):abs():square():mean() + x:reshape(-1):sum()) end)
for _, s in ipairs { { 4, 8 }, { 6, 16 }, { 10, 12 }, { 12, 20 } } do
  local x = op.normal(s, { seed = s[1], dtype = "f64" })
  local e = x:clone()
  e.requires_grad = true
  local l = op.rfft(e, { axis = 1 }):abs():square():mean() + e:reshape(-1):sum()
  l:backward()
  assert((h(x) - e.grad):abs():max():item() < 1e-12)
end
h:ir():match("f64%[B,T%]") ~= nil --> true
h:ir():match("T/2%+1") ~= nil --> true
-- A function that asks for sizes is captured for each of them, since it may branch.
local k = graph.module("k", function(x)
  runs = runs + 1
  if x.shape[1] > 20 then return x * 2 end
  return x * 3
end)
for _, n in ipairs { 4, 8, 16, 32 } do k(op.ones { n }) end
runs --> 4
k(op.ones { 64 }):sum():item() --> 128
k(op.ones { 12 }):sum():item() --> 36
-- Other types and values are other specialisations, and say so.
local m = graph.module("m", function(x, n) return x * n end)
m(op.ones { 2 }, 2)
m(op.ones { 2 }, 3)
m.history[1]:match "(.*), in [%d.]+ ms$" --> captured: n is 3, in the closest one 2 (a number; a tensor would be an input)
m(op.ones({ 2 }, { dtype = "f64" }), 3)
m.history[2]:match "(.*), in [%d.]+ ms$" --> captured: x is f64[2], in the closest one f32[2]
-- The cache is bounded.
for n = 2, 60 do m(op.ones { n }, 2) end
local kept = 0
for _ in pairs(m.cache) do kept = kept + 1 end
kept --> 32
