-- optim.AdamAtan2 beside its formula in Lua's own numbers; captured steps have the bits of eager ones; a step does not depend on
-- the size of gradients, and is none where they are 0.
local tessera = require "tessera"
local op, nn, optim, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng

-- Gradients of four steps of one number.
local GRADIENTS, LR, B1, B2, DECAY = { 0.5, -2, 0, 3e-4 }, 0.1, 0.8, 0.9, 0.3
local x, m, v = 0.7, 0, 0
local p = tessera.tensor({ x }, { dtype = "f64" })
local opt = optim.AdamAtan2({ p }, { lr = LR, betas = { B1, B2 }, weight_decay = DECAY })
for t, g in ipairs(GRADIENTS) do
  opt:step { tessera.tensor({ g }, { dtype = "f64" }) }
  m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
  x = x * (1 - LR * DECAY) - LR * math.atan2(m / (1 - B1 ^ t), math.sqrt(v) / math.sqrt(1 - B2 ^ t))
  assert(math.abs(p:item() - x) < 1e-14, t)
end

-- The first step goes by a quarter of a turn's tangent, however large gradients are; 0 moves nothing.
local function first(g)
  local p = op.zeros { 3 }
  optim.AdamAtan2({ p }, { lr = 1 }):step { g }
  return p
end
first(tessera.tensor { 1, -2, 0 }) --> [-0.7854  0.7854  0.0000]
--> f32[3]
local g = rng.normal({ 3 }, { seed = 1, stream = 1 })
first(g):hash() == first(g * 2 ^ 40):hash() --> true

-- Captured and eager.
local function weights(eager)
  tessera.core.seed(3)
  local model = nn.Linear(4, 2)
  local opt = optim.AdamAtan2({ { params = { model.weight } }, { params = { model.bias }, lr = 0.1, weight_decay = 0 } }, 0.01, { 0.9, 0.95 }, 1)
  local function loss(m, x) return m(x):square():mean() end
  local step = graph.training_step(model, loss, opt)
  for i = 1, 3 do
    local x = rng.normal({ 5, 4 }, { seed = 1, stream = i })
    if eager then
      opt:zero_grad()
      loss(model, x):backward()
      opt:step()
    else
      step(x)
    end
  end
  return model.weight:hash() .. model.bias:hash()
end
weights(true) == weights(false) --> true
optim.AdamAtan2({ op.zeros { 2 } }, { eps = 1e-8 }) --! AdamAtan2: unknown option 'eps'
