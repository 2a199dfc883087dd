-- graph.training_step against the eager loop of backward() and opt:step(): the same bits of
-- all parameters and buffers after 20 steps, for every optimiser, with one and with two
-- threads; saved in the middle and resumed; rates that change; clipped gradients.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, nn, op, optim = tessera.graph, tessera.nn, tessera.op, tessera.optim

-- Layers of all kinds that have a state or draw numbers.
local Net = nn.Module:extend "Net"
function Net:init()
  self.embed = nn.Embedding(11, 16)
  self.conv = nn.Conv2d(1, 4, 3, { padding = 1 })
  self.norm = nn.BatchNorm(4)
  self.drop = nn.Dropout(0.25)
  self.up = nn.Linear(64, 32)
  self.layer = nn.LayerNorm(32)
  self.down = nn.Linear(32, 11)
end
function Net:forward(ids)
  local x = self.embed(ids):reshape(-1, 1, 4, 4)
  x = self.norm(self.conv(x)):relu():reshape(-1, 64)
  return self.down(self.layer(self.drop(op.gelu(self.up(x)))))
end

local ids = op.randint({ 20, 9 }, { low = 0, high = 11, seed = 1, stream = 1 })
local targets = op.randint({ 20, 9 }, { low = 0, high = 11, seed = 1, stream = 2 })
local function loss(model, i, t) return op.cross_entropy(model(i), t) end

local makers = {
  SGD = function(p) return optim.SGD(p, { lr = 0.05, momentum = 0.9, weight_decay = 1e-3 }) end,
  plain = function(p) return optim.SGD(p, { lr = 0.05 }) end,
  nesterov = function(p) return optim.SGD(p, { lr = 0.05, momentum = 0.8, dampening = 0, nesterov = true }) end,
  dampened = function(p) return optim.SGD(p, { lr = 0.05, momentum = 0.8, dampening = 0.3 }) end,
  Adam = function(p) return optim.Adam(p, { lr = 0.01 }) end,
  AdamW = function(p) return optim.AdamW(p, { lr = 0.01, weight_decay = 0.1 }) end,
  Lion = function(p) return optim.Lion(p, { lr = 0.002, weight_decay = 0.1 }) end,
  Adafactor = function(p) return optim.Adafactor(p, { lr = 0.05 }) end,
  absolute = function(p) return optim.Adafactor(p, { lr = 0.01, scale_parameter = false, weight_decay = 0.01 }) end,
  clipped = function(p) return optim.AdamW(p, { lr = 0.01, clip = 0.5 }) end,
}

local function fresh(make)
  core.seed(4)
  local model = Net()
  local opt = make(model:parameters())
  core.seed(8)
  return model, opt
end

local function hash(model, opt)
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
  return table.concat(names, "\n")
end

local function eager(make, steps, rate)
  local model, opt = fresh(make)
  local losses = {}
  for s = 0, steps - 1 do
    if rate then opt.lr = rate(s) end
    local y = loss(model, ids:select(0, s % 20), targets:select(0, s % 20))
    y:backward()
    if opt.clip then
      local grads = {}
      for i, p in ipairs(opt.params) do grads[i] = p.grad end
      opt:step(grads)
    else
      opt:step()
    end
    for _, p in ipairs(opt.params) do p.grad = nil end
    losses[#losses + 1] = y:hash()
  end
  return hash(model, opt) .. "\n" .. table.concat(losses), model, opt
end

local function captured(make, steps, rate)
  local model, opt = fresh(make)
  local step = graph.training_step(model, loss, opt, { schedule = rate })
  local losses = {}
  for s = 0, steps - 1 do
    losses[#losses + 1] = step(ids:select(0, s % 20), targets:select(0, s % 20)):hash()
  end
  return hash(model, opt) .. "\n" .. table.concat(losses), step, model, opt
end

-- Where the texts differ first.
local function difference(a, b)
  if a == b then return "none" end
  local lines = {}
  for line in a:gmatch "[^\n]+" do lines[line] = true end
  for line in b:gmatch "[^\n]+" do
    if not lines[line] then return line end
  end
end

local function expect(name, where)
  if where ~= "none" then error(name .. ": " .. tostring(where), 2) end
end

local threads = core.threads()
core.profile "strict"
for name, make in pairs(makers) do
  core.threads(1)
  local want = eager(make, 20)
  for _, n in ipairs { 1, 2 } do
    core.threads(n)
    expect(name, difference(want, (captured(make, 20))))
  end
  expect(name, difference(want, (eager(make, 20))))
end
core.threads(threads)

-- In the default profile too, where no rule that rounds fired.
core.profile "deterministic"
difference(eager(makers.AdamW, 6), (captured(makers.AdamW, 6))) --> none

-- A rate that changes at every step; one specialisation.
local rate = optim.schedule.cosine { lr = 0.02, steps = 12, warmup = 3 }
local got, step = captured(makers.AdamW, 12, rate)
difference(eager(makers.AdamW, 12, rate), got) --> none
tostring(step) --> graph.module training_step (1 specialisation)

-- Nothing is recorded for backward().
local _, s2, _, opt2 = captured(makers.AdamW, 1)
local y = s2(ids:select(0, 0), targets:select(0, 0))
y.requires_grad --> false
y:backward() --! does not depend on a tensor that requires gradients
opt2.params[1].requires_grad --> true

-- Saved after 7 of 15 steps, by files, and resumed by another model: the same bits.
for _, name in ipairs { "SGD", "Adam", "Lion", "Adafactor" } do
  local make = makers[name]
  local whole = captured(make, 15):gsub("\n[^\n]*$", "")
  local _, _, model, opt = captured(make, 7)
  local state, a, b = { core.rng_state() }, os.tmpname(), os.tmpname()
  tessera.save(a .. ".safetensors", model:state_dict())
  tessera.save(b .. ".safetensors", opt:state_dict())
  local model2, opt_2 = fresh(make)
  model2:load_state_dict((tessera.load(a .. ".safetensors")))
  opt_2:load_state_dict((tessera.load(b .. ".safetensors")))
  for _, path in ipairs { a, b, a .. ".safetensors", b .. ".safetensors" } do os.remove(path) end
  local again = graph.training_step(model2, loss, opt_2)
  core.rng_state(unpack(state))
  for s = 7, 14 do again(ids:select(0, s), targets:select(0, s)) end
  expect(name, difference(whole, hash(model2, opt_2)))
  opt_2.steps --> 15
end

-- A step whose loss returns more than the loss; two batches' shapes.
local model, opt = fresh(makers.plain)
local both = graph.training_step(model, function(m, i, t)
  local out = m(i)
  return op.cross_entropy(out, t), { guess = out:argmax { axis = -1 } }
end, opt)
local l, more = both(ids:select(0, 0), targets:select(0, 0))
l.numel, more.guess.shape[1] --> 1, 9
both(ids:select(0, 0)["2:"], targets:select(0, 0)["2:"]).numel --> 1
tostring(both) --> graph.module training_step (2 specialisations)
opt.steps --> 2
graph.training_step(model, function(m, i) return m(i) end, opt)(ids:select(0, 0)) --! the function must return one number as a tensor
