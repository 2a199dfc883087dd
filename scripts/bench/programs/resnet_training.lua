-- ResNet-18 learns from pictures of a size, so many a step.

local tessera = require "tessera"
local op, optim, rng = tessera.op, tessera.optim, tessera.rng
local ResNet = dofile "scripts/bench/programs/resnet.lua"

return function(size, batch)
  local model = ResNet(10)
  return {
    model = model,
    data = { rng.normal { 2 * batch, 3, size, size }, rng.randint({ 2 * batch }, { low = 0, high = 10 }) },
    batch = batch,
    loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
    optimizer = optim.SGD(model:parameters(), 1e-3, { momentum = 0.9 }),
  }
end
