-- Tensors over a mesh: made in parts, spread, moved, gathered; modules whose parameters are spread.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local spec = require "tessera.dist.spec"
local options = require "tessera.options"
local op = core.op

local tensor = {}

local function check(x, what)
  if not core.is_tensor(x) then core.fail(("%s: x must be a tensor, not %s"):format(what, x == nil and "nothing" or "a " .. type(x))) end
  return x
end

-- ---- made in parts
local INITS = { zeros = 0, ones = 1 }
local RANDOM = { normal = true, uniform = true }

local read_tensor = options.of("dist.tensor", {
  shape = options.needed(options.list(options.whole { least = 0 })), dtype = options.dtype, mesh = options.needed(options.table),
  layout = options.table, init = options.any, abstract = options.flag, requires_grad = options.flag },
  { dtype = "f32", layout = {}, init = "zeros", abstract = false, requires_grad = false })

local function made_in_parts(layout, mesh, shape, dtype, value)
  local parts = {}
  for p = 1, mesh.n do
    local own, summands = core.mesh_part_shape(layout, shape, p - 1), core.mesh_summands(layout, p - 1)
    if summands > 0 then table.insert(own, 1, summands) end
    parts[p] = core.mesh_has(layout, p - 1) and grid.full(mesh, p - 1, own, value, dtype)
  end
  return core.mesh_join(layout, parts, shape)
end

