-- Losses and weights of training have the same bits on one device and on any mesh: data parallel, by ZeRO's stages, weights
-- split by columns and rows, with sizes that no mesh divides; f32 and bf16, with dropout.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph

local DEVICE = os.getenv "DEV" or ""
if DEVICE == "" then DEVICE = "cpu:0" end
if not DEVICE:find ":" then DEVICE = DEVICE .. ":0" end
local function devices(n)
  if dist.world() > 1 then return dist.range(n) end -- tests/net runs it in several processes
  local list = {}
  for i = 1, n do list[i] = DEVICE end
  return list
end

local function hashes(model)
  local names, out, state = {}, {}, model:state_dict()
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do out[i] = state[name]:hash() end
  return table.concat(out, " ")
end

-- ---- a transformer over tokens: 7 sequences of 11, of 37 tokens
local VOCAB, WIDTH, HEADS = 37, 24, 3
local Block, Model = nn.Module:extend "Block", nn.Module:extend "Model"
function Block:init()
  self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
  self.attn = nn.MultiHeadAttention(WIDTH, HEADS, { causal = true })
  self.up, self.down = nn.Linear(WIDTH, 50), nn.Linear(50, WIDTH)
  self.drop = nn.Dropout(0.1)
end
function Block:forward(x)
  x = x + self.attn(self.ln_1(x))
  return x + self.drop(self.down(op.gelu(self.up(self.ln_2(x)))))
end
function Model:init()
  self.embedding, self.block, self.norm = nn.Embedding(VOCAB, WIDTH), Block(), nn.LayerNorm(WIDTH)
end
function Model:forward(ids) return op.matmul(self.norm(self.block(self.embedding(ids))), self.embedding.weight:T()) end

local function train(options)
  rng.seed(3)
  local model = Model()
  if options.split then options.split(model) end
  local opt = optim.AdamW(model:parameters(), { lr = 0.01 })
  local step = graph.training_step(model, function(m, x, y)
    return op.cross_entropy(m(x):reshape(-1, VOCAB), y:reshape(-1))
  end, opt, { mesh = options.mesh, plan = options.zero and { zero = options.zero }, autocast = options.autocast })
  local losses = {}
  for i = 1, 4 do
    local ids = op.randint({ 7, 12 }, { low = 0, high = VOCAB, seed = 9, stream = i })
    losses[i] = step(ids:narrow(1, 0, 11):contiguous(), ids:narrow(1, 1, 11):contiguous()):hash()
  end
  return table.concat(losses, " ") .. " " .. hashes(model)
end

local function mesh(shape, axes) return dist.Mesh { axes = axes or { "dp" }, shape = shape, devices = devices(shape[1] * (shape[2] or 1)) } end

for _, autocast in ipairs { false, "bf16" } do
  tessera.device(DEVICE, dist.leaves, 12, function()
    local cast = autocast or nil
    local alone = train { autocast = cast }
    for _, n in ipairs { 1, 2, 3 } do
      for zero = 0, 3 do
        assert(train { mesh = mesh { n }, zero = zero, autocast = cast } == alone, ("dp %d zero %d %s"):format(n, zero, cast or "f32"))
      end
    end
    -- The first weight by columns, the second by rows: what is between them is never whole.
    -- By ZeRO's stages what each device has of them is split further by dp.
    for _, shape in ipairs { { 1, 2 }, { 2, 2 } } do
      local m, kept = mesh(shape, { "dp", "tp" }), nil
      local split = function(model)
        local up, down = model.block.up, model.block.down
        for _, p in ipairs { { up.weight, { "tp" } }, { up.bias, { "tp" } }, { down.weight, { nil, "tp" } } } do
          tessera.core.mesh_spread(p[1], dist.layout_of(m, p[2], #p[1].shape))
        end
        kept = { up.weight, down.weight }
      end
      for zero = 0, 3 do
        assert(train { mesh = m, split = split, zero = zero, autocast = cast } == alone,
          ("dp %d tp %d zero %d %s"):format(shape[1], shape[2], zero, cast or "f32"))
        local by = zero == 3 and { '{{"tp", "dp"}, leaves = 12}', '{"dp", "tp", leaves = 12}' } or { '{"tp", leaves = 12}', '{nil, "tp", leaves = 12}' }
        for i, w in ipairs(kept) do assert(tostring(dist.spec_of(w)) == by[i], tostring(dist.spec_of(w))) end
      end
    end
  end)
end
