-- What else m:generate has, beside beams: penalties and ends beside a search written out in Lua, stop texts, a grammar, draws that are
-- a text's own, and an error for what a search cannot have.
local tessera = require "tessera"
local op = tessera.op
local of_json = require("tessera.hf.tokenizer").of_json
local vectors = dofile "tests/hf/_vectors.lua"

local m = vectors.load "llama"
local V = m.config.vocab_size
local prompts = { { 5, 17, 60, 3, 9, 42 }, { 7, 2 } }
local function text_of(b) return table.concat(b.tokens, " ") end
local function with(o, more)
  local all = {}
  for k, v in pairs(o) do all[k] = v end
  for k, v in pairs(more) do all[k] = v end
  return all
end

-- ---- a search written out: logarithms of the whole text each time, as the transformers library changes them
local function logs_of(prompt, tokens, o)
  local ids = { unpack(prompt) }
  for _, id in ipairs(tokens) do ids[#ids + 1] = id end
  local logs = op.log_softmax(m(tessera.tensor({ ids }, { dtype = "i64" })):select(1, -1)):reshape(-1):totable()
  local seen = {}
  for _, id in ipairs(ids) do seen[id] = true end
  for id = 0, V - 1 do
    local x = logs[id + 1]
    if seen[id] then x = x * (o.repetition_penalty or 1) end -- a logarithm is below 0
    x = x + (o.logit_bias and o.logit_bias[id] or 0)
    if id == o.eos and #tokens < (o.min_new_tokens or 0) then x = -math.huge end
    logs[id + 1] = x
  end
  return logs
end

local function search(prompt, o)
  local k, running, ended = o.beams, { { score = 0, tokens = {} } }, {}
  for n = 1, o.max_new_tokens do
    local all = {}
    for _, b in ipairs(running) do
      for i, x in ipairs(logs_of(prompt, b.tokens, o)) do
        local tokens = { unpack(b.tokens) }
        tokens[n] = i - 1
        all[#all + 1] = { score = b.score + x, tokens = tokens }
      end
    end
    table.sort(all, function(a, b) return a.score > b.score end)
    running = {}
    for rank = 1, 2 * k do
      local c = all[rank]
      local over = c.tokens[n] == o.eos
      if (over or n == o.max_new_tokens) and rank <= k then
        ended[#ended + 1] = { score = c.score / n, tokens = c.tokens }
      elseif not over and #running < k then
        running[#running + 1] = c
      end
    end
    table.sort(ended, function(a, b) return a.score > b.score end)
    for i = #ended, k + 1, -1 do ended[i] = nil end
    if #ended == k and running[1].score / n <= ended[k].score then break end
  end
  return ended
end

for _, more in ipairs { {}, { repetition_penalty = 1.7 }, { min_new_tokens = 4, eos = 23 }, { logit_bias = { [14] = 3, [30] = -2 } },
  { repetition_penalty = 0.6, min_new_tokens = 2, eos = 47 } } do
  local o = with({ beams = 3, max_new_tokens = 5, eos = 9 }, more)
  local _, about = m:generate(with(o, { ids = prompts }))
  for i, prompt in ipairs(prompts) do
    for j, want in ipairs(search(prompt, o)) do
      local got = about[i].beams[j]
      assert(text_of(got) == text_of(want), ("text %d, beam %d: %s, not %s"):format(i, j, text_of(got), text_of(want)))
      assert(math.abs(got.score - want.score) < 1e-4)
    end
  end
end

-- ---- stop texts, and a grammar
local vocab = {}
for id = 0, V - 1 do vocab[id + 1] = ("%q: %d"):format(string.char(48 + id), id):gsub("\\\\", "\\\\") end
local tok = of_json(([[{"added_tokens": [], "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(
  table.concat(vocab, ", ")))
local usual = { ids = prompts, beams = 3, max_new_tokens = 8, eos = false, tokenizer = tok }
local _, free = m:generate(usual)
assert(free[1].text == tok:decode(free[1].tokens))
local stop = free[1].text:sub(4, 5)
local _, cut = m:generate(with(usual, { stop = stop }))
for _, about in ipairs(cut) do
  for _, b in ipairs(about.beams) do
    assert(not b.text:find(stop, 1, true), b.text)
    assert((b.reason == "stop") == (tok:decode(b.tokens):find(stop, 1, true) ~= nil))
  end
end
local stopped = 0
for _, b in ipairs(cut[1].beams) do stopped = stopped + (b.reason == "stop" and 1 or 0) end
stopped > 0 --> true
local _, held = m:generate(with(usual, { regex = "[0-9]{3}[A-F]+;" }))
for _, about in ipairs(held) do
  for _, b in ipairs(about.beams) do
    assert(b.text:find "^%d%d%d[A-F]*;?$", b.text)
    assert((b.reason == "stop") == (b.text:find ";" ~= nil), b.reason)
  end
end

-- ---- draws
local drawn = { ids = prompts, beams = 3, max_new_tokens = 6, eos = { 9 }, temperature = 1.3, top_k = 20, seed = { 4, 5 } }
local _, one = m:generate(drawn)
local _, again = m:generate(drawn)
local _, other = m:generate(with(drawn, { seed = { 6, 5 } }))
local _, alone = m:generate(with(drawn, { ids = { prompts[2] }, seed = 5 }))
for j = 1, 3 do
  assert(text_of(one[1].beams[j]) == text_of(again[1].beams[j]) and text_of(one[2].beams[j]) == text_of(alone[1].beams[j]))
  assert(text_of(one[2].beams[j]) == text_of(other[2].beams[j]))
end
assert(text_of(one[1].beams[1]) ~= text_of(other[1].beams[1]))
-- Next to no temperature: the greatest.
local _, cold = m:generate { ids = prompts, beams = 1, max_new_tokens = 6, eos = { 9 }, temperature = 1e-4 }
local _, greedy = m:generate { ids = prompts, max_new_tokens = 6, eos = { 9 } }
for i in ipairs(prompts) do assert(text_of(cold[i]) == text_of(greedy[i])) end
-- Candidates are drawn as often as their probabilities say: first tokens of one beam of a text.
local logs, count, rounds = op.softmax(m(tessera.tensor({ prompts[2] }, { dtype = "i64" })):select(1, -1)):reshape(-1):totable(), {}, 400
for seed = 1, rounds do
  local _, about = m:generate { ids = { prompts[2] }, beams = 1, max_new_tokens = 1, eos = false, temperature = 1, seed = seed }
  count[about[1].tokens[1]] = (count[about[1].tokens[1]] or 0) + 1
end
for id = 0, V - 1 do
  local p = logs[id + 1]
  assert(math.abs((count[id] or 0) - rounds * p) < 5 * math.sqrt(rounds * p) + 2, ("token %d: %d of %d, %g"):format(id, count[id] or 0, rounds, p))
end

m:generate { ids = prompts, beams = 2, min_new_tokens = 30 } --! option 'min_new_tokens' is 30, and 'max_new_tokens' 20
m:generate { ids = prompts, beams = 2, max_new_tokens = 3, logits = true } --! 'beams' goes without 'logits': a beam's tokens come from several
