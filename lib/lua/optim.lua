-- Optimisers, learning-rate schedules, gradient clipping. An optimiser holds a list
-- of parameters and updates them in place:
--
--   local opt = optim.AdamW(model:parameters(), {lr = 3e-4, weight_decay = 0.1})
--   opt:step(gradients)          -- a list like the parameters'; or p.grad of each
--
-- The state (moments, step count) is saved with opt:state_dict().

local core = require "tessera.core"
local op = core.op
local optim = {}

local Optimizer = {}
Optimizer.__index = Optimizer

-- rows: update(self, i, p, g) for each parameter; state: names of its tensors.
local function define(name, defaults, state_names, update)
  local class = setmetatable({ name = name, update = update, state_names = state_names },
    { __index = Optimizer })
  class.__index = class
  class.__tostring = function(self) return ("%s(lr = %g, %d parameters)"):format(name, self.lr, #self.params) end
  optim[name] = function(params, options)
    local self = setmetatable({ params = {}, state = {}, steps = 0 }, class)
    for k, v in pairs(defaults) do self[k] = v end
    for k, v in pairs(options or {}) do
      if defaults[k] == nil and k ~= "clip" then
        local known = {}
        for key in pairs(defaults) do known[#known + 1] = key end
        table.sort(known)
        error(("%s: unknown option '%s'; options are %s"):format(name, k, table.concat(known, ", ")), 2)
      end
      self[k] = v
    end
    for i, p in ipairs(params) do
      if not core.is_tensor(p) then error(("%s: parameter %d is a %s"):format(name, i, type(p)), 2) end
      self.params[i] = p
    end
    return self
  end
end

function Optimizer:zeros(i, name, p)
  local s = self.state[i] or {}
  self.state[i] = s
  s[name] = s[name] or op.zeros_like(p)
  return s[name]
end

-- One step. grads: list of tensors (false or nil entries are skipped).
function Optimizer:step(grads)
  self.steps = self.steps + 1
  if self.clip and grads then optim.clip_grad_norm(grads, self.clip) end
  for i, p in ipairs(self.params) do
    local g = grads and grads[i]
    if not grads then g = p.grad end
    if g then self:update(i, p, g) end
  end
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

function Optimizer:load_state_dict(state)
  self.steps = state.steps and state.steps:item() or 0
  for key, t in pairs(state) do
    local i, name = key:match("^(%d+)%.(%w+)$")
    if i then
      local s = self.state[tonumber(i) + 1] or {}
      self.state[tonumber(i) + 1] = s
      s[name] = t:clone()
    end
  end
end

define("SGD", { lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false }, { "m" },
  function(self, i, p, g)
    local first = not (self.state[i] and self.state[i].m)
    local m = self.momentum ~= 0 and self:zeros(i, "m", p) or nil
    core.step("sgd_step", { p, g, m }, { p, m }, { lr = self.lr, momentum = self.momentum,
      dampening = self.dampening, weight_decay = self.weight_decay, nesterov = self.nesterov, first = first })
  end)

local function adam(decoupled)
  return function(self, i, p, g)
    local m, v = self:zeros(i, "m", p), self:zeros(i, "v", p)
    core.step("adam_step", { p, g, m, v }, { p, m, v }, { lr = self.lr, beta1 = self.betas[1],
      beta2 = self.betas[2], eps = self.eps, weight_decay = self.weight_decay, step = self.steps,
      decoupled = decoupled })
  end
end

define("Adam", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 }, { "m", "v" }, adam(false))
define("AdamW", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01 }, { "m", "v" }, adam(true))

define("Lion", { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0 }, { "m" }, function(self, i, p, g)
  local m = self:zeros(i, "m", p)
  core.step("lion_step", { p, g, m }, { p, m }, { lr = self.lr, beta1 = self.betas[1],
    beta2 = self.betas[2], weight_decay = self.weight_decay })
end)

-- The relative step of the paper: lr is multiplied by max(eps2, rms(p)).
define("Adafactor", { lr = 1e-2, decay = 0.8, eps1 = 1e-30, eps2 = 1e-3, clip_threshold = 1, weight_decay = 0,
  scale_parameter = true }, { "r", "c" }, function(self, i, p, g)
  local s = self.state[i] or {}
  self.state[i] = s
  if not s.r then
    local rows, cols = { unpack(p.shape) }, { unpack(p.shape) }
    if p.ndim >= 2 then
      table.remove(rows)
      table.remove(cols, p.ndim - 1)
      s.c = op.zeros(cols)
    end
    s.r = op.zeros(p.ndim >= 2 and rows or p.shape)
  end
  local lr = self.lr
  if self.scale_parameter then
    lr = lr * math.max(self.eps2, math.sqrt(p:square():mean():item()))
  end
  core.step("adafactor_step", { p, g, s.r, s.c }, { p, s.r, s.c }, { lr = lr,
    beta2 = 1 - self.steps ^ -self.decay, eps1 = self.eps1, clip = self.clip_threshold,
    weight_decay = self.weight_decay })
end)

-- ---- gradients

-- Scales the gradients in place so that their common 2-norm is at most max_norm;
-- returns the norm they had.
function optim.clip_grad_norm(grads, max_norm)
  local sum
  for _, g in ipairs(grads) do
    local n = g:norm():square()
    sum = sum and sum + n or n
  end
  if not sum then return 0 end
  local norm = sum:sqrt():item()
  if norm > max_norm then
    for _, g in ipairs(grads) do g:mul_(max_norm / (norm + 1e-6)) end
  end
  return norm
end

-- Limits every element to [-limit, limit], in place.
function optim.clip_grad_value(grads, limit)
  for _, g in ipairs(grads) do g:clamp_ { min = -limit, max = limit } end
end

-- ---- schedules: functions from the step (counted from 0) to the learning rate

local schedule = {}
optim.schedule = schedule

local function warm(step, o) return o.warmup and step < o.warmup and (step + 1) / o.warmup or nil end

function schedule.constant(o)
  return function(step) return o.lr * (warm(step, o) or 1) end
end

-- From lr to final (0 by default) along half a cosine over `steps`.
function schedule.cosine(o)
  local final = o.final or 0
  return function(step)
    local w = warm(step, o)
    if w then return o.lr * w end
    local t = math.min((step - (o.warmup or 0)) / math.max(1, o.steps - (o.warmup or 0)), 1)
    return final + (o.lr - final) * 0.5 * (1 + math.cos(math.pi * t))
  end
end

function schedule.linear(o)
  local final = o.final or 0
  return function(step)
    local w = warm(step, o)
    if w then return o.lr * w end
    local t = math.min((step - (o.warmup or 0)) / math.max(1, o.steps - (o.warmup or 0)), 1)
    return o.lr + (final - o.lr) * t
  end
end

-- Multiplied by gamma every `every` steps.
function schedule.step(o)
  return function(step) return o.lr * (warm(step, o) or 1) * (o.gamma or 0.1) ^ math.floor(step / o.every) end
end

-- lr * sqrt(warmup / step), the schedule of the first transformers.
function schedule.inverse_sqrt(o)
  return function(step) return warm(step, o) and o.lr * warm(step, o) or o.lr * math.sqrt((o.warmup or 1) / (step + 1)) end
end

return optim
