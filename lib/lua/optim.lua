-- Optimisers, learning-rate schedules, gradient clipping. An optimiser holds a list
-- of parameters and updates them in place:
--   local opt = optim.AdamW(model:parameters(), {lr = 3e-4})
--   opt:step(gradients)   -- a list like the parameters'; or p.grad of each
--
-- Parameters in groups have options of their own; what a group does not name is the optimiser's:
--   local slow = {params = {model.bias}, lr = 1e-5, weight_decay = 0}
--   local groups = {{params = {model.weight}}, slow}
--   local opt = optim.AdamW(groups, {lr = 3e-4})
--   opt.groups[2].lr = 1e-4
--
-- The state (moments, step count) is saved with opt:state_dict(). While a function is
-- captured, learning rate and step count are read from a tensor, the clock of each group, so
-- that one graph serves all steps; opt:tick() sets it before each run.

local core = require "tessera.core"
local options = require "tessera.options"
local parameters = require "tessera.parameters"
local op = core.op
local optim = {}

-- ---- what may be given
local POSITIVE, SIZE, SHARE = options.number { above = 0 }, options.number { least = 0 }, options.number { least = 0, below = 1 }
local FLAG = options.flag
local kinds = { lr = SIZE, momentum = SIZE, dampening = options.number(), weight_decay = SIZE, nesterov = FLAG,
  betas = options.list(SHARE, 2), eps = SIZE, decay = POSITIVE, eps1 = SIZE, eps2 = SIZE, clip_threshold = POSITIVE,
  scale_parameter = FLAG, clip = POSITIVE, alpha = SHARE, centered = FLAG, lr_decay = SIZE, start = SIZE,
  momentum_decay = SIZE, decoupled = FLAG, rho = SHARE, lambd = SIZE, t0 = SIZE, etas = options.list(POSITIVE, 2),
  step_sizes = options.list(POSITIVE, 2) }

local Optimizer = {}
Optimizer.__index = Optimizer

