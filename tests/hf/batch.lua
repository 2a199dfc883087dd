-- Texts of a batch have the tokens that they have alone, whatever comes and goes beside them: at random times, with options of
-- their own, with short pages and few of them, with prefixes that are found again, in 8 bits, on a device.
local tessera = require "tessera"
local core = tessera.core
local vectors = dofile "tests/hf/_vectors.lua"

local state = 1
local function random(n) -- 1 .. n
  state = (state * 48271) % 2147483647
  return state % n + 1
end

local function words(list) return table.concat(list, " ") end

-- What a text has alone.
local function alone(m, o, cache_dtype)
  local own = { cache_dtype = cache_dtype }
  for k, v in pairs(o) do own[k] = v end
  local tokens, about = m:generate(own)
  return words(about[1].tokens), about[1].reason, tokens
end

local function some_request(vocabulary, beginnings)
  local ids = {}
  local from = beginnings and beginnings[random(#beginnings)] or {}
  for i, id in ipairs(from) do ids[i] = id end
  for _ = 1, random(9) do ids[#ids + 1] = random(vocabulary) - 1 end
  local o = { ids = ids, max_new_tokens = random(8), eos = random(3) == 1 and { random(vocabulary) - 1, random(vocabulary) - 1, 3, 9 } or false }
  if random(2) == 1 then
    o.temperature, o.seed, o.top_k, o.repetition_penalty = 1 + random(3) / 2, random(1000), random(2) == 1 and 20 or nil, 1 + random(3) / 10
  end
  return o
end

-- Requests that come between steps; some are cancelled. Each has the tokens that it has alone, or the first of them.
local function churn(m, options, count, beginnings, dtype)
  local b = tessera.hf.batch(m, options)
  local live, n = {}, 0
  while n < count or b:step() do
    while n < count and random(3) > 1 do
      local o = some_request(m.config.vocab_size, beginnings)
      n = n + 1
      live[n] = { o = o, r = b:submit(o) }
    end
    if n < count then b:step() end
    if n > 0 and random(12) == 1 then b:cancel(live[random(n)].r) end
  end
  for i, one in ipairs(live) do
    local want, reason = alone(m, one.o, dtype)
    local got = words(one.r.tokens)
    assert(one.r.done)
    if one.r.reason == "cancelled" then
      assert(want:sub(1, #got) == got, ("%s: text %d: %s, alone %s"):format(m.config.model_type, i, got, want))
    else
      assert(got == want and one.r.reason == reason, ("%s: text %d: %s (%s), alone %s (%s)"):format(m.config.model_type, i, got, one.r.reason,
        want, reason))
    end
  end
  local s = b:statistics()
  assert(s.used == 0 and s.active == 0 and s.waiting == 0 and s.idle + s.free == s.pages, tostring(b))
  return b, s
end

local long = { { 5, 17, 60, 3, 9, 42, 11, 12, 13, 14, 15, 16 }, { 5, 17, 60, 3, 9, 42, 11, 12, 21, 22 }, {} }
for _, name in ipairs { "llama", "gemma3", "deepseek_v3", "gpt_oss", "gemma2", "mistral", "gpt2", "gpt_neox", "qwen2_moe", "phi3_longrope",
  "llama_dynamic" } do
  local m = vectors.load(name)
  churn(m, { max_batch = 4, length = 32, page = 4, chunk = 5 }, 12, long)
  churn(m, { max_batch = 3, length = 32, page = 3, chunk = 64, pages = 12 }, 8, long)
end

-- Pages that are found again change no bit, and are found.
local m = vectors.load "llama"
state = 7
local b, with = churn(m, { max_batch = 2, length = 64, page = 4 }, 20, long)
state = 7
local _, without = churn(m, { max_batch = 2, length = 64, page = 4, share = false }, 20, long)
with.hits > 10 and with.reused == 4 * with.hits --> true
without.hits + without.misses + without.idle --> 0
tostring(b):match "prefixes: %d+ positions reused" ~= nil --> true

-- Few pages: texts wait and begin again, pages of prefixes go, the oldest first.
local _, few = churn(m, { max_batch = 4, length = 32, page = 4, pages = 8, chunk = 6 }, 20, long)
few.preempted > 0 and few.dropped > 0 --> true

-- In 8 bits, and in 16.
for _, name in ipairs { "llama", "gemma3", "deepseek_v3", "gemma2" } do
  local model = vectors.load(name)
  for _, dtype in ipairs { "fp8_e4m3", "fp8_e5m2", "bf16", "f16" } do
    churn(model, { max_batch = 3, length = 32, page = 4, chunk = 5, cache_dtype = dtype }, 5, long, dtype)
  end
end

-- Pages come when texts need them, up to as many as there may be.
for dtype, bytes in pairs { f32 = { 10240, 18432 }, fp8_e4m3 = { 3840, 6912 } } do
  local own = tessera.hf.batch(m, { max_batch = 2, length = 32, page = 8, cache_dtype = dtype })
  local s = own:statistics()
  assert(s.nbytes == bytes[1] and s.pages == 4 and s.most == 8)
  for i = 1, 2 do own:submit { ids = { i, 2, 3 }, max_new_tokens = 29, eos = false } end
  own:run()
  s = own:statistics()
  assert(s.nbytes == bytes[2] and s.pages == 8 and s.most == 8 and s.preempted == 0 and s.dropped == 0)
end
b:statistics().captured --> false
b:statistics().uncaptured --> processors read pages where they lie

-- On a device.
for _, name in ipairs { "llama", "gemma3", "deepseek_v3" } do
  local there = vectors.load(name, { device = "sim:0" })
  churn(there, { max_batch = 3, length = 32, page = 4, chunk = 5 }, 2, long)
  local b = tessera.hf.batch(there, { max_batch = 2, length = 32, page = 16 }) -- steps are captured
  local o = { { ids = { 5, 17, 60 }, max_new_tokens = 8, eos = false }, { ids = { 7, 2 }, max_new_tokens = 8, eos = false } }
  local one, two = b:submit(o[1]), b:submit(o[2])
  b:run()
  assert(words(one.tokens) == alone(there, o[1]) and words(two.tokens) == alone(there, o[2]))
  local s = b:statistics()
  assert(s.captured and not s.uncaptured and tostring(b.captured.step.run):find "%(1 spec", s.uncaptured)
  if name == "llama" then -- where a step cannot be captured, its calls are made, and it is said why
    local other = tessera.hf.batch(there, { max_batch = 2, length = 32, page = 16 })
    other.captured.step.run = tessera.graph.module(function() error("no graph\nfor this", 0) end)
    local three = other:submit(o[1])
    other:run()
    assert(words(three.tokens) == words(one.tokens) and other:statistics().uncaptured == "no graph")
    assert(not other:statistics().captured and tostring(other):find "steps are not captured: no graph")
  end
end

-- Layers with a window hold as many pages as it needs, however long a text is.
local g = vectors.load "gemma3" -- windows of 4
local long_one = tessera.hf.batch(g, { max_batch = 1, length = 64, page = 2, chunk = 4, share = false })
local r = long_one:submit { ids = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 }, max_new_tokens = 50, eos = false }
local held = { 0, 0 }
while long_one:step() do
  for i = 1, 2 do held[i] = math.max(held[i], r.pages and long_one.pages:held(r.pages, i) or 0) end
end
for i, group in ipairs(long_one.store.groups) do
  assert(held[i] <= (group.window == 4 and math.ceil(7 / 2) + 1 or 32), group.window .. ": " .. held[i])
end
words(r.tokens) == alone(g, { ids = r.prompt, max_new_tokens = 50, eos = false }) --> true

-- ---- what is wrong with one is nobody else's
local two = tessera.hf.batch(m, { max_batch = 2, length = 16, page = 4, pages = 4 })
local good = two:submit { ids = { 1, 2, 3 }, max_new_tokens = 6, eos = false }
two:submit { ids = { 1 }, top_q = 3 } --! did you mean 'top_k'?
two:submit { max_new_tokens = 3 } --! option 'ids'
two:submit { ids = { 1, 2, 64 } } --! token 3 of the prompt is 64, and has to be a whole number from 0 to 60
two:submit { ids = { { 1 }, { 2 } } } --! 2 texts are given, and a request is one
two:submit { ids = { 1 }, max_new_tokens = 16 } --! a text of this batch has at most 16 positions
tessera.hf.batch(m, { length = 64, page = 4, pages = 2 }):submit { ids = { 1 } } --! the text needs 6 pages of 4 positions, and there are 2
two:sumbit { ids = { 1 } } --! did you mean 'submit'?
two:cancel {} --! must be a request
tessera.hf.batch {} --! must be a model
tessera.hf.batch(m, { max_batch = 0 }) --! option 'max_batch' must be a whole number >= 1
tessera.hf.batch(m, { pages = 1e12 }) --! hint: fewer {pages = ..}
two:submit { ids = { 4, 5 }, max_new_tokens = 6, logit_bias = { [100] = 1 } } --! option 'logit_bias': token 100, and the model has 61
two:submit { ids = { 4, 5 }, top_p = 0.5 } --! option 'top_p' does nothing at temperature 0
two:submit { ids = "a text" } --! hint: ids = tok:encode
two:run()
words(good.tokens) == alone(m, { ids = { 1, 2, 3 }, max_new_tokens = 6, eos = false }) --> true
two:step() --> false

-- A position that the model has no row for is that text's fault.
local learned = vectors.load "gpt2" -- 64 positions
local past = tessera.hf.batch(learned, { max_batch = 2, length = 80, page = 16 })
local inside = past:submit { ids = { 1, 2, 3 }, max_new_tokens = 70, eos = false }
local beside = past:submit { ids = { 4, 5 }, max_new_tokens = 62, eos = false }
past:run()
inside.reason --> error
inside.error:match "out of range" --> out of range
#inside.tokens --> 62
words(beside.tokens) == alone(learned, { ids = { 4, 5 }, max_new_tokens = 62, eos = false }) --> true

-- What is new since it was read.
local told = two:submit { ids = { 1, 2, 3 }, max_new_tokens = 4, eos = false }
two:step()
two:step()
words((told:read())) == words { good.tokens[1], good.tokens[2] } --> true
two:run()
words((told:read())) == words { good.tokens[3], good.tokens[4] } --> true
#told:read() --> 0
told.text --> nil

-- Texts, and what ends them.
local letters, vocabulary = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678", {}
for i = 1, #letters do vocabulary[i] = ('"%s": %d'):format(letters:sub(i, i), i - 1) end
local tok = require("tessera.hf.tokenizer").of_json(([[{"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(table.concat(vocabulary, ", ")))
local texts = tessera.hf.batch(m, { max_batch = 3, length = 32, page = 4, tokenizer = tok })
local asked = { { ids = { 5, 17 }, max_new_tokens = 12, eos = false, temperature = 3, seed = 1 },
  { ids = { 5, 17 }, max_new_tokens = 12, eos = false, temperature = 3, seed = 1, stop = { "q", "z", "P", "A", "b" } },
  { ids = { 7 }, max_new_tokens = 12, eos = false, eos = 60, regex = "[a-c]{3}[0-7]" } }
local given = {}
for i, o in ipairs(asked) do given[i] = texts:submit(o) end
local read_so_far = ""
while texts:step() do read_so_far = read_so_far .. select(2, given[1]:read()) end
for i, o in ipairs(asked) do
  o.tokenizer = tok
  local about = select(2, m:generate(o))[1]
  assert(given[i].text == about.text and given[i].reason == about.reason, ("%d: %s, %s"):format(i, given[i].text, about.text))
end
read_so_far == given[1].text and #read_so_far == 12 --> true
given[2].reason --> stop
given[3].text:match "^[a-c][a-c][a-c][0-7]$" ~= nil --> true

-- ---- memory that runs out and Ctrl-C lose nothing
local requests = { { ids = { 5, 17, 60, 3, 9, 42 }, max_new_tokens = 5, eos = false },
  { ids = { 5, 17, 60, 3, 7 }, max_new_tokens = 6, eos = false, repetition_penalty = 2, frequency_penalty = 3 },
  { ids = { 1, 2 }, max_new_tokens = 4, eos = false, logprobs = 2 } }
local wants = {}
for i, o in ipairs(requests) do wants[i] = alone(m, o) end
local function upset(set, clear, n)
  local batch, list = tessera.hf.batch(m, { max_batch = 2 + n % 2, length = 16, page = 4, pages = 7, chunk = 4 }), {}
  for i, o in ipairs(requests) do list[i] = batch:submit(o) end
  for _ = 1, n % 3 do batch:step() end
  local came
  local ok, why = pcall(function()
    set(n)
    batch:step()
    came = clear()
  end)
  if not ok then came = clear() or true end
  if not ok then assert(tostring(why):find "memory" or tostring(why):find "interrupted", why) end
  batch:run()
  for i, one in ipairs(list) do
    assert(words(one.tokens) == wants[i] and one.reason == "length", ("%d: text %d: %s, alone %s"):format(n, i, words(one.tokens), wants[i]))
    assert(not one.logprobs or #one.logprobs == #one.tokens)
  end
  assert(batch:statistics().used == 0)
  return came, not ok
end
local function walk(set, clear, most)
  local n, failed = 1, 0
  while true do
    local came, hit = upset(set, clear, n)
    failed = failed + (hit and 1 or 0)
    if not came or n > most then return failed end
    n = n < 12 and n + 1 or math.floor(n * 1.3)
  end
end
walk(function(n) core.fail_after(n) end, function() return core.fail_after(0) < 0 end, 4000) > 12 --> true
walk(function(n) core.interrupt_after(n) end, function() return core.interrupt_after(0) < 0 end, 4000) > 20 --> true
walk(function(n) core.interrupt_after(n, "looks") end, function() return core.interrupt_after(0, "looks") <= 0 end, 2000) > 10 --> true
walk(function(n) core.interrupt_after(n, "instructions") end, function() core.interrupt_after(0) return true end, 30000) > 10 --> true
