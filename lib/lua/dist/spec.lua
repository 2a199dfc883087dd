-- ShardSpec: how the axes of a tensor are split by those of a mesh. A spec knows no mesh; with one, and a number of axes, it
-- becomes a layout (lib/mesh.h), which is a number here.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"

local spec = {}
local ShardSpec = {}
ShardSpec.__index = ShardSpec

local NAMED = { row = 0, col = 1, column = 1 }
local KEYS = { "partition", "mesh_axes", "axes", "block", "leaves", "reduce", "over", "row", "col", "at" }

local function quoted(names)
  local out = {}
  for i, n in ipairs(names) do out[i] = ('"%s"'):format(n) end
  return #out == 1 and out[1] or "{" .. table.concat(out, ", ") .. "}"
end

-- As it is written: {"dp", nil, {"tp", "pp"}, block = 4}.
function ShardSpec.__tostring(s)
  local last, parts = -1, {}
  for d in pairs(s.axes) do
    if d >= 0 and d > last then last = d end
  end
  for d = 0, last do parts[#parts + 1] = s.axes[d] and quoted(s.axes[d]) or "nil" end
  local behind = {}
  for d, names in pairs(s.axes) do
    if d < 0 then behind[#behind + 1] = ("[%d] = %s"):format(d, quoted(names)) end
  end
  table.sort(behind)
  if behind[1] then parts[#parts + 1] = "axes = {" .. table.concat(behind, ", ") .. "}" end
  if s.block then parts[#parts + 1] = "block = " .. s.block end
  if s.leaves then parts[#parts + 1] = "leaves = " .. s.leaves end
  if s.over[1] then parts[#parts + 1] = ("reduce = \"sum\", over = {%s}"):format((quoted(s.over):gsub("[{}]", ""))) end
  local places = {}
  for name, k in pairs(s.at) do places[#places + 1] = ("%s = %d"):format(name, k) end
  table.sort(places)
  if places[1] then parts[#parts + 1] = "at = {" .. table.concat(places, ", ") .. "}" end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function fail(text, ...) core.fail("ShardSpec: " .. text:format(...)) end

-- What splits one axis: a name, a list of names, or nil, false: nothing.
local function names_of(v, axis)
  if v == nil or v == false then return nil end
  local list = type(v) == "table" and { unpack(v) } or { v }
  for _, name in ipairs(list) do
    if type(name) ~= "string" then
      fail("axis %s is split by names of mesh axes, not a %s", tostring(axis), type(name))
    end
  end
  return list[1] and list
end

local function count_of(given, key)
  local n = given[key]
  if n ~= nil and (type(n) ~= "number" or n % 1 ~= 0 or n < 1) then fail("%s must be a whole number from 1", key) end
  return n
end

local function add(s, axis, v)
  if type(axis) ~= "number" or axis % 1 ~= 0 then
    fail("an axis is a number from 0, or \"row\" or \"col\", not '%s'", core.shown(tostring(axis), 40))
  end
  if s.axes[axis] then fail("axis %d is named twice", axis) end
  s.axes[axis] = names_of(v, axis)
end

local function read_places(given)
  local at = {}
  if given == nil then return at end
  if type(given) ~= "table" then fail("at names places of mesh axes, as {pp = 1}, it is no %s", type(given)) end
  for name, k in pairs(given) do
    if type(name) ~= "string" or type(k) ~= "number" or k % 1 ~= 0 or k < 0 then fail("at names places of mesh axes, as {pp = 1}") end
    at[name] = k
  end
  return at
end

local function read_partition(s, given)
  if type(given.partition) ~= "table" or type(given.mesh_axes) ~= "table" then
    fail("partition and mesh_axes are lists of the same length")
  end
  if #given.partition ~= #given.mesh_axes then
    fail("partition names %d axes, mesh_axes %d", #given.partition, #given.mesh_axes)
  end
  for i, p in ipairs(given.partition) do add(s, NAMED[p] or tonumber(p) or p, given.mesh_axes[i]) end
end

local function check_keys(given)
  for k in pairs(given) do
    local known = type(k) == "number" and k >= 1 and k % 1 == 0
    for _, name in ipairs(KEYS) do known = known or k == name end
    if not known then
      local guess = type(k) == "string" and core.suggest(k, KEYS)
      fail("there is no '%s'\n  hint: %s", core.shown(tostring(k), 40),
        guess and ("did you mean '%s'?"):format(guess) or "a list with the mesh axis of each axis, and " .. table.concat(KEYS, ", "))
    end
  end
end

-- ShardSpec{...}: how the axes of a tensor are split. {"dp", nil, {"tp", "pp"}} has for each axis the axis of the mesh that
-- splits it, or a list of them, the first one with the largest pieces; {axes = {[0] = "dp", [-1] = "tp"}} has them by number,
-- {row = "dp", col = "tp"} by name, {partition = {"row", "col"}, mesh_axes = {"tp", "pp"}} side by side. block = n deals pieces
-- of n out in turn; leaves = n cuts only between n leaves (? dist.leaves); reduce = "sum" with over = {"tp"}: what devices
-- along tp have are summands; at = {pp = 1}: it lies on the devices at that place of pp alone.
--   dist.ShardSpec {partition = {"row"}, mesh_axes = {"dp"}}
function spec.ShardSpec(given)
  if getmetatable(given) == ShardSpec then return given end
  if type(given) ~= "table" or core.is_tensor(given) or grid.is_mesh(given) then
    fail("a table is needed, as {\"dp\", nil} for rows over dp, not %s",
      core.is_tensor(given) and "a tensor" or grid.is_mesh(given) and "a mesh" or given == nil and "nothing" or "a " .. type(given))
  end
  check_keys(given)
  local s = setmetatable({ axes = {}, block = count_of(given, "block"), leaves = count_of(given, "leaves"), over = {},
    at = read_places(given.at) }, ShardSpec)
  if given.reduce ~= nil and given.reduce ~= "sum" then
    fail("reduce must be \"sum\", not '%s'", core.shown(tostring(given.reduce), 40))
  end
  if (given.reduce ~= nil) ~= (given.over ~= nil) then fail("reduce = \"sum\" and over = {\"tp\"} stand together") end
  s.over = names_of(given.over, "over") or {}
  if given.partition or given.mesh_axes then read_partition(s, given) end
  for axis, v in pairs(given.axes or {}) do add(s, NAMED[axis] or axis, v) end
  if given.row then add(s, 0, given.row) end
  if given.col then add(s, 1, given.col) end
  local n = 0
  for k in pairs(given) do
    if type(k) == "number" and k > n then n = k end
  end
  for i = 1, n do
    if given[i] then add(s, i - 1, given[i]) end
  end
  return s
end

-- Layouts of lists of names alone, {"dp", nil, "tp"}, by mesh, number of axes, leaves and names, a table below the other: they are
-- asked for once more with each call.
local known = {}

local function below(t, key)
  local next = t[key]
  if not next then
    next = {}
    t[key] = next
  end
  return next
end

-- Where the layout stands, at 0; nil: it is more than a list of names.
local function place_of(mesh, given, ndim)
  if given ~= nil and (type(given) ~= "table" or getmetatable(given)) then return nil end
  for k, v in pairs(given or {}) do
    if type(k) ~= "number" or k < 1 or k > ndim or k % 1 ~= 0 or type(v) ~= "string" then return nil end
  end
  local t = below(below(below(known, mesh.id), ndim), core.mesh_leaves())
  for i = 1, ndim do t = below(t, given and given[i] or false) end
  return t
end

local function found(mesh, given, ndim, what)
  local s = spec.ShardSpec(given or {})
  what = what or "ShardSpec"
  local axes, block, over, used = {}, {}, {}, {}
  local function use(name, of)
    local a = grid.axis_index(mesh, name, what)
    if used[a] then core.fail(("%s: mesh axis '%s' stands twice in %s: for %s and for %s"):format(what, name, tostring(s), used[a], of)) end
    used[a] = of
    return a
  end
  for d in pairs(s.axes) do
    if d >= ndim or d < -ndim then
      core.fail(("%s: %s names axis %d of a tensor of %d ax%s"):format(what, tostring(s), d, ndim, ndim == 1 and "is" or "es")
        .. (ndim > 0 and ("\n  hint: axes count from 0: it has %s"):format(ndim == 1 and "axis 0 alone" or "0 to " .. ndim - 1) or ""))
    end
    if d < 0 and s.axes[d + ndim] then core.fail(("%s: %s names axis %d twice"):format(what, tostring(s), d + ndim)) end
  end
  for d = 0, ndim - 1 do
    local names = s.axes[d] or s.axes[d - ndim]
    axes[d + 1], block[d + 1] = {}, names and s.block or 0
    for _, name in ipairs(names or {}) do table.insert(axes[d + 1], use(name, "axis " .. d)) end
  end
  for _, name in ipairs(s.over) do over[#over + 1] = use(name, "its summands") end
  local pins = {}
  for name, k in pairs(s.at) do
    local a = use(name, "its place")
    if k >= mesh.shape[a + 1] then
      core.fail(("%s: mesh axis '%s' has places 0 to %d, not %d"):format(what, name, mesh.shape[a + 1] - 1, k))
    end
    pins[a] = k
  end
  return core.mesh_layout(mesh.id, ndim, axes, block, over, s.leaves or core.mesh_leaves(), 0, pins)
end

--- The layout, a number, of a tensor of ndim axes over the mesh. what: who asks, for messages.
function spec.layout(mesh, given, ndim, what)
  local at = place_of(mesh, given, ndim)
  if not at then return found(mesh, given, ndim, what) end
  at[0] = at[0] or found(mesh, given, ndim, what)
  return at[0]
end

--- The spec of a layout, and its mesh.
function spec.of_layout(l)
  local id, axes, block, partial, leaves, pins = core.mesh_layout_facts(l)
  local mesh = grid.mesh_at(id)
  local s = { axes = {}, over = {}, at = {}, leaves = leaves > 0 and leaves or nil }
  for d, list in ipairs(axes) do
    local names = {}
    for i, a in ipairs(list) do names[i] = mesh.axes[a + 1] end
    if names[1] then s.axes[d - 1] = names end
    if block[d] > 0 then s.block = block[d] end
  end
  for a, name in ipairs(mesh.axes) do
    if bit.band(partial, bit.lshift(1, a - 1)) ~= 0 then table.insert(s.over, name) end
    s.at[name] = pins[a - 1]
  end
  return setmetatable(s, ShardSpec), mesh
end

local meshes = {} -- by layout

--- The mesh of a layout.
function spec.mesh_of_layout(l)
  local m = meshes[l]
  if not m then
    m = grid.mesh_at((core.mesh_layout_facts(l)))
    meshes[l] = m
  end
  return m
end

local function word_of(from, to)
  local a, b = spec.of_layout(from), spec.of_layout(to)
  local _, axes = core.mesh_layout_facts(to)
  if a.over[1] or b.over[1] or next(a.at) or next(b.at) or (a.leaves and not b.leaves) then return nil end
  local parts = {}
  for d = 1, #axes do
    local names = b.axes[d - 1]
    parts[d] = names and table.concat(names, "*") .. (b.block and "/" .. b.block or "") or ""
  end
  return table.concat(parts, ",") .. (a.leaves ~= b.leaves and ";" .. b.leaves or "")
end

local said = {} -- words by both layouts; false: none

--- The word of op.reshard that brings a tensor from one layout of a mesh to another, "dp,,tp*pp/4", or "dp;12" with
--- other leaves; nil where a word does not say it: of summands, of what lies at a place, or to no leaves.
function spec.words(from, to)
  local at = below(said, from)
  if at[to] == nil then at[to] = word_of(from, to) or false end
  return at[to] or nil
end

return spec
