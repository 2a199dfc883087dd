-- Three things that reasoning models are made of, on a toy: a predicate as a tile kernel of one's own (which rows still move?), a sum over
-- the rows of all devices, and a function that calls itself until nothing moves. Each row is halved towards its fixed point 1.
--
--   tessera examples/recursive.lua                several devices: tessera --devices=cpu:4 examples/recursive.lua

local tessera = require "tessera"
local op, graph, dist, rng = tessera.op, tessera.graph, tessera.dist, tessera.rng

local moves = op.kernel("moves", { x = "f32[M,N]", tol = "f32[]" }, { y = "f32[M]" }, function(t, x, tol, y)
  for r in t:rows(x) do y[r] = t:where((x[r] - 1):abs():max():gt(tol:load()), 1, 0) end
end)

local reason = op.recursive(function(self, x, depth)
  local active = moves(x, 1e-3):sum()
  return op.cond(active:gt(0), function() return self((x + 1) / 2, depth + 1) end, function() return x + 0, depth + 0 end)
end)

rng.seed(1)
local x = rng.normal { 8, 16 }
local settled, depth = graph.module("reason", reason)(x, tessera.tensor(0, { dtype = "i64" }))
print(("settled behind %d calls, %.4f away"):format(depth:item(), (settled - 1):abs():max():item()))
assert(depth:item() == math.ceil(math.log((x - 1):abs():max():item() / 1e-3) / math.log(2)))

local mesh = dist.Mesh { axes = { "dp" }, devices = #tessera.devices() >= 4 and dist.range(4) or { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }
local parts = dist.map(mesh, { { "dp" } }, { {} }, function(rows) return dist.all_reduce(moves(rows, 3):sum(), "dp") end)
local alone, spread = moves(x, 3):sum():item(), parts(dist.shard(x, mesh, { "dp" })):item()
print(("%d of 8 rows are more than 3 away, counted by 4 devices: %d"):format(alone, spread))
assert(alone == spread)
return { settled }
