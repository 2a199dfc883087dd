-- A chooser alone: penalties, bias, ends, stop texts that are held back, logarithms of probabilities.
local tessera = require "tessera"
local op = tessera.op
local sampling = require "tessera.hf.sampling"
local of_json = require("tessera.hf.tokenizer").of_json

local V = 8
local function logits(list) return tessera.tensor(list) end
local flat = logits { 0, 1, 2, 3, 4, 5, 6, 7 }

-- ---- ends
local c = sampling.chooser({ max_new_tokens = 2 }, { prompt = { 1 } })
c:choose(flat) --> 7
c:finished() --> nil
c:choose(flat:unsqueeze(0)) --> 7
c:finished() --> length
c:choose(flat) --! the text has ended (length)
c = sampling.chooser({}, { config = { eos_token_id = { 3, 7 } } })
c:choose(flat)
c:finished() --> eos
c = sampling.chooser({ eos = false }, { config = { eos_token_id = 7 } })
c:choose(flat)
c:finished() --> nil
c:choose(op.zeros { 2, V }) --! have to be those of one position
sampling.chooser({ top_q = 1 }, {}) --! did you mean 'top_k'?
sampling.chooser({ stop = "x" }, {}) --! option 'stop' needs a tokenizer
sampling.chooser({ stop = { "" } }, {}) --! none of them empty

-- ---- what the text so far changes
c = sampling.chooser({ repetition_penalty = 2 }, { prompt = { 0, 1 } })
c:adjusted(logits { 2, -2, 2, -2 }):totable() --> {{1, -4, 2, -2}}
c = sampling.chooser({ frequency_penalty = 1, presence_penalty = 0.5, max_new_tokens = 9 }, { prompt = { 7 } })
for _ = 1, 3 do c:choose(flat) end
table.concat(c.tokens, " ") --> 7 6 7
c:adjusted(flat):totable() --> {{0, 1, 2, 3, 4, 5, 4.5, 4.5}}
c = sampling.chooser({ logit_bias = { [2] = 10, [7] = -math.huge } }, {})
c:choose(flat) --> 2
sampling.chooser({ logit_bias = { [8] = 1 } }, {}):choose(flat) --! token 8, and the model has 8
sampling.chooser({ logit_bias = { 1, "x" } }, {}) --! must be a table of numbers by token

-- ---- logits and logarithms are the model's own
c = sampling.chooser({ logprobs = 2, logits = true, logit_bias = { [2] = 10 } }, {})
c:choose(flat)
local p = op.log_softmax(flat):totable()
local got = c.logprobs[1]
assert(got.token == 2 and got.logprob == p[3] and #got.top == 2)
assert(got.top[1].token == 7 and got.top[1].logprob == p[8] and got.top[2].token == 6)
c.logits[1]:hash() == flat:hash() --> true
c = sampling.chooser({ logprobs = 0 }, {})
c:choose(flat)
#c.logprobs[1].top --> 0

-- ---- several texts, each by its own options, have the tokens that they have alone
local all = op.normal({ 5, 50 }, { std = 2, seed = 3 })
local how = { {}, { temperature = 1, seed = 4 }, { temperature = 1, seed = 5 }, { temperature = 0.7, top_k = 5 }, { repetition_penalty = 1.5, temperature = 1 } }
local together, alone = {}, {}
for i, o in ipairs(how) do
  o.max_new_tokens = 6
  together[i], alone[i] = sampling.chooser(o, { prompt = { i, 9 } }), sampling.chooser(o, { prompt = { i, 9 } })
end
for _ = 1, 6 do
  local ids = sampling.choose_all(together, all)
  for i, a in ipairs(alone) do assert(a:choose(all[i - 1]) == ids[i], i) end
end
sampling.choose_all(together, all)[1] --> false

-- ---- stop texts
-- Tokens are bytes in the alphabet of byte-level tokenizers, and two longer ones.
local vocab, n = {}, 0
local function token(s)
  vocab[#vocab + 1] = ("%s: %d"):format(tessera.core.open_json().encode(s), n)
  n = n + 1
  return n - 1
end
local id = {}
for ch in ("abcdefghijklmnopqrstuvwxyz.!?"):gmatch "." do id[ch] = token(ch) end
local space, first, second = token "Ġ", token "Ã", token "¤" -- the two bytes of an umlaut
local stop_word = token "dend"
local tok = of_json(([[{"added_tokens": [{"id": %d, "content": "<|over|>", "special": true, "single_word": false, "lstrip": false,
  "rstrip": false, "normalized": false}], "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(n, table.concat(vocab, ", ")))
local over = n

-- What is shown after each token, and why the text ends.
local function run(stop, ids, most)
  local own, shown = sampling.chooser({ stop = stop, max_new_tokens = most or 100 }, { tokenizer = tok }), {}
  for _, v in ipairs(ids) do
    if own:finished() then break end
    own:accept(v)
    shown[#shown + 1] = own:text()
  end
  assert(table.concat(shown) == own:whole_text())
  return table.concat(shown, "|") .. " " .. tostring(own:finished()) .. " " .. own.count
end
local function spelt(s)
  local list = {}
  for ch in s:gmatch "." do list[#list + 1] = ch == " " and space or id[ch] end
  return list
end
run("end", spelt "ab end") --> a|b| ||| stop 6
run("end", spelt "aenb") --> a|||enb nil 4
run("end", spelt "aen", 3) --> a||en length 3
run({ "end", "en" }, spelt "a en") --> a| || stop 4
run("aab", spelt "aaab") --> ||a| stop 4
run("abac", spelt "ababac") --> |||ab|| stop 6
run("end", { id.a, stop_word, id.b }) --> a|d stop 2
run("end", { id.a, first, second, id.b }) --> a||ä|b nil 4
run("ä", { id.a, first, second, id.b }) --> a|| stop 3
run("<|over|>", { id.a, over, id.b }) --> a| stop 2
run("end", { id.e, over, id.n }) --> || nil 3

-- Places of the greatest logits that are known are taken where nothing else is asked for.
local plain, biased = sampling.chooser({}, {}), sampling.chooser({ logit_bias = { [2] = 10 } }, {})
table.concat(sampling.choose_all({ plain, biased }, op.concat({ flat:unsqueeze(0), flat:unsqueeze(0) }, { axis = 0 }), { 7, 7 }), " ") --> 7 2
