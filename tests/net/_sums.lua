-- What calls on a mesh of 2 x 2 give, eager and captured, with gradients, by hand in dist.map, and what is read in it: hashes, from
-- rank 0. Sizes divide by nothing.
--   tessera tests/net/_sums.lua device device device device
local tessera = require "tessera"
local op, rng, dist, graph = tessera.op, tessera.rng, tessera.dist, tessera.graph
rng.seed(1)
dist.leaves(8)
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = arg[1] == "range" and dist.range(4) or { unpack(arg, 1, 4) } }
local function say(...)
  if dist.rank() == 0 then print(...) end
end

local x, w = dist.shard(rng.normal { 7, 6 }, mesh, { "dp" }), dist.shard(rng.normal { 6, 5 }, mesh, { nil, "tp" })
local y = op.matmul(x, w)
say("eager", y:hash(), y:sum():hash(), y:max():hash(), y:reshard { nil, { "dp", "tp" } }:hash(), y:gather():hash())
say("bf16", op.cast(x, { dtype = "bf16" }):sum(0):hash(), dist.shard(op.arange(11), mesh, { { "tp", "dp" }, block = 2 }):sum():item())
say("drawn", dist.tensor { shape = { 5, 3 }, mesh = mesh, layout = { "tp" }, init = "normal" }:hash())
local f = graph.module("f", function(a, b) return op.softmax(op.matmul(a, b), { axis = -1 }):sum(0) end)
say("captured", f(x, w):hash(), f(x, w):hash())
w.requires_grad = true
local loss = op.matmul(op.relu(op.matmul(x, w)), w:T()):mean()
loss:backward()
say("gradient", loss:hash(), w.grad:hash())
tessera.no_grad(function() w:add_(w.grad) end)
say("in place", w:hash(), x[2]:hash(), x:narrow(0, 1, 4):hash())

local mlp = dist.map(mesh, { { "dp" }, { nil, "tp" }, { "tp" } }, { { "dp" } }, function(t, a, b)
  dist.barrier()
  return dist.all_reduce(op.matmul(op.relu(op.matmul(t, a)), b), "tp")
end)
local t, a, b = rng.normal { 9, 6 }, rng.normal { 6, 11 }, rng.normal { 11, 4 }
a.requires_grad = true
local z = mlp(t, a, b)
z:square():sum():backward()
say("map", z:hash(), a.grad:hash())
-- As many elements go as the data say.
local ragged = dist.map(mesh, { { "dp" } }, { { "dp" } }, function(s)
  local n = math.floor(math.abs(s:sum():item()) * 10) % 4
  local got = dist.all_to_all(s, "dp", { sizes = { n, 4 - n } })
  return (got:sum() + s:sum { axis = 1 }:totable()[2]):reshape(1)
end)
say("ragged", ragged(rng.normal { 8, 3 }):hash())