-- tensor{shape, dtype = "f32", mesh, layout = {}, init = "zeros"}: a tensor over a mesh, made in its parts and never whole.
-- layout is a ShardSpec or the list that it is made of; init is "zeros", "ones", a number, "normal" or "uniform" (the same
-- numbers as on one device). The shape may stand before the options. {abstract = true}, or a mesh of devices that are only
-- planned with: a type and a layout without elements, for sizes that fit nowhere; calls on it give such tensors.
--   local w = dist.tensor {shape = {4, 6}, mesh = mesh, layout = {"dp"}}
function tensor.tensor(given, more)
  if type(given) == "table" and type(given[1]) == "number" then
    local o = {}
    for k, v in pairs(more or {}) do o[k] = v end
    for k, v in pairs(given) do
      if type(k) == "string" then o[k] = v end
    end
    o.shape = { unpack(given) }
    given = o
  end
  local o = read_tensor(given)
  local mesh = grid.need_mesh(o.mesh, "dist.tensor")
  local layout = spec.layout(mesh, o.layout, #o.shape, "dist.tensor")
  local value = type(o.init) == "number" and o.init or INITS[o.init]
  if not value and not RANDOM[o.init] then
    core.fail(("dist.tensor: init must be a number or one of 'zeros', 'ones', 'normal', 'uniform', not %s"):format(
      type(o.init) == "string" and "'" .. core.shown(o.init, 40) .. "'" or "a " .. type(o.init)))
  end
  if value ~= 0 and core.mesh_summands(layout, 0) > 0 then
    core.fail("dist.tensor: summands begin as zeros\n  hint: init = \"zeros\"")
  end
  local x
  if o.abstract or mesh.planned then
    x = core.mesh_planned(layout, o.shape, o.dtype)
  elseif value then
    x = made_in_parts(layout, mesh, o.shape, o.dtype, value)
  else
    x = core.mesh_draw(o.init, { shape = o.shape, dtype = o.dtype }, layout)
  end
  if o.requires_grad then x.requires_grad = true end
  return x
end

-- ---- moved
-- shard(x, mesh, spec): x spread over the mesh as a ShardSpec says, or the list that it is made of.
--   local x = dist.shard(op.ones {8, 4}, mesh, {"dp"})
function tensor.shard(x, mesh, given, ...)
  check(x, "dist.shard")
  if select("#", ...) > 0 then
    core.fail "dist.shard: it takes a tensor, a mesh and a spec, and nothing behind them\n  hint: options stand in the spec: {\"dp\", block = 2}"
  end
  return core.mesh_move(x, spec.layout(grid.need_mesh(mesh, "dist.shard"), given, x.ndim, "dist.shard"), "shard")
end

-- replicate(x, mesh): x on every device of the mesh.
function tensor.replicate(x, mesh, ...)
  check(x, "dist.replicate")
  if select("#", ...) > 0 then
    core.fail "dist.replicate: it takes a tensor and a mesh, and nothing behind them\n  hint: dist.shard(x, mesh, spec) splits axes"
  end
  return core.mesh_move(x, spec.layout(grid.need_mesh(mesh, "dist.replicate"), {}, x.ndim), "replicate")
end

-- mesh_of(x): the mesh that x is spread over, or nil.
function tensor.mesh_of(x)
  local l = core.mesh_layout_of(check(x, "dist.mesh_of"))
  return l and spec.mesh_of_layout(l) or nil
end

-- spec_of(x): the ShardSpec by which x is spread, which prints as it is written; nil of a tensor on one device.
--   local w = dist.shard(x, mesh, {"dp"})
--   print(dist.spec_of(w))      -- {"dp", nil}
function tensor.spec_of(x)
  local l = core.mesh_layout_of(check(x, "dist.spec_of"))
  if l then return (spec.of_layout(l)) end
end

-- parts(x): the tensors that x consists of, a list by device of its mesh; false for a device that has nothing of it.
function tensor.parts(x) return core.mesh_parts(check(x, "dist.parts")) end

-- gather(x [, device]): all of x on one device, the CPU if none is named; also x:gather(), without an index. In dist.map,
-- gather(x, axis, {to = 0, dim = 0}): what the parts along the axis have, behind each other, for the part at place `to`; the
-- others get nil.
--   print(dist.gather(x))
function tensor.gather(x, device, o)
  local collectives = require "tessera.dist.collectives"
  if collectives.here() then return collectives.gather_parts(x, device, o) end
  return core.mesh_gather(check(x, "dist.gather"), device)
end

-- reshard(x, spec [, mesh]): x as it lies under another layout of its mesh, or over another mesh; also x:reshard(spec). Summands
-- are added up.
--   local y = dist.shard(x, mesh, {"dp"}):reshard {nil, "tp"}
function tensor.reshard(x, given, mesh)
  local own = tensor.mesh_of(check(x, "reshard"))
  if mesh ~= nil then grid.need_mesh(mesh, "reshard") end
  if not own and not mesh then core.fail "reshard: x is on one device\n  hint: dist.shard(x, mesh, spec) spreads it" end
  local layout = spec.layout(mesh or own, given, x.ndim, "reshard")
  local words = (mesh == nil or mesh == own) and spec.words(core.mesh_layout_of(x), layout)
  if words then return op.reshard(x, { spec = words }) end -- the operator has a place in the text of graphs
  return core.mesh_move(x, layout, "reshard")
end

-- Elements that a device has none of are no fault of a layout that is asked for by its rule alone, but a sign that it was
-- meant for something larger.
local function empty_axis(x, layout, mesh)
  local s = spec.of_layout(layout)
  for d = 0, x.ndim - 1 do
    local pieces = 1
    for _, name in ipairs(s.axes[d] or {}) do pieces = pieces * mesh:size(name) end
    if pieces > math.max(x.shape[d + 1], 1) then
      return ("axis %d has %d elements for %d pieces: some devices have none"):format(d, x.shape[d + 1], pieces)
    end
  end
end

local function place_key(x, layout, p)
  if core.mesh_summands(layout, p) > 0 then return p end
  local key = {}
  for d = 0, x.ndim - 1 do
    local start, count = core.mesh_run(layout, d, x.shape[d + 1], p, 0)
    key[d + 1] = ("%d+%d"):format(start or 0, count or 0)
  end
  return table.concat(key, " ")
end

-- Of the parts that this process has.
local function wrong_part(x, layout, mesh)
  local first = {}
  for p, part in ipairs(core.mesh_parts(x)) do
    local there = core.mesh_has(layout, p - 1)
    if there ~= (part ~= false) then return ("part %d %s"):format(p - 1, there and "is missing" or "has something") end
    if there and not core.mesh_is_away(mesh.id, p - 1) then
      local where, key = mesh.devices[p]:match "[^@]*", place_key(x, layout, p - 1)
      if part.device ~= where then return ("part %d is on %s, has to be on %s"):format(p - 1, tostring(part.device), where) end
      local hash = part:hash()
      if first[key] and hash ~= first[key].hash then
        return ("parts %d and %d are copies of each other, and differ"):format(first[key].p, p - 1)
      end
      first[key] = first[key] or { p = p - 1, hash = hash }
    end
  end
end

-- sharding_valid(x): true if x lies as its layout says; else false and the reason: a device has no elements, a part is
-- elsewhere, copies differ. Also x:sharding_valid().
--   assert(dist.shard(x, mesh, {"dp"}):sharding_valid())
function tensor.sharding_valid(x)
  local layout = core.mesh_layout_of(check(x, "sharding_valid"))
  if not layout then return false, "it is on one device: " .. tostring(x.device) end
  local mesh = tensor.mesh_of(x)
  local why = empty_axis(x, layout, mesh)
  if not why and not core.mesh_is_planned(x) then why = wrong_part(x, layout, mesh) end
  if why then return false, why end
  return true
end

-- ---- modules
-- Patterns of names: * stands for any letters.
local function matches(pattern, name)
  local p = pattern:gsub("[%-%.%+%[%]%(%)%$%^%%%?]", "%%%0"):gsub("%*", ".*")
  return name:find("^" .. p .. "$") ~= nil
end

-- shard_module(module, mesh, specs): spreads the parameters and buffers of a module, in place, and gives it. specs is a table
-- of patterns of names to ShardSpecs, * standing for any letters; of several patterns that fit the longest counts, and what
-- none fits is on every device. A pattern that fits nothing is an error.
--   dist.shard_module(model, mesh, {weight = {"tp"}, ["*"] = {}})
function tensor.shard_module(module, mesh, specs)
  grid.need_mesh(mesh, "dist.shard_module")
  local Module = require "tessera.module"
  if not Module.is_module(module) then core.fail "dist.shard_module: a module of tessera.nn is needed" end
  local used, chosen = {}, {}
  local state = module:state_dict()
  for name in pairs(state) do
    local best
    for pattern in pairs(specs or {}) do
      if matches(pattern, name) then
        used[pattern] = true
        if not best or #pattern > #best or (#pattern == #best and pattern < best) then best = pattern end
      end
    end
    chosen[name] = best and specs[best] or {}
  end
  for pattern in pairs(specs or {}) do
    if not used[pattern] then
      local names = {}
      for name in pairs(state) do names[#names + 1] = name end
      table.sort(names)
      core.fail(("dist.shard_module: nothing is named '%s'\n  hint: there are %s"):format(pattern, table.concat(names, ", ", 1, math.min(#names, 12))))
    end
  end
  return Module.replace(module, function(x, name)
    local layout = spec.layout(mesh, chosen[name], x.ndim, name)
    return core.mesh_layout_of(x) == layout and x or core.mesh_move(x, layout, "shard")
  end)
end

-- ---- methods
local index_gather = core.methods.gather
core.methods.gather_all = tensor.gather
core.methods.reshard = tensor.reshard
core.methods.parts = tensor.parts
core.methods.sharding_valid = tensor.sharding_valid

-- Without an index it gathers the parts of a tensor over a mesh, on a device that may be named.
function core.methods.gather(x, ...)
  local first = ...
  local device = type(first) == "table" and not core.is_tensor(first) and first[1] == nil and first.index == nil and first.device
  if select("#", ...) == 0 or type(first) == "string" or device then
    return tensor.gather(x, device or first)
  end
  return index_gather(x, ...)
end

return tensor
