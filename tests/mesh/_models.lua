-- A small GPT-2 and a small mixture of experts, arrangements of their training, and 20 steps of it, with a checkpoint in the middle
-- from which another arrangement goes on: what models.lua and tests/net compare.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph, checkpoint = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph, tessera.checkpoint

local models = { steps = 20 }
local VOCAB, WIDTH, ROWS, LENGTH = 37, 16, 8, 12

local Block, Model = nn.Module:extend "Block", nn.Module:extend "Model"
function Block:init(kind)
  self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
  self.attn = nn.MultiHeadAttention(WIDTH, 2, { causal = true })
  if kind == "moe" then
    self.moe = nn.MoE(WIDTH, 20, { experts = 8, k = 2 })
  else
    self.up, self.down = nn.Linear(WIDTH, 50), nn.Linear(50, WIDTH)
  end
  self.drop = nn.Dropout(0.1)
end
function Block:forward(x)
  x = x + self.attn(self.ln_1(x))
  if self.moe then return x + self.drop((self.moe(self.ln_2(x)))) end
  return x + self.drop(self.down(op.gelu(self.up(self.ln_2(x)))))
end
function Model:init(kind)
  self.token, self.position, self.norm = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH), nn.LayerNorm(WIDTH)
  self.h = nn.List { Block(kind), Block(kind) }
end
function Model:forward(ids)
  local x = self.token(ids) + self.position(op.arange(ids.shape[2]))
  for _, block in ipairs(self.h) do x = block(x) end
  return op.matmul(self.norm(x), self.token.weight:T())
end

local function loss(m, x, y) return op.cross_entropy(m(x):reshape(-1, VOCAB), y:reshape(-1)) end

local function batch(i)
  local ids = op.randint({ ROWS, LENGTH + 1 }, { low = 0, high = VOCAB, seed = 9, stream = i })
  return ids:narrow(1, 0, LENGTH):contiguous(), ids:narrow(1, 1, LENGTH):contiguous()
end

-- "dp2 tp2 zero1 micro2": axes of the mesh with their sizes, and the plan.
local both = { "dp2 zero0", "dp3 zero0", "dp8 zero3", "dp4 zero1", "dp2 zero2", "dp4 zero3", "pp2 micro2", "dp2 pp2 micro2 zero1", "dp2 pp2 micro2 zero3" }
models.arrangements = {
  gpt2 = { "tp2", "tp3", "tp8", "dp2 tp2 zero0", "dp2 tp4 zero3", "pp2 tp2 micro4", "dp2 pp2 tp2 zero1 micro2", "dp1", unpack(both) },
  moe = { "ep2", "ep3", "ep8", "dp2 ep2 zero0", "dp2 ep4 zero3", "pp2 ep2 micro2", "dp2 pp2 ep2 zero1 micro2", "dp1", unpack(both) },
}

local function read(text)
  local axes, shape, plan, n = {}, {}, {}, 1
  for word, number in text:gmatch "(%l+)(%d+)" do
    if word == "zero" or word == "micro" then
      plan[word] = tonumber(number)
    else
      axes[#axes + 1], shape[#shape + 1] = word, tonumber(number)
      n = n * number
    end
  end
  if text:find "pp" then plan.pp, plan.micro = { micro = plan.micro }, nil end
  return axes, shape, plan, n
end

--- How many devices it is of.
function models.size(text) return (select(4, read(text))) end

-- Products of two by columns and rows; experts by their number.
local function split(model, mesh, axis)
  for _, block in ipairs(model.h) do
    if axis == "ep" then
      dist.shard_module(block.moe, mesh, { ["experts.*"] = { "ep" } })
    else
      for _, p in ipairs { { block.up.weight, { "tp" } }, { block.up.bias, { "tp" } }, { block.down.weight, { nil, "tp" } } } do
        tessera.core.mesh_spread(p[1], dist.layout_of(mesh, p[2], #p[1].shape))
      end
    end
  end
end

local function hashes(model)
  local names, out, state = {}, {}, model:state_dict()
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do out[i] = name .. " " .. state[name]:hash() end
  return table.concat(out, "\n")
end

--- {kind, cast, how = an arrangement or nil, devices = function(n), from = folder, to = folder}: losses of steps, by step, and all
--- weights. to: a checkpoint behind the tenth step goes there; from: it goes on from one.
function models.train(o)
  rng.seed(3)
  local model, mesh, plan = Model(o.kind), nil, nil
  if o.how then
    local axes, shape, given, n = read(o.how)
    mesh, plan = dist.Mesh { axes = axes, shape = shape, devices = o.devices(n) }, given
    for _, axis in ipairs(axes) do
      if axis == "tp" or axis == "ep" then split(model, mesh, axis) end
    end
  end
  local opt = optim.AdamW(model:parameters(), { lr = 0.01 })
  local step = graph.training_step(model, loss, opt, { mesh = mesh, plan = plan, autocast = o.cast })
  local losses, first = {}, 1
  local function state() return { model = model:state_dict(), opt = opt:state_dict() } end
  if o.from then
    local was = checkpoint.load(o.from, { rng = true })
    model:load_state_dict(was.model)
    opt:load_state_dict(was.opt)
    first = was.step + 1
  end
  for i = first, models.steps do
    losses[i] = step(batch(i)):hash()
    if o.to and i == models.steps / 2 then
      local s = state()
      s.step = i
      checkpoint.save(o.to, s, { step = i })
    end
  end
  return losses, hashes(model)
end

return models
