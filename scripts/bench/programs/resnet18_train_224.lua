-- ResNet-18 learns from pictures of 224 x 224, 2 a step.

local tessera = require "tessera"
local op, optim, rng = tessera.op, tessera.optim, tessera.rng
local ResNet = dofile "scripts/bench/programs/resnet.lua"

local model = ResNet(10)

return {
  model = model,
  data = { rng.normal { 4, 3, 224, 224 }, rng.randint({ 4 }, { low = 0, high = 10 }) },
  batch = 2,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.SGD(model:parameters(), 1e-3, { momentum = 0.9 }),
}
