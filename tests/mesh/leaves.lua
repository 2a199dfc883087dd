-- Sums over leaves, on one device and on meshes, are those that are added up here by hand.
local tessera = require "tessera"
local core, dist, op = tessera.core, tessera.dist, tessera.op

-- The tree of n values, level by level.
local function tree(list)
  while #list > 1 do
    local up = {}
    for i = 1, #list, 2 do up[#up + 1] = list[i + 1] and list[i] + list[i + 1] or list[i] end
    list = up
  end
  return list[1]
end

-- f of each leaf of axis d of x, and of axis e of y.
local function by_leaves(n, f, x, d, y, e)
  local list, size = {}, x.shape[d + 1]
  for i = 0, n - 1 do
    local start, stop = math.floor(i * size / n), math.floor((i + 1) * size / n)
    list[#list + 1] = f(x:narrow(d, start, stop - start), y and y:narrow(e, start, stop - start))
  end
  return tree(list)
end

local wrong, tried = {}, 0
local function compare(what, got, wanted)
  tried = tried + 1
  if got:hash() ~= wanted:hash() then wrong[#wrong + 1] = what end
end

local three = dist.Mesh { axes = { "c" }, shape = { 3 }, devices = { "cpu:0", "cpu:0", "cpu:0" } }
local function wide(x) return x:cast "f32" end
for _, dtype in ipairs { "f32", "f64", "bf16" } do
  local x = op.normal({ 50, 70 }, { seed = 1 }):cast(dtype)
  local w = op.normal({ 70, 30 }, { seed = 2 }):cast(dtype)
  local up = dtype == "bf16" and wide or function(t) return t end
  for _, n in ipairs { 3, 12, 51 } do
    local sum = by_leaves(n, function(t) return up(t):sum { axis = 0 } end, x, 0):cast(dtype)
    local product = by_leaves(n, function(a, b) return up(a):matmul(up(b)) end, x, 1, w, 0):cast(dtype)
    local mean = (by_leaves(n, function(t) return up(t):sum() end, x, 0) / 3500):cast(dtype)
    dist.leaves(n, function()
      local text = (" of %d leaves, %s"):format(n, dtype)
      compare("sum" .. text, x:sum { axis = 0 }, sum)
      compare("matmul" .. text, x:matmul(w), product)
      compare("mean" .. text, x:mean(), mean)
      if n % 3 == 0 then
        local rows, columns = dist.shard(x, three, { "c" }), dist.shard(x, three, { nil, "c" })
        compare("spread sum" .. text, rows:sum { axis = 0 }, sum)
        compare("spread mean" .. text, rows:mean(), mean)
        compare("spread matmul" .. text, columns:matmul(w), product)
      end
    end)
  end
end
table.concat(wrong, "; ") -->
tried --> 54

-- What has no order has the bits of no leaves; what the program computes meanwhile is cut, handlers are not.
local x = op.normal({ 40, 6 }, { seed = 4 })
dist.leaves(7, function() return x:max():item() == x:narrow(0, 0, 40):max():item() end) --> true
dist.leaves(7, function() return x:softmax():hash() end) == x:softmax():hash() --> true
core.mesh_leaves() --> 0

-- logsumexp, var and norms against those of f64.
local far = {}
local y = op.normal({ 60, 5 }, { seed = 5 })
for row, o in pairs { var = { correction = 1 }, std = {}, norm = {}, logsumexp = {}, mean = {} } do
  for axis = 0, 1 do
    local given = { axis = row == "norm" and { axis } or { axis } }
    for k, v in pairs(o) do given[k] = v end
    local got = dist.leaves(12, core.run, row, { y }, given)
    local wanted = core.run(row, { y:cast "f64" }, given)
    local e = ((got:cast "f64" - wanted):abs() / op.maximum(wanted:abs(), 1)):max():item()
    if e > 2 ^ -21 then far[#far + 1] = row .. " " .. e end
  end
end
table.concat(far, " ") -->
local edge = tessera.tensor { { -1 / 0, -1 / 0 }, { 1 / 0, 0 }, { 1, -1 / 0 } }
dist.leaves(2, function() return edge:logsumexp { axis = { 1 } } end) --> [-inf  inf   1.]
--> f32[3]

-- ---- as many as may be, and never fewer than pieces
local column, full = op.normal({ 8192, 2 }, { seed = 6 }), dist.shard(op.normal({ 8192, 2 }, { seed = 6 }), three, { "c" })
local function total(t) return t:sum { axis = 0 } end
local by_hand = by_leaves(4096, total, column, 0):hash()
dist.leaves(4096, function() return total(column):hash() end) == by_hand --> true
local spread = dist.shard(column, three, { "c", leaves = 4096 })
dist.leaves(4096, function() return total(spread):hash() end) == by_hand --> true
dist.leaves(4096, function() return tessera.graph.module("f", total)(column):hash() end) == by_hand --> true
dist.leaves(4096, function() return tessera.graph.module("f", total)(spread):hash() end) == by_hand --> true
dist.leaves(4097) --! a number of leaves is from 0 to 4096, not 4097
dist.shard(column, three, { "c", leaves = 4097 }) --! sums are cut into at most 4096 leaves
dist.shard(column, three, { "c", leaves = 65536 + 12 }) --! sums are cut into at most 4096 leaves
dist.shard(column, three, { "c", leaves = 2 ^ 40 }) --! sums are cut into at most 4096 leaves
dist.shard(column, three, { "c", leaves = 2 }) --! axis 0 in 3 pieces has 2 leaves: a piece would have none
dist.leaves(2, dist.shard, column, three, { nil, "c" }) --! axis 1 in 3 pieces has 2 leaves
dist.leaves(1, total, full) --! what is summed in 3 pieces has 1 leaf: a piece would have none
dist.leaves(2, tessera.graph.module("f", total), full) --! what is summed in 3 pieces has 2 leaves
select(2, pcall(dist.leaves, 2, total, full)):match "hint: ([^,]*)" --> dist.leaves(3)
dist.leaves(2, function() return full:max():item() == column:max():item() end) --> true
local text = [[
mesh {c=3} leaves 2 on [0,0,0]
graph @f(%x: f32[9@c]) -> %x {
}
]]
tessera.graph.load(text) --! axis 0 in 3 pieces has 2 leaves

-- What rules put behind a product in its kernel, or a program does, keeps the leaves of its sum, and devices that have pieces of
-- it send sums and no factors.
do
  local graph = tessera.graph
  local a, b, bias, more = op.normal({ 5, 16 }, { seed = 1 }), op.normal({ 16, 6 }, { seed = 2 }), op.normal({ 6 }, { seed = 3 }), op.normal({ 5, 6 }, { seed = 4 })
  local two = dist.Mesh { axes = { "a" }, devices = { "cpu:0", "cpu:0" } }
  for name, f in pairs {
    relu = function(x, w) return op.relu(op.matmul(x, w)) end,
    gelu = function(x, w) return op.gelu(op.matmul(x, w)) end,
    silu = function(x, w) return op.silu(op.matmul(x, w) + bias) end,
    bias = function(x, w) return op.matmul(x, w) + bias end,
    residual = function(x, w) return op.matmul(x, w) + more end,
    words = function(x, w) return op.matmul(x, w, bias, more, { epilogue = "residual_gelu_bias" }) end,
    halves = function(x, w) return op.matmul(x:cast "bf16", w:cast "bf16", bias:cast "bf16", { epilogue = "bias_relu" }) end,
  } do
    for _, leaves in ipairs { 0, 4, 8 } do
      dist.leaves(leaves)
      local x, w, g = dist.shard(a, two, { nil, "a" }), dist.shard(b, two, { "a" }), graph.module(name, f)
      local want = f(x, w):hash()
      assert(g(x, w):hash() == want, name .. " over pieces, " .. leaves)
      assert(tostring(g:collectives(x, w)):match "^all_reduce[^\n]*\n1 collective,", name)
      if leaves > 0 then assert(f(a, b):hash() == want and graph.module(name, f)(a, b):hash() == want, name .. " on one device") end
    end
  end
  dist.leaves(0)
end
