-- Deep supervision with adaptive halting, as models that reason in segments are trained: a batch of puzzles is worked on, one segment a
-- step, each followed by a loss and an update; a puzzle that has halted makes room for a fresh one. Solving is the same segment in a
-- loop that ends when every puzzle has halted: the loop depends on data and stays in the virtual machine, its body, whose
-- shapes never change, becomes kernels.
--
-- A model has start() -> z (a list of tensors that a puzzle begins with), segment(z, puzzles) -> z, logits, q; halts(q) -> bool[B],
-- and sure(q), where solving asks for more than learning; halt_loss(q, right, last, ahead), ahead being the q of one more segment, or
-- nil if model.looks_ahead is not set.

local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local blocks = require "blocks"

local supervision = {}

local function column(flags, like)
  local shape = { flags.shape[1] }
  for i = 2, like.ndim do shape[i] = 1 end
  return flags:reshape(shape)
end

local function chosen(flags, yes, no) return op.where(column(flags, no), yes, no) end

-- What of a batch is right: every cell of a puzzle, and the part of cells.
local function judged(logits, answers)
  local right = logits:argmax { axis = 2 }:eq(answers)
  return right:all { axis = 1 }, right:cast "f32":mean { axis = 1 }
end

-- ---- training

-- What has halted so far: puzzles, those that were solved, cells that were right, segments that they took.
local function counted(halted, solved, cells, steps)
  local one = halted:cast "f32"
  return op.stack { one:sum(), (solved:cast "f32" * one):sum(), (cells * one):sum(), (steps:cast "f32" * one):sum() }
end

--- The loss of one segment of puzzles, of which those of `last` have no other; then a table with what is behind it: z, q, solved, cells.
function supervision.segment_loss(model, z, puzzles, answers, last)
  local now = {}
  local after, logits, q = model:segment(z, puzzles)
  now.z, now.q = after, q
  now.solved, now.cells = judged(logits, answers)
  local ahead
  if model.looks_ahead then
    ahead = select(3, model:segment(after, puzzles)):detach()
  end
  return blocks.stablemax_loss(logits, answers) + model:halt_loss(q, now.solved:cast "f32", last, ahead), now
end

-- One segment of all puzzles, fresh ones where others have halted; o: segments, the most of a puzzle, and explore, the part of puzzles
-- that may not halt before a random number of them. Returns the loss, then the state behind it.
local function supervised(model, o, state, fresh)
  local halted, z = state.halted, {}
  local puzzles, answers = chosen(halted, fresh.puzzles, state.puzzles), chosen(halted, fresh.answers, state.answers)
  for i, first in ipairs(model:start()) do z[i] = chosen(halted, first:cast(state.z[i].dtype), state.z[i]) end
  local steps = op.where(halted, 0, state.steps) + 1
  local last = steps:ge(o.segments)
  local loss, now = supervision.segment_loss(model, z, puzzles, answers, last)

  local batch = puzzles.shape[1]
  local least = op.where(op.uniform { batch }:lt(o.explore), op.randint({ batch }, { low = 2, high = o.segments + 1 }), 0)
  halted = last:logical_or(model:halts(now.q):logical_and(steps:ge(least)))
  return loss, { z = now.z, puzzles = puzzles, answers = answers, steps = steps, halted = halted,
    counts = state.counts + counted(halted, now.solved, now.cells, steps) }
end

--- train(puzzles, answers) is a segment and an update of a batch, the arguments being what halted puzzles make room for, i64[batch, cells]
--- each; it returns the loss, an f32 scalar. train.told() gives a text on what has halted since it was last called, and the part of its
--- cells that was right. o: batch, cells, segments, explore, device, and options of graph.training_step.
function supervision.trainer(model, optimizer, o)
  local step = graph.training_step(model, function(m, state, puzzles, answers)
    return supervised(m, o, state, { puzzles = puzzles, answers = answers })
  end, optimizer, { mesh = o.mesh, ema = o.ema, schedule = o.schedule })

  local device = { device = o.device }
  local function empty() return op.ones({ o.batch, o.cells }, { dtype = "i64", device = o.device }) end
  local z = {}
  for i, first in ipairs(model:start()) do
    z[i] = op.zeros({ o.batch, o.cells, first.shape[1] }, { dtype = model.dtype, device = o.device })
  end
  local state = { z = z, puzzles = empty(), answers = empty(), steps = op.zeros({ o.batch }, { dtype = "i64", device = o.device }),
    halted = op.ones({ o.batch }, { dtype = "bool", device = o.device }), counts = op.zeros({ 4 }, device) }

  local train = { step = step }
  function train.told()
    local n, solved, cells, steps = unpack(state.counts:totable())
    state.counts = state.counts * 0
    if n == 0 then return "no puzzle has halted", 0 end
    return ("%d puzzles in %.1f segments each: %4.1f%% solved, %4.1f%% of cells"):format(n, steps / n, 100 * solved / n, 100 * cells / n),
      cells / n
  end
  return setmetatable(train, { __call = function(_, puzzles, answers)
    local loss
    loss, state = step(state, puzzles, answers)
    return loss
  end })
end

-- ---- solving

--- solve(puzzles) gives digits i64[B, cells] and the number of segments that each puzzle took, i64[B]: a puzzle that has halted keeps its
--- answer, and the loop ends when all have, or behind `segments` of them.
function supervision.solver(model, segments)
  return graph.module("solve", function(puzzles)
    local batch, cells = unpack(puzzles.shape)
    local z = {}
    for i, first in ipairs(model:start()) do z[i] = first:cast(model.dtype):broadcast_to { batch, cells, first.shape[1] } end
    local none = op.zeros({ batch }, { dtype = "i64", device = puzzles.device })
    local function going(_, _, _, done, n) return n:lt(segments):logical_and(done:all():logical_not()) end
    local function segment(z, digits, steps, done, n)
      local logits, q
      z, logits, q = model:segment(z, puzzles)
      digits = op.where(done:unsqueeze(1), digits, logits:argmax { axis = 2 })
      steps = steps + done:logical_not():cast "i64"
      return z, digits, steps, done:logical_or((model.sure or model.halts)(model, q)), n + 1
    end
    local _, digits, steps = op.while_loop(going, segment, z, puzzles, none, none:ne(0), tessera.tensor(0, { dtype = "i64" }))
    return digits, steps
  end)
end

--- How many of n puzzles are solved exactly, as a part, and the mean number of segments.
function supervision.tested(solve, puzzles, answers)
  local digits, steps = tessera.no_grad(solve, puzzles)
  return digits:eq(answers):all { axis = 1 }:cast "f32":mean():item(), steps:cast "f32":mean():item(), digits, steps
end

return supervision
