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

optim.AdamW({ p }, { learning_rate = 1 }) --! unknown option 'learning_rate'; options are betas, eps, lr

-- Clipping and schedules.
local g = tessera.tensor { 3, 4 }
optim.clip_grad_norm({ g }, 1) --> 5
assert(math.abs(g:norm():item() - 1) < 1e-5)
optim.clip_grad_value({ g }, 0.5)
g:max():item() --> 0.5
local s = optim.schedule.cosine { lr = 1, steps = 110, warmup = 10, final = 0.1 }
("%.2f %.2f %.2f %.2f"):format(s(0), s(9), s(60), s(110)) --> 0.10 1.00 0.55 0.10
optim.schedule.step { lr = 1, every = 10 }(25) --> 0.01
