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

-- An assignment for which memory runs out, wherever, has changed nothing, on whatever devices its parts are.
local core = tessera.core
local function all_or_nothing(devices, assign)
  local three = dist.Mesh { axes = { "dp" }, shape = { 3 }, devices = devices }
  for n = 1, 400 do
    local t = dist.shard(op.arange(48):cast "f32":reshape(12, 4), three, { "dp" })
    local before, run = t:hash(), assign(t)
    core.fail_after(n, "on")
    local done, why = pcall(run)
    local failed = core.fail_after(0) < 0
    if not done and not tostring(why):find("out of memory", 1, true) then return tostring(why) end
    if not done and t:hash() ~= before then return ("half of it is written: allocation %d"):format(n) end
    if done and not failed then return n > 1 and "all or nothing" end
  end
end
local assignments = {
  whole = function(t) local v = op.ones { 12, 4 } return function() t:copy_(v) end end,
  widened = function(t) local v = op.ones({ 12, 4 }, { dtype = "f64" }) return function() t:copy_(v) end end,
  row = function(t) local v = op.ones { 4 } return function() t:copy_(v) end end,
  number = function(t) return function() t:copy_(5) end end,
  turned = function(t) return function() t:copy_(t:flip()) end end,
  view = function(t) local v = op.ones { 12, 2 } return function() t:narrow(1, 1, 2):copy_(v) end end,
}
for name, assign in pairs(assignments) do
  for _, second in ipairs { "cpu:0", "sim:0" } do
    local said = all_or_nothing({ "cpu:0", second, "cpu:0" }, assign)
    assert(said == "all or nothing", ("%s on %s: %s"):format(name, second, said))
  end
end
