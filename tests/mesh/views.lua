-- What is written through a view of a spread tensor stands in the base, or is an error; it is never lost.
local tessera = require "tessera"
local core, dist, op = tessera.core, tessera.dist, tessera.op

local grid = dist.Mesh { axes = { "a", "b" }, shape = { 2, 2 }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }
local views = {
  reshape = function(x) return x:reshape { 8, 24 } end,
  merged = function(x) return x:reshape { 48, 4 } end,
  flatten = function(x) return x:flatten(1, 2) end,
  transpose = function(x) return x:transpose() end,
  permute = function(x) return x:permute { 2, 0, 1 } end,
  unsqueeze = function(x) return x:unsqueeze(1) end,
  narrow = function(x) return x:narrow(0, 3, 4) end,
  part = function(x) return x:narrow(1, 1, 2) end,
  select = function(x) return x:select(1, 2) end,
  slice = function(x) return x[":, 1:5:2"] end,
  flip = function(x) return x:flip { 2 } end,
  unfold = function(x) return x:unfold(1, 2, 2) end,
  bitcast = function(x) return x:bitcast "i32":bitcast "f32" end,
}
local specs = { { "a" }, { nil, "a" }, { nil, nil, "b" }, { "b", "a" }, { { "a", "b" } } }

local function state(x) return x:hash() end

local lost, written, refused = {}, 0, 0
for name, view in pairs(views) do
  for i, spec in ipairs(specs) do
    local base = op.normal({ 8, 6, 4 }, { seed = 2 })
    local x = dist.shard(base, grid, spec)
    local before = state(x)
    local v, w = view(x), view(base)
    if state(v) ~= state(w) then lost[#lost + 1] = name .. " is wrong under " .. i end
    local ok = pcall(function() v:copy_(3) end)
    w:copy_(3)
    if ok and state(x) == state(base) then
      written = written + 1
    elseif not ok and state(x) == before then
      refused = refused + 1
    else
      lost[#lost + 1] = name .. " under " .. i .. (ok and "" or ", and an error")
    end
  end
end
table.sort(lost)
table.concat(lost, "; ") -->
written + refused, written > 40 --> 65, true

-- Nothing that was made in parts is kept.
local function work()
  local x, y = dist.shard(op.ones { 8, 6 }, grid, { "a", "b" }), dist.shard(op.ones { 6, 4 }, grid, { "b" })
  return op.matmul(x, y):sum(), x:softmax(), x:reshape { 4, 12 }, x:norm(), op.cross_entropy(x, op.zeros({ 8 }, { dtype = "i64" }))
end
local function live()
  collectgarbage()
  collectgarbage()
  return tessera.memory().live
end
dist.leaves(12, work)
local before = live()
for _ = 1, 20 do dist.leaves(12, work) end
live() - before --> 0
