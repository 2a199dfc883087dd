-- A small transformer over tokens, four blocks with dropout and tied tables, and steps of its training: what pipeline.lua compares.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph

local small = { vocab = 37, width = 24, heads = 3, blocks = 4 }

small.device = os.getenv "DEV" or ""
if small.device == "" then small.device = "cpu:0" end
if not small.device:find ":" then small.device = small.device .. ":0" end

local Block, Model = nn.Module:extend "Block", nn.Module:extend "Model"
function Block:init()
  self.ln_1, self.ln_2 = nn.LayerNorm(small.width), nn.LayerNorm(small.width)
  self.attn = nn.MultiHeadAttention(small.width, small.heads, { causal = true })
  self.up, self.down = nn.Linear(small.width, 50), nn.Linear(50, small.width)
  self.drop = nn.Dropout(0.1)
end
function Block:forward(x)
  x = x + self.attn(self.ln_1(x))
  return x + self.drop(self.down(op.gelu(self.up(self.ln_2(x)))))
end
function Model:init()
  self.norm, self.embedding, self.h = nn.LayerNorm(small.width), nn.Embedding(small.vocab, small.width), nn.List()
  for i = 1, small.blocks do self.h[i] = Block() end
end
function Model:forward(ids)
  local x = self.embedding(ids)
  for _, block in ipairs(self.h) do x = block(x) end
  return op.matmul(self.norm(x), self.embedding.weight:T())
end
small.Model = Model

function small.mesh(shape, axes)
  local n, devices = 1, {}
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n do devices[i] = small.device end
  return dist.Mesh { axes = axes, shape = shape, devices = devices }
end

--- The first weight of each block by columns, the second by rows: what is between them is never whole.
function small.split(mesh)
  return function(model)
    for _, block in ipairs(model.h) do
      for _, p in ipairs { { block.up.weight, { "tp" } }, { block.up.bias, { "tp" } }, { block.down.weight, { nil, "tp" } } } do
        tessera.core.mesh_spread(p[1], dist.layout_of(mesh, p[2], #p[1].shape))
      end
    end
  end
end

function small.loss(m, x, y) return op.cross_entropy(m(x):reshape(-1, small.vocab), y:reshape(-1)) end

--- Tokens of step i, and those behind them.
function small.batch(i, rows)
  local ids = op.randint({ rows or 8, 12 }, { low = 0, high = small.vocab, seed = 9, stream = i })
  return ids:narrow(1, 0, 11):contiguous(), ids:narrow(1, 1, 11):contiguous()
end

function small.hashes(model)
  local names, out, state = {}, {}, model:state_dict()
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do out[i] = state[name]:hash() end
  return table.concat(out, " ")
end

--- {mesh, plan, autocast, rows, split, optimizer, how}: losses of three steps and all weights, as hashes; the step, the model, the optimiser.
function small.train(o)
  rng.seed(3)
  local model = Model()
  if o.split then o.split(model) end
  local opt = (o.optimizer or function(p) return optim.AdamW(p, { lr = 0.01 }) end)(model:parameters())
  local how = { mesh = o.mesh, plan = o.plan, autocast = o.autocast }
  for name, v in pairs(o.how and o.how(model) or {}) do how[name] = v end
  local step, losses = graph.training_step(model, small.loss, opt, how), {}
  for i = 1, o.steps or 3 do losses[i] = step(small.batch(i, o.rows)):hash() end
  return table.concat(losses, " ") .. " " .. small.hashes(model), step, model, opt
end

return small
