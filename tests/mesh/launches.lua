-- What a call on a tensor over two GPUs launches: no more than one kernel a device where one does it, and records of a captured
-- function that fit as they are, since what is freed and made again lies where it lay. Counted by a driver made of host memory.
package.path = "tests/devices/?.lua;" .. package.path
local fake = require "_fake"()
if not fake then return print "skipped: no C compiler" end
fake.fake_any()
local tessera = require "tessera"
local op, dist, graph = tessera.op, tessera.dist, tessera.graph
local mesh = dist.Mesh { axes = { "dp" }, devices = { "cuda:0", "cuda:1" } }

local function count(call, f)
  f()
  local before = tonumber(fake.fake_count(call))
  f()
  return tonumber(fake.fake_count(call)) - before
end
local function launches(f) return count("cuLaunchKernelEx", f) end

local x = dist.tensor { shape = { 4096 }, dtype = "f32", mesh = mesh, layout = { reduce = "sum", over = { "dp" } } }
launches(function() return x:reshard {} end) --> 2
launches(function() return x:reshard { "dp" } end) --> 2
local rows = dist.shard(op.ones { 8, 512 }, mesh, { "dp" })
launches(function() return rows:reshard {} end) --> 2
launches(function() return rows:reshard { nil, "dp" } end) --> 2

-- A sum of one summand is not the summand's memory.
local alone = dist.Mesh { axes = { "dp" }, devices = { "cpu:0" } }
local one = dist.tensor { shape = { 3 }, dtype = "f32", mesh = alone, layout = { reduce = "sum", over = { "dp" } }, init = "zeros" }
local sum = one:reshard {}
sum:add_(1)
dist.parts(one)[1]:sum():item() --> 0

-- A captured function, whose results go before the next call.
local a = dist.replicate(op.ones({ 64, 64 }, { dtype = "bf16" }), mesh)
local w = dist.shard(op.ones({ 64, 128 }, { dtype = "bf16" }), mesh, { nil, "dp" })
local v = dist.shard(op.ones({ 128, 64 }, { dtype = "bf16" }), mesh, { "dp" })
local f = graph.module("layers", function(t, p, q)
  for _ = 1, 7 do t = op.softmax(op.matmul(op.relu(op.matmul(t, p)), q)) + t end
  return t
end)
local function run()
  f(a, w, v)
  collectgarbage()
end
for _ = 1, 40 do run() end
tessera.jit.wait()
for _ = 1, 40 do run() end
count("cuGraphLaunch", run) --> 2
count("cuGraphExecKernelNodeSetParams_v2", run) --> 0
launches(run) --> 0

-- Memory of devices that it frees itself is no garbage: nothing is collected for it.
local large = dist.replicate(op.ones({ 1024, 64 }, { dtype = "bf16" }), mesh)
local g = graph.module("summed", function(t, p, q)
  for _ = 1, 8 do t = op.matmul(op.relu(op.matmul(t, p)), q) end
  return op.sum(t)
end)
for _ = 1, 8 do g(large, w, v) end
collectgarbage()
local weak = setmetatable({ {} }, { __mode = "v" })
collectgarbage "stop"
for _ = 1, 40 do g(large, w, v) end
weak[1] ~= nil --> true
collectgarbage "restart"
