-- Beam search: of each text the k continuations whose tokens have the greatest probability together, until none that is still
-- going on can become better than the k best that have ended. Scores are sums of logarithms, divided by length^length_penalty; what
-- is kept, and when a search ends, is as in the transformers library, and of each text as if it were alone.

local chosen = require "tessera.hf.generation.options"
local core = require "tessera.core"
local prompts = require "tessera.hf.generation.prompts"
local op = core.op

local beams = {}

-- Of options that say how one token is chosen; a beam search chooses by sums.
local ALONE = { temperature = 0, top_k = false, top_p = false, min_p = false, repetition_penalty = 1, frequency_penalty = 0,
  presence_penalty = 0, seed = 0, logit_bias = false, logprobs = false, logits = false, stop = false, draft = false, json = false, json_schema = false,
  grammar = false, regex = false }

local function need_alone(o)
  local words = {}
  for name, default in pairs(ALONE) do
    if (o[name] or false) ~= default then words[#words + 1] = "'" .. name .. "'" end
  end
  table.sort(words)
  if words[1] then core.fail(("m:generate: 'beams' goes without %s"):format(table.concat(words, ", "))) end
end

-- {running = {{score, tokens}, ..}, ended = {{score, tokens, reason}, .. the best first}, done}
local function new_text() return { running = { { score = 0, tokens = {} } }, ended = {}, done = false } end

local function grown(tokens, id)
  local list = {}
  for i, v in ipairs(tokens) do list[i] = v end
  list[#list + 1] = id
  return list
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

-- A step of a text: candidates {score, beam, id} in order, the n-th tokens.
local function advance(text, candidates, n, o, ends)
  local running, k = {}, o.beams
  for rank, c in ipairs(candidates) do
    local last = n == o.max_new_tokens
    if ends[c.id] or last then
      if rank <= k then
        add_ended(text, k, { score = c.score / n ^ o.length_penalty, tokens = grown(text.running[c.beam].tokens, c.id),
          reason = ends[c.id] and "eos" or "length" })
      end
    elseif #running < k then
      running[#running + 1] = { score = c.score, tokens = grown(text.running[c.beam].tokens, c.id), parent = c.beam }
    end
  end
  if #running > 0 then text.running = running end
  text.done = #running == 0 or (o.early_stopping == true and #text.ended == k) or not may_improve(text, n, o)
end

-- The best continuations of each text, of logits [texts * k, V], or [texts, V] at first.
local function candidates_of(texts, logits, count)
  local v = logits.shape[2]
  local k = logits.shape[1] / #texts
  local scores = {}
  for i, text in ipairs(texts) do
    for j = 1, k do scores[(i - 1) * k + j] = { text.running[j] and text.running[j].score or -math.huge } end
  end
  local sums = op.log_softmax(logits:cast "f32") + core.tensor(scores, { dtype = "f32", device = logits.device })
  local values, places = op.topk(sums:reshape(#texts, k * v), { k = count })
  values, places = values:totable(), places:totable()
  local all = {}
  for i in ipairs(texts) do
    all[i] = {}
    for r, place in ipairs(places[i]) do
      all[i][r] = { score = values[i][r], beam = math.floor(place / v) + 1, id = place % v }
    end
  end
  return all
end

--- Of each text its k beams, {tokens, score, reason}, the best first.
function beams.search(model, o)
  need_alone(o)
  local ends, nends = chosen.ends(o, model.config)
  local k = o.beams
  local s = prompts.begin(model, o)
  local count, texts = math.max(2, 1 + nends) * k, {}
  if count > s.logits.shape[2] then
    core.fail(("m:generate: %d beams need %d tokens to choose from, and the model has %d"):format(k, count, s.logits.shape[2]))
  end
  for i in ipairs(s.prompts) do texts[i] = new_text() end
  for n = 1, o.max_new_tokens do
    local all = core.no_grad(candidates_of, texts, s.logits, count)
    local going = false
    for i, text in ipairs(texts) do
      if not text.done then advance(text, all[i], n, o, ends) end
      going = going or not text.done
    end
    if not going then break end
    local rows, tokens = {}, {}
    for i, text in ipairs(texts) do
      for j = 1, k do
        local beam = text.running[j]
        local parent = n == 1 and i - 1 or (i - 1) * k + (beam and not text.done and beam.parent or j) - 1
        rows[#rows + 1], tokens[#tokens + 1] = parent, beam and beam.tokens[#beam.tokens] or 0
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