-- What of the options is one's own in a group, and the optimiser's elsewhere. share: its rate beside
-- that of the optimiser, which a schedule keeps.
local function add_group(self, read, given, at)
  local where = ("%s: group %d"):format(self.name, at)
  local own = {}
  for k, v in pairs(given) do
    if k ~= "params" then own[k] = v end
  end
  if own.clip then core.fail(where .. ": clip is of all parameters together, an option of the optimiser") end
  options.tensors(where, "parameter", given.params, "{params = model:parameters(), lr = ...}")
  read(own)
  own.share = own.lr and self.lr ~= 0 and own.lr / self.lr or nil
  local group = setmetatable(own, { __index = self })
  own.params = given.params
  self.groups[at] = group
  for _, p in ipairs(given.params) do
    self.params[#self.params + 1] = p
    self.group_of[#self.params] = group
  end
end

-- Groups, or one list of parameters, whose group is the optimiser itself.
local function take_params(self, read, params)
  local hint = ("optim.%s(model:parameters(), ...)"):format(self.name)
  local grouped = type(params) == "table" and not params.is_module and type(params[1]) == "table" and not core.is_tensor(params[1])
  if grouped then
    for i, g in ipairs(params) do
      if type(g) ~= "table" or core.is_tensor(g) then
        core.fail(("%s: group %d is a %s, not a table with params"):format(self.name, i, core.is_tensor(g) and "tensor" or type(g)))
      end
      add_group(self, read, g, i)
    end
  else
    options.tensors(self.name, "parameter", params, hint)
    for i, p in ipairs(params) do self.params[i], self.group_of[i] = p, self end
    self.groups[1] = self
  end
  parameters.check_list(self)
end

-- state_names: names of the state's tensors; new_state(o, p) makes them; update(self, o, i, p, g)
-- is one step of one parameter. o: its group, which has the options. places: options by place.
-- composed: update reads the clock and appends to self.to and self.from what is assigned to what.
local function define(name, defaults, places, state_names, new_state, update, composed)
  local class = setmetatable({ name = name, update = update, new_state = new_state, state_names = state_names, composed = composed },
    { __index = Optimizer })
  class.__index = class
  class.__tostring = function(self)
    return ("%s(lr = %g, %d parameters%s)"):format(name, self.lr, #self.params,
      #self.groups > 1 and (" in %d groups"):format(#self.groups) or "")
  end
  local own = { clip = kinds.clip }
  for option in pairs(defaults) do own[option] = kinds[option] end
  local read, read_group = options.placed(name, own, defaults, places), options.some(name, own, defaults)
  optim[name] = function(params, ...)
    local self = setmetatable({ params = {}, groups = {}, group_of = {}, state = {}, steps = 0 }, class)
    for k, v in pairs(read(...)) do self[k] = v end
    take_params(self, read_group, params)
    return self
  end
  options.described(optim[name])
end

-- The state of parameter i: made when first needed, or by prepare.
function Optimizer:state_of(i)
  local s = self.state[i]
  if s then return s end
  if core.capturing() then error(self.name .. ": call opt:prepare() before a step is captured", 0) end
  s = self.new_state(self.group_of[i], self.params[i])
  self.state[i] = s
  return s
end

-- Makes all state now; a captured step cannot.
function Optimizer:prepare()
  for i = 1, #self.params do self:state_of(i) end
  self:clock_tensors()
  return self
end

-- Rate and step number of each group as a tensor, for captured steps.
function Optimizer:clock_tensors()
  for _, g in ipairs(self.groups) do
    if not rawget(g, "clock") then rawset(g, "clock", core.tensor({ g.lr, self.steps }, { dtype = "f64", device = "cpu" })) end
  end
end

local function set_clocks(self)
  self:clock_tensors()
  for _, g in ipairs(self.groups) do core.fill_numbers(rawget(g, "clock"), g.lr, self.steps) end
end

-- The next step begins: its number and rate are put into the clocks.
function Optimizer:tick()
  self.steps = self.steps + 1
  set_clocks(self)
end

-- The rate that a schedule says; those of groups that have their own keep their share of it.
function Optimizer:set_rate(rate)
  self.lr = rate
  for _, g in ipairs(self.groups) do
    if rawget(g, "share") then g.lr = g.share * rate end
  end
end

-- Forgets the gradients that backward() added up.
function Optimizer:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end

Optimizer.check_places, Optimizer.is_moving = parameters.check_places, parameters.is_moving

local clipped -- gradients, below

local function update_all(self, grads)
  if core.capturing() then
    self:clock_tensors()
  else
    self.steps = self.steps + 1
    if self.composed then set_clocks(self) end
  end
  if not grads then
    grads = {}
    for i, p in ipairs(self.params) do grads[i] = p.grad or false end
  end
  if self.clip then grads = clipped(grads, self.clip) end
  self.to, self.from, self.numbers = {}, {}, {}
  for i, p in ipairs(self.params) do
    if grads[i] then self:update(self.group_of[i], i, p, grads[i]) end
  end
  local to, from = self.to, self.from
  self.to, self.from, self.numbers = nil, nil, nil
  if not core.capturing() then
    if #to > 0 then core.assign_all(to, from) end
    return
  end
  for k, t in ipairs(to) do t:copy_(from[k]) end
end

-- f(...) is a step of the optimiser: if it changes nothing, since it fails, its number is that of
-- before. What is behind it is made once: a step of a small model is short.
function Optimizer:counting(f, ...)
  self.before, self.commits = self.steps, core.commits()
  self.behind = self.behind or function(fine)
    if not fine and core.commits() == self.commits then self.steps = self.before end
  end
  return core.guarded(self.behind, f, ...)
end

-- One step. grads: list of tensors (false or nil entries are skipped). All parameters move, or
-- none.
function Optimizer:step(grads)
  if grads ~= nil and type(grads) ~= "table" then options.tensors(self.name .. ":step", "gradient", grads) end
  if core.capturing() then return core.no_grad(update_all, self, grads) end
  self:check_places()
  return self:counting(core.together, core.no_grad, update_all, self, grads)
end

function Optimizer:state_dict()
  local state = { steps = core.tensor(self.steps, { dtype = "i64" }) }
  for i = 1, #self.params do
    for _, name in ipairs(self.state_names) do
      local t = self.state[i] and self.state[i][name]
      if t then state[("%d.%s"):format(i - 1, name)] = t end
    end
  end
  return state
end

-- All of it, or an error and nothing. In place where it exists: a captured step holds these tensors.
function Optimizer:load_state_dict(state)
  options.argument(self.name .. ":load_state_dict", "state", options.table, state)
  local steps, to, from, new = state.steps and state.steps:item() or 0, {}, {}, {}
  for key, t in pairs(state) do
    local i, name = key:match("^(%d+)%.(%w+)$")
    local s = i and self.state[tonumber(i) + 1]
    if s and s[name] then
      to[#to + 1], from[#from + 1] = s[name], t
    elseif i then
      new[#new + 1] = { tonumber(i) + 1, name, t:clone() }
    end
  end
  core.held(function()
    core.assign_all(to, from)
    for _, n in ipairs(new) do
      self.state[n[1]] = self.state[n[1]] or {}
      self.state[n[1]][n[2]] = n[3]
    end
    self.steps = steps
  end)
end

-- The clock is an input of captured steps only; there the attributes are not looked at.
local function clock_of(o) return core.capturing() and rawget(o, "clock") or nil end

-- SGD(params, {lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, clip}): p - lr * g, or with
-- momentum p - lr * m for m = momentum * m + (1 - dampening) * g; weight_decay * p is added to the gradient. params is a
-- list of tensors, or of groups {params = list, lr = .., ..}, each with options of its own. clip: gradients are scaled so
-- that their common 2-norm is at most that, before each step. Options may stand by place in this order.
--   opt = optim.SGD(model:parameters(), 0.1, {momentum = 0.9, clip = 1})
--   opt:step(gradients)      -- or graph.training_step(model, loss, opt)
define("SGD", { lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false },
  { "lr", "momentum", "dampening", "weight_decay", "nesterov" }, { "m" },
  function(o, p) return o.momentum ~= 0 and { m = op.zeros_like(p) } or {} end,
  function(self, o, i, p, g)
    local m = self:state_of(i).m
    core.step("sgd_step", { p, g, m, clock_of(o) }, { p, m }, { lr = o.lr, momentum = o.momentum,
      dampening = o.dampening, weight_decay = o.weight_decay, nesterov = o.nesterov,
      first = self.steps == 1 and not core.capturing() })
  end)

local function moments(_, p) return { m = op.zeros_like(p), v = op.zeros_like(p) } end

local function adam(decoupled)
  return function(self, o, i, p, g)
    local s = self:state_of(i)
    core.step("adam_step", { p, g, s.m, s.v, clock_of(o) }, { p, s.m, s.v }, { lr = o.lr,
      beta1 = o.betas[1], beta2 = o.betas[2], eps = o.eps, weight_decay = o.weight_decay,
      step = math.max(self.steps, 1), decoupled = decoupled })
  end
end

local adam_places = { "lr", "betas", "eps", "weight_decay" }
-- Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, clip}): p - lr * m / (sqrt(v) + eps), m
-- and v being means of gradients and of their squares, which fade by betas and are corrected for their beginning.
-- weight_decay * p is added to the gradient. Groups, clip and places as of optim.SGD.
--   opt = optim.Adam(model:parameters(), 1e-3)   opt:step(gradients)
define("Adam", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 }, adam_places, { "m", "v" }, moments, adam(false))
-- AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01, clip}): as optim.Adam, but p itself
-- shrinks by lr * weight_decay in each step. Its state is two tensors for each parameter, of its shape and dtype.
-- Groups, clip and places as of optim.SGD.
--   opt = optim.AdamW(model:parameters(), {lr = 3e-4, clip = 1})
--   opt:step(gradients)      -- or graph.training_step(model, loss, opt)
define("AdamW", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01 }, adam_places, { "m", "v" }, moments, adam(true))

