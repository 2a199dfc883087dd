-- Beam search: of each text the k continuations whose tokens have the greatest probability together, until none that is still
-- going on can become better than the k best that have ended. Scores are sums of logarithms, divided by length^length_penalty; what
-- is kept, and when a search ends, is as in the transformers library, and of each text as if it were alone. Penalties, bias, grammars
-- and filters change the logarithms, as they do there. At a temperature candidates are drawn, none twice, from what all beams of
-- a text have together: the greatest of logarithms with Gumbel's noise, a function of the text's seed and position.

local beam_text = require "tessera.hf.generation.beam_text"
local chosen = require "tessera.hf.generation.options"
local core = require "tessera.core"
local prompts = require "tessera.hf.generation.prompts"
local sampling = require "tessera.hf.sampling"
local op = core.op

local beams = {}

-- What a beam search has not, and why.
local WITHOUT = {
  draft = "guesses are of one way a text goes on",
  logits = "a beam's tokens come from several calls' rows",
  logprobs = "a beam has the sum of its logarithms, its score",
}

local function check(o)
  local words = {}
  for name, why in pairs(WITHOUT) do
    if o[name] then words[#words + 1] = ("'%s': %s"):format(name, why) end
  end
  table.sort(words)
  if words[1] then core.fail("m:generate: 'beams' goes without " .. table.concat(words, "; ")) end
  if o.temperature == 0 and o.seed ~= 0 then
    core.fail "m:generate: option 'seed' does nothing without a temperature\n  hint: {temperature = 1} draws the candidates of beams"
  end
end

-- Into the k best, behind those of the same score.
local function add_ended(text, k, one)
  local at = #text.ended + 1
  while at > 1 and text.ended[at - 1].score < one.score do at = at - 1 end
  table.insert(text.ended, at, one)
  text.ended[k + 1] = nil
end

-- Whether a running beam may still become better than the worst of the k.
local function may_improve(text, n, o)
  if #text.ended < o.beams then return true end
  local length = o.early_stopping == "never" and o.length_penalty > 0 and o.max_new_tokens or n
  return text.running[1].score / length ^ o.length_penalty > text.ended[#text.ended].score
end

-- A step of a text: candidates {score, beam, id} in order, the n-th tokens. Drawn ones stand as they were drawn.
local function advance(text, candidates, n, o)
  local running, k = {}, o.beams
  for rank, c in ipairs(candidates) do
    local beam = text.running[c.beam]
    local ends = beam.own:ends_with(c.id) or n == o.max_new_tokens and "length"
    if ends then
      if rank <= k then
        local own = beam.own:with(c.id)
        add_ended(text, k, { score = c.score / n ^ o.length_penalty, tokens = own.tokens, text = own:text(), reason = ends })
      end
    else
      running[#running + 1] = { score = c.score, parent = c.beam, from = beam.own, id = c.id, rank = rank }
    end
  end
  table.sort(running, function(a, b) return a.score > b.score or a.score == b.score and a.rank < b.rank end)
  for j = #running, k + 1, -1 do running[j] = nil end
  for _, one in ipairs(running) do one.own = one.from:with(one.id) end
  if #running > 0 then text.running = running end
  text.done = #running == 0 or (o.early_stopping == true and #text.ended == k) or not may_improve(text, n, o)
end

-- Logarithms of a text's rows as the texts of its beams change them, [k, V].
local function changed(text, logs, o)
  local rows = {}
  for j = 1, logs.shape[1] do
    local row, beam = logs:narrow(0, j - 1, 1), text.running[j]
    rows[j] = beam and not text.done and beam.own:adjusted(row) or row
  end
  logs = #rows == 1 and rows[1] or op.concat(rows, { axis = 0 })
  return o.temperature > 0 and sampling.filter(logs, o) or logs
end

-- Gumbel's noise of a draw, f64 [1, n].
local function noise(n, seed, position, device)
  local u = op.uniform({ 1, n }, { dtype = "f64", seed = seed, stream = position }):to(device)
  return -op.log(-op.log(u))
end

-- The count best, or drawn, of sums [1, k * V], as {score, beam, id}; those that cannot come are none.
local function best_of(sums, v, count, text, o, position)
  local values, places
  if o.temperature > 0 then
    local _, at = op.topk(sums:cast "f64" + noise(sums.shape[2], text.seed, position, sums.device), { k = count })
    values, places = op.take(sums, at):reshape(-1):totable(), at:reshape(-1):totable()
  else
    values, places = op.topk(sums, { k = count })
    values, places = values:reshape(-1):totable(), places:reshape(-1):totable()
  end
  local list = {}
  for r, place in ipairs(places) do
    if values[r] > -math.huge then list[#list + 1] = { score = values[r], beam = math.floor(place / v) + 1, id = place % v } end
  end
  return list
end

-- The next candidates of each text, of logits [texts * k, V], or [texts, V] at first; the n-th tokens.
local function candidates_of(texts, logits, count, n, o)
  local v = logits.shape[2]
  local k = logits.shape[1] / #texts
  local all, wrong = {}, sampling.greatest(logits:cast "f32"):reshape(-1):totable()
  local logs = op.log_softmax(logits:cast "f32")
  for i, text in ipairs(texts) do
    all[i] = {}
    if not text.done then
      local scores = {}
      for j = 1, k do
        local beam = text.running[j]
        scores[j] = { beam and beam.score or -math.huge }
        if beam then sampling.need(wrong[(i - 1) * k + j], n, ("text %d, beam %d"):format(i, j)) end
      end
      local own = logs:narrow(0, (i - 1) * k, k)
      if text.changes then own = changed(text, own, o) end
      local sums = own + core.tensor(scores, { dtype = "f32", device = logits.device })
      all[i] = best_of(sums:reshape(1, k * v), v, math.min(count, k * v), text, o, text.position + n - 1)
      if not all[i][1] then sampling.need(-2, n, "text " .. i) end
    end
  end
  return all
end

local function new_texts(model, o, list)
  local texts = {}
  for i, prompt in ipairs(list) do
    local mine = chosen.of(o, i)
    texts[i] = { running = { { score = 0, own = beam_text.new(mine, model, prompt) } }, ended = {}, done = false, seed = mine.seed,
      position = #prompt, changes = chosen.changes(o) or o.temperature > 0 }
  end
  return texts
end

--- Of each text its k beams, {tokens, score, reason, text}, the best first.
function beams.search(model, o)
  check(o)
  local _, nends = chosen.ends(o, model.config)
  local k = o.beams
  local s = prompts.begin(model, o)
  if type(o.seed) == "table" and #o.seed ~= #s.prompts then
    core.fail(("m:generate: %d seeds for %d texts"):format(#o.seed, #s.prompts))
  end
  local count, texts = math.max(2, 1 + nends) * k, new_texts(model, o, s.prompts)
  if count > s.logits.shape[2] then
    core.fail(("m:generate: %d beams need %d tokens to choose from, and the model has %d"):format(k, count, s.logits.shape[2]))
  end
  for n = 1, o.max_new_tokens do
    local all = core.no_grad(candidates_of, texts, s.logits, count, n, o)
    local going = false
    for i, text in ipairs(texts) do
      if not text.done then core.no_grad(advance, text, all[i], n, o) end
      going = going or not text.done
    end
    if not going then break end
    local rows, tokens = {}, {}
    for i, text in ipairs(texts) do
      for j = 1, k do
        local beam = text.running[j]
        local parent = n == 1 and i - 1 or (i - 1) * k + (beam and not text.done and beam.parent or j) - 1
        rows[#rows + 1], tokens[#tokens + 1] = parent, beam and beam.id or 0
      end
    end
    s.logits = core.no_grad(function()
      s.take(rows)
      return (s.next(tokens))
    end)
  end
  local found = {}
  for i, text in ipairs(texts) do found[i] = text.ended end
  return found
end

return beams
