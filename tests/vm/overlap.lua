-- Changing a tensor whose elements overlap is an error, as in NumPy and PyTorch; every other layout
-- can be changed. Whether elements overlap is found here by listing their places.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local x = op.ones { 4 }
x:expand { 3, 4 }:add_(op.ones { 3, 4 }) --! elements of the destination overlap: a view f32[3,4] with strides {0, 1}
x:expand { 3, 4 }:copy_(1) --! overlap
x:expand { 3, 4 }[0] = 5 -- one row is whole
x --> [5. 5. 5. 5.]
--> f32[4]
x:expand { 3, 4 }["0:2"] = 5 --! overlap
local v = x:expand { 3, 4 }
v[v:gt(2)] = 0 --! overlap
v:scatter_(op.zeros({ 1, 1 }, { dtype = "i64" }), op.ones { 1, 1 }, { axis = 0 }) --! overlap
x:unfold(0, 2, { step = 1 }):mul_(2) --! overlap
x:unfold(0, 2, { step = 2 }):mul_(2)
x --> [10. 10. 10. 10.]
--> f32[4]
op.ones({ 1 }):expand { 1, 1 }:add_(1):item() --> 2
op.ones({ 1 }):expand { 5, 0 }:add_(1).numel --> 0
op.full({}, 3):expand { 2 }:neg_() --! overlap

-- Optimisers, and functions that change their argument: captured, with kernels.
local w, g = op.ones { 4 }, op.ones { 3, 4 }
require("tessera.core").step("sgd_step", { w:expand { 3, 4 }, g }, { w:expand { 3, 4 } }, { lr = 1 }) --! overlap
local add = graph.module("add", function(t, y) t:add_(y) return t * y end)
for _ = 1, 40 do add(op.ones { 3, 4 }, g) end
add(w:expand { 3, 4 }, g) --! elements of the destination overlap
w --> [1. 1. 1. 1.]
--> f32[4]

-- Views made at random.
local function overlaps(t)
  local seen, shape, strides = {}, t.shape, t.strides
  local function walk(axis, at)
    if axis > #shape then
      if seen[at] then return true end
      seen[at] = true
      return false
    end
    for i = 0, shape[axis] - 1 do
      if walk(axis + 1, at + i * strides[axis]) then return true end
    end
    return false
  end
  return walk(1, 0)
end

local state = 1
local function random(n)
  state = (state * 16807) % 2147483647
  return state % n
end
local function view(t)
  for _ = 1, 1 + random(4) do
    local nd, kind = t.ndim, random(6)
    local axis = nd > 0 and random(nd) or 0
    if kind == 0 and nd < 4 then
      t = t:unsqueeze(random(nd + 1))
      local shape = {}
      for i, n in ipairs(t.shape) do shape[i] = n == 1 and random(2) == 1 and 1 + random(3) or n end
      t = t:expand(shape)
    elseif kind == 1 and nd > 0 and nd < 4 and t.shape[axis + 1] > 1 then
      local size = 1 + random(t.shape[axis + 1])
      t = t:unfold(axis, size, { step = 1 + random(4) })
    elseif kind == 2 and nd > 1 then
      t = t:transpose(axis, random(nd))
    elseif kind == 3 and nd > 0 then
      t = t:flip { axis }
    elseif kind == 4 and nd > 0 and t.shape[axis + 1] > 2 then
      local from = {}
      for i = 1, nd do from[i] = i == axis + 1 and ("%d::%d"):format(random(2), 1 + random(3)) or ":" end
      t = t[table.concat(from, ",")]
    elseif kind == 5 and nd > 1 then
      t = t:select(axis, random(t.shape[axis + 1]))
    end
  end
  return t
end
local wrong, refused = 0, 0
for _ = 1, 3000 do
  local t = view(op.zeros { 1 + random(5), 1 + random(5), 2 })
  local no = overlaps(t)
  local fine, why = pcall(function() t:add_(1) end)
  if fine == no or not (fine or why:find "overlap") then wrong = wrong + 1 end
  if no then refused = refused + 1 end
end
wrong --> 0
refused > 300 and refused < 2500 --> true

-- Windows of windows.
local windows = dofile "tests/vm/_windows.lua"
local strided, scattered = windows.strided, windows.scattered
overlaps(strided(scattered(9), "u8")) --> false
strided(scattered(9), "u8"):copy_(1):sum():item() --> 19683
local far = scattered(12)
local t = strided(far, "i32")
t:copy_(op.arange(t.numel, { dtype = "i32" }):reshape(t.shape))
t:reshape { -1 }:eq(op.arange(t.numel, { dtype = "i32" })):all():item() --> true
far[12] = far[1] + far[2] + far[3] - far[4] - far[5]
strided(far, "u8"):copy_(1) --! overlap

-- tile copies, also where nothing is repeated but axes of one element.
local y = op.ones { 1, 2 }
local t = y:tile { 3, 1 }
t[0] = 7
t --> [[7. 7.]
-->  [1. 1.]
-->  [1. 1.]]
--> f32[3,2]
y --> [[1. 1.]]
--> f32[1,2]
local same = y:tile { 1, 1 }
same:add_(1)
y:sum():item() --> 2
graph.module("tile", function(u) return u:tile { 3, 1 } end)(y):add_(1).strides[1] --> 2
