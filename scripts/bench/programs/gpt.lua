-- A small GPT, four layers of 128, learns to go on with 8 texts of 64 characters a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local GPT = nn.Module:extend "GPT"

function GPT:init(characters, width, heads, layers, context)
  self.token, self.position = nn.Embedding(characters, width), nn.Embedding(context, width)
  self.blocks = nn.List()
  for i = 1, layers do self.blocks[i] = nn.TransformerBlock(width, heads, { causal = true }) end
  self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, { bias = false })
end

function GPT:forward(ids)
  local x = self.token(ids) + self.position(op.arange(ids.shape[2]))
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

local model = GPT(76, 128, 4, 4, 64)
local text = rng.randint({ 64, 65 }, { low = 0, high = 76 })

return {
  model = model,
  data = { text["::, :64"]:contiguous(), text["::, 1:"]:contiguous() },
  batch = 8,
  loss = function(m, x, y) return op.cross_entropy(m(x), y) end,
  optimizer = optim.AdamW(model:parameters(), 1e-4),
}