-- Lion(params, {lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0, clip}): p - lr * sign(betas[1] * m + (1 - betas[1]) *
-- g), m being a mean of gradients that fades by betas[2]; p shrinks by lr * weight_decay. One tensor of state for each
-- parameter; rates are a third to a tenth of AdamW's. Groups, clip and places as of optim.SGD.
--   opt = optim.Lion(model:parameters(), 1e-4)   opt:step(gradients)
define("Lion", { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0 }, { "lr", "betas", "weight_decay" }, { "m" },
  function(_, p) return { m = op.zeros_like(p) } end,
  function(self, o, i, p, g)
    local m = self:state_of(i).m
    core.step("lion_step", { p, g, m, clock_of(o) }, { p, m }, { lr = o.lr, beta1 = o.betas[1],
      beta2 = o.betas[2], weight_decay = o.weight_decay })
  end)

local function factors(_, p)
  local rows, cols = { unpack(p.shape) }, { unpack(p.shape) }
  if p.ndim < 2 then return { r = op.zeros(p.shape) } end
  table.remove(rows)
  table.remove(cols, p.ndim - 1)
  return { r = op.zeros(rows), c = op.zeros(cols) }
end

-- Adafactor(params, {lr = 1e-2, decay = 0.8, eps1 = 1e-30, eps2 = 1e-3, clip_threshold = 1, weight_decay = 0,
-- scale_parameter = true, clip}): as optim.Adam without m, squares being kept as means of rows and of columns of each
-- matrix, so that its state is small: beta2 is 1 - step^-decay. eps1 is added to squares, clip_threshold limits the
-- root mean square of a step; with scale_parameter the rate is multiplied by max(eps2, root mean square of p). Groups,
-- clip and places as of optim.SGD.
--   opt = optim.Adafactor(model:parameters())   opt:step(gradients)
define("Adafactor", { lr = 1e-2, decay = 0.8, eps1 = 1e-30, eps2 = 1e-3, clip_threshold = 1, weight_decay = 0,
  scale_parameter = true }, { "lr" }, { "r", "c" }, factors,
  function(self, o, i, p, g)
    local s, clock, lr = self:state_of(i), clock_of(o), o.lr
    if o.scale_parameter and clock then
      local scale = op.maximum(p:square():mean():sqrt():cast("f64"), o.eps2)
      clock = clock * op.stack({ scale, op.ones({}, { dtype = "f64" }) })
    elseif o.scale_parameter then
      lr = lr * math.max(o.eps2, p:square():mean():sqrt():item())
    end
    core.step("adafactor_step", { p, g, s.r, s.c, clock }, { p, s.r, s.c }, { lr = lr,
      beta2 = 1 - math.max(self.steps, 1) ^ -o.decay, decay = o.decay, eps1 = o.eps1,
      clip = o.clip_threshold, weight_decay = o.weight_decay })
  end)

