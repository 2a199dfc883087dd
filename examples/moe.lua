-- A language model whose layers are mixtures of experts: 2 layers of 8 experts, of which a token takes 2, learn the letters of a
-- text. What a step says of its experts is printed: how many rows each had, and how many choices a capacity has dropped.
--
--   tessera examples/moe.lua [--steps N] [--dp N] [--ep N] [--capacity C] [--text FILE]
--
-- MESH is all that says where it runs: sequences are split over `dp`, experts over `ep`, and losses and weights have the same bits
-- for all sizes of both. Several virtual devices: tessera --devices=cpu:4 examples/moe.lua --dp 2 --ep 2

local tessera = require "tessera"
local op, nn, optim, data, graph, rng, dist = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph, tessera.rng,
  tessera.dist

local options = tessera.arguments { steps = 300, text = "/usr/share/common-licenses/GPL-3", dp = 1, ep = 1, capacity = 0 }

local MESH = { dp = options.dp, ep = options.ep }

local LAYERS, WIDTH, HIDDEN, HEADS, EXPERTS, CHOSEN, CONTEXT, BATCH = 2, 32, 48, 2, 8, 2, 32, 8

local text = data.text(options.text)
local tokenizer = data.CharTokenizer(text)
local tokens, V = tokenizer:encode(text), tokenizer.size

-- ---- the model
rng.seed(1)
dist.leaves(8) -- sums are cut into so many, whatever the mesh

local Block, Model = nn.Module:extend "Block", nn.Module:extend "Model"

function Block:init()
  self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
  self.attention = nn.MultiHeadAttention(WIDTH, HEADS, { causal = true, rope = {} })
  self.moe = nn.MoE(WIDTH, HIDDEN, { experts = EXPERTS, k = CHOSEN, activation = "swiglu", bias = false,
    capacity = options.capacity > 0 and options.capacity or nil })
end

function Block:forward(x)
  x = x + self.attention(self.before(x))
  local y, routing = self.moe(self.between(x))
  return x + y, routing
end

function Model:init()
  self.embedding, self.blocks, self.norm = nn.Embedding(V, WIDTH), nn.List(), nn.RMSNorm(WIDTH)
  for i = 1, LAYERS do self.blocks[i] = Block() end
  self.head = nn.Linear(WIDTH, V, { bias = false })
end

-- Logits; what uneven and large choices cost; rows of each expert by layer, and how many choices were dropped.
function Model:forward(ids)
  local x, cost, sizes, dropped = self.embedding(ids), 0, {}, 0
  for i, block in ipairs(self.blocks) do
    local routing
    x, routing = block(x)
    cost = cost + 0.01 * op.load_balance_loss(routing.logits, routing.index) + 0.001 * op.router_z_loss(routing.logits)
    sizes[i], dropped = routing.sizes, dropped + routing.dropped
  end
  return self.head(self.norm(x)), cost, op.stack(sizes), dropped
end

local model = Model()
local mesh
if MESH.dp * MESH.ep > 1 then
  local count, devices = #tessera.core.devices(), {}
  for i = 1, MESH.dp * MESH.ep do devices[i] = count >= MESH.dp * MESH.ep and dist.range(i - 1, i)[1] or "cpu:0" end
  mesh = dist.Mesh { axes = { "dp", "ep" }, shape = { MESH.dp, MESH.ep }, devices = devices }
  dist.shard_module(model, mesh, { ["*experts.*"] = { "ep" } })
end
local optimizer = optim.AdamW(model:parameters(), { lr = 3e-3 })

local step = graph.training_step(model, function(m, x, y)
  local logits, cost, sizes, dropped = m(x)
  local loss = op.cross_entropy(logits:reshape(-1, V), y:reshape(-1))
  return loss + cost, loss, sizes, dropped
end, optimizer, { mesh = mesh })

-- ---- training
local function batch()
  local x, y = {}, {}
  for b, start in ipairs(op.randint({ BATCH }, { low = 0, high = tokens.numel - CONTEXT - 1 }):totable()) do
    x[b], y[b] = tokens:narrow(0, start, CONTEXT), tokens:narrow(0, start + 1, CONTEXT)
  end
  return op.stack(x), op.stack(y)
end

local function bars(sizes)
  local rows, list = BATCH * CONTEXT * CHOSEN, {}
  for e, n in ipairs(sizes) do list[e] = ("%s%d"):format(("#"):rep(math.floor(n / rows * 40 + 0.5)), n) end
  return table.concat(list, " ")
end

local first, last
for i = 1, options.steps do
  local _, loss, sizes, dropped = step(batch())
  last = loss:item()
  first = first or last
  if i == 1 or i % 50 == 0 or i == options.steps then
    print(("step %d: loss %.4f, %d choices dropped"):format(i, last, dropped:item()))
    for layer, row in ipairs(sizes:totable()) do print(("  layer %d: %s"):format(layer, bars(row))) end
  end
end
print("weights " .. model.blocks[1].moe.experts.up:hash() .. " " .. model.embedding.weight:hash())
if options.steps >= 100 then assert(last < first - 1, "it has learned too little") end
if options.steps > 1 then assert(last < first, "it has learned nothing") end
dist.leaves(0)
return model:state_dict()
