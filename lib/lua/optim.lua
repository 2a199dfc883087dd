-- Optimisers, learning-rate schedules, gradient clipping. An optimiser holds a list
-- of parameters and updates them in place:
--
--   local opt = optim.AdamW(model:parameters(), {lr = 3e-4})
--   opt:step(gradients)   -- a list like the parameters'; or p.grad of each
--
-- The state (moments, step count) is saved with opt:state_dict(). While a function is
-- captured, learning rate and step count are read from a tensor, opt.clock, so that one
-- graph serves all steps; opt:tick() sets it before each run.

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local optim = {}

-- ---- what may be given
local POSITIVE, SIZE, SHARE = options.number { above = 0 }, options.number { least = 0 }, options.number { least = 0, below = 1 }
local kinds = { lr = SIZE, momentum = SIZE, dampening = options.number(), weight_decay = SIZE, nesterov = options.flag,
  betas = options.list(SHARE, 2), eps = SIZE, decay = POSITIVE, eps1 = SIZE, eps2 = SIZE, clip_threshold = POSITIVE,
  scale_parameter = options.flag, clip = POSITIVE }

local Optimizer = {}
Optimizer.__index = Optimizer

-- rows: names of the state's tensors; new_state(self, p) makes them; update(self, i, p, g)
-- is one step of one parameter.
local function define(name, defaults, state_names, new_state, update)
  local class = setmetatable({ name = name, update = update, new_state = new_state, state_names = state_names },
    { __index = Optimizer })
  class.__index = class
  class.__tostring = function(self) return ("%s(lr = %g, %d parameters)"):format(name, self.lr, #self.params) end
  local own = { clip = kinds.clip }
  for option in pairs(defaults) do own[option] = kinds[option] end
  local read = options.of(name, own, defaults)
  optim[name] = function(params, given)
    local self = setmetatable({ params = {}, state = {}, steps = 0 }, class)
    for k, v in pairs(defaults) do self[k] = v end
    for k, v in pairs(read(given)) do self[k] = v end
    options.tensors(name, "parameter", params, ("optim.%s(model:parameters(), ...)"):format(name))
    if #params == 0 then core.fail(name .. ": the list of parameters is empty") end
    for i, p in ipairs(params) do self.params[i] = p end
    return self
  end
end

-- The state of parameter i: made when first needed, or by prepare.
function Optimizer:state_of(i)
  local s = self.state[i]
  if s then return s end
  if core.capturing() then error(self.name .. ": call opt:prepare() before a step is captured", 0) end
  s = self:new_state(self.params[i])
  self.state[i] = s
  return s
end

-- Makes all state now; a captured step cannot.
function Optimizer:prepare()
  for i = 1, #self.params do self:state_of(i) end
  self:clock_tensor()
  return self
end

-- Rate and step number as a tensor, for captured steps.
function Optimizer:clock_tensor()
  self.clock = self.clock or core.tensor({ self.lr, self.steps }, { dtype = "f64", device = "cpu" })
  return self.clock
end

-- The next step begins: its number and rate are put into the clock.
function Optimizer:tick()
  self.steps = self.steps + 1
  core.fill_numbers(self:clock_tensor(), self.lr, self.steps)
end

-- Forgets the gradients that backward() added up.
function Optimizer:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end

local clip_norm -- of gradients, below

local function update_all(self, grads)
  if core.capturing() then self:clock_tensor() else self.steps = self.steps + 1 end
  if self.clip and grads then clip_norm(grads, self.clip) end
  for i, p in ipairs(self.params) do
    local g = grads and grads[i]
    if not grads then g = p.grad end
    if g then self:update(i, p, g) end
  end
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
  if core.capturing() then return update_all(self, grads) end
  return self:counting(core.together, update_all, self, grads)
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
local function clock_of(self) return core.capturing() and self.clock or nil end

-- SGD(params, {lr = 0.01, momentum, nesterov, ..}): p - lr * g, or with momentum p - lr * m for m = momentum * m + (1 -
-- dampening) * g. weight_decay * p is added to the gradient; clip: the largest common 2-norm of the gradients that are
-- given to step.
--   opt = optim.SGD(model:parameters(), {lr = 0.1, momentum = 0.9})
--   opt:step(gradients)
define("SGD", { lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false }, { "m" },
  function(self, p) return self.momentum ~= 0 and { m = op.zeros_like(p) } or {} end,
  function(self, i, p, g)
    local m = self:state_of(i).m
    core.step("sgd_step", { p, g, m, clock_of(self) }, { p, m }, { lr = self.lr, momentum = self.momentum,
      dampening = self.dampening, weight_decay = self.weight_decay, nesterov = self.nesterov,
      first = self.steps == 1 and not core.capturing() })
  end)

local function moments(_, p) return { m = op.zeros_like(p), v = op.zeros_like(p) } end

local function adam(decoupled)
  return function(self, i, p, g)
    local s = self:state_of(i)
    core.step("adam_step", { p, g, s.m, s.v, clock_of(self) }, { p, s.m, s.v }, { lr = self.lr,
      beta1 = self.betas[1], beta2 = self.betas[2], eps = self.eps, weight_decay = self.weight_decay,
      step = math.max(self.steps, 1), decoupled = decoupled })
  end
end

-- Adam(params, {lr = 1e-3, betas, eps, ..}): p - lr * m / (sqrt(v) + eps), m and v being means of gradients and of their
-- squares, which fade by betas and are corrected for their beginning. weight_decay * p is added to the gradient; clip:
-- the largest common 2-norm of the gradients that are given to step.
--   opt = optim.Adam(model:parameters(), {lr = 1e-3})   opt:step(gradients)
define("Adam", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 }, { "m", "v" }, moments, adam(false))
-- AdamW(params, {lr = 1e-3, betas, eps, weight_decay = 0.01, ..}): as Adam, but p itself shrinks by lr * weight_decay in
-- each step. clip: the largest common 2-norm of the gradients that are given to step. Its state is two tensors for each
-- parameter, of its shape and dtype.
--   opt = optim.AdamW(model:parameters(), {lr = 3e-4, clip = 1})
--   opt:step(gradients)      -- or graph.training_step(model, loss, opt)
define("AdamW", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01 }, { "m", "v" }, moments, adam(true))

