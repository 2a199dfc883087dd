-- How a step of training is spread over a mesh: parameters, the optimiser's state, and each batch. Loaded by
-- graph.training_step.

local core = require "tessera.core"
local options = require "tessera.options"

local read_plan = options.of("graph.training_step: plan", { zero = options.whole { least = 0, most = 3 } }, { zero = 0 })

local function axis_of(mesh, name)
  for i, a in ipairs(mesh.axes) do
    if a == name then return i - 1 end
  end
end

-- A layout of ndim axes, split along the first by an axis of the mesh, if any. stored: used whole.
local function layout(mesh, ndim, axis, stored)
  local axes, block = {}, {}
  for d = 1, ndim do axes[d], block[d] = {}, 0 end
  if axis and ndim > 0 then axes[1][1] = axis end
  return core.mesh_layout(mesh.id, ndim, axes, block, {}, core.mesh_leaves(), stored)
end

local function same_shape(a, b)
  if #a.shape ~= #b.shape then return false end
  for i = 1, #a.shape do
    if a.shape[i] ~= b.shape[i] then return false end
  end
  return true
end

-- Spreads what there is, and gives the function that spreads each call's arguments.
return function(model, optimizer, mesh, plan)
  local o = read_plan(plan)
  local dp = axis_of(mesh, "dp")
  if o.zero > 0 and not dp then
    core.fail(("graph.training_step: zero = %d needs an axis \"dp\", which %s has not"):format(o.zero, tostring(mesh)))
  end
  local function spread(t, axis, stored)
    if not core.mesh_layout_of(t) then core.mesh_spread(t, layout(mesh, #t.shape, axis, stored)) end
  end
  local tensors = {}
  for _, p in ipairs(optimizer.params) do tensors[#tensors + 1] = p end
  if type(model) == "table" and model.state_dict then
    for _, t in pairs(model:state_dict()) do tensors[#tensors + 1] = t end
  end
  for _, p in ipairs(tensors) do spread(p, o.zero == 3 and dp or nil, o.zero == 3) end
  optimizer:prepare()
  for i, p in ipairs(optimizer.params) do
    for _, t in pairs(optimizer.state[i] or {}) do
      if core.is_tensor(t) and same_shape(t, p) then
        local axis = o.zero > 0 and dp or nil
        core.mesh_spread(t, axis and layout(mesh, #t.shape, axis) or core.mesh_layout_of(p))
      end
    end
  end
  return function(...)
    local list, n = { ... }, select("#", ...)
    for i = 1, n do
      local t = list[i]
      if core.is_tensor(t) and not core.mesh_layout_of(t) then
        list[i] = core.mesh_move(t, layout(mesh, #t.shape, #t.shape > 0 and dp or nil))
      end
    end
    return unpack(list, 1, n)
  end
end
