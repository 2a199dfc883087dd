-- Schedules: functions from the step, counted from 0, to the learning rate, which
-- graph.training_step(model, loss, opt, {schedule = ..}) asks, or a program itself,
-- opt:set_rate(schedule(opt.steps)). Any function of the step is one. Those made here have their
-- options as fields; rate:state_dict() is a table that tessera.save takes, rate:load_state_dict(state)
-- sets them.

local core = require "tessera.core"
local options = require "tessera.options"
local settings = require "tessera.settings"
local told = require("tessera.named").told
local schedule = {}

local POSITIVE, SIZE, SHARE = options.number { above = 0 }, options.number { least = 0 }, options.number { least = 0, most = 1 }
local COUNT = options.whole { least = 1 }
local STEPS = options.needed(POSITIVE)

-- rate(step, o) is the rate; before it the rate grows over o.warmup steps.
local function define(name, own, defaults, rate)
  own.lr, own.warmup, defaults.warmup = options.needed(SIZE), SIZE, 0
  local read = options.of("schedule." .. name, own, defaults)
  local class, known, optional = told("rate", { name = "schedule." .. name }), {}, {}
  for option, k in pairs(own) do
    known[#known + 1] = option
    optional[option] = not k.needed and defaults[option] == nil
  end
  table.sort(known)
  class.__index = class
  function class.__call(o, step)
    if step < o.warmup then return o.lr * ((step + 1) / o.warmup) end
    return rate(step, o)
  end
  function class.__tostring(o)
    local words = {}
    for _, option in ipairs(known) do
      local v = o[option]
      if v ~= nil then words[#words + 1] = ("%s = %s"):format(option, type(v) == "table" and "{" .. table.concat(v, ", ") .. "}" or tostring(v)) end
    end
    return ("%s{%s}"):format(class.name, table.concat(words, ", "))
  end
  settings.into(class, "schedule", function() return known, optional end)
  schedule[name] = function(given) return setmetatable(read(given), class) end
  options.described(schedule[name])
end

local function part(step, o) return math.min((step - o.warmup) / math.max(1, o.steps - o.warmup), 1) end
local function half_cosine(from, to, share) return to + (from - to) * 0.5 * (1 + math.cos(math.pi * share)) end

-- schedule.constant{lr, warmup = 0}: lr. As of every schedule, it grows from 0 over the first warmup steps.
--   step = graph.training_step(model, loss, opt, {
--     schedule = optim.schedule.constant{lr = 0.1, warmup = 100}})
define("constant", {}, {}, function(_, o) return o.lr end)

-- schedule.cosine{lr, steps, final = 0, warmup = 0}: from lr to final along half a cosine, until step steps.
--   rate = optim.schedule.cosine{lr = 0.1, steps = 1000}
--   opt:set_rate(rate(opt.steps))
define("cosine", { steps = STEPS, final = SIZE }, { final = 0 }, function(step, o) return half_cosine(o.lr, o.final, part(step, o)) end)

-- schedule.linear{lr, steps, final = 0, warmup = 0}: from lr to final along a line, until step steps.
define("linear", { steps = STEPS, final = SIZE }, { final = 0 }, function(step, o) return o.lr + (o.final - o.lr) * part(step, o) end)

-- schedule.polynomial{lr, steps, power = 1, final = 0, warmup = 0}: final + (lr - final) (1 - step / steps)^power.
--   rate = optim.schedule.polynomial{lr = 0.1, steps = 1000, power = 2}
--   print(rate(0), rate(50))
define("polynomial", { steps = STEPS, final = SIZE, power = POSITIVE }, { final = 0, power = 1 },
  function(step, o) return o.final + (o.lr - o.final) * (1 - part(step, o)) ^ o.power end)

-- schedule.step{lr, every, gamma = 0.1, warmup = 0}: multiplied by gamma every `every` steps.
--   rate = optim.schedule.step{lr = 0.1, every = 30}
--   print(rate(0), rate(50))
define("step", { every = STEPS, gamma = POSITIVE }, { gamma = 0.1 }, function(step, o) return o.lr * o.gamma ^ math.floor(step / o.every) end)

-- schedule.multistep{lr, at, gamma = 0.1, warmup = 0}: multiplied by gamma at each step of the list at.
--   rate = optim.schedule.multistep{lr = 0.1, at = {3000, 6000}}
define("multistep", { at = options.needed(options.list(SIZE)), gamma = POSITIVE }, { gamma = 0.1 }, function(step, o)
  local passed = 0
  for _, at in ipairs(o.at) do passed = passed + (step >= at and 1 or 0) end
  return o.lr * o.gamma ^ passed
end)

-- schedule.exponential{lr, gamma, warmup = 0}: lr gamma^step.
define("exponential", { gamma = options.needed(POSITIVE) }, {}, function(step, o) return o.lr * o.gamma ^ step end)

-- schedule.inverse_sqrt{lr, warmup = 0}: lr sqrt(warmup / step), the schedule of the first transformers.
--   rate = optim.schedule.inverse_sqrt{lr = 1e-3, warmup = 4000}
--   print(rate(0), rate(50))
define("inverse_sqrt", {}, {}, function(step, o) return o.lr * math.sqrt(math.max(o.warmup, 1) / (step + 1)) end)

-- schedule.restarts{lr, period, factor = 1, final = 0, warmup = 0}: from lr to final along half a cosine
-- in period steps, again and again, each time over factor times as many (SGDR).
--   rate = optim.schedule.restarts{lr = 0.1, period = 100, factor = 2}
--   print(rate(0), rate(50))
define("restarts", { period = options.needed(COUNT), factor = COUNT, final = SIZE }, { factor = 1, final = 0 }, function(step, o)
  local period = o.period
  step = step - o.warmup
  if o.factor == 1 then
    step = step % period
  else
    while step >= period do step, period = step - period, period * o.factor end
  end
  return half_cosine(o.lr, o.final, step / period)
end)

-- schedule.cyclic{low, lr, up, down = up, gamma = 1, warmup = 0}: from low to lr in up steps and back in down,
-- again and again; the height is multiplied by gamma each step.
--   rate = optim.schedule.cyclic{low = 0.01, lr = 0.1, up = 100}
--   print(rate(0), rate(50))
define("cyclic", { low = options.needed(SIZE), up = options.needed(COUNT), down = COUNT, gamma = POSITIVE }, { gamma = 1 }, function(step, o)
  local at = step % (o.up + (o.down or o.up))
  local height = at <= o.up and at / o.up or 1 - (at - o.up) / (o.down or o.up)
  return o.low + (o.lr - o.low) * height * o.gamma ^ step
end)

-- schedule.one_cycle{lr, steps, rise = 0.3, divide = 25, divide_last = 1e4, anneal = "cosine", warmup = 0}: up
-- from lr / divide to lr in the share rise of all steps, then down to lr / divide / divide_last, along
-- half a cosine or, if anneal is "linear", a line.
--   rate = optim.schedule.one_cycle{lr = 0.1, steps = 1000}
define("one_cycle", { steps = STEPS, rise = SHARE, divide = POSITIVE, divide_last = POSITIVE, anneal = options.one_of("cosine", "linear") },
  { rise = 0.3, divide = 25, divide_last = 1e4, anneal = "cosine" }, function(step, o)
    local first, top, last = o.lr / o.divide, o.rise * o.steps - 1, o.steps - 1
    local from, to, share = first, o.lr, top == 0 and 1 or step / top -- where the rise is one step, that is the top
    if step > top then from, to, share = o.lr, first / o.divide_last, math.min((step - top) / (last - top), 1) end
    return o.anneal == "linear" and from + (to - from) * share or half_cosine(from, to, share)
  end)

-- ---- what looks at the loss

local Plateau = told("rate", { name = "schedule.plateau" })
Plateau.__index = Plateau
Plateau.__call = function(self) return self.lr end
Plateau.__tostring = function(self) return ("schedule.plateau(lr = %g)"):format(self.lr) end

local plateau_defaults = { factor = 0.1, patience = 10, threshold = 1e-4, cooldown = 0, least = 0, mode = "min" }
local read_plateau = options.of("schedule.plateau", { lr = options.needed(SIZE), factor = SHARE, patience = options.whole { least = 0 },
  threshold = SIZE, cooldown = options.whole { least = 0 }, least = SIZE, mode = options.one_of("min", "max") }, plateau_defaults)

local FIELDS = { "lr", "factor", "patience", "threshold", "cooldown", "least", "mode", "best", "bad", "waiting" }
settings.into(Plateau, "schedule", function() return FIELDS end)

-- schedule.plateau{lr, factor = 0.1, patience = 10, threshold = 1e-4, cooldown = 0, least = 0, mode = "min"}:
-- the rate is multiplied by factor, down to least, when plateau:update(loss), as after each epoch, was
-- called more than patience times in a row with nothing better than the best by the share threshold;
-- then cooldown calls do not count. mode = "max" is for what has to grow, as an accuracy.
--   rate = optim.schedule.plateau{lr = 0.1, patience = 2}
--   step = graph.training_step(model, loss, opt, {schedule = rate})
--   rate:update(step(x, y))
function schedule.plateau(given)
  local self = read_plateau(given)
  self.best, self.bad, self.waiting = self.mode == "min" and math.huge or -math.huge, 0, 0
  return setmetatable(self, Plateau)
end

--- One more value, a number or a tensor of one element; the rate that follows.
function Plateau:update(value)
  if core.is_tensor(value) then value = value:item() end
  options.argument("schedule.plateau", "the value", options.kind("a number", function(v) return type(v) == "number" end), value)
  local down = self.mode == "min"
  local better = (down and value < self.best * (1 - self.threshold)) or (not down and value > self.best * (1 + self.threshold))
  if better then self.best, self.bad = value, 0 else self.bad = self.bad + 1 end
  if self.waiting > 0 then self.waiting, self.bad = self.waiting - 1, 0 end
  if self.bad > self.patience then
    self.lr, self.waiting, self.bad = math.max(self.lr * self.factor, self.least), self.cooldown, 0
  end
  return self.lr
end

core.keep_line(Plateau, true)
return require("tessera.named")("tessera.optim.schedule", schedule)
