-- Optimisers beside PyTorch's, parameter groups, averages, sums of gradients, scaled losses: eager steps with the
-- bits of captured ones; what would not be trained is an error, or said.
local tessera = require "tessera"
local core = require "tessera.core"
local op, nn, optim, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng
local layers = dofile "tests/lua/_layers.lua"


local steps = layers.steps

local makers = {
  RMSprop = function(p) return optim.RMSprop(p, 0.01) end,
  RMSprop_all = function(p) return optim.RMSprop(p, 0.01, 0.9, 1e-6, 0.1, 0.8, true) end,
  Adagrad = function(p) return optim.Adagrad(p, 0.1) end,
  Adagrad_all = function(p) return optim.Adagrad(p, { lr = 0.1, lr_decay = 0.2, weight_decay = 0.1, start = 0.5, eps = 1e-6 }) end,
  NAdam = function(p) return optim.NAdam(p, 0.01) end,
  NAdam_all = function(p) return optim.NAdam(p, 0.01, { 0.8, 0.99 }, 1e-6, 0.1, 0.01, true) end,
  Adam_most = function(p) return optim.Adam(p, 0.01, { amsgrad = true }) end,
  Adam_most_all = function(p) return optim.Adam(p, 0.02, { 0.8, 0.7 }, 1e-3, 0.1, true) end,
  AdamW_most = function(p) return optim.AdamW(p, 0.02, { 0.8, 0.7 }, 1e-3, 0.1, true) end,
  RAdam = function(p) return optim.RAdam(p, 0.01) end,
  RAdam_all = function(p) return optim.RAdam(p, 0.01, { 0.8, 0.9 }, 1e-6, 0.1) end,
  RAdam_decoupled = function(p) return optim.RAdam(p, 0.01, { 0.8, 0.9 }, 1e-6, 0.1, { decoupled = true }) end,
}
for name, make in pairs(makers) do steps(name, function(p, q) return make { p, q } end) end
steps("groups", function(p, q)
  return optim.AdamW({ { params = { p } }, { params = { q }, lr = 0.1, weight_decay = 0, betas = { 0.8, 0.9 } } }, { lr = 0.01, weight_decay = 0.1 })
end)

-- A training step has the bits of backward() and step(): each of them, with groups, with clip.
local function model_of(seed)
  core.seed(seed)
  return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
