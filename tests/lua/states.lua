-- What optimisers, schedules and the scale of losses are saved as, and what they refuse to load; groups that are added;
-- steps by functions that give the loss.
local tessera = require "tessera"
local op, nn, optim, graph, rng, core = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng, tessera.core
local path = os.tmpname() .. ".safetensors"

-- A table as it comes back from a file.
local function through_file(state)
  tessera.save(path, state)
  local back = tessera.load(path)
  os.remove(path)
  return back
end

local function model_of(seed)
  core.seed(seed)
  return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
end
local x = rng.normal({ 8, 16, 3 }, { seed = 1, stream = 1 })
local y = x:sum { axis = 2, keepdims = true }
local function loss(m, x, y) return op.mse(m(x), y) end
local function hashes(model)
  local list = {}
  for i, p in ipairs(model:parameters()) do list[i] = p:hash() end
  return table.concat(list, " ")
end

-- Training that is saved in its middle, with other options than those the optimiser is made with again, has the bits of
-- training that is not, in a step that was captured with those.
local function groups(o)
  return function(m) return optim.AdamW({ { params = m[1]:parameters() }, { params = m[3]:parameters(), lr = o.lr * 2, betas = { 0.5, 0.6 } } }, o) end
end
for name, makers in pairs {
  adam = { function(m) return optim.Adam(m:parameters(), { lr = 0.02, betas = { 0.8, 0.9 }, weight_decay = 0.1, amsgrad = true, clip = 0.5 }) end,
    function(m) return optim.Adam(m:parameters()) end },
  sgd = { function(m) return optim.SGD(m:parameters(), { lr = 0.1, momentum = 0.9, nesterov = true }) end, function(m) return optim.SGD(m:parameters()) end },
  groups = { groups { lr = 0.02, eps = 1e-3 }, groups { lr = 0.5 } },
  factored = { function(m) return optim.Adafactor(m:parameters(), 0.1) end, function(m) return optim.Adafactor(m:parameters()) end },
} do
  local function train(cut)
    local model = model_of(2)
    local opt = makers[1](model)
    local step = graph.training_step(model, loss, opt)
    for i = 0, 5 do
      if i == 3 and cut then
        local state = through_file(opt:state_dict())
        opt = makers[2](model)
        step = graph.training_step(model, loss, opt)
        local before, kept = hashes(model), model:state_dict()
        for k, t in pairs(kept) do kept[k] = t:clone() end
        if cut == "captured" then step(x[0], y[0]) end
        opt:load_state_dict(state)
        tessera.no_grad(function() model:load_state_dict(kept) end)
        assert(hashes(model) == before)
      end
      step(x[i], y[i])
    end
    return hashes(model), opt
  end
  local want, opt = train()
  assert(train "fresh" == want, name .. ": another way after loading")
  local got, other = train "captured"
  assert(got == want, name .. ": a step that was captured before has other bits")
  assert(other.lr == opt.lr and other.steps == opt.steps and other.groups[#other.groups].lr == opt.groups[#opt.groups].lr)
end

-- The names of PyTorch's parts of it.
local model = model_of(1)
local opt = optim.SGD({ { params = model[1]:parameters(), lr = 0.5 }, { params = model[3]:parameters() } }, { lr = 0.25, momentum = 0.5 })
opt:step { op.ones { 4, 3 }, false, op.ones { 1, 4 } }
local state = opt:state_dict()
state.optimizer, state.steps, state.options.lr, state.groups[1].lr, state.groups[2].lr, state.groups[2].momentum --> SGD, 1, 0.25, 0.5, 0.25, 0.5
state.groups[1].shapes --> {{4, 3}, {4}}
state.state[1].m.shape, state.state[2] --> {4, 3}, nil
-- What had no state begins anew: it is not what it was behind the step.
opt:load_state_dict(optim.SGD({ { params = model[1]:parameters() }, { params = model[3]:parameters() } }, { lr = 1, momentum = 0.5 }):state_dict())
opt.lr, opt.groups[1].lr, opt.steps, opt.state[1].m:abs():max():item() --> 1, 1, 0, 0
opt:set_rate(3)
opt.groups[1].lr --> 3

-- What does not fit is an error that names both, and changes nothing.
local p, q = op.zeros { 2, 3 }, op.zeros { 4 }
local adam = optim.Adam { p, q }
adam:step { op.ones { 2, 3 }, op.ones { 4 } }
local good = adam:state_dict()
adam:load_state_dict(optim.AdamW({ p, q }):state_dict()) --! Adam:load_state_dict: the state is of AdamW, not of Adam
adam:load_state_dict(optim.Adam({ p }):state_dict()) --! Adam:load_state_dict: group 1 has 1 parameters in the state, and 2 here
adam:load_state_dict(optim.Adam({ q, p }):state_dict()) --! Adam:load_state_dict: parameter 1 of group 1 has shape [4] in the state, and [2,3] here
adam:load_state_dict(optim.Adam({ { params = { p } }, { params = { q } } }):state_dict()) --! the state has 2 groups of parameters, the optimiser 1
adam:load_state_dict {} --! Adam:load_state_dict: the state is of no optimiser: 'optimizer' is missing
adam:load_state_dict(5) --! Adam:load_state_dict: the state must be a table, not 5
adam:load_state_dict { optimizer = "Adam", steps = -1 } --! Adam:load_state_dict: steps must be a whole number >= 0, not -1
local function broken(change)
  local s = adam:state_dict()
  change(s)
  return s
end
adam:load_state_dict(broken(function(s) s.options.lr = "x" end)) --! Adam: option 'lr' must be a number >= 0, not 'x'
adam:load_state_dict(broken(function(s) s.state[1].v = nil end)) --! Adam:load_state_dict: 'v' of parameter 1 must be a tensor, not nothing
adam:load_state_dict(broken(function(s) s.state[2].m = op.ones { 5 } end)) --! 'm' of parameter 2 has shape [5] in the state, and [4] here
adam.steps, adam.state[2].m:max():item() == good.state[2].m:max():item() --> 1, true
local lbfgs = optim.LBFGS { p }
lbfgs:load_state_dict(good) --! LBFGS:load_state_dict: the state is of Adam, not of LBFGS
adam:load_state_dict(lbfgs:state_dict()) --! Adam:load_state_dict: the state is of LBFGS, not of Adam

-- Groups that are added are trained, by steps that were made before, too.
local model = model_of(3)
local opt = optim.SGD(model[1]:parameters(), { lr = 0.1, momentum = 0.5 })
local step = graph.training_step(model, loss, opt)
local summed = graph.training_step(model, loss, opt, { accumulate = 2 })
step(x[0], y[0])
local first, last = model[1].weight:hash(), model[3].weight:hash()
opt:add_param_group { params = model[3]:parameters(), lr = 0.2 }
#opt.params, #opt.groups, opt.groups[2].lr, opt.groups[2].momentum --> 4, 2, 0.2, 0.5
step(x[1], y[1])
model[1].weight:hash() == first, model[3].weight:hash() == last --> false, false
last = model[3].weight:hash()
summed(x[2], y[2])
summed(x[3], y[3])
model[3].weight:hash() == last --> false
opt:set_rate(1)
opt.groups[2].lr --> 2
opt:add_param_group { params = model[3]:parameters() } --! SGD: parameter 5 is parameter 3 once more
opt:add_param_group(model[3]:parameters()) --! SGD: group 3: a list of parameters is needed, not nothing
opt:add_param_group(model[3]) --! SGD: group 3 is a module, not a table with params
opt:add_param_group { params = { op.ones { 2 } }, rate = 1 } --! SGD: unknown option 'rate'
#opt.params, #opt.groups --> 4, 2

-- A function that gives the loss, of any optimiser; LBFGS asks it several times.
local goal = tessera.tensor { 1, -2 }
local function descend(make, rounds)
  local w = op.zeros { 2 }
  w.requires_grad = true
  local opt, asked, value = make { w }, 0, nil
  for _ = 1, rounds do
    value = opt:step(function()
      asked = asked + 1
      opt:zero_grad()
      local y = (w - goal):square():sum()
      y:backward()
      return y
    end)
  end
  return (w - goal):abs():max():item(), asked, value:item()
end
local far, asked = descend(function(p) return optim.SGD(p, 0.25) end, 8)
far < 0.01, asked --> true, 8
local far, asked = descend(function(p) return optim.LBFGS(p) end, 1)
far < 1e-5, asked > 1 --> true, true
lbfgs:step() --! LBFGS:step: a function is needed that gives the loss at any place, not nothing
lbfgs:step { op.ones { 2, 3 } } --! LBFGS:step: a function is needed that gives the loss at any place, not a table
lbfgs:step(function() end) --! LBFGS:step: the closure returns the loss, or the gradients and the loss
optim.LBFGS { { params = { p } } } --! LBFGS: it has no groups of parameters: one list is needed
lbfgs:add_param_group { params = { q } } --! LBFGS: it has no groups of parameters

-- Schedules: what they were told, and what one that looks at the loss has seen.
local made = { constant = { lr = 1 }, cosine = { lr = 1, steps = 9 }, linear = { lr = 1, steps = 9 }, polynomial = { lr = 1, steps = 9, power = 2 },
  step = { lr = 1, every = 3 }, multistep = { lr = 1, at = { 2, 5 } }, exponential = { lr = 1, gamma = 0.5 }, inverse_sqrt = { lr = 1, warmup = 3 },
  restarts = { lr = 1, period = 3 }, cyclic = { lr = 1, low = 0.1, up = 3 }, one_cycle = { lr = 1, steps = 9 }, plateau = { lr = 1, patience = 1, factor = 0.5 } }
for name, make in pairs(optim.schedule) do
  local o, other = assert(made[name], name), {}
  for k, v in pairs(o) do other[k] = type(v) == "table" and { 7 } or k == "factor" and 0.25 or v + 1 end
  local a, b = make(o), make(other)
  if a.update then
    for i = 1, 5 do a:update(i) end
  end
  b:load_state_dict(through_file(a:state_dict()))
  for step = 0, 12 do
    assert(a(step) == b(step), name)
    if a.update then assert(a:update(step % 3) == b:update(step % 3)) end
  end
  assert(tostring(a):find("schedule." .. name, 1, true))
end
optim.schedule.step { lr = 1, every = 2 }.every --> 2
tostring(optim.schedule.multistep { lr = 1, at = { 3 } }) --> schedule.multistep{at = {3}, gamma = 0.1, lr = 1, warmup = 0}
local cosine = optim.schedule.cosine { lr = 1, steps = 3 }
cosine:load_state_dict(optim.schedule.linear({ lr = 1, steps = 3 }):state_dict()) --! schedule.cosine:load_state_dict: the state is of schedule.linear, not of schedule.cosine
cosine:load_state_dict(good) --! schedule.cosine:load_state_dict: the state is of no schedule: 'schedule' is missing
cosine:load_state_dict { schedule = "schedule.cosine", lr = 2, steps = "x" } --! 'final' is missing in the state, and a number here
cosine.lr --> 1

-- The scale of a loss goes on from where it was.
local model = model_of(4)
local step = graph.training_step(model, loss, optim.SGD(model:parameters(), 0.1), { scale = { scale = 8, interval = 3 } })
for i = 0, 3 do step(x[i], y[i]) end
step.scaler.scale, step.scaler.fine, step.scaler.skipped --> 16, 1, 0
local fresh = graph.training_step(model, loss, optim.SGD(model:parameters(), 0.1), { scale = "dynamic" })
fresh.scaler:load_state_dict(through_file(step.scaler:state_dict()))
fresh.scaler.scale, fresh.scaler.fine, fresh.scaler.interval --> 16, 1, 3
for i = 0, 1 do fresh(x[i], y[i]) end
fresh.scaler.scale --> 32
tostring(fresh.scaler) --> scale(32, dynamic, 0 steps left out)
fresh.scaler:load_state_dict(cosine:state_dict()) --! scale:load_state_dict: the state is of no scaler: 'scaler' is missing
