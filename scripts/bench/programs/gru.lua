-- A GRU reads sequences of 32 numbers each and tells their class: 32 of them a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local Reader = nn.Module:extend "Reader"

function Reader:init()
  self.gru, self.head = nn.GRU(32, 128, { batch_first = true }), nn.Linear(128, 10)
end

function Reader:forward(x)
  local _, last = self.gru(x)
  return self.head(last:select(0, 0))
end

local model = Reader()

return {
  model = model,
  data = { rng.normal { 256, 40, 32 }, rng.randint({ 256 }, { low = 0, high = 10 }) },
  batch = 32,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
