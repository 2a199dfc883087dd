-- A multi-layer perceptron of digits: 784-256-128-10, 64 pictures a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

return {
  model = model,
  data = { rng.uniform { 2048, 784 }, rng.randint({ 2048 }, { low = 0, high = 10 }) },
  batch = 64,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
