-- What is refused is looked at again after eight times as long, and after an hour at most: numbers
-- that grew without end began again at 0 after twenty attempts.
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end
jit.eager(true)
local x, w = op.normal({ 8, 64 }, { seed = 1 }), op.normal({ 64 }, { seed = 2 })
local f = graph.grad(function(x) return op.rmsnorm(x, w):sum() end, { 1 })
for _ = 1, 40 do
  f(x)
  jit.wait()
end
f:ir "why":match "looked at after (%S+)" --> 3.6e+06
