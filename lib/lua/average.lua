-- An average of parameters over the steps of training, which often generalises better than the last
-- ones: optim.EMA.

local core = require "tessera.core"
local options = require "tessera.options"
local EMA = {}
EMA.__index = EMA
EMA.__tostring = function(self) return ("EMA(decay = %g, %d parameters)"):format(self.decay, #self.params) end

local read = options.placed("EMA", { decay = options.number { least = 0, most = 1 } }, { decay = 0.999 }, { "decay" })

-- EMA(model:parameters(), {decay = 0.999}): averages that begin as the parameters are now.
-- ema:update() behind each step moves them, average = decay average + (1 - decay) parameter, or
-- graph.training_step(model, loss, opt, {ema = ema}) within it. ema:with(f, ...) runs f with the
-- averages in place of the parameters, ema:swap() exchanges them, ema:copy() gives the averages to
-- the parameters. ema:state_dict() and load_state_dict(state) are for files.
--
--   ema = optim.EMA(model:parameters(), 0.99)
--   step = graph.training_step(model, loss, opt, {ema = ema})
--   print(ema:with(function() return loss(model, x, y):item() end))
local function new(params, ...)
  local o = read(...)
  options.tensors("EMA", "parameter", params, "optim.EMA(model:parameters(), ...)")
  if #params == 0 then core.fail "EMA: the list of parameters is empty" end
  local self = setmetatable({ params = {}, average = {}, decay = o.decay or 0.999 }, EMA)
  for i, p in ipairs(params) do self.params[i], self.average[i] = p, p:detach():clone() end
  return self
end

local function update(self)
  local moved = {}
  for i, p in ipairs(self.params) do
    local a = self.average[i]
    moved[i] = (a * self.decay + p * (1 - self.decay)):cast(a.dtype)
  end
  if not core.capturing() then return core.assign_all(self.average, moved) end
  for i, a in ipairs(self.average) do a:copy_(moved[i]) end
end

--- The averages after one more step.
function EMA:update() core.no_grad(update, self) end

--- Exchanges averages and parameters, all of them or none.
function EMA:swap()
  local to, from = {}, {}
  core.no_grad(function()
    for i, p in ipairs(self.params) do
      local a = self.average[i]
      to[2 * i - 1], from[2 * i - 1] = p, a:clone()
      to[2 * i], from[2 * i] = a, p:detach():clone()
    end
    core.assign_all(to, from)
  end)
end

--- f(...) with the averages as parameters; the parameters are back behind it, whatever happens.
function EMA:with(f, ...)
  core.need_function(f, "EMA:with")
  local restore = core.snapshot(self.params)
  return core.guarded(restore, function(...)
    core.no_grad(core.assign_all, self.params, self.average)
    return f(...)
  end, ...)
end

--- The averages become the parameters.
function EMA:copy() core.no_grad(core.assign_all, self.params, self.average) end

function EMA:state_dict()
  local state = {}
  for i, a in ipairs(self.average) do state[tostring(i - 1)] = a end
  return state
end

--- All of them, or an error and none.
function EMA:load_state_dict(state)
  options.argument("EMA:load_state_dict", "state", options.table, state)
  local from = {}
  for i in ipairs(self.average) do
    from[i] = state[tostring(i - 1)] or core.fail(("EMA:load_state_dict: average %d of %d is missing"):format(i, #self.average))
  end
  core.assign_all(self.average, from)
end

return new