-- Lion(params, {lr = 1e-4, betas, ..}): p - lr * sign(betas[1] * m + (1 - betas[1]) * g), m being a mean of gradients
-- that fades by betas[2]. weight_decay: p shrinks by lr * weight_decay; clip: the largest common 2-norm of the gradients.
-- One tensor of state for each parameter; rates are a third to a tenth of AdamW's.
--   opt = optim.Lion(model:parameters(), {lr = 1e-4})   opt:step(gradients)
define("Lion", { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0 }, { "m" },
  function(_, p) return { m = op.zeros_like(p) } end,
  function(self, i, p, g)
    local m = self:state_of(i).m
    core.step("lion_step", { p, g, m, clock_of(self) }, { p, m }, { lr = self.lr, beta1 = self.betas[1],
      beta2 = self.betas[2], weight_decay = self.weight_decay })
  end)

local function factors(_, p)
  local rows, cols = { unpack(p.shape) }, { unpack(p.shape) }
  if p.ndim < 2 then return { r = op.zeros(p.shape) } end
  table.remove(rows)
  table.remove(cols, p.ndim - 1)
  return { r = op.zeros(rows), c = op.zeros(cols) }
end

-- Adafactor(params, {lr = 1e-2, decay, ..}): as Adam without m, squares being kept as means of rows and of columns, so
-- that its state is small. eps1 is added to squares, clip_threshold limits the root mean square of a step; with
-- scale_parameter the rate is multiplied by max(eps2, root mean square of p). clip: as of the others.
--   opt = optim.Adafactor(model:parameters())   opt:step(gradients)
define("Adafactor", { lr = 1e-2, decay = 0.8, eps1 = 1e-30, eps2 = 1e-3, clip_threshold = 1, weight_decay = 0,
  scale_parameter = true }, { "r", "c" }, factors,
  function(self, i, p, g)
    local s, clock, lr = self:state_of(i), clock_of(self), self.lr
    if self.scale_parameter and clock then
      local scale = op.maximum(p:square():mean():sqrt():cast("f64"), self.eps2)
      clock = clock * op.stack({ scale, op.ones({}, { dtype = "f64" }) })
    elseif self.scale_parameter then
      lr = lr * math.max(self.eps2, p:square():mean():sqrt():item())
    end
    core.step("adafactor_step", { p, g, s.r, s.c, clock }, { p, s.r, s.c }, { lr = lr,
      beta2 = 1 - math.max(self.steps, 1) ^ -self.decay, decay = self.decay, eps1 = self.eps1,
      clip = self.clip_threshold, weight_decay = self.weight_decay })
  end)

