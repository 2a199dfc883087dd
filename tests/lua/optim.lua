local tessera = require "tessera"
local op, optim = tessera.op, tessera.optim

-- Each optimiser finds the bottom of a bowl, in place.
local target = tessera.tensor { 1, -2, 3 }
for name, o in pairs { SGD = { lr = 0.1, momentum = 0.9, nesterov = true }, Adam = { lr = 0.05 },
  AdamW = { lr = 0.05, weight_decay = 0 }, Lion = { lr = 0.01 }, Adafactor = { lr = 0.3 } } do
  local p = op.zeros { 3 }
  local at = tonumber(tostring(p:data_ptr()):match("0x%x+"))
  local opt = optim[name]({ p }, o)
  for step = 1, 1500 do
    if step % 500 == 0 then opt.lr = opt.lr / 10 end
    opt:step { (p - target) * 2 }
  end
  local error_ = (p - target):abs():max():item()
  assert(error_ < 0.05, name .. " ends " .. error_ .. " away")
  assert(tonumber(tostring(p:data_ptr()):match("0x%x+")) == at, name .. " moved its parameter")
end

-- State survives saving: the same bits with and without.
local function run(steps, opt, p)
  for _ = 1, steps do opt:step { (p - target) * 2 } end
end
local p, q = op.zeros { 3 }, op.zeros { 3 }
local a, b = optim.AdamW { p }, optim.AdamW { q }
run(10, a, p)
run(4, b, q)
local path = os.tmpname() .. ".safetensors"
tessera.save(path, b:state_dict())
local c = optim.AdamW { q }
c:load_state_dict((tessera.load(path)))
os.remove(path)
run(6, c, q)
q:hash() == p:hash() --> true

optim.AdamW({ p }, { learning_rate = 1 }) --! AdamW: unknown option 'learning_rate'

-- Clipping and schedules.
local g = tessera.tensor { 3, 4 }
optim.clip_grad_norm({ g }, 1) --> 5
assert(math.abs(g:norm():item() - 1) < 1e-5)
optim.clip_grad_value({ g }, 0.5)
g:max():item() --> 0.5
local s = optim.schedule.cosine { lr = 1, steps = 110, warmup = 10, final = 0.1 }
("%.2f %.2f %.2f %.2f"):format(s(0), s(9), s(60), s(110)) --> 0.10 1.00 0.55 0.10
optim.schedule.step { lr = 1, every = 10 }(25) --> 0.01

-- L-BFGS finds the bottom of Rosenbrock's valley, eagerly and by captured steps.
local graph = tessera.graph
local place = tessera.tensor({ -1.2, 1 }, { dtype = "f64" })
local function valley(p) return (1 - p[0]):square() + (p[1] - p[0]:square()):square() * 100 end
local valley_grad = graph.value_and_grad(valley)
local lbfgs, asked = optim.LBFGS({ place }, { iterations = 60 }), 0
local value = lbfgs:step(function()
  asked = asked + 1
  local y, g = valley_grad(place)
  return { g }, y
end)
assert(value:item() < 1e-20 and (place - 1):abs():max():item() < 1e-9 and asked < 80)
place:copy_(tessera.tensor({ -1.2, 1 }, { dtype = "f64" }))
local step = graph.training_step({ place }, function(m) return valley(m[1]) end, optim.LBFGS { place })
for _ = 1, 3 do value = step() end
assert(value:item() < 1e-20)
optim.LBFGS({ place }, { learning_rate = 1 }) --! LBFGS: unknown option 'learning_rate'
-- A run that is saved in the middle goes on with the same bits.
local function run_lbfgs(cut)
  local p = tessera.tensor({ -1.2, 1 }, { dtype = "f64" })
  local o = optim.LBFGS({ p }, { iterations = 5 })
  for i = 1, 2 do
    if i == 2 and cut then
      local fresh = optim.LBFGS({ p }, { iterations = 5 })
      fresh:load_state_dict(o:state_dict())
      o = fresh
    end
    o:step(function()
      local y, g = valley_grad(p)
      return { g }, y
    end)
  end
  return p:hash()
end
run_lbfgs(true) == run_lbfgs(false) --> true
-- A parameter without gradient stays.
local still = op.ones { 2 }
optim.LBFGS({ still, place }):step(function() return { false, op.zeros_like(place) }, 1 end) --> 1
still --> [1. 1.]
--> f32[2]
