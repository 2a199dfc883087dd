-- Whether a step of training fits into the memory of its devices, and what to change where it does not: each change is a plan
-- that was made, of the same model, loss and batch, for which nothing is computed. graph.training_step asks.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local Module = require "tessera.module"
local options = require "tessera.options"
local units = require "tessera.units"

local UNITS = { KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30, TiB = 2 ^ 40, kB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12 }
local MOST_DEVICES = 4096

-- "80 GiB", or a number of bytes.
local function bytes_of(v)
  if type(v) == "number" then return v > 0 and v < math.huge and v or nil end
  local n, unit = tostring(v):match "^([%d.]+) ?(%a+)$"
  return tonumber(n) and UNITS[unit] and tonumber(n) * UNITS[unit] or nil
end

local read = options.of("step:fits", { memory = options.needed(options.kind("bytes, or a text as \"80 GiB\"", function(v)
  return (type(v) == "number" or type(v) == "string") and bytes_of(v) ~= nil
end)) }, {})

-- ---- what is only planned with, in place of what is there
local function axis_of(mesh, name)
  for i, a in ipairs(mesh.axes) do
    if a == name then return i - 1 end
  end
end

-- A tensor lies as its program has said, without what a plan of the step has made of that.
local function blank(t, mesh, batch)
  local l, axes, block, leaves = core.mesh_layout_of(t), {}, {}, core.mesh_leaves()
  for d = 1, #t.shape do axes[d], block[d] = {}, 0 end
  if l then
    local _, own, dealt, _, count, _, stored = core.mesh_layout_facts(l)
    block, leaves = dealt, count
    for d, list in ipairs(own) do
      for _, a in ipairs(list) do
        if math.floor(stored / 2 ^ a) % 2 == 0 then table.insert(axes[d], a) end
      end
    end
  elseif batch and #t.shape > 0 then
    axes[1][1] = axis_of(mesh, "dp")
  end
  return core.mesh_planned(core.mesh_layout(mesh.id, #t.shape, axes, block, {}, leaves, 0, {}), t.shape, t.dtype)
end

-- Tables of the optimiser with tensors of the planned model; its clocks, which are numbers, are its own.
local function planned_optimizer(opt, copies, mesh)
  local new = setmetatable({}, getmetatable(opt))
  copies[opt] = new
  local function tensors(list)
    local out = {}
    for i, p in pairs(list) do
      if core.is_tensor(p) and not copies[p] then
        copies[p] = blank(p, mesh)
        copies[p].requires_grad = p.requires_grad
      end
      out[i] = core.is_tensor(p) and copies[p] or p
    end
    return out
  end
  for k, v in pairs(opt) do rawset(new, k, v) end
  new.params, new.groups, new.group_of, new.state = tensors(opt.params), {}, {}, {}
  for i, g in ipairs(opt.groups) do
    if g ~= opt then
      copies[g] = setmetatable({}, { __index = new })
      for k, v in pairs(g) do rawset(copies[g], k, v) end
      copies[g].params = tensors(g.params)
    end
    new.groups[i] = copies[g]
  end
  for i, g in pairs(opt.group_of) do new.group_of[i] = copies[g] end
  for i, s in pairs(opt.state) do new.state[i] = tensors(s) end
  return new
end

-- The most that a device has by this plan; nil and why: there is none.
local function peak_of(step, mesh, plan, args)
  local copies = {}
  local model = step.model
  if Module.is_module(model) then
    model = Module.copied(model, function(t) return blank(t, mesh) end, copies)
  elseif core.is_tensor(model) then
    copies[model] = blank(model, mesh)
    copies[model].requires_grad = model.requires_grad
    model = copies[model]
  end
  local opt, list = planned_optimizer(step.optimizer, copies, mesh), {}
  for i = 1, args.n do list[i] = core.is_tensor(args[i]) and blank(args[i], mesh, true) or args[i] end
  local made = step.make(model, opt, mesh, plan)
  return made:plan_bytes(unpack(list, 1, args.n))
end

local function tried(step, mesh, plan, args)
  local ok, peak, where = pcall(peak_of, step, mesh, plan, args)
  if ok then return peak, where end
  if tostring(peak):find("interrupted", 1, true) then error(peak, 0) end
  return nil, tostring(peak)
end

-- ---- changes
local function with(plan, changes)
  local new = {}
  for k, v in pairs(plan) do new[k] = v end
  for k, v in pairs(changes) do new[k] = v end
  if changes.micro and new.pp then
    local pp = {}
    for k, v in pairs(new.pp) do pp[k] = v end
    pp.micro, new.pp, new.micro = changes.micro, pp, nil
  end
  if changes.rematerialise then
    local pp = {}
    for k, v in pairs(new.pp) do pp[k] = v end
    pp.rematerialise, new.pp, new.rematerialise = true, pp, nil
  end
  return new
end

local function larger(mesh, times)
  local shape, n = {}, times
  for i, a in ipairs(mesh.axes) do
    shape[i] = a == "dp" and mesh.shape[i] * times or mesh.shape[i]
    n = n * mesh.shape[i]
  end
  if n > MOST_DEVICES then return nil end
  return grid.Mesh { axes = mesh.axes, shape = shape, devices = grid.range(1000000, 1000000 + n) }
end

-- What is said of a change.
local function words(changes, mesh)
  local list = {}
  for _, k in ipairs { "zero", "micro", "rematerialise" } do
    if changes[k] ~= nil then list[#list + 1] = ("%s = %s"):format(k, tostring(changes[k])) end
  end
  if mesh then list[#list + 1] = ("a mesh of %s"):format(tostring(mesh):match "^mesh ([^(]*) %(") end
  return table.concat(list, ", ")
end

local Fit = {}
Fit.__index = Fit
function Fit.__tostring(f)
  local lines = { ("%s: %s has at most %s of %s"):format(f.fits and "it fits" or "it does not fit", f.device, units.size(f.peak), units.size(f.memory)) }
  if f.fits then return lines[1] end
  for _, c in ipairs(f.changes) do lines[#lines + 1] = ("  with %s: at most %s"):format(c.text, units.size(c.peak)) end
  if #f.changes == 0 then
    local least = f.least and ("; the least is %s, with %s"):format(units.size(f.least.peak), f.least.text) or ""
    lines[#lines + 1] = ("  none of %d other plans that were tried fits%s"):format(f.tried - (f.unmade or 0), least)
    if f.unmade then lines[#lines + 1] = ("  %d could not be made, the first since: %s"):format(f.unmade, f.why) end
  end
  return table.concat(lines, "\n")
end

local function powers(first, most)
  local list = {}
  while first <= most do
    list[#list + 1] = first
    first = first * 2
  end
  return list
end

-- The first of these changes that fits; each goes further than the one before, and may still need more.
local function first_that_fits(f, step, args, list)
  for _, c in ipairs(list) do
    local plan = with(step.plan, c.changes)
    local peak, why = tried(step, c.mesh or step.mesh, plan, args)
    f.tried = f.tried + 1
    if not peak then f.unmade, f.why = (f.unmade or 0) + 1, f.why or why:match "^[^\n]*" end
    if peak then
      c.peak, c.plan, c.text = peak, plan, words(c.changes, c.mesh)
      if not f.least or peak < f.least.peak then f.least = c end
    end
    if peak and peak <= f.memory then
      f.changes[#f.changes + 1] = c
      return true
    end
  end
  return false
end

-- step: {model, loss, optimizer, mesh, plan, make}; make(model, optimizer, mesh, plan) gives a step of the same kind.
return function(step, given, args)
  local o = read(given)
  local peak, device = tried(step, step.mesh, step.plan, args)
  if not peak then core.fail(("step:fits: the step has no plan: %s"):format(device)) end
  local f = setmetatable({ memory = bytes_of(o.memory), peak = peak, device = device, changes = {}, tried = 0 }, Fit)
  f.fits = peak <= f.memory
  if f.fits then return f end
  local dp = axis_of(step.mesh, "dp")
  local own, rows = step.plan.zero or 0, 0
  for i = 1, args.n do
    if core.is_tensor(args[i]) and #args[i].shape > 0 then
      rows = args[i].shape[1]
      break
    end
  end
  local ndp = dp and step.mesh.shape[dp + 1] or 1
  local now = step.plan.pp and step.plan.pp.micro or step.plan.micro or 1
  local leaves = core.mesh_leaves()
  local most = math.floor((leaves > 0 and math.min(rows, leaves) or rows) / ndp)
  local function changes(list, key, also)
    local out = {}
    for i, v in ipairs(list) do
      out[i] = { changes = { [key] = v } }
      for k, w in pairs(also or {}) do out[i].changes[k] = w end
    end
    return out
  end
  local stages = {}
  for zero = own + 1, ndp > 1 and 3 or 0 do stages[#stages + 1] = zero end
  local micro = powers(now * 2, most)
  local again = step.plan.pp and not step.plan.pp.rematerialise
  local function some(...) return first_that_fits(f, step, args, changes(...)) end
  local one = some(stages, "zero")
  one = some(micro, "micro") or one
  if again then one = some({ true }, "rematerialise") or one end
  if not one then -- then several at once
    local also = { zero = ndp > 1 and own < 3 and 3 or nil, rematerialise = again or nil }
    if next(also) then one = some(micro, "micro", also) end
    if again and also.zero and not one then some({ 3 }, "zero", { rematerialise = true }) end
  end
  if #f.changes == 0 and dp then
    local list = {}
    for times = 1, 6 do
      local mesh = larger(step.mesh, 2 ^ times)
      if mesh and ndp * 2 ^ times <= (leaves > 0 and math.min(rows, leaves) or rows) then
        list[#list + 1] = { changes = { zero = own < 3 and 3 or nil }, mesh = mesh }
      end
    end
    first_that_fits(f, step, args, list)
  end
  return f
end
