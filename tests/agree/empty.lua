-- Every row with axes of size 0, each axis of each input and each size wherever it stands: eagerly,
-- captured and on a device. Memory is full of one pattern, then of another, before each call, so
-- that what nobody wrote differs. What comes of nothing is compared with NumPy's values.
package.path = "tests/agree/?.lua;" .. package.path
local tessera = require "tessera"
local core = tessera.core
local cases = require "_cases"
local shared = require "_captured"
local op = core.op

-- The ways to empty the inputs x: functions of a place and its shape.
local function ways(x)
  local list, sizes = {}, {}
  for i = 1, #x do
    for a, n in ipairs(x[i] and x[i].dtype ~= "mxfp4" and x[i].shape or {}) do
      list[#list + 1] = function(j, axis, size) return j == i and axis == a and 0 or size end
      if not sizes[n] then list[#list + 1] = function(_, _, size) return size == n and 0 or size end end
      sizes[n] = true
    end
  end
  return list
end

local function emptied(x, way)
  local y, key = {}, {}
  for i = 1, #x do
    y[i] = x[i]
    if x[i] and x[i].dtype ~= "mxfp4" then
      local s = {}
      for a, n in ipairs(x[i].shape) do s[a] = way(i, a, n) end
      if not cases.same_shape(s, x[i].shape) and cases.count(s) == 0 then y[i] = op.zeros(s, { dtype = x[i].dtype }) end
      key[#key + 1] = y[i].dtype .. table.concat(y[i].shape, ",")
    end
  end
  return y, table.concat(key, " ")
end

local function run(pattern, f, ...)
  core.seed(5)
  core.poison(pattern)
  local ok, out = pcall(f, ...)
  core.poison(0)
  return ok and shared.text_of(out) or cases.words(out), ok and out or nil
end

local function captured(c, x)
  local f = shared.captured(c, x)
  local out = { f(unpack(shared.present(x))) }
  return out
end

local function away(c, x)
  local y = {}
  for i = 1, #x do y[i] = x[i] and x[i]:to "sim:0" end
  return cases.call(c, y)
end

local function option_text(o)
  local list = {}
  for k, v in pairs(o or {}) do list[#list + 1] = k .. "=" .. (type(v) == "table" and table.concat(v, ",") or tostring(v)) end
  table.sort(list)
  return table.concat(list, " ")
end

-- Rows of few types are enough where a call is captured or moved.
local few = { f32 = true, bf16 = true, i64 = true, bool = true, complex64 = true }
local long = os.getenv "LONG" -- both ways for each
local seen, tried, wrong = {}, 0, 0
local function differs(...)
  wrong = wrong + 1
  print(...)
end

for c in cases.each() do
  local x = cases.skipped[c.row] and {} or cases.inputs(c)
  for _, way in ipairs(ways(x)) do
    local y, key = emptied(x, way)
    key = c.row .. " " .. option_text(c.o) .. " " .. key
    if not seen[key] then
      seen[key] = true
      tried = tried + 1
      local a, b = run(0xff, cases.call, c, y), run(0x3c, cases.call, c, y)
      if a ~= b then differs("not written: " .. key) end
      if few[y[1] and y[1].dtype or ""] and c.row ~= "dropout" and c.row ~= "categorical" then
        local g = (tried % 2 == 0 or long) and run(0x5a, captured, c, y)
        if g and g ~= a and not g:find "depends on data" then differs("captured: " .. key, a, g) end
        local d = (tried % 2 == 1 or long) and run(0x77, away, c, y)
        if d and d:gsub(" sim:0", "") ~= a then differs("on a device: " .. key, a, d) end
      end
    end
  end
end
tried > 10000, wrong --> true, 0

-- What comes of nothing (NumPy 2; errors where it has none).
local none, rows = op.zeros { 0 }, op.zeros { 2, 0 }
none:sum():item() --> 0
none:prod():item() --> 1
none:mean():item() --> nan
none:var():item() --> nan
none:any():item() --> false
none:all():item() --> true
none:logsumexp():item() --> -inf
none:norm():item() --> 0
none:norm { ord = 1 / 0 }:item() --> 0
none:norm { ord = -1 / 0 }:item() --> inf
rows:norm { ord = 1 / 0, axis = 1 } --> [0. 0.]
--> f32[2]
none:max() --! of no elements
none:argmin() --! of no elements
rows:matmul(op.zeros { 0, 3 }):sum():item() --> 0
op.det(op.zeros { 2, 0, 0 }) --> [1. 1.]
--> f32[2]
local u, s, vh = op.svd(op.zeros { 3, 0 }, true)
u --> [[1. 0. 0.]
-->  [0. 1. 0.]
-->  [0. 0. 1.]]
-->f32[3,3]
op.svd(op.zeros({ 2, 0, 2 }, { dtype = "complex64" }), true)
select(3, op.svd(op.zeros { 0, 2 }, true)) --> [[1. 0.]
-->  [0. 1.]]
--> f32[2,2]
local p, l, upper = op.lu(op.zeros({ 2, 0 }, { dtype = "bf16" }))
p --> [[1. 0.]
-->  [0. 1.]]
--> bf16[2,2]
l.shape[2], upper.shape[1] --> 0, 0
