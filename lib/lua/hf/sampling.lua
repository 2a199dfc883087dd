-- The next token of logits: the greatest, or drawn. What is drawn is a function of the logits, the seed and the position in the text
-- alone, so a text has the same tokens in any batch and any place of it.

local core = require "tessera.core"
local op = core.op

local sampling = {}

-- Scores of tokens that stand in the text lose: divided by the penalty above 0, times it below.
local function penalised(logits, seen, penalty)
  local less = op.where(logits:gt(0), logits / penalty, logits * penalty)
  return op.where(seen, less, logits)
end

-- Those that are less than the k-th greatest are out.
local function keep_top(logits, k)
  k = math.min(k, logits.shape[2])
  local best = op.topk(logits, { k = k })
  return op.where(logits:ge(best:narrow(-1, k - 1, 1)), logits, -math.huge)
end

-- The greatest until their probabilities reach p, the one that reaches it as well.
local function keep_share(logits, p)
  local sorted = op.sort(logits, { descending = true })
  local probability = op.softmax(sorted)
  local before = op.cumsum(probability) - probability
  local least = op.where(before:lt(p), sorted, math.huge):min { axis = -1, keepdims = true }
  return op.where(logits:ge(least), logits, -math.huge)
end

-- Those whose probability is p times the greatest one, at least.
local function keep_near(logits, p)
  return op.where(logits:ge(logits:max { axis = -1, keepdims = true } + math.log(p)), logits, -math.huge)
end

--- What remains of logits [B, V] by {temperature, top_k, top_p, min_p, repetition_penalty}, in this order: penalty, temperature,
--- top_k, top_p, min_p. seen: bool [B, V], tokens of the text.
function sampling.filter(logits, seen, o)
  if seen then logits = penalised(logits, seen, o.repetition_penalty) end
  if o.temperature > 0 then logits = logits / o.temperature end
  if o.top_k then logits = keep_top(logits, o.top_k) end
  if o.top_p and o.top_p < 1 then logits = keep_share(logits, o.top_p) end
  if o.min_p and o.min_p > 0 then logits = keep_near(logits, o.min_p) end
  return logits
end

-- A number in [0, 1) for each row, of its seed and position.
local function numbers(seeds, positions)
  local rows = {}
  for i, seed in ipairs(seeds) do rows[i] = op.uniform({ 1, 1 }, { dtype = "f64", seed = seed, stream = positions[i] }) end
  return op.concat(rows, { axis = 0 })
end

--- Tokens [B] of logits [B, V]: the greatest where temperature is 0, else the one at which the running sum of probabilities passes a
--- random number. seeds, positions: lists by row.
function sampling.choose(logits, seen, o, seeds, positions)
  logits = sampling.filter(logits:cast "f32", seen, o)
  if o.temperature == 0 then return logits:argmax { axis = -1 } end
  local sum = op.cumsum(op.softmax(logits:cast "f64"))
  local most = sum:narrow(-1, sum.shape[2] - 1, 1)
  local u = numbers(seeds, positions):to(logits.device) * most
  -- The first whose sum is above; a probability of 0 is never it.
  return sum:gt(u):cast("i64"):argmax { axis = -1 }
end

return sampling
