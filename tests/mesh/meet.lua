-- Sums of GPUs by kernels that meet: the bits of the steps with copies, and of one device, whatever the size, dtype, layout, number
-- of devices and of leaves; who does not come is named.
local tessera = require "tessera"
local core, dist, op, rng, graph = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph

local function line(n)
  local list = {}
  for i = 1, n do list[i] = "sim:" .. i - 1 end
  return dist.Mesh { axes = { "tp" }, devices = list }
end

-- Both ways, which have to have been gone.
local function both(f)
  local before = (core.meets(true))
  local met = f()
  local mets = (core.meets(false)) - before
  local apart = f()
  core.meets(true)
  return met, apart, mets
end

local wrong, tried, mets = {}, 0, 0
local function compare(what, f, alone)
  local met, apart, n = both(f)
  tried, mets = tried + 1, mets + n
  if met ~= apart or (alone and met ~= alone) then wrong[#wrong + 1] = what end
end

for n = 2, 4 do
  local mesh = line(n)
  for _, dtype in ipairs { "f32", "f64", "bf16", "f16" } do
    for _, leaves in ipairs { 0, 8, 13 } do
      for _, size in ipairs { { 5, 37, 3 }, { 48, 96, 40 } } do
        local x = rng.normal { size[1], size[2] }:cast(dtype)
        local w = rng.normal { size[2], size[3] }:cast(dtype)
        local what = ("%s, %d devices, %d leaves, %d"):format(dtype, n, leaves, size[1])
        dist.leaves(leaves, function()
          local alone = leaves > 0 and op.matmul(x, w):hash()
          local function product(out)
            return function()
              local xs, ws = dist.shard(x, mesh, { nil, "tp" }), dist.shard(w, mesh, { "tp" })
              return op.matmul(xs, ws, out and { out = out }):gather():hash()
            end
          end
          compare("all " .. what, product(), alone)
          compare("rows " .. what, product { "tp" }, alone)
          compare("columns " .. what, product { nil, "tp" }, alone)
        end)
      end
    end
  end
end
table.concat(wrong, "; ") -->
tried, mets > 100 --> 216, true

-- Whole numbers, and the largest.
local mesh = line(3)
local i = op.arange(60):reshape(6, 10):cast "i32"
local x = rng.normal { 48, 64 }
wrong = {}
compare("i32", function() return dist.shard(i, mesh, { "tp" }):sum { axis = 0 }:gather():hash() end, i:sum { axis = 0 }:hash())
compare("max", function() return dist.shard(x, mesh, { "tp" }):max { axis = 0 }:gather():hash() end, x:max { axis = 0 }:hash())
compare("min", function() return dist.shard(x, mesh, { "tp" }):min { axis = 0 }:gather():hash() end, x:min { axis = 0 }:hash())
table.concat(wrong, "; ") -->

-- Large ones: each device its share, also where it has not the last element of a row.
for _, n in ipairs { 2, 3 } do
  local mesh = line(n)
  for _, size in ipairs { 270000, 270001 } do
    local x = rng.normal { 4, size }
    compare("share " .. size, function() return dist.shard(x, mesh, { "tp" }):sum { axis = 0 }:gather():hash() end)
  end
end
table.concat(wrong, "; ") -->

-- Over one axis of a grid: two groups, each for itself.
local grid = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { "sim:0", "sim:1", "sim:2", "sim:3" } }
local a, b = rng.normal { 16, 32 }, rng.normal { 32, 24 }
compare("grid", function() return op.matmul(dist.shard(a, grid, { "dp", "tp" }), dist.shard(b, grid, { "tp" })):gather():hash() end)
table.concat(wrong, "; ") -->

-- In captured functions.
local f = graph.module("f", function(x, w) return op.tanh(op.matmul(x, w)) end)
compare("captured", function()
  local xs, ws = dist.shard(a, line(2), { nil, "tp" }), dist.shard(b, line(2), { "tp" })
  local got
  for k = 1, 4 do got = f(xs, ws):gather():hash() end
  return got
end)
table.concat(wrong, "; ") -->

