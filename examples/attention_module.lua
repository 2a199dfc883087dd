-- What becomes of a captured function: the attention and the pipeline of the introduction,
-- from the graph as captured to rewritten graphs, gradients and bytecode.

local tessera = require "tessera"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng

local attention = graph.module("attention", function(Q, K, V)
  local A = op.softmax(op.matmul(Q, K:T()))
  return op.matmul(A, V)
end)
local pipeline = graph.module("pipeline", function(X)
  return op.pipeline { op.matmul(X, X:T()), op.relu, op.layernorm }
end)
local function loss(Q, K, V) return attention(Q, K, V):square():sum() end
local gradient = graph.grad(loss, { 1, 2, 3 })

rng.seed(1)
local function matrix(rows, columns) return rng.normal({ rows, columns }, { dtype = "f64" }) end
local Q, K, V = matrix(4, 16), matrix(6, 16), matrix(6, 8)
local Y, Z, dQ, dK, dV = attention(Q, K, V), pipeline(Q), gradient(Q, K, V)

for _, f in ipairs { attention, pipeline } do
  print(("-- %s as captured\n%s"):format(f.name, f:ir "captured"))
  print(("-- the rules that fired\n%s"):format(f:rewrites()))
  print(("-- rewritten\n%s"):format(f:ir "graph"))
  print(("-- bytecode with planned memory\n%s"):format(f:ir "bytecode"))
end
print("-- the gradient by Q, K and V: adjoints build graphs as well\n" .. gradient:ir "graph")

-- Exact rules keep every bit; those marked (rounding) may move the last. The gradient is what
-- differences say.
assert((Y - op.matmul(op.softmax(op.matmul(Q, K:T())), V)):abs():max():item() < 1e-14)
assert(Z:hash() == op.layernorm(op.relu(op.matmul(Q, Q:T()))):hash())
local h, D = 1e-5, matrix(4, 16)
local slope = (loss(Q + D * h, K, V) - loss(Q - D * h, K, V)):item() / (2 * h)
print(("along a direction: %.9f by the gradient, %.9f by differences"):format((dQ * D):sum():item(), slope))
assert(math.abs((dQ * D):sum():item() - slope) < 1e-6)
return { dQ, dK, dV }
