-- The tiny recursive model (arXiv 2510.04871), what remains of the hierarchical one, learns Sudoku.
--
--   tessera examples/trm.lua [--size laptop|gpu|tiny] [--steps N] [--batch N] [--width N] [--layers N] [--heads N] [--multiple N]
--       [--cycles N] [--inner N] [--mixer 0|1] [--ema X] [--clues N] [--most N] [--pool N] [--test N] [--every N]
--       [--rate X] [--final X] [--decay X] [--warmup N] [--segments N] [--longest N] [--explore X] [--dtype bf16|f32]
--       [--device cuda:0] [--dp N] [--seed N] [--target PART]
--
-- `laptop` learns 4 x 4 in minutes; `gpu` is the model of 5 million parameters on 9 x 9, whose blocks mix places by an MLP instead
-- of attention (--mixer 1). --dp N spreads a step over N devices, with the bits of --dp 1. The other options are those of examples/hrm.lua.
--
-- One small stack does all: it changes a latent state several times, then the answer by the latent state. Such recursions follow each
-- other; gradients are those of the whole last one, and a segment ends in a loss and an update, as there. A puzzle halts when the
-- model holds its answer for right. What is tested is the average of weights over the steps.

local here = debug.getinfo(1, "S").source:match "^@(.*)trm%.lua$" or "examples/"
package.path = here .. "reasoning/?.lua;" .. package.path

local tessera = require "tessera"
local op, nn, data, optim, rng = tessera.op, tessera.nn, tessera.data, tessera.optim, tessera.rng
local blocks, supervision, task = require "blocks", require "supervision", require "task"

local o = tessera.arguments({ size = "laptop", box = 2, steps = 5000, batch = 64, width = 64, layers = 2, heads = 4, expansion = 4,
  multiple = 256, cycles = 2, inner = 3, segments = 4, longest = 16, explore = 0.1, mixer = 0, ema = 0.99, rate = 1e-3, final = 0.05,
  decay = 0.1, warmup = 100, clues = 4, most = 8, pool = 0, test = 256, every = 100, dtype = "f32", device = "cpu", dp = 0, seed = 1,
  target = 0.97 }, {
  laptop = {},
  tiny = { width = 16, layers = 1, heads = 2, multiple = 16, batch = 16, test = 16, steps = 8, every = 4 },
  gpu = { box = 3, segments = 16, decay = 1, width = 512, heads = 8, cycles = 3, inner = 6, mixer = 1, ema = 0.999, batch = 768,
    rate = 1e-4, final = 1, warmup = 2000, steps = 20000, every = 500, clues = 26, most = 34, pool = 10000, test = 1024, dtype = "bf16",
    device = "cuda:0" },
})
local cells = o.box ^ 4
o.mixer = o.mixer == 1 and cells or nil

-- ---- the model
local TRM = nn.Module:extend "TRM"

function TRM:init()
  self.dtype = o.dtype
  self.heads = blocks.Heads { width = o.width, words = o.box * o.box + 1, outputs = 1, dtype = o.dtype }
  self.net = blocks.Stack(o)
  self:buffer("answer_start", blocks.drawn({ o.width }, 1))
  self:buffer("latent_start", blocks.drawn({ o.width }, 1))
end

function TRM:start() return { self.answer_start, self.latent_start } end

function TRM:recursion(answer, latent, given)
  for _ = 1, o.inner do latent = self.net(latent, answer + given) end
  return self.net(answer, latent), latent
end

function TRM:segment(z, puzzles)
  local answer, latent = unpack(z)
  local given = self.heads:embed(puzzles)
  for _ = 1, o.cycles - 1 do answer, latent = self:recursion(answer, latent, given) end
  answer, latent = self:recursion(answer:detach(), latent:detach(), given)
  return { answer:detach(), latent:detach() }, self.heads:words(answer), self.heads:halting(answer)
end

-- q is the logit of a right answer. While it learns a puzzle halts when that is likelier than not; while it solves, when it is sure.
function TRM:halts(q) return q:select(1, 0):gt(0) end
function TRM:sure(q) return q:select(1, 0):gt(3) end

function TRM:halt_loss(q, right) return op.bce_with_logits(q:select(1, 0), right) * 0.5 end

-- ---- training
io.stdout:setvbuf "line"
rng.seed(o.seed)
local game, fresh, tests, answers = task.puzzles(o)
local model = tessera.no_grad(TRM)
if o.device ~= "cpu" then model:to(o.device) end
local mesh = task.mesh(o.dp)
if mesh then tessera.dist.shard_module(model, mesh, {}) end
local optimizer = optim.AdamAtan2(model:parameters(), { lr = o.rate, betas = { 0.9, 0.95 }, weight_decay = o.decay })
local ema = optim.EMA(model:parameters(), o.ema)
local train = supervision.trainer(model, optimizer, { batch = o.batch, cells = cells, segments = o.segments, explore = o.explore,
  device = o.device, mesh = mesh, ema = ema,
  schedule = optim.schedule.cosine { lr = o.rate, final = o.rate * o.final, warmup = o.warmup, steps = math.max(1, o.steps) } })
local solve = supervision.solver(model, o.longest)

print(("%d parameters, %d steps of %d puzzles, %d x %d"):format(model:num_parameters(), o.steps, o.batch, game.side, game.side))
local bar, right = data.progress(o.steps, { label = "train", unit = "puzzle", scale = o.batch })
for i = 1, o.steps do
  local loss = train(fresh())
  bar:update(i, { loss = loss })
  if i % o.every == 0 then
    local part, segments = ema:with(supervision.tested, solve, tests, answers)
    local told
    told, right = train.told()
    bar:clear()
    print(("step %5d  loss %.4f  %s  test: %5.1f%% in %.1f segments"):format(i, loss:item(), told, 100 * part, segments))
    if part >= o.target then break end
  end
end
bar:finish()

ema:copy()
local text, part = task.report(game, model, o.longest, tests, answers)
print(text)
if o.box == 2 and o.steps >= 100 and right then assert(right > 0.4, "it has learned too little") end
if o.size == "laptop" and o.steps >= 5000 then assert(part >= 0.85, "it solves too few puzzles") end
return model:state_dict()
