-- What once went wrong on a mesh: updates that take each other's old values, views of views that are copies, results that are
-- wanted in a way that ties with an operand.
local tessera = require "tessera"
local dist, op, graph = tessera.dist, tessera.op, tessera.graph
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }

local function exchanged(x, y)
  graph.module("exchanged", function(x, y)
    local old = x * 1
    x:copy_(x * 3)
    y:copy_(old)
    return x:sum()
  end)(x, y)
  return x:hash() .. y:hash()
end
local x, y = op.ones { 4, 4 }, op.zeros { 4, 4 }
local want = exchanged(op.ones { 4, 4 }, op.zeros { 4, 4 })
exchanged(dist.shard(x, mesh, { "dp" }), dist.shard(y, mesh, { "dp" })) == want --> true

local s = dist.shard(op.ones { 4, 4 }, mesh, { "dp" })
pcall(function() s:select(0, 3):select(0, 1):copy_(5) end), nil --> false, nil
s:hash() == op.ones { 4, 4 }:hash() --> true

local z = dist.shard(op.ones { 8, 8 }, mesh, { { "dp", "tp" } })
op.exp(z, { out = { "dp", "tp" } }):hash() == op.exp(op.ones { 8, 8 }):hash() --> true

-- One layout has one number of leaves: an operand with another one is gathered.
local a = dist.shard(op.arange(60):cast "f32":reshape(10, 6), mesh, { "dp", leaves = 8 })
local b = dist.shard(op.arange(42):cast "f32":reshape(6, 7), mesh, { nil, "tp" })
local alone = op.matmul(op.arange(60):cast "f32":reshape(10, 6), op.arange(42):cast "f32":reshape(6, 7))
dist.gather(op.matmul(a, b)):hash() == alone:hash() --> true

-- A product to which a tensor is added, as rules make it of both, has the leaves of the product.
local p, q, r = op.normal({ 8, 64 }, { seed = 1 }), op.normal({ 64, 8 }, { seed = 2 }), op.normal({ 8, 8 }, { seed = 3 })
local function added(p, q, r) return op.matmul(p, q) + r end
dist.leaves(8, function() return added(p, q, r):hash() == graph.module("added", added)(p, q, r):hash() end) --> true
