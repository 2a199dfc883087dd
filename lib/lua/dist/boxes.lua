-- Tensors and their parts as boxes of a whole: which part has what, and the elements of one set of boxes put together from
-- another. A part's `runs` are, for each axis, the [first, count] that it has of the whole, one behind the other.

local core = require "tessera.core"
local boxes = {}

local function all_of(shape)
  local runs = {}
  for d, n in ipairs(shape) do runs[d] = { { 0, n } } end
  return runs
end

local function runs_of(layout, shape, part)
  local runs = {}
  for d, n in ipairs(shape) do
    runs[d] = {}
    local i = 0
    while true do
      local start, count = core.mesh_run(layout, d - 1, n, part, i)
      if not start then break end
      runs[d][i + 1] = { start, count }
      i = i + 1
    end
  end
  return runs
end

--- As JSON, which is also what tells whether two are the same.
function boxes.text(runs)
  local axes = {}
  for d, list in ipairs(runs) do
    local words = {}
    for i, r in ipairs(list) do words[i] = ("[%.0f,%.0f]"):format(r[1], r[2]) end
    axes[d] = "[" .. table.concat(words, ",") .. "]"
  end
  return "[" .. table.concat(axes, ",") .. "]"
end

local function count_of(runs)
  local n = 0
  for _, r in ipairs(runs) do n = n + r[2] end
  return n
end

--- Sizes of what has these runs.
function boxes.shape(runs)
  local shape = {}
  for d, list in ipairs(runs) do shape[d] = count_of(list) end
  return shape
end

--- Without summands: the layout that a tensor of this one has when they are added up.
function boxes.summed(layout)
  local mesh, axes, block, partial, leaves, pins = core.mesh_layout_facts(layout)
  if partial == 0 then return layout end
  return core.mesh_layout(mesh, #axes, axes, block, {}, leaves, 0, pins)
end

--- The parts under a layout, or the one part of a tensor on one device: {runs, key, part}; part is its number in the
--- mesh. Parts of equal keys have equal elements. Devices that have nothing of it have no part.
function boxes.of(layout, shape, nparts)
  if not layout then
    local runs = all_of(shape)
    return { { runs = runs, key = boxes.text(runs) } }
  end
  local list = {}
  for p = 0, nparts - 1 do
    if core.mesh_has(layout, p) then
      local runs = runs_of(layout, shape, p)
      list[#list + 1] = { runs = runs, key = boxes.text(runs), part = p }
    end
  end
  return list
end

--- Calls each(axis sizes, from, to) for every box that two parts share: where it begins in each of them.
local function meet(a, b, each)
  local from, to, size = {}, {}, {}
  local function along(d)
    if d > #a then return each(size, from, to) end
    local at_a = 0
    for _, r in ipairs(a[d]) do
      local at_b = 0
      for _, s in ipairs(b[d]) do
        local first, last = math.max(r[1], s[1]), math.min(r[1] + r[2], s[1] + s[2])
        if first < last then
          from[d], to[d], size[d] = at_a + first - r[1], at_b + first - s[1], last - first
          along(d + 1)
        end
        at_b = at_b + s[2]
      end
      at_a = at_a + r[2]
    end
  end
  along(1)
end

--- Whether two parts share an element.
function boxes.touch(a, b)
  for d = 1, #a do
    local some = false
    for _, r in ipairs(a[d]) do
      for _, s in ipairs(b[d]) do some = some or (r[1] < s[1] + s[2] and s[1] < r[1] + r[2]) end
    end
    if not some then return false end
  end
  return true
end

local function box_of(t, start, size)
  for d, n in ipairs(size) do
    if n ~= t.shape[d] then t = t:narrow(d - 1, start[d], n) end
  end
  return t
end

--- What two parts share, copied from one tensor into the other; how many elements that is.
function boxes.copy(from_runs, from, to_runs, to)
  local all = 0
  meet(from_runs, to_runs, function(size, at_from, at_to)
    local n = 1
    for _, m in ipairs(size) do n = n * m end
    box_of(to, at_to, size):copy_(box_of(from, at_from, size))
    all = all + n
  end)
  return all
end

return boxes
