-- Text that goes on: greedy is the greatest logit of each whole text; a text has the same tokens alone and in any batch, drawn ones as
-- well; what filters leave is what their definitions say.
local tessera = require "tessera"
local op = tessera.op
local vectors = dofile "tests/hf/_vectors.lua"
local sampling = require "tessera.hf.sampling"

local function list(t) return table.concat(t:totable(), " ") end
local prompts = { { 5, 17, 60, 3, 9, 42 }, { 7, 2 }, { 11, 59, 4, 30 } }

local function whole(m, prompt, n) -- without a cache
  local ids, out = { unpack(prompt) }, {}
  for i = 1, n do
    out[i] = m(tessera.tensor({ ids }, { dtype = "i64" })):select(1, -1):argmax { axis = -1 }:item()
    ids[#ids + 1] = out[i]
  end
  return table.concat(out, " ")
end

for _, name in ipairs { "llama", "mistral", "gemma2", "gemma3", "gpt2", "gpt_neox", "gpt_oss", "deepseek_v3", "qwen2_moe", "llama_yarn" } do
  local m = vectors.load(name)
  local greedy = { max_new_tokens = 8, eos = false }
  local drawn = { max_new_tokens = 8, eos = false, temperature = 1.5, top_k = 40, top_p = 0.95, min_p = 0.01, repetition_penalty = 1.2,
    seed = { 3, 4, 5 } }
  for _, o in ipairs { greedy, drawn } do
    o.ids = prompts
    local all = m:generate(o)
    for i, prompt in ipairs(prompts) do
      local alone = { ids = { prompt }, chunk = 2, length = 20 }
      for k, v in pairs(o) do alone[k] = alone[k] or v end
      if o.temperature then alone.seed = { o.seed[i] } else assert(list(all[i - 1]) == whole(m, prompt, 8), name) end
      if o == greedy then alone.eos = false end
      assert(list(m:generate(alone)[0]) == list(all[i - 1]), ("%s: text %d is another one alone"):format(name, i))
    end
  end
end

local m, v = vectors.load "llama"
m:generate { ids = prompts[1], max_new_tokens = 3, eos = false }.shape --> {1, 3}
m:generate { ids = v.ins.ids, max_new_tokens = 3, eos = false }.shape --> {2, 3}

-- What a tokenizer gives is its ids without padding; a list of the caller stays as it is.
local three = m:generate { ids = prompts, max_new_tokens = 3, eos = false }:hash()
local padded = { ids = tessera.tensor({ { 0, 7, 2 }, { 11, 59, 4 } }, { dtype = "i64" }), mask = tessera.tensor({ { 0, 1, 1 }, { 1, 1, 1 } }, { dtype = "i64" }) }
local two = m:generate { ids = { { 7, 2 }, { 11, 59, 4 } }, max_new_tokens = 3, eos = false }:hash()
assert(m:generate { ids = padded, max_new_tokens = 3, eos = false }:hash() == two)
assert(m:generate { ids = padded.ids, mask = padded.mask, max_new_tokens = 3, eos = false }:hash() == two)
m:generate { ids = { { 7, 2 } }, mask = padded.mask } --! the mask is i64[2,3], and has to be as ids are, which are no tensor
m:generate { ids = padded.ids, mask = padded.mask["1:1"] } --! and has to be as ids are, which are i64[2,3]
m:generate { ids = prompts, features = padded.ids } --! option 'features' is for models that encode them
m:generate { ids = prompts, length_penalty = 2 } --! option 'length_penalty' does nothing without 'beams'
m:generate { ids = prompts, draft_tokens = 2 } --! option 'draft_tokens' does nothing without 'draft'
assert(m:generate { ids = { { ids = { 7, 2 } }, { ids = { 11, 59, 4, 0 }, mask = { 1, 1, 1, 0 } } }, max_new_tokens = 3, eos = false }:hash() == two)
local own = { tessera.tensor({ 7, 2 }, { dtype = "i64" }), { 11, 59, 4 } }
assert(m:generate { ids = own, max_new_tokens = 3, eos = false }:hash() == two and tessera.is_tensor(own[1]))
assert(m:generate { ids = prompts, max_new_tokens = 3, eos = false }:hash() == three)
m:generate { ids = { ids = {} } } --! text 1 has no tokens
m:generate { ids = tessera.tensor { { 7, 2 } } } --! tokens are f32[1,2], and have to be whole numbers
m:generate { ids = { tessera.tensor { 7, 2 }, { 3 } } } --! tokens are f32[2], and have to be whole numbers
m:generate { ids = { ids = tessera.tensor { { 7, 2 } } } } --! and have to be whole numbers
m:generate { ids = prompts, min_new_tokens = 9, max_new_tokens = 4 } --! 'min_new_tokens' is 9, and 'max_new_tokens' 4
do -- ends come no earlier
  local all = { ids = prompts, max_new_tokens = 6, min_new_tokens = 4 }
  all.eos = m:generate { ids = prompts, max_new_tokens = 6, eos = false }[0][1]:item()
  local _, about = m:generate(all)
  for _, a in ipairs(about) do assert(#a.tokens > 3) end
  for i = 1, 3 do assert(about[1].tokens[i] ~= all.eos) end
end
local steps = {}
for step, tokens in m:stream { ids = prompts, max_new_tokens = 4, eos = false } do steps[step] = #tokens end
steps --> {3, 3, 3, 3}

-- A text ends with its token; the others go on, and it is filled up.
local first = m:generate { ids = prompts, max_new_tokens = 6, eos = false }
local stop = first["1, 2"]:item()
local ended = m:generate { ids = prompts, max_new_tokens = 6, eos = { stop }, pad = 60 }
local row, n = ended[1]:totable(), 0
for i, id in ipairs(row) do
  if n == 0 and id == stop then n = i end
end
n > 0 --> true
for i = n + 1, 6 do assert(row[i] == 60) end
m:generate { ids = prompts[1], max_new_tokens = 6, eos = first["0, 0"]:item() }.shape --> {1, 1}

-- The same seed draws the same, others draw others.
local function draw(seed) return list(m:generate { ids = prompts[1], max_new_tokens = 8, eos = false, temperature = 2, seed = seed }[0]) end
draw(1) == draw(1) --> true
draw(1) == draw(2) --> false

m:generate { max_new_tokens = 2 } --! ids is not given
m:generate { ids = {} } --! must be token ids
m:generate { ids = prompts, seed = { 1 } } --! 1 seeds for 3 texts
m:generate { ids = prompts, top_q = 1 } --! did you mean 'top_k'?
m:generate { ids = prompts[1], length = 7, max_new_tokens = 5, eos = false } --! length is 7, and 6 tokens and 5 new ones need 11 positions

-- ---- filters beside their definitions
local V = 50
local logits = op.normal({ 3, V }, { std = 2, seed = 7, stream = 1 })
local function kept(o)
  o.temperature = o.temperature or 1
  return sampling.filter(logits, o):gt(-math.huge):totable()
end
local rows = logits:totable()
for i, row_ in ipairs(rows) do
  local order, sum = {}, 0
  for k = 1, V do
    order[k], sum = k, sum + math.exp(row_[k])
  end
  table.sort(order, function(a, b) return row_[a] > row_[b] end)
  local top_k, top_p, min_p, share = {}, {}, {}, 0
  for rank, k in ipairs(order) do
    top_k[k], top_p[k] = rank <= 7, share < 0.8
    share = share + math.exp(row_[k]) / sum
    min_p[k] = math.exp(row_[k] - row_[order[1]]) >= 0.1
  end
  local by_k, by_p, by_min = kept { top_k = 7 }[i], kept { top_p = 0.8 }[i], kept { min_p = 0.1 }[i]
  for k = 1, V do assert(by_k[k] == top_k[k] and by_p[k] == top_p[k] and by_min[k] == min_p[k], i .. " " .. k) end
end
sampling.chooser({ repetition_penalty = 2 }, { prompt = { 0, 1 } }):adjusted(tessera.tensor { 2, -2, 2, -2 }):totable() --> {{1, -4, 2, -2}}

-- As often as their probabilities say.
local few = tessera.tensor { { 0, 1, 2, -math.huge } }
local count = { 0, 0, 0, 0 }
for i = 1, 3000 do
  local id = sampling.choose(few, { temperature = 1 }, { 1 }, { i }):item() + 1
  count[id] = count[id] + 1
end
count[4] --> 0
for i = 1, 3 do
  local p = math.exp(i - 1) / (1 + math.exp(1) + math.exp(2))
  assert(math.abs(count[i] / 3000 - p) < 5 * math.sqrt(p * (1 - p) / 3000))
end

-- An encoder and a decoder.
for _, name in ipairs { "t5", "whisper" } do
  local pair, w = vectors.load(name)
  local out = pair:generate { ids = w.ins.ids, mask = w.ins.mask, features = w.ins.features, max_new_tokens = 5, eos = false }
  local ids = op.full({ 2, 1 }, pair.config.decoder_start_token_id or 0):cast "i64"
  for _ = 1, 5 do
    local y = pair { ids = w.ins.ids, mask = w.ins.mask, features = w.ins.features, decoder_ids = ids, last = true }
    ids = op.concat({ ids, y:argmax { axis = -1 } }, { axis = 1 })
  end
  assert(vectors.same(out, ids:narrow(1, 1, 5)), name)
  if name == "t5" then
    local rows = pair:generate { ids = w.ins.ids, max_new_tokens = 5, eos = false }:hash()
    assert(pair:generate { ids = w.ins.ids:totable(), max_new_tokens = 5, eos = false }:hash() == rows)
    pair:generate { ids = { { 1, 2 }, { 3 } } } --! texts 1 and 2 have 2 and 1 tokens
  end
end

-- Names of other libraries' options.
m:generate { ids = prompts, num_beams = 2 } --! it is 'beams' here
m:generate { ids = prompts, assistant_model = m } --! it is 'draft' here
m:generate { ids = prompts, do_sample = true } --! a token is drawn where temperature is above 0