end
local x = rng.normal({ 6, 16, 3 }, { seed = 1, stream = 1 })
local y = x:sum { axis = 2, keepdims = true }
local function loss(m, x, y) return op.mse(m(x), y) end
local function bits(model, opt)
  local names = {}
  local function put(name, v)
    if tessera.is_tensor(v) or type(v) ~= "table" then
      names[#names + 1] = name .. "=" .. (tessera.is_tensor(v) and v:hash() or tostring(v))
    else
      for key, part in pairs(v) do put(name .. "." .. key, part) end
    end
  end
  put("model", model:state_dict())
  put("opt", opt:state_dict())
  table.sort(names)
  return table.concat(names, " ")
end
local function by_hand(make, count)
  local model = model_of(4)
  local opt = make(model:parameters(), model)
  for i = 0, count - 1 do
    opt:zero_grad()
    loss(model, x[i % 6], y[i % 6]):backward()
    opt:step()
  end
  return bits(model, opt), opt, model
end
local function by_step(make, count, options)
  local model = model_of(4)
  local opt = make(model:parameters(), model)
  local step = graph.training_step(model, loss, opt, options)
  for i = 0, count - 1 do step(x[i % 6], y[i % 6]) end
  return bits(model, opt), opt, model, step
end
makers.groups = function(_, m)
  return optim.SGD({ { params = m[1]:parameters(), lr = 0.01 }, { params = m[3]:parameters(), momentum = 0.9 } }, { lr = 0.1, weight_decay = 0.01 })
end
makers.clip = function(p) return optim.SGD(p, { lr = 1, clip = 0.1 }) end
makers.clip_composed = function(p) return optim.RMSprop(p, { lr = 0.01, clip = 0.1 }) end
local profile = core.profile()
core.profile "strict"
for name, make in pairs(makers) do
  if by_hand(make, 8) ~= by_step(make, 8) then error(name .. ": a training step has other bits") end
end
core.profile(profile)
for name, make in pairs(makers) do
  if by_hand(make, 4) ~= by_step(make, 4) then error(name .. ": a training step has other bits, deterministic") end
end

-- A schedule's rate is that of the optimiser; groups with their own keep their share of it.
local _, opt = by_step(makers.groups, 3, { schedule = function(s) return 0.1 / (s + 1) end })
("%.6f %.6f"):format(opt.lr, opt.groups[1].lr) --> 0.033333 0.003333
opt.groups[2].lr = 5
opt.groups[2].lr, opt.lr * 3 --> 5, 0.1
tostring(opt) --> SGD(lr = 0.0333333, 4 parameters in 2 groups)
local p, q = op.zeros { 2 }, op.zeros { 2 }
optim.SGD { { params = { p }, rate = 1 } } --! SGD: unknown option 'rate'
optim.SGD { { params = p } } --! SGD: group 1: a list of parameters is needed
optim.SGD { { p }, { q } } --! SGD: group 1: a list of parameters is needed, not nothing
optim.SGD { p, q, p } --! SGD: parameter 3 is parameter 1 once more

-- clip acts on .grad, which stays as it was.
local a = tessera.tensor { 3, 4 }
a.requires_grad = true
local o = optim.SGD({ a }, { lr = 1, clip = 1 })
;(a * a * 50):sum():backward()
o:step()
("%.4f %s"):format((a - tessera.tensor { 3, 4 }):norm():item(), a.grad:norm():item()) --> 1.0000 500
-- Gradients of a list of parameters are clipped, not the parameters.
local model = model_of(1)
loss(model, x[0], y[0]):backward()
local before, norm = model[1].weight:hash(), optim.clip_grad_norm(model:parameters(), 0.01)
assert(norm > 0.01 and model[1].weight:hash() == before)
("%.5f"):format(optim.clip_grad_norm(model:parameters(), 0.01)) --> 0.01000
optim.clip_grad_value(model:parameters(), 1e-4)
assert(model[3].weight.grad:abs():max():item() <= 1.001e-4)
model:zero_grad()
optim.clip_grad_norm(model:parameters(), 1) --> 0

-- Parameters that do not require gradients stay; when they do again, they move.
local model = model_of(1)
local opt = optim.SGD(model:parameters(), 0.1)
local step = graph.training_step(model, loss, opt)
for _, p in ipairs(model[1]:parameters()) do p.requires_grad = false end
local first, last = model[1].weight:hash(), model[3].weight:hash()
step(x[0], y[0])
model[1].weight:hash() == first, model[3].weight:hash() == last --> true, false
model[1].weight.requires_grad = true
step(x[0], y[0])
model[1].weight:hash() == first --> false
for _, p in ipairs(model:parameters()) do p.requires_grad = false end
step(x[0], y[0]) --! no parameter moves: requires_grad is false for all

-- What a module holds in place of a parameter is not silently left alone.
local model = model_of(1)
local opt = optim.SGD(model:parameters(), 0.1)
local step = graph.training_step(model, loss, opt)
step(x[0], y[0])
model:to "f32"
step(x[0], y[0])
model[1].weight = op.zeros { 8, 3 }
step(x[0], y[0]) --! SGD: parameter 1, 'weight' of a Linear, was replaced after the optimiser was made
opt:step() --! SGD: parameter 1, 'weight' of a Linear, was replaced after the optimiser was made
opt = optim.SGD(model:parameters(), 0.1)
loss(model, x[0], y[0]):backward()
opt:step()
assert(model[1].weight:abs():sum():item() > 0)
model:to "f64"
opt:step() --! SGD: parameter 1, 'weight' of a Linear, was replaced after the optimiser was made

-- Sums of gradients: two halves of a batch give the step of the whole, but for roundings; the number of
-- steps is that of updates.
local function sgd(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end
local model = model_of(4)
local opt = sgd(model:parameters())
local step = graph.training_step(model, loss, opt, { accumulate = 2, schedule = function(s) return 0.1 / (s + 1) end })
local whole_model = model_of(4)
local whole_opt = sgd(whole_model:parameters())
local whole = graph.training_step(whole_model, loss, whole_opt, { schedule = function(s) return 0.1 / (s + 1) end })
for i = 0, 5 do
  step(x[i]["0:8"], y[i]["0:8"])
  opt.steps == i --> true
  step(x[i]["8:"], y[i]["8:"])
  whole(x[i], y[i])
end
opt.steps --> 6
layers.near("accumulate", model[1].weight, whole_model[1].weight, 1e-5)
opt.lr == whole_opt.lr --> true

-- A scale that is a power of two changes no bits; one that overflows leaves the step out and is halved.
local plain = by_step(sgd, 6, { accumulate = 1 })
by_step(sgd, 6, { scale = 1024 }) == plain --> true
local model = model_of(4)
local opt = sgd(model:parameters())
local step = graph.training_step(model, function(...) return loss(...) * 8 end, opt, { scale = { scale = 2 ^ 127 } })
for i = 0, 7 do step(x[i % 6], y[i % 6]) end
opt.steps + step.scaler.skipped --> 8
assert(step.scaler.skipped > 0 and opt.steps > 0 and step.scaler.scale == 2 ^ (127 - step.scaler.skipped))
local _, _, _, step = by_step(sgd, 4, { scale = { scale = 8, interval = 2 } })
step.scaler.scale --> 32
local bad = graph.training_step(model, function(m, x) return m(x):sum() * (0 / 0) end, opt, { scale = "dynamic" })
local before, steps_before = bits(model, opt), opt.steps
bad(x[0])
bits(model, opt) == before, opt.steps == steps_before --> true, true
bad.scaler.scale, bad.scaler.skipped --> 32768, 1
graph.training_step(model, loss, opt, { scale = "big" }) --! option 'scale' must be a number > 0, 'dynamic', or a table
-- Eagerly the same.
local function eagerly(options)
  graph.eager = true
  local result = by_step(makers.RAdam, 6, options)
  graph.eager = false
  return result
end
core.profile "strict"
for _, options in ipairs { { accumulate = 3 }, { scale = "dynamic" }, { accumulate = 2, scale = 3 } } do
  assert(eagerly(options) == by_step(makers.RAdam, 6, options))
end
core.profile(profile)

-- Averages: by hand, within the step, exchanged, saved.
local model = model_of(4)
local opt = sgd(model:parameters())
local ema = optim.EMA(model:parameters(), 0.9)
local mine = optim.EMA(model:parameters(), { decay = 0.9 })
local want = model[1].weight:detach():clone()
local step = graph.training_step(model, loss, opt, { ema = ema })
for i = 0, 5 do
  step(x[i], y[i])
  mine:update()
  want = want * 0.9 + model[1].weight:detach() * 0.1
end
ema.average[1]:hash() == mine.average[1]:hash() --> true
layers.near("ema", ema.average[1], want, 1e-6)
local weight = model[1].weight:hash()
ema:with(function() return model[1].weight:hash() == ema.average[1]:hash() end) --> true
(pcall(ema.with, ema, error)) --> false
model[1].weight:hash() == weight --> true
ema:swap()
ema.average[1]:hash() == weight --> true
ema:swap()
mine:load_state_dict(ema:state_dict())
ema:copy()
model[1].weight:hash() == mine.average[1]:hash() --> true
optim.EMA({ p }, 1.5) --! EMA: option 'decay' must be a number in [0, 1], not 1.5
mine:load_state_dict {} --! EMA:load_state_dict: average 1 of 4 is missing

-- Averages of parameters of 16 bits move too, by the formula: 1 - 0.999^n on the way from 0 to 1.
for dtype, unit in pairs { bf16 = 2 ^ -8, f16 = 2 ^ -11 } do
  for _, within in ipairs { false, true } do
    local p = nn.Linear(1, 1, false, dtype)
    p.weight:copy_(op.zeros { 1, 1 })
    local ema, swa = optim.EMA(p:parameters()), optim.SWA(p:parameters())
    local update = function() ema:update() swa:update() end
    update = within and graph.module("update", update) or update
    swa:update()
    p.weight:copy_(op.ones { 1, 1 })
    for _ = 1, 500 do update() end
    layers.near("ema of " .. dtype, ema.average[1], op.full({ 1, 1 }, 1 - 0.999 ^ 500), 1e-4)
    layers.near("swa of " .. dtype, swa.average[1], op.full({ 1, 1 }, 500 / 501), 1e-4)
    ema:copy()
    p.weight.dtype == dtype --> true
    layers.near("copied", p.weight, op.full({ 1, 1 }, 1 - 0.999 ^ 500), unit)
    ema:swap()
    layers.near("swapped", p.weight, op.full({ 1, 1 }, 1 - 0.999 ^ 500), unit)
  end
end
optim.Rprop({ p }, { weight_decay = 0.1 }) --! Rprop: unknown option 'weight_decay'