require "tessera.composed"(define)

-- Needs a closure, see there.
optim.LBFGS = require "tessera.lbfgs"
for name, make in pairs(require "tessera.average") do optim[name] = make end

-- ---- gradients

-- Their common 2-norm as a tensor, or nil, and the factor that brings it to max_norm: a tensor too, so
-- that a captured step does the same.
local function norm_of(grads, max_norm)
  local sum
  for _, g in ipairs(grads) do
    local n = g and g:norm():square()
    sum = n and sum and sum + n or n or sum
  end
  if not sum then return nil end
  local norm = sum:sqrt()
  return norm, op.minimum(max_norm / (norm + 1e-6), 1)
end

function clipped(grads, max_norm)
  local norm, factor = norm_of(grads, max_norm)
  if not norm then return grads end
  local list = {}
  for i, g in ipairs(grads) do list[i] = g and (g * factor):cast(g.dtype) end
  return list
end

-- The gradients of a list that may be parameters: then their .grad, as far as there is one.
local function gradients_of(list)
  local own, found = {}, false
  for _, p in ipairs(list) do
    found = found or (p and (p.requires_grad or p.grad ~= nil))
    if p and p.grad then own[#own + 1] = p.grad end
  end
  return found and own or list
end

-- Scales gradients in place so that their common 2-norm is at most max_norm; returns the norm they
-- had. The list has gradients, or parameters, whose gradients are meant:
--   loss(model, x, y):backward()
--   optim.clip_grad_norm(model:parameters(), 1)
--   opt:step()
function optim.clip_grad_norm(grads, max_norm, ...)
  if select("#", ...) > 0 then core.fail "clip_grad_norm: too many arguments; it takes the list and max_norm, of the 2-norm" end
  options.tensors("clip_grad_norm", "gradient", grads, "model:parameters(), or a list of gradients", true)
  options.argument("clip_grad_norm", "max_norm", POSITIVE, max_norm)
  grads = gradients_of(grads)
  local norm, factor = core.no_grad(norm_of, grads, max_norm)
  if not norm then return 0 end
  core.held(core.no_grad, function()
    for _, g in ipairs(grads) do
      if g then g:mul_(factor) end
    end
  end)
  return core.capturing() and norm or norm:item()
end

-- Limits every element of a list of gradients to [-limit, limit], in place. The list as of optim.clip_grad_norm.
--   optim.clip_grad_value(gradients, 0.5)
function optim.clip_grad_value(grads, limit)
  options.tensors("clip_grad_value", "gradient", grads, "model:parameters(), or a list of gradients", true)
  options.argument("clip_grad_value", "limit", SIZE, limit)
  for _, g in ipairs(gradients_of(grads)) do
    if g then core.no_grad(g.clamp_, g, { min = -limit, max = limit }) end
  end
end

-- Learning rates as functions of the step, which is counted from 0; ? optim.schedule.cosine and so on.
--   local rate = optim.schedule.cosine{lr = 1e-3, steps = 1000}
--   print(rate(0), rate(50))
optim.schedule = require "tessera.schedule"

return require("tessera.named")("tessera.optim", optim)
