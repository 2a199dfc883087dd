-- Schedules and means of weights beside PyTorch's.
local tessera = require "tessera"
local op, nn, optim, graph = tessera.op, tessera.nn, tessera.optim, tessera.graph
local layers = dofile "tests/lua/_layers.lua"
local schedule = optim.schedule

local function rates(name, rate, feed)
  local got = {}
  for i = 0, 39 do
    got[i + 1] = rate(i)
    if feed then rate:update(feed[i]) end
  end
  layers.near(name, tessera.tensor(got, { dtype = "f64" }), layers.stored("rates/" .. name), 1e-12)
end
rates("cosine", schedule.cosine { lr = 0.5, steps = 39, final = 0.1 })
rates("linear", schedule.linear { lr = 0.5, steps = 30, final = 0.1 })
rates("polynomial", schedule.polynomial { lr = 0.5, steps = 30, power = 2.5 })
rates("step", schedule.step { lr = 0.5, every = 7, gamma = 0.3 })
rates("multistep", schedule.multistep { lr = 0.5, at = { 3, 10, 11 }, gamma = 0.5 })
rates("exponential", schedule.exponential { lr = 0.5, gamma = 0.9 })
rates("restarts", schedule.restarts { lr = 0.5, period = 5, factor = 2, final = 0.05 })
rates("restarts_equal", schedule.restarts { lr = 0.5, period = 7 })
rates("cyclic", schedule.cyclic { low = 0.1, lr = 0.5, up = 4, down = 7, gamma = 0.95 })
rates("one_cycle", schedule.one_cycle { lr = 0.5, steps = 40 })
rates("one_cycle_linear", schedule.one_cycle { lr = 0.5, steps = 40, rise = 0.2, divide = 5, divide_last = 50, anneal = "linear" })
for _, anneal in ipairs { "cosine", "linear" } do -- a rise of one step: PyTorch divides by 0 there
  local rate = schedule.one_cycle { lr = 0.5, steps = 10, rise = 0.1, anneal = anneal }
  rate(0), math.abs(rate(9) - 0.5 / 25 / 1e4) < 1e-15 --> 0.5, true
end
local losses = layers.stored "plateau/losses"
rates("plateau", schedule.plateau { lr = 0.5, factor = 0.5, patience = 2, cooldown = 1, least = 0.01 }, losses)
rates("plateau_max", schedule.plateau { lr = 0.5, factor = 0.5, patience = 3, threshold = 0.01, mode = "max" }, losses)
schedule.constant { lr = 2, warmup = 4 }(1) --> 1
schedule.multistep { lr = 1 } --! schedule.multistep: option 'at' must be a list of numbers >= 0, not nothing
schedule.plateau { lr = 1, mode = "least" } --! schedule.plateau: option 'mode' must be one of 'min', 'max', not 'least'

-- A mean of weights, eagerly and within a step, and the statistics that belong to it.
local model = nn.Sequential(nn.Linear(2, 2, false, "f64"), nn.BatchNorm(2, { dtype = "f64" }))
local swa = optim.SWA(model:parameters())
for k = 0, 3 do
  model[1]:load_state_dict { weight = layers.stored("swa/weight/" .. k) }
  swa:update()
end
layers.near("swa", swa.average[1], layers.stored "swa/mean", 1e-14)
swa:copy()
local batches, k = layers.stored "swa/batches", -1
optim.update_statistics(model, function()
  k = k + 1
  if k < 3 then return batches[k] end
end)
layers.near("running_mean", model[2].running_mean, layers.stored "swa/running_mean", 1e-14)
layers.near("running_var", model[2].running_var, layers.stored "swa/running_var", 1e-14)
model[2].momentum, model[2].training --> 0.1, true
local within, mine = optim.SWA(model:parameters()), optim.SWA(model:parameters())
local step = graph.training_step(model, function(m, x) return m(x):square():sum() end, optim.SGD(model:parameters(), 0.1), { ema = within })
for i = 0, 2 do
  step(batches[i])
  mine:update()
end
layers.near("within a step", within.average[1], mine.average[1], 1e-15)
within.count:item() --> 3
mine:load_state_dict(within:state_dict())
mine:load_state_dict(optim.EMA(model:parameters()):state_dict()) --! SWA:load_state_dict: the count is missing
