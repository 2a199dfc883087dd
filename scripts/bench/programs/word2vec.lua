-- Vectors of 5000 words by skip-grams: each of 512 pairs a step against 5 words drawn by how often they occur.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local WORDS, WIDTH, BATCH, NEGATIVE = 5000, 64, 512, 5
local Word2Vec = nn.Module:extend "Word2Vec"

function Word2Vec:init() self.word, self.context = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH) end

function Word2Vec:forward(word, context)
  return (self.word(word):unsqueeze(1) * self.context(context)):sum { axis = -1 }
end

local model = Word2Vec()
tessera.no_grad(function()
  for _, table in ipairs { model.word, model.context } do table.weight:mul_(0.1) end
end)

-- Words occur as often as Zipf says, and are drawn by the power 3/4 of it.
local logits = (op.arange(WORDS):cast "f32" + 1):log() * -0.75
local function words(shape) return (rng.uniform(shape):square() * WORDS):floor():cast "i64" end

return {
  model = model,
  data = { words { 16 * BATCH }, words { 16 * BATCH } },
  batch = BATCH,
  loss = function(m, word, context)
    local drawn = rng.categorical(logits, { count = BATCH * NEGATIVE }):reshape(BATCH, NEGATIVE)
    local y = m(word, op.concat({ context:unsqueeze(1), drawn }, { axis = 1 }))
    return -(y:narrow(1, 0, 1):sigmoid():log():sum() + (-y:narrow(1, 1, NEGATIVE)):sigmoid():log():sum()) / BATCH
  end,
  optimizer = optim.SGD(model:parameters(), 0.025),
}
