-- Averages of parameters over the steps of training, which often generalise better than the last ones:
-- optim.EMA, of which older steps fade, and optim.SWA, of which all are equal.

local core = require "tessera.core"
local Module = require "tessera.module"
local options = require "tessera.options"
local parameters = require "tessera.optim.parameters"
local Average = {}
Average.__index = Average
Average.__tostring = function(self)
  return ("%s(%s%d parameters)"):format(self.name, self.decay and ("decay = %g, "):format(self.decay) or "", #self.params)
end

local read = options.placed("EMA", { decay = options.number { least = 0, most = 1 } }, { decay = 0.999 }, { "decay" })
local read_equal = options.placed("SWA", {})

-- In 16 bits 0.999 of an average and 0.001 of a parameter are mostly the average: it would stand still.
local function wide(p) return (p.dtype == "bf16" or p.dtype == "f16") and "f32" or p.dtype end

local function new(name, params)
  options.tensors(name, "parameter", params, ("optim.%s(model:parameters(), ...)"):format(name))
  if #params == 0 then core.fail(name .. ": the list of parameters is empty") end
  local self = setmetatable({ name = name, params = {}, average = {} }, Average)
  for i, p in ipairs(params) do self.params[i], self.average[i] = p, p:detach():cast(wide(p)):clone() end
  return self
end

local averages = {}

-- EMA(params, {decay = 0.999}): averages that begin as the parameters are now. ema:update() behind each
-- step moves them, average = decay average + (1 - decay) parameter, or graph.training_step(model, loss,
-- opt, {ema = ema}) within it. ema:with(f, ...) runs f with the averages in place of the parameters,
-- ema:swap() exchanges them, ema:copy() gives the averages to the parameters. ema:state_dict() and
-- load_state_dict(state) are for files. Averages of parameters of 16 bits are f32, and rounded where they
-- become parameters.
--   ema = optim.EMA(model:parameters(), 0.99)
--   step = graph.training_step(model, loss, opt, {ema = ema})
--   print(ema:with(function() return loss(model, x, y):item() end))
function averages.EMA(params, ...)
  local o = read(...)
  local self = new("EMA", params)
  self.decay = o.decay
  return self
end

-- SWA(params): the mean of the parameters over all swa:update(), as at the end of each epoch of the last
-- part of training; otherwise as optim.EMA. Running statistics are not averaged: nn.BatchNorm wants
-- optim.update_statistics(model, batches) behind swa:copy().
--   swa = optim.SWA(model:parameters())
--   swa:update()
--   swa:copy()
function averages.SWA(params, ...)
  read_equal(...)
  local self = new("SWA", params)
  self.count = core.tensor(0, { dtype = "f64" })
  return self
end

local function update(self)
  local to, from = {}, {}
  local share = self.count and 1 / (self.count + 1) or 1 - self.decay
  for i, p in ipairs(self.params) do
    local a = self.average[i]
    p = p:cast(a.dtype)
    local s = self.count and share:to(a.device):cast(a.dtype == "f64" and "f64" or "f32") or share
    to[i], from[i] = a, self.count and a + (p - a) * s or a * self.decay + p * s
  end
  if self.count then to[#to + 1], from[#from + 1] = self.count, self.count + 1 end
  if not core.capturing() then return core.assign_all(to, from) end
  for i, t in ipairs(to) do t:copy_(from[i]) end
end

--- The averages after one more step.
function Average:update() core.no_grad(update, self) end

-- The averages in the types of the parameters.
local function as_parameters(self)
  local list = {}
  for i, p in ipairs(self.params) do list[i] = self.average[i]:cast(p.dtype) end
  return list
end

--- Exchanges averages and parameters, all of them or none.
function Average:swap()
  local to, from = {}, {}
  core.no_grad(function()
    local rounded = as_parameters(self)
    for i, p in ipairs(self.params) do
      local a = self.average[i]
      to[2 * i - 1], from[2 * i - 1] = p, rounded[i]:clone()
      to[2 * i], from[2 * i] = a, p:detach():cast(a.dtype):clone()
    end
    core.assign_all(to, from)
  end)
end

--- f(...) with the averages as parameters; the parameters are back behind it, whatever happens.
function Average:with(f, ...)
  core.need_function(f, self.name .. ":with")
  local restore = core.snapshot(self.params)
  return core.guarded(restore, function(...)
    core.no_grad(core.assign_all, self.params, as_parameters(self))
    return f(...)
  end, ...)
end

--- The averages become the parameters.
function Average:copy() core.no_grad(core.assign_all, self.params, as_parameters(self)) end

function Average:state_dict()
  local state = {}
  for i, a in ipairs(self.average) do state[tostring(i - 1)] = a end
  state.count = self.count
  return state
end

--- All of them, or an error and none.
function Average:load_state_dict(state)
  local name = self.name .. ":load_state_dict"
  options.argument(name, "state", options.table, state)
  local to, from = { unpack(self.average) }, {}
  for i, a in ipairs(self.average) do
    from[i] = state[tostring(i - 1)] or core.fail(("%s: average %d of %d is missing"):format(name, i, #self.average))
    parameters.check_state(name, tostring(i - 1), a, from[i])
  end
  if self.count then
    to[#to + 1], from[#from + 1] = self.count, state.count or core.fail(name .. ": the count is missing")
    parameters.check_state(name, "count", self.count, state.count)
  end
  core.assign_all(to, from)
end

-- update_statistics(model, batches): running means and variances of each nn.BatchNorm of the model as the
-- mean over the batches, an iterator as data.batches gives, of which the model gets the first value: after
-- parameters were set that were not trained so, as averages are.
--   optim.update_statistics(model, batches)
function averages.update_statistics(model, batches)
  if not Module.is_module(model) then core.fail "update_statistics: a module is needed" end
  if not core.callable(batches) then core.fail "update_statistics: batches are an iterator, as data.batches gives" end
  local found, momentum, mode = {}, {}, {}
  model:apply(function(m)
    mode[m] = m.training
    if not (core.is_tensor(m.running_mean) and m.momentum) then return end
    found[#found + 1], momentum[m] = m, m.momentum
  end)
  if #found == 0 then return end
  local count = 0
  core.guarded(function()
    for m, v in pairs(mode) do m.training = v end
    for _, m in ipairs(found) do m.momentum = momentum[m] end
  end, core.no_grad, function()
    model:train()
    for x in batches do
      count = count + 1
      for _, m in ipairs(found) do m.momentum = 1 / count end
      model(x)
    end
  end)
end

core.keep_line(Average, true)
return averages
