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
-- opt:add_param_group{params = .., ..} adds a group. opt:state_dict() has all that a step depends on: moments, number
-- of steps, options. While a function is captured, learning rate and step count are read from a tensor, the clock of
-- each group, so that one graph serves all steps; opt:tick() sets it before each run.

local core = require "tessera.core"
local states = require "tessera.optim.state"
local options = require "tessera.options"
local parameters = require "tessera.optim.parameters"
local op = core.op
local optim = {}

-- ---- what may be given
local POSITIVE, SIZE, SHARE = options.number { above = 0 }, options.number { least = 0 }, options.number { least = 0, below = 1 }
local FLAG = options.flag
local kinds = { lr = SIZE, momentum = SIZE, dampening = options.number(), weight_decay = SIZE, nesterov = FLAG,
  betas = options.list(SHARE, 2), eps = SIZE, decay = POSITIVE, eps1 = SIZE, eps2 = SIZE, clip_threshold = POSITIVE,
  scale_parameter = FLAG, clip = POSITIVE, amsgrad = FLAG, alpha = SHARE, centered = FLAG, lr_decay = SIZE, start = SIZE,
  momentum_decay = SIZE, decoupled = FLAG, rho = SHARE, lambd = SIZE, t0 = SIZE, etas = options.list(POSITIVE, 2),
  step_sizes = options.list(POSITIVE, 2) }

local Optimizer = require("tessera.named").told("optimiser", {})
Optimizer.__index = Optimizer

