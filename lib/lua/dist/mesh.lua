-- tessera.dist: tensors that are spread over a mesh of devices.
--
--   local mesh = dist.Mesh {axes = {"dp", "tp"}, shape = {2, 2}, devices = dist.range(4)}
--   local x = dist.shard(rng.normal {8, 6}, mesh, {"dp"})       -- rows over dp
--   local w = dist.shard(rng.normal {6, 4}, mesh, {nil, "tp"})  -- columns over tp
--   print(op.matmul(x, w))                                      -- f32[8@dp,4@tp]
--
-- A layout (dist.ShardSpec) says which axis of a tensor is split by which axes of the mesh. lib/mesh.h defines
-- where pieces begin, lib/shard.h how calls are done in parts.

local core = require "tessera.core"
local named = require "tessera.named"
local options = require "tessera.options"

local dist = {}

-- ---- devices

-- range(n): the names of n devices: GPUs, if there are so many, else those of the CPU (tessera --devices=cpu:8). range(a, b)
-- begins with number a and ends before b. Where there are fewer, the names are those of devices that are only planned with.
--   dist.range(8)
function dist.range(first, stop)
  if not stop then first, stop = 0, first end
  local by_kind = {}
  for _, d in ipairs(core.devices()) do
    local kind = d.name:match "^%a+"
    by_kind[kind] = (by_kind[kind] or 0) + 1
  end
  local kind = (by_kind.cuda or 0) >= stop and "cuda" or (by_kind.cpu or 0) >= stop and "cpu"
  local list = {}
  for i = first, stop - 1 do list[#list + 1] = kind and kind .. ":" .. i or false end
  return list
end

-- ---- meshes
local Mesh = {}
Mesh.__index = Mesh
local meshes = {} -- by number

function Mesh.__tostring(m)
  local axes = {}
  for i, a in ipairs(m.axes) do axes[i] = a .. "=" .. m.shape[i] end
  local first, last = m.devices[1], m.devices[#m.devices]
  local where = not first and "planned" or #m.devices == 1 and first or first .. " .. " .. last
  return ("mesh %s (%s)"):format(table.concat(axes, " "), where)
end

local function make_mesh(axes, shape, devices)
  local id = core.mesh(axes, shape, devices)
  meshes[id] = meshes[id] or setmetatable({ id = id, axes = axes, shape = shape, devices = devices }, Mesh)
  return meshes[id]
end

local read_mesh = options.of("dist.Mesh", {
  axes = options.needed(options.table), shape = options.table, devices = options.table }, {})

-- Mesh{axes, shape, devices}: a grid of devices. axes are names, shape their sizes (of one axis: all devices), devices a
-- list of names, row by row, as dist.range gives them; the same device may stand for several. mesh:sub{dp = 0} is the
-- part of it at a place of an axis, mesh:size "dp" the size of one.
--   local mesh = dist.Mesh {axes = {"dp"}, devices = dist.range(2)}
function dist.Mesh(given)
  local o = read_mesh(given)
  local shape, devices, n = o.shape, o.devices, 1
  if not shape then
    if #o.axes ~= 1 or not devices then core.fail "dist.Mesh: shape says how large each axis is" end
    shape = { #devices }
  end
  if #shape ~= #o.axes then
    core.fail(("dist.Mesh: %d axes, but %d sizes"):format(#o.axes, #shape))
  end
  for _, s in ipairs(shape) do n = n * s end
  devices = devices or dist.range(n)
  if #devices ~= n then core.fail(("dist.Mesh: %d devices for a mesh of %d"):format(#devices, n)) end
  return make_mesh({ unpack(o.axes) }, { unpack(shape) }, { unpack(devices) })
end

-- size(axis): how many devices it has along an axis.
function Mesh:size(axis)
  for i, a in ipairs(self.axes) do
    if a == axis then return self.shape[i] end
  end
  core.fail(("%s has no axis '%s'"):format(tostring(self), tostring(axis)))
end

local function axis_index(m, name)
  for i, a in ipairs(m.axes) do
    if a == name then return i - 1 end
  end
  core.fail(("%s has no axis '%s'"):format(tostring(m), tostring(name)))
end

-- sub{axis = place}: the mesh of the other axes, at that place of this one.
function Mesh:sub(at)
  local axes, shape, devices = {}, {}, {}
  for name in pairs(at) do axis_index(self, name) end
  for i, a in ipairs(self.axes) do
    if at[a] == nil then axes[#axes + 1], shape[#shape + 1] = a, self.shape[i] end
  end
  for p = 0, #self.devices - 1 do
    local rest, here = p, true
    for i = #self.axes, 1, -1 do
      local place = rest % self.shape[i]
      rest = (rest - place) / self.shape[i]
      here = here and (at[self.axes[i]] == nil or at[self.axes[i]] == place)
    end
    if here then devices[#devices + 1] = self.devices[p + 1] end
  end
  return make_mesh(axes, shape, devices)
end

-- ---- layouts
local ShardSpec = {}
ShardSpec.__index = ShardSpec

local PARTITION = { row = 0, col = 1, column = 1 }

-- ShardSpec{...}: how the axes of a tensor are split, in one of two ways: {"dp", nil, "tp"} has for each axis of the tensor
-- the axis of the mesh, or a list of them, that splits it; {partition = {"row", "col"}, mesh_axes = {"tp", "pp"}} names
-- axes of the tensor, "row" and "col" or numbers from 0, and the axes of the mesh beside. block = n deals pieces of n out in
-- turn; leaves = n cuts only between n leaves (? dist.leaves); reduce = "sum" with over = {"tp"}: what devices along tp have
-- are summands.
--   dist.ShardSpec {partition = {"row"}, mesh_axes = {"dp"}}
function dist.ShardSpec(given)
  if getmetatable(given) == ShardSpec then return given end
  local spec = { axes = {}, block = given.block, leaves = given.leaves, over = given.over or {} }
  if given.reduce ~= nil and given.reduce ~= "sum" then
    core.fail(("ShardSpec: reduce must be \"sum\", not '%s'"):format(tostring(given.reduce)))
  end
  if given.partition then
    for i, p in ipairs(given.partition) do
      local axis = PARTITION[p] or tonumber(p)
      if not axis then core.fail(("ShardSpec: partition must be \"row\", \"col\" or a number, not '%s'"):format(tostring(p))) end
      spec.axes[axis] = given.mesh_axes[i]
    end
  else
    local n = 0
    for k in pairs(given) do
      if type(k) == "number" and k > n then n = k end
    end
    for i = 1, n do spec.axes[i - 1] = given[i] end
  end
  return setmetatable(spec, ShardSpec)
end

local function layout_of(mesh, spec, ndim)
  spec = dist.ShardSpec(spec or {})
  local axes, block, over = {}, {}, {}
  local used = {}
  local function use(name)
    local a = axis_index(mesh, name)
    if used[a] then core.fail(("ShardSpec: mesh axis '%s' splits two axes"):format(name)) end
    used[a] = true
    return a
  end
  for d in pairs(spec.axes) do
    if d >= ndim then core.fail(("ShardSpec: axis %d of a tensor of %d axes"):format(d, ndim)) end
  end
  for d = 0, ndim - 1 do
    local names = spec.axes[d]
    if type(names) == "string" then names = { names } end
    axes[d + 1], block[d + 1] = {}, names and spec.block or 0
    for _, name in ipairs(names or {}) do table.insert(axes[d + 1], use(name)) end
  end
  for _, name in ipairs(spec.over) do over[#over + 1] = use(name) end
  return core.mesh_layout(mesh.id, ndim, axes, block, over, spec.leaves or core.mesh_leaves())
end
dist.layout_of = layout_of

local function check(x, mesh, what)
  if not core.is_tensor(x) then core.fail(what .. ": x must be a tensor, not " .. type(x)) end
  if getmetatable(mesh) ~= Mesh then core.fail(what .. ": mesh must be one of dist.Mesh, not " .. type(mesh)) end
end

-- shard(x, mesh, spec): x spread over the mesh as a ShardSpec says, or the list that it is made of.
--   local x = dist.shard(op.ones {8, 4}, mesh, {"dp"})
function dist.shard(x, mesh, spec)
  check(x, mesh, "dist.shard")
  return core.mesh_move(x, layout_of(mesh, spec, #x.shape))
end

-- replicate(x, mesh): x on every device of the mesh.
function dist.replicate(x, mesh)
  check(x, mesh, "dist.replicate")
  return core.mesh_move(x, layout_of(mesh, {}, #x.shape))
end

-- leaves([n]): cuts each axis that is summed over into n leaves, whose sums are added pairwise: a program with leaves
-- has the same bits on any mesh whose devices have whole leaves, and on one device. dist.leaves() asks; 0: as many
-- as there are devices. dist.leaves(n, f, ...) sets it while f(...) runs.
--   dist.leaves(8)
function dist.leaves(n, f, ...)
  if f == nil then return core.mesh_leaves(n) end
  local before = core.mesh_leaves(n)
  return core.guarded(function() core.mesh_leaves(before) end, f, ...)
end

-- parts(x): the tensors that x consists of, a list by device of its mesh.
dist.parts = core.mesh_parts

-- gather(x [, device]): all of x on one device, the CPU if none is named.
dist.gather = core.mesh_gather

-- mesh_of(x): the mesh that x is spread over, or nil.
function dist.mesh_of(x)
  local l = core.mesh_layout_of(x)
  return l and meshes[(core.mesh_layout_facts(l))] or nil
end

-- reshard(x, spec): x as it lies under another layout of its mesh.
function dist.reshard(x, spec)
  local mesh = dist.mesh_of(x)
  if not mesh then core.fail "reshard: x is on one device: dist.shard(x, mesh, spec) spreads it" end
  return core.mesh_move(x, layout_of(mesh, spec, #x.shape))
end

core.methods.gather_all = core.mesh_gather
core.methods.reshard = dist.reshard
core.methods.parts = core.mesh_parts

return named("tessera.dist", dist)
