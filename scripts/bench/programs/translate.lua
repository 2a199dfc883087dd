-- A transformer with encoder and decoder, two layers of 128 each: 16 pairs of sentences of 24 words a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local WORDS, WIDTH, LENGTH = 500, 128, 24
local Translator = nn.Module:extend "Translator"

function Translator:init()
  local layer = { hidden = 4 * WIDTH, dropout = 0, batch_first = true }
  self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
  self.position = nn.Embedding(LENGTH, WIDTH)
  self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, layer), 2)
  self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 4, layer), 2)
  self.head = nn.Linear(WIDTH, WORDS)
end

function Translator:forward(source, target)
  local position = self.position(op.arange(LENGTH))
  local memory = self.encoder(self.source(source) + position)
  return self.head(self.decoder(self.target(target) + position, memory, { causal = true }))
end

local model = Translator()
local function sentences(length) return rng.randint({ 256, length }, { low = 0, high = WORDS }) end
local target = sentences(LENGTH + 1)

return {
  model = model,
  data = { sentences(LENGTH), target["::, :24"]:contiguous(), target["::, 1:"]:contiguous() },
  batch = 16,
  loss = function(m, source, before, after) return op.cross_entropy(m(source, before), after) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
