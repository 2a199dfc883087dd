-- A character GPT that learns the GNU GPL: 4 layers, width 128, context 128.
--
--   tessera examples/gpt_char.lua [--steps N] [--stop N] [--text FILE] [--checkpoint FILE] [--resume]
--
-- The whole step (forward, backward, AdamW) is captured once and runs as one function of
-- bytecode. A checkpoint holds parameters, optimiser state, the step and the generator: a run
-- that stops early (--stop) and is resumed gives the same bits as one that is not.

local tessera = require "tessera"
local op, nn, optim, data, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph,
  tessera.rng

local options = tessera.arguments { steps = 1200, stop = math.huge, text = "/usr/share/common-licenses/GPL-3", checkpoint = ">",
  resume = { false, true }, seed = 1 }

local LAYERS, WIDTH, HEADS, CONTEXT, BATCH, DROPOUT = 4, 128, 4, 128, 12, 0.2

local text = data.text(options.text)
local tokenizer = data.CharTokenizer(text)
local tokens = tokenizer:encode(text)
local V = tokenizer.size

-- A tenth from the middle is kept for testing.
local from, count = math.floor(0.5 * tokens.numel), math.floor(0.1 * tokens.numel)
local test = tokens:narrow(0, from, count)
local train = op.concat { tokens:narrow(0, 0, from), tokens:narrow(0, from + count, tokens.numel - from - count) }

-- ---- the model
rng.seed(options.seed)
local GPT = nn.Module:extend "GPT"

function GPT:init()
  self.token, self.position = nn.Embedding(V, WIDTH), nn.Embedding(CONTEXT, WIDTH)
  self.blocks = nn.List()
  for i = 1, LAYERS do self.blocks[i] = nn.TransformerBlock(WIDTH, HEADS, { causal = true, dropout = DROPOUT }) end
  self.dropout = nn.Dropout(DROPOUT)
  self.norm = nn.LayerNorm(WIDTH)
  self.head = nn.Linear(WIDTH, V, { bias = false })
  for _, p in ipairs(self:named_parameters()) do
    if p[2].ndim == 2 then p[2]:copy_(op.normal(p[2].shape, { std = 0.05 })) end
  end
end

function GPT:forward(ids)
  local x = self.dropout(self.token(ids) + self.position(op.arange(ids.shape[2])))
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

local model = tessera.no_grad(GPT)
local optimizer = optim.AdamW(model:parameters(), { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1 })

local function loss_of(m, x, y) return op.cross_entropy(m(x), y) end

local step = graph.training_step(model, loss_of, optimizer, {
  schedule = optim.schedule.cosine { lr = 2e-3, final = 1e-4, warmup = 50, steps = math.max(1, options.steps) },
})
local evaluate = graph.module("evaluate", function(x, y) return loss_of(model, x, y) end)

local function test_loss()
  local sum, n = 0, 0
  local width = CONTEXT * 8
  for at = 0, test.numel - width - 1, width do
    local x = test:narrow(0, at, width):reshape(8, CONTEXT)
    local y = test:narrow(0, at + 1, width):reshape(8, CONTEXT)
    sum, n = sum + tessera.no_grad(evaluate, x, y):item(), n + 1
  end
  return sum / n
end

-- ---- checkpoints
local function save(path)
  tessera.save(path, { model = model:state_dict(), optimizer = optimizer:state_dict(), rng = { rng.state() } })
end

local function load(path)
  local state = tessera.load(path)
  tessera.no_grad(function()
    model:load_state_dict(state.model)
    optimizer:load_state_dict(state.optimizer)
  end)
  rng.state(unpack(state.rng))
end

if options.resume then load(options.checkpoint) end

-- ---- training
print(("%s: %d characters, %d different; %d parameters, %d steps of %d x %d"):format(options.text, tokens.numel,
  V, model:num_parameters(), options.steps, BATCH, CONTEXT))

local batches = data.windows(train, { batch = BATCH, length = CONTEXT, seed = options.seed, start = optimizer.steps })
local bar = data.progress(options.steps, { label = "train", unit = "tok", scale = BATCH * CONTEXT })
local stop = math.min(options.stop, options.steps)
while optimizer.steps < stop do
  local loss = step(batches())
  bar:update(optimizer.steps, { loss = loss })
end
bar:finish()
model:eval()
print(("test loss %.3f nats a character"):format(test_loss()))
if options.checkpoint then save(options.checkpoint) end

-- ---- a sample, by the Gumbel maximum with temperature
local predict = graph.module("predict", function(ids) return model(ids) end)
local function sample(prompt, count, temperature)
  local ids = tokenizer:encode(prompt)
  for i = 1, count do
    local n = math.min(ids.numel, CONTEXT)
    local window = op.zeros({ 1, CONTEXT }, { dtype = "i64" })
    window:narrow(1, 0, n):copy_(ids:narrow(0, ids.numel - n, n))
    local logits = predict(window)[0][n - 1] / temperature
    local next_id = op.categorical(logits, { seed = options.seed, stream = i })
    ids = op.concat { ids, next_id }
  end
  return tokenizer:decode(ids)
end

print(tessera.no_grad(sample, "The licensee ", 300, 0.7))
return model:state_dict()