-- Moves: rows and columns come together, and change places; what has no form for a kernel goes as before.
local gone = {}
for n = 2, 4 do
  local mesh = line(n)
  for _, dtype in ipairs { "f32", "bf16", "i8", "f64" } do
    for _, size in ipairs { { 8 * n, 64 * n }, { 8 * n, 30 * n }, { 6, 35 }, { 4 * n, 1031 * 16 } } do
      local x = op.arange(size[1] * size[2]):reshape(size[1], size[2]):cast(dtype)
      for name, specs in pairs { rows = { { "tp" }, {} }, columns = { { nil, "tp" }, {} }, turn = { { "tp" }, { nil, "tp" } }, back = { { nil, "tp" }, { "tp" } } } do
        local function go() return dist.shard(x, mesh, specs[1]):reshard(specs[2]):gather():hash() end
        local met, apart, k = both(go)
        if met ~= apart or met ~= x:hash() then wrong[#wrong + 1] = ("%s %s %d of %d"):format(name, dtype, size[2], n) end
        if size[2] == 64 * n then gone[name] = (gone[name] or 0) + (k > 0 and 1 or 0) end
      end
    end
  end
end
table.concat(wrong, "; ") -->
gone.rows, gone.columns, gone.turn, gone.back --> 12, 12, 12, 12

-- Small ones go by the room of who gets them: one meeting. Large ones, and boxes of several sizes, are written where they belong, between
-- two. So are small sums, and pieces, one meeting.
local function meetings(f)
  local before = select(4, core.meets())
  f()
  return select(4, core.meets()) - before
end
local four = line(4)
local function move(rows, columns, from, to)
  local t = dist.shard(rng.normal { rows, columns }, four, from)
  return meetings(function() t:reshard(to) end)
end
move(8, 64, { "tp" }, {}), move(8, 64, { nil, "tp" }, {}), move(8, 64, { "tp" }, { nil, "tp" }), move(8, 64, { nil, "tp" }, { "tp" }) --> 1, 1, 1, 1
move(8, 4096, { "tp" }, {}), move(8, 65536, { "tp" }, {}), move(7, 64, { "tp" }, {}) --> 1, 2, 2
local function sum(size, out)
  local t = dist.shard(rng.normal { 4, size }, four, { "tp" })
  return meetings(function() op.sum(t, { axis = 0, out = out }) end)
end
sum(4096), sum(65536), sum(131072), sum(4096, { "tp" }), sum(131072, { "tp" }) --> 1, 1, 2, 1, 1

-- Of any numbers of blocks behind each other: a slot's room has two halves, whatever came before in it.
local mixed = graph.module("mixed", function(p, q)
  local y = op.sum(p, { axis = 0 })
  for k = 1, 4 do
    q = (q:reshard { nil, "tp" } * 0.99):reshard { "tp" }
    y = op.sum(p * y, { axis = 0 }) * 0.5 + op.sum(q:reshard {})
    if k % 2 == 0 then p = (p:reshard {} + y):reshard { "tp" } end
  end
  return y, q
end)
for _, size in ipairs { { 512, 16384 }, { 30000, 64 }, { 4096, 4096 } } do
  local p, q = dist.shard(rng.normal { 4, size[1] }, four, { "tp" }), dist.shard(rng.normal { 8, size[2] }, four, { "tp" })
  local function go()
    local y, z = mixed(p, q)
    return y:gather():hash() .. z:gather():hash()
  end
  core.meets(false)
  local want = go()
  core.meets(true)
  for k = 1, 8 do
    if go() ~= want then wrong[#wrong + 1] = ("mixed %d, call %d"):format(size[1], k) end
  end
end
table.concat(wrong, "; ") -->

-- One that never comes.
local two = line(2)
local xs, ws = dist.shard(a, two, { nil, "tp" }), dist.shard(b, two, { "tp" })
local good = op.matmul(xs, ws):gather():hash()
core.sim_fail("sim:1", "miss", 1)
local y = op.matmul(xs, ws)
y:gather():hash() --! sim:1 did not come to all_reduce of matmul: f32[16,24] -> f32[16,24] (tests/mesh/meet.lua:161): sim:0 waited
core.sim_fail("sim:1", "miss", 0)
op.matmul(xs, ws):gather():hash() == good --> true

-- One whose launch fails.
core.sim_fail("sim:1", "launch", 2)
op.matmul(xs, ws) --! sim:1: launch failed: as a test wants it
core.sim_fail("sim:1", "launch", 0)
op.matmul(xs, ws):gather():hash() == good --> true

-- Large sums go chunk by chunk through the room of a slot.
wrong = {}
dist.leaves(8, function()
  local x = rng.normal { 8, 1100000 }
  local spread, alone = dist.shard(x, two, { "tp" }), op.sum(x, { axis = 0 }):hash()
  for k = 1, 3 do
    if op.sum(spread, { axis = 0 }):gather():hash() ~= alone then wrong[#wrong + 1] = "all " .. k end
    if op.sum(spread, { axis = 0, out = { "tp" } }):gather():hash() ~= alone then wrong[#wrong + 1] = "pieces " .. k end
  end
end)
table.concat(wrong, "; ") -->

-- The launches of a captured function over devices are put off and replayed on all of them; what cuts a run, or fails in it, leaves
-- nothing behind.
local s = dist.shard(rng.normal { 2, 3000 }, two, { "tp" })
local loop = graph.module("loop", function(t)
  local y = op.sum(t, { axis = 0 })
  for _ = 2, 10 do y = op.sum(t * y, { axis = 0 }) * 0.5 end
  return y
end)
core.meets(false)
local first = loop(s):gather():hash()
core.meets(true)
local function others(n)
  local bad = 0
  for _ = 1, n do bad = bad + (loop(s):gather():hash() == first and 0 or 1) end
  return bad
end
local before = core.jit_device()
others(8) --> 0
local after = core.jit_device()
after.replays - before.replays >= 4, after.replayed - before.replayed >= 80 --> true, true
core.sim_fail("sim:1", "launch", 9)
loop(s) --! sim:1: launch failed: as a test wants it
core.sim_fail("sim:1", "launch", 0)
others(5) --> 0
core.sim_fail("sim:1", "miss", 3)
loop(s):gather():hash() --! sim:1 did not come to all_reduce of sum
core.sim_fail("sim:1", "miss", 0)
others(5) --> 0
core.meets(false)
others(2) --> 0
core.meets(true)
others(5) --> 0

-- For as long as the program says.
local usual = dist.patience(2.5)
core.sim_fail("sim:1", "miss", 1)
local ok, message = pcall(function() return op.matmul(xs, ws):gather():hash() end)
core.sim_fail("sim:1", "miss", 0)
ok, tostring(message):find("2500 ms", 1, true) ~= nil --> false, true