-- Needs a closure, see there.
optim.LBFGS = require "tessera.lbfgs"

-- ---- gradients

function clip_norm(grads, max_norm)
  local sum
  for _, g in ipairs(grads) do
    local n = g and g:norm():square()
    sum = n and sum and sum + n or n or sum
  end
  if not sum then return 0 end
  -- The factor is a tensor, so that a captured step does the same.
  local norm = sum:sqrt()
  local factor = op.minimum(max_norm / (norm + 1e-6), 1)
  core.held(function()
    for _, g in ipairs(grads) do
      if g then g:mul_(factor) end
    end
  end)
  return core.capturing() and norm or norm:item()
end

-- Scales a list of gradients in place so that their common 2-norm is at most max_norm; gives the norm they had. false
-- stands for one that is missing.
--   norm = optim.clip_grad_norm(gradients, 1)
function optim.clip_grad_norm(grads, max_norm)
  options.tensors("clip_grad_norm", "gradient", grads, nil, true)
  options.argument("clip_grad_norm", "max_norm", POSITIVE, max_norm)
  return clip_norm(grads, max_norm)
end

-- Limits every element of a list of gradients to [-limit, limit], in place.
--   optim.clip_grad_value(gradients, 0.5)
function optim.clip_grad_value(grads, limit)
  options.tensors("clip_grad_value", "gradient", grads)
  options.argument("clip_grad_value", "limit", SIZE, limit)
  for _, g in ipairs(grads) do g:clamp_ { min = -limit, max = limit } end
end

-- ---- schedules: functions from the step (counted from 0) to the learning rate

local schedule = {}

-- Learning rates as functions of the step, which is counted from 0; ? optim.schedule.cosine and so on.
--   local rate = optim.schedule.cosine{lr = 1e-3, steps = 1000}
--   print(rate(0), rate(50))
optim.schedule = schedule

-- factor(step, o): what the rate is multiplied by, or the rate itself where it ends elsewhere;
-- before it the rate grows over o.warmup steps.
local function define_schedule(name, own, rate)
  own.lr, own.warmup = options.needed(SIZE), SIZE
  local read = options.of("schedule." .. name, own)
  schedule[name] = function(given)
    local o = read(given)
    return function(step)
      if o.warmup and step < o.warmup then return o.lr * ((step + 1) / o.warmup) end
      return rate(step, o)
    end
  end
end

local STEPS = options.needed(POSITIVE)
local function part(step, o) return math.min((step - (o.warmup or 0)) / math.max(1, o.steps - (o.warmup or 0)), 1) end

-- The rate lr in every step, after warmup steps in which it grows to it; schedules are functions of the step, from 0.
--   rate = optim.schedule.constant{lr = 1e-3, warmup = 100}
--   print(rate(0), rate(50))
define_schedule("constant", {}, function(_, o) return o.lr end)

-- From lr to final (0 by default) along half a cosine over `steps`, after warmup steps in which it grows to lr.
--   rate = optim.schedule.cosine{lr = 1e-3, steps = 10000, warmup = 100}
--   print(rate(0), rate(50))
define_schedule("cosine", { steps = STEPS, final = SIZE }, function(step, o)
  local final = o.final or 0
  return final + (o.lr - final) * 0.5 * (1 + math.cos(math.pi * part(step, o)))
end)

-- From lr to final (0 by default) along a line over `steps`, after warmup steps in which it grows to lr.
--   rate = optim.schedule.linear{lr = 1e-3, steps = 10000}
--   print(rate(0), rate(50))
define_schedule("linear", { steps = STEPS, final = SIZE }, function(step, o)
  return o.lr + ((o.final or 0) - o.lr) * part(step, o)
end)

-- lr, multiplied by gamma (0.1 by default) every `every` steps, after warmup steps in which it grows to lr.
--   rate = optim.schedule.step{lr = 0.1, every = 30, gamma = 0.1}
--   print(rate(0), rate(50))
define_schedule("step", { every = STEPS, gamma = POSITIVE }, function(step, o)
  return o.lr * (o.gamma or 0.1) ^ math.floor(step / o.every)
end)

-- lr * sqrt(warmup / step), the schedule of the first transformers, after warmup steps in which it grows to lr.
--   rate = optim.schedule.inverse_sqrt{lr = 1e-3, warmup = 4000}
--   print(rate(0), rate(50))
define_schedule("inverse_sqrt", {}, function(step, o) return o.lr * math.sqrt((o.warmup or 1) / (step + 1)) end)

return optim
