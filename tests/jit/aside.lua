-- What a compiler computes for itself, constants of a graph and forms that it recognises, is no
-- call of the program's: the trace of calls, and what is recorded of a loop, does not show it.
local tessera = require "tessera"
local core, op, graph, jit = tessera.core, tessera.op, tessera.graph, tessera.jit
jit.traces(false)
jit.eager(true)
local x = tessera.rng.normal { 64, 32 }
local function calls(f) -- of the program, while f runs
  local before = core.trace().count
  f()
  return core.trace().count - before
end

-- a function whose constants take calls: captured, lowered, compiled and installed
local f = graph.module("f", function(y)
  return (y * 2 + 1):tanh() - (op.ones_like(y) * 3):exp() * (op.full({ 32 }, 2):log())
end)
local want = f.body(x):hash()
calls(function() f(x) end) --> 0
f(x):hash() == want --> true
jit.wait()
calls(function() for _ = 1, 50 do f(x) end end) --> 0
f(x):hash() == want --> true
jit.stats().kernels > 0 --> true

-- written-out attention is recognised while it is captured
local g = graph.grad(function(q) return op.matmul(op.softmax(op.matmul(q, q:T()) * 0.5), q):sum() end)
calls(function() g(x) end) --> 0
