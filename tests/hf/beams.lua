-- Beam search beside transformers (vectors/make_beams.py): the same beams in the same order, scores to 1e-4; a text has the beams
-- that it has alone; rows of a cache that take each other's places.
local tessera = require "tessera"
local op = tessera.op
local vectors = dofile "tests/hf/_vectors.lua"

local function text_of(b) return table.concat(b.tokens, " ") end

local models, tried = {}, 0
for _, case in ipairs(require("tessera.io").load_json "tests/hf/vectors/beams.json") do
  if not models[case.model] then models[case.model] = { vectors.load(case.model) } end
  local m, v = unpack(models[case.model])
  local o = { ids = v.ins.ids, mask = v.ins.ids and m.encode and v.ins.mask or nil, features = v.ins.features, pad = 0, eos = case.eos,
    beams = case.beams, max_new_tokens = case.max_new_tokens, length_penalty = case.length_penalty, early_stopping = case.early_stopping }
  local tokens, about = m:generate(o)
  local what = ("%s, eos %s, %d beams"):format(case.model, table.concat(case.eos, " "), case.beams)
  for i, found in ipairs(case.found) do
    assert(#about[i].beams == #found, what)
    for j, want in ipairs(found) do
      local got = about[i].beams[j]
      assert(text_of(got) == text_of(want), ("%s, text %d, beam %d: %s\n not %s"):format(what, i, j, text_of(got), text_of(want)))
      assert(math.abs(got.score - want.score) <= 1e-4 * math.max(1, math.abs(want.score)), what)
    end
    local row = tokens[i - 1]:totable()
    for k, id in ipairs(row) do assert(id == (found[1].tokens[k] or 0), what) end
  end
  tried = tried + 1
end
tried --> 75

-- One beam is the greatest logit; texts of several lengths are as alone.
local m = vectors.load "llama"
local ids = { { 5, 17, 60, 3, 9, 42 }, { 7, 2 } }
local one = m:generate { ids = ids, beams = 1, max_new_tokens = 6, eos = false }
one:hash() == m:generate { ids = ids, max_new_tokens = 6, eos = false }:hash() --> true
local _, both = m:generate { ids = ids, beams = 3, max_new_tokens = 6, eos = { 9 } }
for i, row in ipairs(ids) do
  local _, alone = m:generate { ids = { row }, beams = 3, max_new_tokens = 6, eos = { 9 } }
  for j, b in ipairs(alone[1].beams) do assert(text_of(b) == text_of(both[i].beams[j]) and b.score == both[i].beams[j].score) end
end

local cache = m:cache { batch = 2, length = 4 }
m(tessera.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "i64" }), { cache = cache })
cache:take { 1, 0, 1 }
tostring(cache):match "batch %d" --> batch 3
local swapped = m(tessera.tensor({ { 5 }, { 5 }, { 5 } }, { dtype = "i64" }), { cache = cache })
local straight = m(tessera.tensor({ { 3, 4, 5 }, { 1, 2, 5 }, { 3, 4, 5 } }, { dtype = "i64" }), { last = true })
vectors.same(swapped, straight) --> true

m:generate { ids = ids, beams = 2, stop = "x" } --! option 'stop' needs a tokenizer
m:generate { ids = ids, beams = 2, draft = "ngram", logprobs = 1 } --! 'beams' goes without 'draft': guesses are of one way a text goes on; 'logprobs': a beam has the sum
m:generate { ids = ids, beams = 2, seed = 3 } --! option 'seed' does nothing without a temperature
m:generate { ids = ids, beams = 2, top_k = 3 } --! option 'top_k' does nothing at temperature 0
m:generate { ids = ids, beams = 2, temperature = 1, seed = { 3 } } --! 1 seeds for 2 texts
m:generate { ids = ids, beams = 40 } --! 40 beams need 80 tokens to choose from, and the model has 61
m:generate { ids = ids, beams = 2, early_stopping = "always" } --! must be true, false or "never"
m:stream { ids = ids, beams = 2 } --! known at its end
