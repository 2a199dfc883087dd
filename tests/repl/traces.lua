-- LuaJIT's traces hold the closures that they were made for, and these hold tensors. Garbage of that kind
-- is bounded, and is given back on demand; what is alive stays alive.
local ts = require "tessera"
local core, rng = ts.core, ts.rng
local MIB = 2 ^ 20

local function live() return core.memory().live / MIB end

local function loop(call, count)
  local y
  for _ = 1, count do y = call() end
  return y
end

-- A function of its own each time, with a tensor of 16 MiB: the loop's traces go into each of them.
local function make()
  return loadstring [[local op, x = ... return function() return op.sum(x, { axis = 0 }) end]](ts.op,
    rng.uniform { 2048, 2048 })
end

local most = 0
for _ = 1, 40 do
  for _ = 1, 2 do loop(make(), 100) end
  collectgarbage()
  most = math.max(most, live())
end
assert(most < 350, ("%.0f MiB were alive at one time"):format(most))

core.trim()
assert(live() < 17, ("%.0f MiB are alive behind the last one"):format(live()))

local kept = {}
for i = 1, 30 do kept[i] = ts.op.full({ 1024, 2048 }, i) end -- 8 MiB each
local sum = 0
for _ = 1, 3 do
  for i = 1, 30 do sum = sum + kept[i]:sum():item() end
end
assert(sum == 3 * 30 * 31 / 2 * 1024 * 2048)
