-- Tensors end with the userdata that holds them, which has no finalizer: the state's
-- allocator sees it go.
local core = require "tessera.core"
local tessera = require "tessera"
local op = tessera.op

local function live()
  collectgarbage() collectgarbage()
  return core.memory().live
end

local function fill(n)
  local t = {}
  for i = 1, n do t[i] = op.full({1000}, i) end
  return t
end

local before = live()
local t = fill(100)
live() - before --> 400000
t[50]:sum():item() --> 50000
for i = 1, 100, 2 do t[i] = nil end
live() - before --> 200000
t = nil
live() - before --> 0

-- views share bytes; the last one counts
local x = op.full({1000}, 1)
local v = x["::2"]
x = nil
live() - before --> 4000
v:sum():item() --> 500
v = nil
live() - before --> 0

-- weak tables do not keep them
local weak = setmetatable({}, {__mode = "v"})
weak[1] = op.full({1000}, 2)
live() - before --> 0
weak[1] --> nil

-- coroutines and closures do
local co = coroutine.wrap(function()
  local y = op.full({1000}, 3)
  coroutine.yield()
  coroutine.yield(y:sum():item())
end)
co()
live() - before --> 4000
co() --> 3000
co = nil
live() - before --> 0

-- what a finalizer of somebody else still reads is there
local seen
do
  local p, y = newproxy(true), op.full({1000}, 4)
  getmetatable(p).__gc = function() seen = y:sum():item() end
end
collectgarbage() collectgarbage()
seen --> 4000
live() - before --> 0

-- strings, tables and userdata of all sizes beside them
local function mix(round)
  local keep = {}
  for i = 1, 400 do
    keep[#keep + 1] = ("x"):rep(i % 120) .. round .. "," .. i
    keep[#keep + 1] = op.full({8}, i)
    keep[#keep + 1] = newproxy(i % 2 == 0)
    keep[#keep + 1] = {i, round}
    keep[#keep + 1] = function() return i end
  end
  local sum = 0
  for i = 2, #keep, 5 do sum = sum + keep[i]:sum():item() end
  return sum
end
for round = 1, 20 do assert(mix(round) == 8 * 400 * 401 / 2) end
live() - before --> 0

-- a number as an operand is a call without arguments to read
local a = tessera.tensor{1, 2, 4}
a * 2 --> [2. 4. 8.]
--> f32[3]
2 - a --> [ 1.  0. -2.]
--> f32[3]
(a / 0):sum():item() --> inf
op.add(1, 2) --> 3 i64[]
a + "x" --! add
a + true --> [2. 3. 5.]
--> f32[3]
