-- Eight devices: tensors, meshes and layouts drawn at random beside one device; as many summands, boxes and groups of devices as
-- kernels that meet take, and what says why others go step by step. LONG=1: more draws.
local tessera = require "tessera"
local core, dist, op, rng = tessera.core, tessera.dist, tessera.op, tessera.rng
package.path = "tests/agree/?.lua;tests/mesh/?.lua;" .. package.path
local random = require "_random"

local wrong, tried = {}, 0
local function check(what, want, f)
  local ok, got = pcall(f)
  if not ok and tostring(got):find "equally good" then return end -- the program is to say which one moves
  tried = tried + 1
  if got ~= want then wrong[#wrong + 1] = what .. (ok and "" or ": " .. tostring(got)) end
end
local long = os.getenv "LONG"
random.run(1, long and 2000 or 60, function() return "cpu:0" end, check)
random.run(2, long and 400 or 25, function(i) return "sim:" .. i end, check)
table.concat(wrong, "; ") -->
tried > 200 --> true

local function line(list) return dist.Mesh { axes = { "tp" }, devices = list } end
local all = {}
for i = 1, 8 do all[i] = "sim:" .. i - 1 end

-- How often kernels met, and whether it was x.
local function met(f, want)
  local before = (core.meets(true))
  local got = f():gather():hash()
  return core.meets(true) - before, got == want:hash()
end

-- 64 boxes; sums of trees that do not divide: up to 64 summands meet, and more say so.
local x = rng.normal { 32, 64 }
local xs = dist.shard(x, line(all), { "tp" })
met(function() return xs:reshard { nil, "tp" } end, x) --> 1, true
met(function() return xs:reshard {} end, x) --> 1, true
local tall = rng.normal { 4096, 64 }
local function summed(leaves)
  return dist.leaves(leaves, function()
    local parts = dist.shard(tall, line(all), { "tp" }) -- a device has whole leaves
    return met(function() return op.sum(parts, { axis = 0 }) end, op.sum(tall, { axis = 0 }))
  end)
end
summed(64) --> 1, true
summed(100) --> 1, true
summed(1000) --> 1, true
summed(4095) --> 0, true
(select(2, core.meets())) --> more than 64 summands

-- More groups of devices than have words at a time: those that nobody asked for lately get them again.
local apart, other = 0, 0
for _ = 1, 2 do
  for mask = 1, 255 do
    local some = {}
    for i = 0, 7 do
      if math.floor(mask / 2 ^ i) % 2 == 1 then some[#some + 1] = "sim:" .. i end
    end
    if #some == 2 or #some == 3 then
      local y = rng.normal { 4 * #some + 1, 16 } -- uneven, so that they need no room
      local ys = dist.shard(y, line(some), { "tp" })
      local n, same = met(function() return ys:reshard {} end, y)
      apart, other = apart + (n == 0 and 1 or 0), other + (same and 0 or 1)
    end
  end
end
apart, other --> 0, 0
