-- Meshes: grids of devices whose axes have names. lib/mesh.h keeps them, by number; objects are made once for each.

local core = require "tessera.core"
local named = require "tessera.named"
local options = require "tessera.options"

local grid = {}

-- The names of all devices of a kind: of this process, or, where there are several, of all of them, rank by rank.
local function names_of(kind)
  local list, w = {}, core.world()
  for r, rank in ipairs(w.ranks) do
    local first, n = 0, rank.cpus
    if kind ~= "cpu" then first, n = rank.gpu, rank.kind == kind and rank.gpus or 0 end
    for i = first, first + n - 1 do list[#list + 1] = ("%s:%d@%d"):format(kind, i, r - 1) end
  end
  if w.size > 1 then return list end
  for _, d in ipairs(core.devices()) do
    if d.name:match "^[^:]+" == kind then list[#list + 1] = d.name end
  end
  return list
end

-- range(n): the names of n devices: GPUs, if there are so many, else those of the CPU (tessera --devices=cpu:8). range(a, b)
-- begins with number a and ends before b. Where there are fewer, all are false: devices that are only planned with. In a job of
-- several processes they are those of all of them, rank by rank: "cpu:0@1" is the CPU of rank 1.
--   dist.range(8)
local MOST = 2 ^ 24 -- devices of a list; a mesh has fewer
function grid.range(first, stop)
  for _, n in ipairs { first or false, stop } do
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      core.fail("dist.range: it takes a number of devices, or the first and the one behind the last")
    end
  end
  if not stop then first, stop = 0, first end
  if stop - first > MOST then core.fail(("dist.range: %.0f devices are more than the %d of a list"):format(stop - first, MOST)) end
  local names = {}
  for _, kind in ipairs { "cuda", "hip", "level_zero", "cpu" } do
    if #names < stop then names = names_of(kind) end
  end
  local list = {}
  for i = first, stop - 1 do list[#list + 1] = #names >= stop and names[i + 1] or false end
  return list
end

-- unpack has room for some thousands alone.
local function list_of(devices)
  local list = {}
  for i = 1, #devices do list[i] = devices[i] end
  return list
end

local Mesh = {}
function Mesh.__index(_, name)
  local own = rawget(Mesh, name)
  if own == nil then error(named.missing("a mesh", name, Mesh, { axes = 1, shape = 1, devices = 1 }), 2) end
  return own
end
local meshes = {} -- by number

local function sizes_text(m, between)
  local axes = {}
  for i, a in ipairs(m.axes) do axes[i] = a .. "=" .. m.shape[i] end
  return table.concat(axes, between)
end

function Mesh.__tostring(m)
  local first, last = m.devices[1], m.devices[#m.devices]
  local where = not first and "planned" or #m.devices == 1 and first or first .. " .. " .. last
  return ("mesh %s (%s)"):format(sizes_text(m, " "), where)
end

-- Where names of devices are asked for patterns, x.device:find "^cuda", a mesh is none of them.
function Mesh:find(...) return tostring(self):find(...) end
function Mesh:match(...) return tostring(self):match(...) end

--- The object of a mesh that is there, by its number.
function grid.mesh_at(id)
  if not meshes[id] then
    local axes, shape, devices = core.mesh_facts(id)
    local n, planned = 1, false
    for _, s in ipairs(shape) do n = n * s end
    for _, d in ipairs(devices) do planned = planned or not d end
    meshes[id] = setmetatable({ id = id, axes = axes, shape = shape, devices = devices, n = n, planned = planned }, Mesh)
    core.mesh_object(id, meshes[id])
  end
  return meshes[id]
end

local function make_mesh(axes, shape, devices) return grid.mesh_at(core.mesh(axes, shape, devices)) end

local read_mesh = options.of("dist.Mesh", { axes = options.needed(options.list(options.text, nil, 1)),
  shape = options.list(options.whole { least = 1 }), devices = options.table }, {})

-- Mesh{axes, shape, devices}: a grid of devices. axes are names, shape their sizes (left out: all devices along the first
-- axis), devices a list of names, row by row, as dist.range gives them; the same device may stand for several.
-- mesh:sub{dp = 0} is the part of it at a place of an axis, mesh:size "dp" the size of one.
--   local mesh = dist.Mesh {axes = {"dp"}, devices = dist.range(2)}
function grid.Mesh(given)
  local o = read_mesh(given)
  local shape, devices, n = o.shape, o.devices, 1
  if not shape then
    if not devices then core.fail "dist.Mesh: shape says how large each axis is" end
    if #o.axes > 1 then
      core.fail(("dist.Mesh: %d devices along %d axes: shape says how large each is\n  hint: shape = {%s}"):format(#devices,
        #o.axes, tostring(#devices) .. (", 1"):rep(#o.axes - 1)))
    end
    shape = { #devices }
  end
  if #shape ~= #o.axes then core.fail(("dist.Mesh: %d axes, but %d sizes"):format(#o.axes, #shape)) end
  for _, s in ipairs(shape) do n = n * s end
  devices = devices or grid.range(n)
  if #devices ~= n then core.fail(("dist.Mesh: %d devices for a mesh of %d"):format(#devices, n)) end
  for i, d in ipairs(devices) do
    if d and type(d) ~= "string" then
      core.fail(("dist.Mesh: device %d must be a name such as \"cpu:0\", not a %s"):format(i, type(d)))
    end
  end
  return make_mesh({ unpack(o.axes) }, { unpack(shape) }, list_of(devices))
end

function grid.is_mesh(m) return getmetatable(m) == Mesh end

--- The mesh, or an error that says what is there instead.
function grid.need_mesh(m, what)
  if not grid.is_mesh(m) then
    core.fail(("%s: mesh must be a dist.Mesh, not %s"):format(what, m == nil and "nothing" or core.is_tensor(m) and "a tensor"
      or "a " .. type(m)))
  end
  return m
end

--- Where the axis stands among the mesh's, from 0; an error names those that there are.
function grid.axis_index(m, name, what)
  for i, a in ipairs(m.axes) do
    if a == name then return i - 1 end
  end
  local guess = type(name) == "string" and core.suggest(name, m.axes)
  core.fail(("%s%s has no axis '%s'\n  hint: %s"):format(what and what .. ": " or "", tostring(m), core.shown(tostring(name), 40),
    guess and ("did you mean '%s'?"):format(guess) or "its axes are " .. table.concat(m.axes, ", ")))
end

-- size(axis): how many devices it has along an axis.
function Mesh:size(axis) return self.shape[grid.axis_index(self, axis) + 1] end

-- place(i): where device number i, from 0, stands along each axis.
function Mesh:place(i)
  local at = {}
  for a = #self.axes, 1, -1 do
    at[self.axes[a]] = i % self.shape[a]
    i = (i - at[self.axes[a]]) / self.shape[a]
  end
  return at
end

-- sub{axis = place}: the mesh of the other axes, at that place of this one.
function Mesh:sub(at)
  local axes, shape, devices = {}, {}, {}
  for name, place in pairs(at) do
    local size = self.shape[grid.axis_index(self, name, "mesh:sub") + 1]
    if type(place) ~= "number" or place < 0 or place >= size or place % 1 ~= 0 then
      core.fail(("mesh:sub: place %s of axis '%s', which has %d, from 0"):format(tostring(place), name, size))
    end
  end
  for i, a in ipairs(self.axes) do
    if at[a] == nil then axes[#axes + 1], shape[#shape + 1] = a, self.shape[i] end
  end
  for p = 0, #self.devices - 1 do
    local here = true
    for name, place in pairs(self:place(p)) do here = here and (at[name] == nil or at[name] == place) end
    if here then devices[#devices + 1] = self.devices[p + 1] end
  end
  if #axes == 0 then axes, shape = { "one" }, { 1 } end
  return make_mesh(axes, shape, devices)
end

--- For part p, from 0, of a mesh: a tensor of equal elements on its device, where this process has it.
function grid.full(m, p, shape, value, dtype)
  if core.mesh_is_away(m.id, p) then return core.mesh_away(shape, dtype) end
  return core.op.full(shape, value, { dtype = dtype, device = m.devices[p + 1]:match "[^@]*" })
end

function grid.sizes_text(m) return sizes_text(m, " ") end

return grid
