-- Speculative decoding: the tokens and the bits of the logits that there are without, for any family, any guesser and any way of choosing.
local tessera = require "tessera"
local vectors = dofile "tests/hf/_vectors.lua"

local prompts = { { 5, 17, 60, 3, 5, 17, 60, 3, 5, 17 }, { 7, 2 }, { 11, 59, 4, 30, 4, 30, 4 } }
local ways = {
  { max_new_tokens = 24, eos = false }, { max_new_tokens = 17, eos = { 3, 9, 44 } },
  { max_new_tokens = 16, eos = false, temperature = 1.5, top_k = 20, seed = { 3, 4, 5 } },
  { max_new_tokens = 16, eos = false, temperature = 0.4, repetition_penalty = 1.3, frequency_penalty = 0.2, top_p = 0.9, seed = 8 },
}

local drafted, accepted = 0, 0
local function check(name, m, guesser, n)
  for k, way in ipairs(ways) do
    local o = { ids = prompts, logits = true }
    for word, v in pairs(way) do o[word] = v end
    local want, plain = m:generate(o)
    o.draft, o.draft_tokens = guesser, n
    local got, about = m:generate(o)
    local what = ("%s, way %d, %s tokens"):format(name, k, tostring(n))
    assert(vectors.same(got, want), what)
    for i, a in ipairs(about) do
      assert(a.reason == plain[i].reason and #a.tokens == #plain[i].tokens, what)
      for t, logits in ipairs(a.logits) do assert(logits:hash() == plain[i].logits[t]:hash(), what) end
      assert(a.accepted <= a.drafted and a.calls <= #a.tokens and a.calls + a.accepted >= #a.tokens, what)
      drafted, accepted = drafted + a.drafted, accepted + a.accepted
    end
  end
end

for _, name in ipairs { "llama", "mistral", "gemma3", "gpt2", "gpt_oss", "deepseek_v3", "qwen2_moe", "llama_yarn", "llama_dynamic",
  "phi3_longrope" } do
  check(name, (vectors.load(name)), "ngram", 3)
end
local m = vectors.load "llama"
local other = vectors.load "llama_tied" -- of the same vocabulary, and of no help
check("another model", m, other, 5)
check("one", m, "ngram", 1)
drafted > 500 and accepted > 100 --> true

-- The model itself guesses what it will choose, also what it draws.
for _, way in ipairs(ways) do
  if not way.repetition_penalty then
    local o = { ids = prompts, draft = m, draft_tokens = 4 }
    for word, v in pairs(way) do o[word] = v end
    local _, about = m:generate(o)
    for _, a in ipairs(about) do assert(a.drafted == a.accepted or a.reason == "eos") end
    if not way.eos then assert(about[1].calls <= math.ceil(way.max_new_tokens / 5) + 1, about[1].calls) end
  end
end

-- A stream has a token of each text a step, as without.
local function stream(o)
  local list = {}
  o.ids, o.max_new_tokens, o.eos = prompts, 12, { 44 }
  for step, tokens in m:stream(o) do list[step] = table.concat({ tostring(tokens[1]), tostring(tokens[2]), tostring(tokens[3]) }, " ") end
  return table.concat(list, "|")
end
stream { draft = "ngram" } == stream {} --> true

m:generate { ids = prompts, draft = "ngrams" } --! or "ngram"
m:generate { ids = prompts, draft = {} } --! must be a model that reads from left to right
local t5, v = vectors.load "t5"
t5:generate { ids = v.ins.ids, draft = "ngram" } --! not for an encoder with a decoder
m:generate { ids = prompts, draft = "ngram", beams = 2 } --! 'beams' goes without 'draft'