-- What of the options is one's own in a group, and the optimiser's elsewhere.
local function add_group(self, given)
  local at = #self.groups + 1
  local where = ("%s: group %d"):format(self.name, at)
  if type(given) ~= "table" or core.is_tensor(given) or given.is_module then
    core.fail(("%s is a %s, not a table with params"):format(where, core.is_tensor(given) and "tensor" or type(given) == "table" and "module" or type(given)))
  end
  local own = {}
  for k, v in pairs(given) do
    if k ~= "params" then own[k] = v end
  end
  if own.clip then core.fail(where .. ": clip is of all parameters together, an option of the optimiser") end
  options.tensors(where, "parameter", given.params, "{params = model:parameters(), lr = ...}")
  self.check(own)
  local params = { unpack(given.params) }
  parameters.check_new(self, params)
  local group = setmetatable(own, { __index = self })
  own.params = params
  states.set_share(self, group)
  self.groups[at] = group
  for _, p in ipairs(params) do
    self.params[#self.params + 1] = p
    self.group_of[#self.params] = group
  end
  parameters.note(self)
end

-- Groups, or one list of parameters, whose group is the optimiser itself.
local function take_params(self, params)
  local hint = ("optim.%s(model:parameters(), ...)"):format(self.name)
  local grouped = type(params) == "table" and not params.is_module and type(params[1]) == "table" and not core.is_tensor(params[1])
  if grouped then
    for _, g in ipairs(params) do add_group(self, g) end
  else
    options.tensors(self.name, "parameter", params, hint)
    parameters.check_new(self, params)
    for i, p in ipairs(params) do self.params[i], self.group_of[i] = p, self end
    self.groups[1] = self
    parameters.note(self)
  end
end

-- state_names: names of the state's tensors; new_state(o, p) makes them; update(self, o, i, p, g)
-- is one step of one parameter. o: its group, which has the options. places: options by place. An
-- update in place is at once, or appended to self.to and self.from: what is assigned to what.
local function define(name, defaults, places, state_names, new_state, update)
  local class = setmetatable({ name = name, update = update, new_state = new_state, state_names = state_names }, { __index = Optimizer })
  class.__index = class
  class.__tostring = function(self)
    return ("%s(lr = %g, %d parameters%s)"):format(name, self.lr, #self.params,
      #self.groups > 1 and (" in %d groups"):format(#self.groups) or "")
  end
  local own = { clip = kinds.clip }
  for option in pairs(defaults) do own[option] = kinds[option] end
  local read = options.placed(name, own, defaults, places)
  class.kinds, class.check = own, options.some(name, own, defaults)
  optim[name] = function(params, ...)
    local self = setmetatable({ params = {}, groups = {}, group_of = {}, state = {}, steps = 0, revision = 0 }, class)
    for k, v in pairs(read(...)) do self[k] = v end
    take_params(self, params)
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

-- One more group of parameters: {params = list, lr = .., ..}, what it does not name being the optimiser's. A training step
-- that was made before trains it, too.
--   opt = optim.SGD(model:parameters(), 0.1)
--   opt:add_param_group{params = {op.zeros{4}}, lr = 0.01}
function Optimizer:add_param_group(group)
  if core.capturing() then core.fail(self.name .. ":add_param_group: not within a captured function") end
  add_group(self, group)
  self.revision = self.revision + 1
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

-- One step. grads: list of tensors (false or nil entries are skipped), p.grad of each parameter if it is not given, or
-- a function that sets these and gives the loss, which step returns. All parameters move, or none.
function Optimizer:step(grads)
  if type(grads) == "function" then
    local loss = grads()
    self:step()
    return loss
  end
  if grads ~= nil and type(grads) ~= "table" then options.tensors(self.name .. ":step", "gradient", grads) end
  if core.capturing() then return core.no_grad(update_all, self, grads) end
  self:check_places()
  return self:counting(core.together, core.no_grad, update_all, self, grads)
end

-- All that a step depends on, a table that tessera.save takes: name, number of steps, options, those of each group with
-- the shapes of its parameters, and the tensors of each parameter.
function Optimizer:state_dict()
  local state = states.of(self, self.kinds)
  state.state = {}
  for i, s in pairs(self.state) do
    local own = {}
    for _, name in ipairs(self.state_names) do own[name] = s[name] end
    state.state[i] = own
  end
  return require "tessera.state"(state)
end

-- The tensors of parameter i, which are made where they are missing, and what the state has for them: where that is
-- nothing, they begin again. o: the options that it has then.
local function pair_up(self, o, i, loaded, to, from)
  local title = self.name .. ":load_state_dict"
  if loaded ~= nil then options.argument(title, "the state of parameter " .. i, options.table, loaded) end
  if loaded == nil and not self.state[i] then return nil end
  local own, fresh = {}, core.no_grad(self.new_state, o, self.params[i])
  for name, first in pairs(fresh) do
    own[name] = self.state[i] and self.state[i][name] or first
    local t = loaded and loaded[name]
    if loaded ~= nil then options.argument(title, ("'%s' of parameter %d"):format(name, i), options.tensor, t) end
    if t and not t.dtype:match "^b?f" then core.fail(("%s: '%s' of parameter %d is %s, and has to be floats"):format(title, name, i, core.type_text(t))) end
    local there, here = table.concat((t or first).shape, ","), table.concat(own[name].shape, ",")
    if there ~= here then core.fail(("%s: '%s' of parameter %d has shape [%s] in the state, and [%s] here"):format(title, name, i, there, here)) end
    to[#to + 1], from[#from + 1] = own[name], t or rawequal(own[name], first) and first:clone() or first
  end
  for name in pairs(loaded or {}) do
    if not fresh[name] then core.fail(("%s: parameter %d has '%s' in the state, which %s has not"):format(title, i, core.shown(tostring(name), 40), self.name)) end
  end
  return own
end

-- All of it, or an error and nothing. In place where it exists: a captured step holds these tensors, and one that holds
-- other options is captured again.
function Optimizer:load_state_dict(state)
  local set, given = states.reader(self, self.kinds, self.check, state)
  local loaded = options.argument(self.name .. ":load_state_dict", "the part 'state'", options.table, state.state)
  local to, from, own = {}, {}, {}
  for i in pairs(loaded) do
    if not self.params[i] then
      core.fail(("%s:load_state_dict: there is no parameter %s, of %d"):format(self.name, core.shown(tostring(i), 40), #self.params))
    end
  end
  for i in ipairs(self.params) do own[i] = pair_up(self, given[self.group_of[i]], i, loaded[i], to, from) end
  core.held(function()
    core.no_grad(core.assign_all, to, from)
    self.state = own
    set()
    self.revision = self.revision + 1
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

local function moments(o, p)
  return { m = op.zeros_like(p), v = op.zeros_like(p), most = o.amsgrad and op.zeros_like(p) or nil }
end

local composed = require "tessera.optim.composed"(define)

local function adam(decoupled)
  return function(self, o, i, p, g)
    if o.amsgrad then return composed.amsgrad(self, o, i, p, g, decoupled) end
    local s = self:state_of(i)
    core.step("adam_step", { p, g, s.m, s.v, clock_of(o) }, { p, s.m, s.v }, { lr = o.lr,
      beta1 = o.betas[1], beta2 = o.betas[2], eps = o.eps, weight_decay = o.weight_decay,
      step = math.max(self.steps, 1), decoupled = decoupled })
  end
end

local adam_places = { "lr", "betas", "eps", "weight_decay", "amsgrad" }
-- Adam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false, clip}): p - lr * m /
-- (sqrt(v) + eps), m and v being means of gradients and of their squares, which fade by betas and are corrected for
-- their beginning; with amsgrad v is the greatest that there was, a third tensor. weight_decay * p is added to the
-- gradient. Groups, clip and places as of optim.SGD.
--   opt = optim.Adam(model:parameters(), 1e-3)   opt:step(gradients)
define("Adam", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, amsgrad = false }, adam_places,
  { "m", "v", "most" }, moments, adam(false))
-- AdamW(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01, amsgrad = false, clip}): as optim.Adam,
-- but p itself shrinks by lr * weight_decay in each step. Its state is two tensors for each parameter, of its shape and dtype.
-- Groups, clip and places as of optim.SGD.
--   opt = optim.AdamW(model:parameters(), {lr = 3e-4, clip = 1})
--   opt:step(gradients)      -- or graph.training_step(model, loss, opt)
define("AdamW", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01, amsgrad = false }, adam_places,
  { "m", "v", "most" }, moments, adam(true))

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
    parameters.check_gradient(self.name, p, g)
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

-- Needs a closure, see there.
optim.LBFGS = require "tessera.optim.lbfgs"
-- Takes residuals, see there.
optim.LevenbergMarquardt = require "tessera.optim.levenberg_marquardt"
for name, make in pairs(require "tessera.optim.average") do optim[name] = make end

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

-- f(g) in place of each gradient, of all or none.
local function change_all(grads, f)
  core.no_grad(function()
    local to, from = {}, {}
    for _, g in ipairs(grads) do
      if g then to[#to + 1], from[#from + 1] = g, f(g) end
    end
    if not core.capturing() then return core.assign_all(to, from) end
    for i, g in ipairs(to) do g:copy_(from[i]) end
  end)
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
  change_all(grads, function(g) return (g * factor):cast(g.dtype) end)
  return core.capturing() and norm or norm:item()
end

-- Limits every element of a list of gradients to [-limit, limit], in place. The list as of optim.clip_grad_norm.
--   optim.clip_grad_value(gradients, 0.5)
function optim.clip_grad_value(grads, limit)
  options.tensors("clip_grad_value", "gradient", grads, "model:parameters(), or a list of gradients", true)
  options.argument("clip_grad_value", "limit", SIZE, limit)
  change_all(gradients_of(grads), function(g) return g:clamp { min = -limit, max = limit } end)
end

-- Learning rates as functions of the step, which is counted from 0; ? optim.schedule.cosine and so on.
--   local rate = optim.schedule.cosine{lr = 1e-3, steps = 1000}
--   print(rate(0), rate(50))
optim.schedule = require "tessera.optim.schedule"

core.keep_line(Optimizer, true)
return require("tessera.named")("tessera.optim", optim)
