-- How a step of training is spread over a mesh: parameters, the optimiser's state, and each batch. Loaded by
-- graph.training_step.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local options = require "tessera.options"

local pipeline = require "tessera.dist.pipeline"
local same_shape = require "tessera.same_shape"

local read_plan = options.of("graph.training_step: plan", { zero = options.whole { least = 0, most = 3 },
  micro = options.whole { least = 1, most = 4096 }, pp = options.table }, { zero = 0 })

local function axis_of(mesh, name)
  for i, a in ipairs(mesh.axes) do
    if a == name then return i - 1 end
  end
end

-- A layout of ndim axes, split along the first by an axis of the mesh, if any. stored: used whole. pin: where it lies alone.
local function layout(mesh, ndim, axis, stored, pin)
  local axes, block = {}, {}
  for d = 1, ndim do axes[d], block[d] = {}, 0 end
  if axis and ndim > 0 then axes[1][1] = axis end
  return core.mesh_layout(mesh.id, ndim, axes, block, {}, core.mesh_leaves(), stored and axis and 2 ^ axis or 0, pin)
end

-- The layout of a tensor that lies on the mesh already, at one place of a pipeline.
local function pinned(l, pin)
  local id, axes, block, partial, leaves, _, stored = core.mesh_layout_facts(l)
  if partial ~= 0 then core.fail "graph.training_step: a parameter of summands is in no pipeline" end
  return core.mesh_layout(id, #axes, axes, block, {}, leaves, stored, pin)
end

-- Whether axis d of a tensor, which these axes of the mesh split, has a piece for each device along dp as well.
local function has_pieces(mesh, list, dp, block, size, leaves)
  local pieces = mesh.shape[dp + 1]
  for _, a in ipairs(list) do pieces = pieces * mesh.shape[a + 1] end
  return block == 0 and size >= pieces and (leaves == 0 or leaves >= pieces)
end

-- A tensor of layout l by ZeRO's stages: what a device has of one of its axes, the first that has enough, is split further by
-- dp. stored: only as it is kept; calls use what it was.
local function split_further(l, mesh, dp, shape, stored)
  local id, axes, block, partial, leaves, pin, bits = core.mesh_layout_facts(l)
  if id ~= mesh.id or partial ~= 0 or #axes == 0 then return l end
  for _, list in ipairs(axes) do
    for _, a in ipairs(list) do
      if a == dp then return core.mesh_layout(id, #axes, axes, block, {}, leaves, stored and bits or 0, pin) end
    end
  end
  local at = block[1] == 0 and 1
  for d = #axes, 1, -1 do
    if has_pieces(mesh, axes[d], dp, block[d], shape[d], leaves) then at = d end
  end
  if not at then return l end
  table.insert(axes[at], dp)
  return core.mesh_layout(id, #axes, axes, block, {}, leaves, stored and 2 ^ dp or 0, pin)
end

local function is_split(l)
  local _, axes = core.mesh_layout_facts(l)
  for _, list in ipairs(axes) do
    if #list > 0 then return true end
  end
  return false
end

-- Tensors that lie on the mesh: {tensor, parameter that it is the state of, or nil}.
local function tensors_of(model, optimizer)
  local list = {}
  for _, p in ipairs(optimizer.params) do list[#list + 1] = { p } end
  if type(model) == "table" and model.state_dict then
    for _, t in pairs(model:state_dict()) do list[#list + 1] = { t } end
  end
  optimizer:prepare()
  for i, p in ipairs(optimizer.params) do
    for _, t in pairs(optimizer.state and optimizer.state[i] or {}) do -- L-BFGS has vectors of all
      if core.is_tensor(t) and same_shape(t.shape, p.shape) then list[#list + 1] = { t, p, i } end
    end
  end
  return list
end

-- What dist.abstract has made lies on all of the mesh, as nobody has said how.
local function said(t)
  local own = core.mesh_layout_of(t)
  if not own or not core.mesh_is_planned(t) then return own end
  local _, axes, _, _, _, at = core.mesh_layout_facts(own)
  if next(at) then return own end
  for _, list in ipairs(axes) do
    if #list > 0 then return own end
  end
end

-- They lie there from now on. pins: of a pipeline, where each lies, {[axis] = place} or false; parameters stand first there.
local function spread_all(list, mesh, zero, dp, pins)
  for i, of in ipairs(list) do
    local t, p = of[1], of[2]
    local own, pin = said(t), pins and pins[of[3] or i]
    if p then
      local l = core.mesh_layout_of(p)
      core.mesh_spread(t, zero > 0 and split_further(l, mesh, dp, t.shape, false) or l)
    elseif not own then
      core.mesh_spread(t, layout(mesh, #t.shape, zero == 3 and dp or nil, zero == 3, pin or nil))
    else
      if zero == 3 and is_split(own) then own = split_further(own, mesh, dp, t.shape, true) end
      core.mesh_spread(t, pin and pinned(own, pin) or own)
    end
  end
end

local Training = {}
Training.__index = Training

--- Each call's arguments, spread; it is called for that as well.
function Training:__call(...) return self:spread(...) end
function Training:spread(...)
  local list, n = { ... }, select("#", ...)
  for i = 1, n do
    local t = list[i]
    if core.is_tensor(t) and not core.mesh_layout_of(t) then
      list[i] = core.mesh_move(t, layout(self.mesh, #t.shape, #t.shape > 0 and self.dp or nil))
    end
  end
  return unpack(list, 1, n)
end

--- The step was captured, as graph g, before anything lay at places of the pipeline: what is in which chunk comes to lie there.
function Training:place(g)
  local list, tensors, pins, seeds = tensors_of(self.model, self.optimizer), {}, {}, {}
  for i, of in ipairs(list) do tensors[i] = of[1] end
  local how, chunk = pipeline.place(self.pp, self.at, g, self.model, self.micro, tensors)
  for i, of in ipairs(list) do
    chunk[i] = chunk[of[3] or i] -- the state goes with its parameter
    pins[i] = chunk[i] and { [self.at.axis] = chunk[i] % self.at.places }
    if chunk[i] then seeds[#seeds + 1] = { of[1], chunk[i] } end
  end
  spread_all(list, self.mesh, self.zero, self.dp, pins)
  how.seeds = seeds
  self.how, self.waits = how, false
end

-- Spreads what there is. What it gives spreads each call's arguments; waits: until the first one is captured, for a pipeline.
-- how: as the step runs, if that is not all at once.
return function(model, optimizer, mesh, plan)
  if mesh then grid.need_mesh(mesh, "graph.training_step") end
  local o = read_plan(plan)
  if not mesh then
    local first = optimizer.params[1]
    mesh = grid.Mesh { axes = { "dp" }, shape = { 1 }, devices = { tostring(first.device) } }
  end
  local dp = axis_of(mesh, "dp")
  if o.zero > 0 and not dp then
    core.fail(("graph.training_step: zero = %d needs an axis \"dp\", which %s has not"):format(o.zero, tostring(mesh)))
  end
  local self = setmetatable({ model = model, optimizer = optimizer, mesh = mesh, zero = o.zero, dp = dp }, Training)
  if o.pp then
    self.pp = pipeline.read(o.pp)
    self.at = pipeline.check(self.pp, mesh)
    self.waits = true
  end
  self.micro = self.pp and self.pp.micro or o.micro or self.pp and self.at.places or 1
  if self.pp and self.pp.micro and o.micro and o.micro ~= self.pp.micro then
    core.fail(("graph.training_step: plan.micro is %d, plan.pp.micro %d"):format(o.micro, self.pp.micro))
  end
  if not self.pp then
    spread_all(tensors_of(model, optimizer), mesh, o.zero, dp)
    if self.micro > 1 then self.how = { micro = self.micro, turns = "1f1b" } end
  end
  return self
end
