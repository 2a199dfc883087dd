-- The hierarchical reasoning model (arXiv 2506.21734) learns Sudoku from puzzles and their solutions alone.
--
--   tessera examples/hrm.lua [--size laptop|gpu|tiny] [--steps N] [--batch N] [--width N] [--layers N] [--heads N] [--multiple N]
--       [--clues N] [--most N] [--pool N] [--test N] [--every N] [--rate X] [--final X] [--decay X]
--       [--warmup N] [--segments N] [--longest N] [--explore X] [--dtype bf16|f32] [--device cuda:0] [--dp N] [--seed N] [--target PART]
--
-- `laptop` learns 4 x 4 in five minutes of processor time; `gpu` is the model of 27 million parameters on 9 x 9. --dp N spreads a step
-- over N devices, with the bits of --dp 1 (tessera --devices=cpu:4 where there are no GPUs). --clues to --most are the clues of puzzles,
-- --segments the most that it works on one while it learns, --longest while it solves, --target the part of the test at which training
-- ends.
--
-- Two stacks of transformer blocks work on a puzzle: a fast one several times for each time of a slow one. Such a segment is followed by
-- a loss and an update, whose gradients are those of the last step of each stack; the next segment goes on from where it was. A head says
-- whether another segment is worth it: it learns, as Q-learning does, whether the answer is right now, and whether
-- it may become so.

local here = debug.getinfo(1, "S").source:match "^@(.*)hrm%.lua$" or "examples/"
package.path = here .. "reasoning/?.lua;" .. package.path

local tessera = require "tessera"
local op, nn = tessera.op, tessera.nn
local blocks, task = require "blocks", require "task"

local o = tessera.arguments({ size = "laptop", box = { 2, 3 }, steps = 5000, batch = 64, width = 64, layers = 2, heads = 4, expansion = 4,
  multiple = 256, cycles = 2, segments = 4, longest = 16, explore = 0.1, rate = 1e-3, final = 0.05, decay = 0.1, warmup = 100, clues = 4,
  most = 8, pool = 0, test = 256, every = 100, dtype = "f32", device = "cpu", dp = 0, seed = 1, target = 0.97 }, {
  laptop = {},
  tiny = { width = 16, layers = 1, heads = 2, multiple = 16, batch = 16, test = 16, steps = 8, every = 4 },
  gpu = { box = 3, segments = 16, decay = 1, width = 512, layers = 4, heads = 8, batch = 384, rate = 1e-4, final = 1, warmup = 2000,
    steps = 20000, every = 500, clues = 26, most = 34, pool = 10000, test = 1024, dtype = "bf16", device = "cuda:0" },
})

-- ---- the model
local HRM = nn.Module:extend "HRM"
HRM.looks_ahead = true

function HRM:init()
  self.dtype, self.cycles = o.dtype, o.cycles
  self.heads = blocks.Heads { width = o.width, words = o.box * o.box + 1, outputs = 2, dtype = o.dtype }
  self.slow, self.fast = blocks.Stack(o), blocks.Stack(o)
  self:buffer("slow_start", blocks.drawn({ o.width }, 1))
  self:buffer("fast_start", blocks.drawn({ o.width }, 1))
end

function HRM:start() return { self.slow_start, self.fast_start } end

function HRM:segment(z, puzzles)
  local slow, fast = unpack(z)
  local given = self.heads:embed(puzzles)
  for h = 1, self.cycles do
    for _ = 1, self.cycles - (h == self.cycles and 1 or 0) do fast = self.fast(fast, slow + given) end
    if h < self.cycles then slow = self.slow(slow, fast) end
  end
  slow, fast = slow:detach(), fast:detach() -- gradients of one step of each
  fast = self.fast(fast, slow + given)
  slow = self.slow(slow, fast)
  return { slow:detach(), fast:detach() }, self.heads:words(slow), self.heads:halting(slow)
end

-- The first number of q is what halting is worth, the second what going on is.
function HRM:halts(q) return q:select(1, 0):gt(q:select(1, 1)) end

function HRM:halt_loss(q, right, last, ahead)
  local goes_on = op.sigmoid(op.where(last, ahead:select(1, 0), ahead:max { axis = 1 }))
  return (op.bce_with_logits(q:select(1, 0), right) + op.bce_with_logits(q:select(1, 1), goes_on)) * 0.5
end

return task.run(o, HRM, 5000)
