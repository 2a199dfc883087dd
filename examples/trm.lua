-- The tiny recursive model (arXiv 2510.04871), what remains of the hierarchical one, learns Sudoku.
--
--   tessera examples/trm.lua [--size laptop|gpu|tiny] [--steps N] [--batch N] [--width N] [--layers N] [--heads N] [--multiple N]
--       [--cycles N] [--inner N] [--mixer 0|1] [--ema X] [--clues N] [--most N] [--pool N] [--test N] [--every N]
--       [--rate X] [--final X] [--decay X] [--warmup N] [--segments N] [--longest N] [--explore X] [--dtype bf16|f32]
--       [--device cuda:0] [--dp N] [--seed N] [--target PART]
--
-- `laptop` learns 4 x 4 in a minute or two; `gpu` is the model of 5 million parameters on 9 x 9. Blocks mix places, which are few and always
-- the same, by an MLP: with attention in its place (--mixer 0) 4 x 4 takes six times as many steps. --dp N spreads a step over N devices,
-- with the bits of --dp 1. The other options are those of examples/hrm.lua.
--
-- One small stack does all: it changes a latent state several times, then the answer by the latent state. Such recursions follow each
-- other; gradients are those of the whole last one, and a segment ends in a loss and an update, as there. A puzzle halts when the
-- model holds its answer for right. What is tested is the average of weights over the steps.

local here = debug.getinfo(1, "S").source:match "^@(.*)trm%.lua$" or "examples/"
package.path = here .. "reasoning/?.lua;" .. package.path

local tessera = require "tessera"
local op, nn = tessera.op, tessera.nn
local blocks, task = require "blocks", require "task"

local o = tessera.arguments({ size = "laptop", box = { 2, 3 }, steps = 1000, batch = 64, width = 64, layers = 2, heads = 4, expansion = 4,
  multiple = 256, cycles = 2, inner = 3, segments = 4, longest = 16, explore = 0.1, mixer = { 1, 0 }, ema = 0.99, rate = 1e-3, final = 0.05,
  decay = 0.1, warmup = 100, clues = 4, most = 8, pool = 0, test = 256, every = 100, dtype = "f32", device = "cpu", dp = 0, seed = 1,
  target = 0.99 }, {
  laptop = {},
  tiny = { width = 16, layers = 1, heads = 2, multiple = 16, batch = 16, test = 16, steps = 8, every = 4 },
  gpu = { box = 3, segments = 16, decay = 1, width = 512, heads = 8, cycles = 3, inner = 6, ema = 0.999, batch = 768,
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

return task.run(o, TRM, 400)
