-- Two layers of graph convolution tell the classes of 2708 papers from their words and 10556 citations.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local NODES, EDGES, WORDS, CLASSES = 2708, 10556, 512, 7
local GCN = nn.Module:extend "GCN"

function GCN:init() self.first, self.second = nn.Linear(WORDS, 16), nn.Linear(16, CLASSES) end

-- What each node gets from its neighbours.
local function gather(x, from, to, weight)
  local messages = op.index_select(x, from) * weight
  return op.index_add(op.zeros(x.shape), to, messages)
end

function GCN:forward(x, from, to, weight)
  local h = gather(self.first(x), from, to, weight):relu()
  return gather(self.second(h), from, to, weight)
end

local function some(n) return rng.randint({ EDGES }, { low = 0, high = n }) end
local self_loop = op.arange(NODES)
local from, to = op.concat { some(NODES), self_loop }, op.concat { some(NODES), self_loop }
local degree = op.bincount(to, NODES):cast "f32"
local weight = (op.index_select(degree, from) * op.index_select(degree, to)):rsqrt():unsqueeze(1)
local model = GCN()

return {
  model = model,
  data = { rng.bernoulli({ NODES, WORDS }, { p = 0.02, dtype = "f32" }), from, to, weight,
    rng.randint({ NODES }, { low = 0, high = CLASSES }) },
  loss = function(m, x, from, to, weight, y) return op.cross_entropy(m(x, from, to, weight), y) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
