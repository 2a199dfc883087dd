-- The next token of logits: the greatest, or drawn. What is drawn is a function of the logits, the seed and the position in the text
-- alone, so a text has the same tokens in any batch and any place of it.

local core = require "tessera.core"
local op = core.op

local sampling = {}

-- Those that are less than the k-th greatest are out.
local function keep_top(logits, k)
  k = math.min(k, logits.shape[2])
  local best = op.topk(logits, { k = k })
  return op.where(logits:ge(best:narrow(-1, k - 1, 1)), logits, -math.huge)
end

-- The greatest until their probabilities reach p, the one that reaches it as well: of p = 0 the greatest alone.
local function keep_share(logits, p)
  local sorted = op.sort(logits, { descending = true })
  local probability = op.softmax(sorted)
  local before = op.cumsum(probability) - probability
  local least = op.where(before:lt(math.max(p, 1e-30)), sorted, math.huge):min { axis = -1, keepdims = true }
  return op.where(logits:ge(least), logits, -math.huge)
end

-- Those whose probability is p times the greatest one, at least.
local function keep_near(logits, p)
  return op.where(logits:ge(logits:max { axis = -1, keepdims = true } + math.log(p)), logits, -math.huge)
end

--- What remains of logits [B, V] by {temperature, top_k, top_p, min_p}, in this order.
function sampling.filter(logits, o)
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

local NAN, NONE = -1, -2 -- in place of a token

--- The places of the greatest logits [B, V], i64 [B, 1]; below 0 where there is none (sampling.need).
function sampling.greatest(logits)
  local top = logits:max { axis = -1, keepdims = true }
  local id = op.where(top:gt(-math.huge), logits:argmax { axis = -1, keepdims = true }, NONE)
  return op.where(top:eq(top), id, NAN)
end

--- An error where id stands for logits by which no token can be chosen: the n-th new one of a text.
function sampling.need(id, n, name)
  if id >= 0 then return id end
  local text = name or "the text"
  if id == NONE then
    core.fail(("token %d of %s: all logits are -inf, so no token can come\n  hint: {logit_bias = ..}, {min_new_tokens = ..} or a grammar leaves none"):format(n, text))
  end
  core.fail(("token %d of %s: the logits are no numbers (NaN, or infinite where one is drawn), so no token can be chosen\n  hint: weights, or sums of what is read, have left the range of their type: {dtype = \"f32\"} of hf.load has more"):format(
    n, text))
end

--- Tokens [B] of logits [B, V]: the greatest where temperature is 0, else the one at which the running sum of probabilities passes a
--- random number; below 0 where there is none (sampling.need). seeds, positions: lists by row.
function sampling.choose(logits, o, seeds, positions)
  logits = logits:cast "f32"
  if o.temperature == 0 then return sampling.greatest(logits):reshape(-1) end
  local greatest = logits:max { axis = -1 }
  logits = sampling.filter(logits, o)
  local sum = op.cumsum(op.softmax(logits:cast "f64"))
  local most = sum:narrow(-1, sum.shape[2] - 1, 1)
  local u = numbers(seeds, positions):to(logits.device) * most
  -- The first whose sum is above; a probability of 0 is never it.
  local id = sum:gt(u):cast("i64"):argmax { axis = -1 }
  id = op.where(greatest:abs():lt(math.huge), id, NAN)
  return op.where(greatest:eq(-math.huge), NONE, id)
end

-- The rows of logits, as each chooser changes them, of choosers that filter alike.
local function rows_of(group, logits)
  if #group == logits.shape[1] and not group.adjusts then return logits end
  local rows = {}
  for i, r in ipairs(group) do
    local row = logits:narrow(0, r.row - 1, 1)
    rows[i] = r.chooser.adjusts and r.chooser:adjusted(row) or row:cast "f32"
  end
  return #rows == 1 and rows[1] or op.concat(rows, { axis = 0 })
end

--- The next tokens of several texts by logits [B, V], a list; those of texts that have ended are false. Texts that filter alike are
--- one call. greatest: the places of the greatest logits, where they are known, a list.
function sampling.choose_all(choosers, logits, greatest)
  local groups, order, ids = {}, {}, {}
  for i, c in ipairs(choosers) do
    ids[i] = false
    if not c:finished() then
      local key = c:filter_key()
      local g = groups[key]
      if not g then
        g = { o = c.options }
        groups[key], order[#order + 1] = g, g
      end
      g[#g + 1] = { chooser = c, row = i }
      g.adjusts = g.adjusts or c.adjusts
    end
  end
  for _, g in ipairs(order) do
    local seeds, positions = {}, {}
    for i, r in ipairs(g) do seeds[i], positions[i] = r.chooser.options.seed, r.chooser.position end
    local known = greatest and not g.adjusts and g[1].chooser.is_greedy
    local chosen = not known and sampling.choose(rows_of(g, logits), g.o, seeds, positions):totable()
    for i, r in ipairs(g) do
      local id = known and greatest[r.row] or chosen[i]
      sampling.need(id, r.chooser.count + 1, #choosers > 1 and "text " .. r.row or nil)
      ids[r.row] = r.chooser:accept(id, (r.chooser.logprobs or r.chooser.logits) and logits:narrow(0, r.row - 1, 1))
    end
  end
  return ids
end

--- chooser(options, {prompt, config, tokenizer}): who chooses the tokens of one text (generation/chooser.lua).
function sampling.chooser(options, context) return require("tessera.hf.generation.chooser").new(options, context) end

return sampling
