-- A language model of characters: two layers of LSTM, 128 wide, 16 texts of 64 characters a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local Model = nn.Module:extend "Model"

function Model:init(characters, width)
  self.embedding = nn.Embedding(characters, width)
  self.lstm = nn.LSTM(width, width, { layers = 2, batch_first = true })
  self.head = nn.Linear(width, characters)
end

function Model:forward(ids) return self.head((self.lstm(self.embedding(ids)))) end

local model = Model(80, 128)
local text = rng.randint({ 128, 65 }, { low = 0, high = 80 })

return {
  model = model,
  data = { text["::, :64"]:contiguous(), text["::, 1:"]:contiguous() },
  batch = 16,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
