-- Training GPT-2: bf16 arithmetic, f32 weights and optimiser, the whole step captured.
--
--   tessera examples/gpt2.lua [--size tiny|small] [--steps N] [--batch N] [--context N]
--                             [--text FILE | --synthetic true] [--dtype bf16|f32]
--                             [--device cuda:0] [--init FOLDER] [--save FILE] [--lr RATE]
--                             [--dp N] [--pp N] [--micro N]
--
-- `small` is the 124M model, 12 layers of width 768; `tiny` learns the characters of a text on a
-- CPU in a minute. A text is read as characters, and the table of tokens has as many rows;
-- --synthetic trains on random tokens of 50304 rows, for measuring. FOLDER holds config.json and
-- model.safetensors with Hugging Face's names: training goes on from there.
--
-- --dp 2 --pp 4 --micro 8 spreads a step over eight devices: batches over two, blocks over four, in eight micro-batches
-- (tessera --devices=cpu:8 where there are no GPUs). `spread` below is all that says so, and the bits are those of any
-- other such plan.
--
-- Weights, residual stream, norms and the loss are f32; products and attention run in the dtype
-- given, on weights that are rounded once a step. This is what PyTorch's autocast does.

local tessera = require "tessera"
local op, nn, optim, data, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph,
  tessera.rng

local sizes = {
  tiny = { n_layer = 4, n_embd = 128, n_head = 4, steps = 100, batch = 8, context = 128 },
  small = { n_layer = 12, n_embd = 768, n_head = 12, steps = 100, batch = 32, context = 1024, vocab_size = 50304 },
}
local options = tessera.arguments({ size = "tiny", dtype = "bf16", text = "/usr/share/common-licenses/GPL-3", device = "cpu", seed = 1,
  lr = 6e-4, dp = 1, pp = 1, micro = 1, steps = false, batch = false, context = false, synthetic = { false, true }, init = false,
  save = ">.safetensors" }, sizes)
local config, steps, batch, context = sizes[options.size], options.steps, options.batch, options.context

-- ---- tokens
local tokens
if options.synthetic then
  config.vocab_size = config.vocab_size or 50304
else
  local text = data.text(options.text)
  local tokenizer = data.CharTokenizer(text)
  tokens = tokenizer:encode(text)
  config.vocab_size = math.ceil(tokenizer.size / 64) * 64 -- rows that no token uses would move in step
end

local state
if options.init then
  local given = require("tessera.io").load_json(options.init .. "/config.json")
  for _, name in ipairs { "vocab_size", "n_positions", "n_embd", "n_layer", "n_head" } do config[name] = given[name] end
  state = tessera.load(options.init .. "/model.safetensors")
end
config.n_positions = config.n_positions or context
rng.seed(options.seed)

-- ---- the model; linear weights are stored [in, out], as GPT-2's are
local Linear, Block, GPT2 = nn.Module:extend "Linear", nn.Module:extend "Block", nn.Module:extend "GPT2"
local Attention, MLP = nn.Module:extend "Attention", nn.Module:extend "MLP"

function Linear:init(n, m, std) self.weight, self.bias = op.normal({ n, m }, { std = std }), op.zeros { m } end

function Linear:forward(x)
  return op.matmul(x, self.weight:cast(options.dtype), { bias = self.bias:cast(options.dtype) })
end

-- What is added to the residual stream begins smaller the more layers add to it.
local deep = 0.02 / math.sqrt(2 * config.n_layer)

function Attention:init(width) self.c_attn, self.c_proj = Linear(width, 3 * width, 0.02), Linear(width, width, deep) end

function Attention:forward(x)
  local b, t, width = unpack(x.shape)
  local heads = config.n_head
  local qkv = self.c_attn(x):reshape(b, t, 3, heads, width / heads):permute(2, 0, 3, 1, 4)
  local q, k, v = qkv:split { size = 1 }
  local y = op.attention(q:squeeze(0), k:squeeze(0), v:squeeze(0), { causal = true })
  return self.c_proj(y:permute(0, 2, 1, 3):reshape(b, t, width))
end

function MLP:init(width) self.c_fc, self.c_proj = Linear(width, 4 * width, 0.02), Linear(4 * width, width, deep) end

function MLP:forward(x) return self.c_proj(op.gelu(self.c_fc(x), { approximate = "tanh" })) end

function Block:init(width)
  self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
  self.attn, self.mlp = Attention(width), MLP(width)
end

function Block:forward(x)
  x = x + self.attn(self.ln_1(x):cast(options.dtype)):cast "f32"
  return x + self.mlp(self.ln_2(x):cast(options.dtype)):cast "f32"
end

function GPT2:init()
  self.wte, self.wpe = nn.Embedding(config.vocab_size, config.n_embd), nn.Embedding(config.n_positions, config.n_embd)
  self.h = nn.List()
  for i = 1, config.n_layer do self.h[i] = Block(config.n_embd) end
  self.ln_f = nn.LayerNorm(config.n_embd)
  self.wte.weight:copy_(op.normal(self.wte.weight.shape, { std = 0.02 }))
  self.wpe.weight:copy_(op.normal(self.wpe.weight.shape, { std = 0.02 }))
end

-- Logits; the table of tokens is the head's weight too.
function GPT2:forward(ids)
  local x = self.wte(ids) + self.wpe(op.arange(ids.shape[2]))
  for _, block in ipairs(self.h) do x = block(x) end
  return op.matmul(self.ln_f(x):cast(options.dtype), self.wte.weight:cast(options.dtype):transpose(0, 1))
end

local model = tessera.no_grad(GPT2)
if state then
  local names = {}
  for name, t in pairs(state) do names[name:gsub("^transformer%.", "")] = t end
  tessera.no_grad(function() model:load_state_dict(names) end)
end
if options.device ~= "cpu" then model:to(options.device) end

local optimizer = optim.AdamW(model:parameters(), { lr = options.lr, betas = { 0.9, 0.95 }, weight_decay = 0.1 })
local spread = options.dp * options.pp * options.micro > 1 and { plan = { micro = options.micro } } or {}
if spread.plan then tessera.dist.leaves(batch) end
if options.dp * options.pp > 1 then
  spread.mesh = tessera.dist.Mesh { axes = { "dp", "pp" }, shape = { options.dp, options.pp }, devices = tessera.dist.range(options.dp * options.pp) }
  spread.plan.pp = options.pp > 1 and {} or nil
end
local step = graph.training_step(model, function(m, x, y)
  return op.cross_entropy(m(x):cast "f32":reshape(-1, config.vocab_size), y:reshape(-1))
end, optimizer, spread)

-- ---- training
local function synthetic()
  local n = 0
  return function()
    n = n + 1
    local ids = op.randint({ batch, context + 1 }, { low = 0, high = config.vocab_size, seed = options.seed, stream = n })
    return ids:narrow(1, 0, context):contiguous(), ids:narrow(1, 1, context):contiguous()
  end
end

local batches = tokens and data.windows(tokens, { batch = batch, length = context, seed = options.seed }) or synthetic()
print(("%d parameters, %d steps of %d x %d tokens, %s"):format(model:num_parameters(), steps, batch, context,
  options.dtype))
local bar = data.progress(steps, { label = "train", unit = "tok", scale = batch * context })
local losses = {}
for i = 1, steps do
  local x, y = batches()
  if options.device ~= "cpu" then x, y = x:to(options.device), y:to(options.device) end
  losses[i] = step(x, y)
  bar:update(i, { loss = losses[i] })
end
bar:finish()
if options.save then tessera.save(options.save, model:state_dict()) end
return op.stack(losses)
