-- A convolutional network of digits, 28 x 28, 32 pictures a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local model = nn.Sequential {
  nn.Conv2d(1, 32, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(32, 64, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2),
  nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
}

return {
  model = model,
  data = { rng.uniform { 512, 1, 28, 28 }, rng.randint({ 512 }, { low = 0, high = 10 }) },
  batch = 32,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
