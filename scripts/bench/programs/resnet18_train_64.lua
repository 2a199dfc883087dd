-- ResNet-18 learns from pictures of 64 x 64, 8 a step.

local tessera = require "tessera"
local op, optim, rng = tessera.op, tessera.optim, tessera.rng
local ResNet = dofile "scripts/bench/programs/resnet.lua"

local model = ResNet(10)

return {
  model = model,
  data = { rng.normal { 16, 3, 64, 64 }, rng.randint({ 16 }, { low = 0, high = 10 }) },
  batch = 8,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.SGD(model:parameters(), 1e-3, { momentum = 0.9 }),
}
