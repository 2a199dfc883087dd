-- What a captured function tells about itself: the graph, the rules that fired, the
-- bytecode, its memory plan.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, op = tessera.graph, tessera.op

local w = op.ones { 4, 3 }
local f = graph.module("layer", function(x) return op.relu(x:matmul(w) + 1) * 2 + x:sum() end)
f:stats() --> nil
f:ir() --! layer has not run yet
local x = op.arange(8):cast("f32"):reshape(2, 4)
f(x) --> [[42. 42. 42.]
-->  [74. 74. 74.]]
--> f32[2,3]
f:ir("graph"):gsub("\n$", "") --> graph @layer(%x: f32[2,4]; %w: f32[4,3]) -> %5 {
-->   %0 = matmul %x, %w : f32[2,3]
-->   %1 = add %0, 1 : f32[2,3]
-->   %2 = relu %1 : f32[2,3]
-->   %3 = mul %2, 2 : f32[2,3]
-->   %4 = sum %x : f32[]
-->   %5 = add %3, %4 : f32[2,3]
--> }, 1
core.graph_parse(f:ir "graph") == f:ir "graph" --> true
f:ir("bytecode"):match "^[^\n]*" --> function @layer(r0 : f32[2,4] param, r1 : f32[4,3] param) -> r9  // slab 128 bytes, at least 128, unshared 128
local names = {}
for name in f:ir("bytecode"):gmatch "= (%l%w+) " do names[#names + 1] = name end
table.concat(names, " ") --> const const matmul add relu mul sum add

local s = f:stats()
s.instructions --> 6
-- The product's bytes are handed on; the sum stands beside them; the result leaves.
s.slab, s.bound, s.sum --> 128, 128, 128
f:ir("graph", op.ones { 2, 4 }) == f:ir "graph" --> true

-- Nothing is held after a run: the slab belongs to the run.
collectgarbage()
collectgarbage()
local before = core.memory().live
for _ = 1, 100 do f(x) end
collectgarbage()
collectgarbage()
core.memory().live == before --> true

-- Functions may run inside their own run.
local g
g = graph.module("outer", function(a) return a + 1 end)
g(g(g(x))):sum():item() --> 52

-- Constants that depend on nothing are computed before: one instruction is left.
local c = graph.module("constant", function(a) return a * op.arange(4):cast("f32"):exp() end)
c(x):hash() == (x * op.arange(4):cast("f32"):exp()):hash() --> true
c:stats().instructions --> 1
-- What nobody needs does not run.
local d = graph.module("dead", function(a)
  local _ = a:exp():sum()
  return a + 1
end)
d(x)["0, 0"]:item() --> 1
d:stats().instructions --> 1
-- Rules say where and why they fired.
local r = graph.module("rules", function(a) return (a * 1) ^ 2 end)
r(x):sum():item() --> 140
r:ir("rewrites"):match "mul_one at [^:]*bytecode.lua:%d+: x %* 1 is x" ~= nil --> true
r:ir("rewrites"):match "pow_two" --> pow_two
core.profile "strict"
local strict = graph.module("strict", function(a) return (a * 1) ^ 2 end)
strict(x):sum():item() --> 140
strict:ir("rewrites"):match "pow_two" --> nil
core.profile "deterministic"
