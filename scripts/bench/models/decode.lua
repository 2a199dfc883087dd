-- Decoding of language models of their true shapes, with weights drawn on the device:
--   tessera scripts/bench/models/decode.lua [DEVICE [MODEL ..]]     models: llama1b llama8b gpt_oss20b gpt_oss120b, tiny tiny_oss
-- For batches of 1, 7 and 64 a line each: tokens a second, the part of a step that its weights take at the bandwidth of a copy
-- of the same run, launches a step and how many of them begin before the one in front ends; whether texts have the same tokens
-- in all batches; for SHOW=1 what takes a step's time. VARIANTS="record ahead overlap" measures launches of a record that wait for
-- the one in front, that begin before it ends (as they do by default), and that wait for those alone that they need. PREFILL=8192
-- adds a prompt of so many tokens, beside a product of 8192 cubed; PROMPT and STEPS are what a text has, and gets. Steps are
-- timed as users meet them, in the loop of m:stream, when they are no longer getting faster.
local T = require "tessera"
local core, op, graph = T.core, T.op, T.graph
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } decode_time; int clock_gettime(int, decode_time *);"

local device = arg[1] or "cuda:0"
local PROMPT, BATCHES = tonumber(os.getenv "PROMPT") or 16, {}
for n in (os.getenv "BATCHES" or "1 7 64"):gmatch "%d+" do BATCHES[#BATCHES + 1] = tonumber(n) end
local STEPS = tonumber(os.getenv "STEPS") or 200

local time = ffi.new "decode_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.n) * 1e-9
end
local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end
local function say(...) print((...):format(select(2, ...))) io.stdout:flush() end

local LLAMA = { model_type = "llama", hidden_act = "silu", rms_norm_eps = 1e-5, rope_theta = 500000, vocab_size = 128256,
  num_key_value_heads = 8, max_position_embeddings = 131072, eos_token_id = 128001 }
local GPT_OSS = { model_type = "gpt_oss", hidden_size = 2880, intermediate_size = 2880, head_dim = 64, num_attention_heads = 64,
  num_key_value_heads = 8, vocab_size = 201088, num_experts_per_tok = 4, quantization_config = { quant_method = "mxfp4" },
  rope_scaling = { rope_type = "yarn", factor = 32, beta_fast = 32, beta_slow = 1, original_max_position_embeddings = 4096, truncate = false } }
local function like(base, more)
  local c = {}
  for k, v in pairs(base) do c[k] = v end
  for k, v in pairs(more) do c[k] = v end
  return c
end
local MODELS = {
  llama1b = like(LLAMA, { hidden_size = 2048, intermediate_size = 8192, num_hidden_layers = 16, num_attention_heads = 32, head_dim = 64,
    tie_word_embeddings = true, rope_scaling = { rope_type = "llama3", factor = 32, low_freq_factor = 1, high_freq_factor = 4,
      original_max_position_embeddings = 8192 } }),
  llama8b = like(LLAMA, { hidden_size = 4096, intermediate_size = 14336, num_hidden_layers = 32, num_attention_heads = 32, head_dim = 128,
    rope_scaling = { rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_max_position_embeddings = 8192 } }),
  gpt_oss20b = like(GPT_OSS, { num_hidden_layers = 24, num_local_experts = 32 }),
  gpt_oss120b = like(GPT_OSS, { num_hidden_layers = 36, num_local_experts = 128 }),
  tiny_oss = like(GPT_OSS, { hidden_size = 128, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
    vocab_size = 512, num_local_experts = 8, num_experts_per_tok = 2 }),
  tiny = like(LLAMA, { hidden_size = 256, intermediate_size = 512, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
    head_dim = 64, vocab_size = 512, tie_word_embeddings = true }),
}

local function drawn(shape, stream) return op.normal(shape, { dtype = "bf16", seed = 1, stream = stream, device = device }) end

local function model_of(name)
  local given = MODELS[name] or core.fail("decode: there is no model " .. name)
  local m, bytes, read = require("tessera.hf.drawn").model(given, { device = device })
  T.synchronize(device)
  return m, bytes, read
end

-- ---- what the device does
local function seconds(f, rounds)
  f()
  f()
  T.synchronize(device)
  local all = {}
  for i = 1, rounds or 7 do
    local begin = now()
    f()
    T.synchronize(device)
    all[i] = now() - begin
  end
  return median(all)
end

local function copy_bandwidth()
  local n = device:find "^sim" and 2 ^ 12 or 2 ^ 30
  local x, y = op.zeros({ n }, { dtype = "bf16", device = device }), op.ones({ n }, { dtype = "bf16", device = device })
  return 4 * n / seconds(function() y:copy_(x) end)
end

-- ---- decoding
local function prompts_of(model, n)
  local list = {}
  for i = 1, n do
    list[i] = {}
    for k = 1, PROMPT do list[i][k] = (i * 7919 + k * 104729) % model.config.vocab_size end
  end
  return list
end

-- Tokens by text and the median of the steps of the last quarter; and launches of one of these.
local function generate(model, batch, steps)
  local texts, times, last, before = {}, {}, now(), nil
  for i = 1, batch do texts[i] = {} end
  for step, tokens in model:stream { ids = prompts_of(model, batch), max_new_tokens = steps, eos = false } do
    for i, id in ipairs(tokens) do texts[i][step] = id end
    local t = now()
    if step > steps * 3 / 4 and step < steps then times[#times + 1] = t - last end
    if step == steps - 9 then before = T.jit.device() end
    last = t
  end
  local after = T.jit.device()
  for i = 1, batch do texts[i] = table.concat(texts[i], " ") end
  local function each(name) return before and (after[name] - before[name]) / 8 or 0 end
  return texts, median(times), each
end

local function decode(name, model, read, bandwidth, first)
  for _, batch in ipairs(BATCHES) do
    local best, texts, usual, each, same = math.huge, nil, nil, nil, math.huge
    generate(model, batch, STEPS) -- its kernels are compiled beside it, and some steps may end before they are there
    T.jit.wait()
    for _ = 1, 4 do -- until no faster
      local t
      texts, t, each = generate(model, batch, STEPS)
      usual = t
      local n = 0
      for i, text in ipairs(first or texts) do n = n + (text == texts[i] and 1 or 0) end
      first, same = first or texts, math.min(same, n)
      if t > 0.99 * best then break end
      best = math.min(best, t)
    end
    say("%s\tbatch %d\t%.1f tokens/s\t%.3f ms a step\t%.3f of the weights at the copy's bandwidth\t%g launches replayed in %g records a step, %g begin early\t%d of %d texts have the tokens of the first batch in each run",
      name, batch, batch / usual, usual * 1e3, read / bandwidth / usual, each "replayed", each "replays", each "early", same, #first)
  end
  return first
end

-- How launches go, by name: whether they begin early, and whether they wait for those alone that they need.
local VARIANTS = { record = { false, false }, ahead = { true, false }, overlap = { true, true } }

local function decode_in_all_ways(name, model, read, bandwidth)
  local first
  for variant in (os.getenv "VARIANTS" or "ahead"):gmatch "%S+" do
    local how = VARIANTS[variant] or core.fail("decode: there is no variant " .. variant)
    T.jit.ahead(how[1])
    T.jit.overlap(how[2])
    rawset(model, "_steps", nil) -- records are made anew
    first = decode(name .. " " .. variant, model, read, bandwidth, first)
  end
end

local function prefill(name, model, n)
  local ids = op.full({ 1, n }, 11, { dtype = "i64", device = device }) -- their values cost nothing
  local f = graph.module("prefill", function(x) return model { ids = x, last = true } end)
  local a, b = drawn({ 8192, 8192 }, 1), drawn({ 8192, 8192 }, 2)
  local g = graph.module("product", function(x, y) return op.linear(x, y) end)
  for _ = 1, 3 do f(ids) end
  T.jit.wait()
  local product = 2 * 8192 ^ 3 / seconds(function() g(a, b) end)
  local t = seconds(function() f(ids) end, 5)
  product = (product + 2 * 8192 ^ 3 / seconds(function() g(a, b) end)) / 2
  local c, weights = model.config, 0
  model:apply(function(m, path)
    for _, w in ipairs(rawget(m, "_wants") or {}) do
      if #w.shape == 2 and not path:find "embed" and not path:find "lm_head" then weights = weights + w.shape[1] * w.shape[2] end
    end
  end)
  local attention = c.num_hidden_layers * 2 * n * n * c.num_attention_heads * c.head_dim -- causal: half of 4
  local flops = 2 * weights * n + attention
  say("%s\tprefill %d\t%.1f ms\t%.1f TFLOP/s\t%.3f of 8192 cubed (%.1f TFLOP/s)", name, n, t * 1e3, flops / t / 1e12, flops / t / product, product / 1e12)
end

if DECODE_LIBRARY then return { model_of = model_of, prompts_of = prompts_of } end

core.no_grad(function()
  local names = { unpack(arg, 2) }
  if #names == 0 then names = { "llama1b", "llama8b" } end
  local bandwidth = copy_bandwidth()
  say("copy\t%.3f TB/s", bandwidth / 1e12)
  for _, name in ipairs(names) do
    local begin = now()
    local model, bytes, read = model_of(name)
    say("%s\t%.2f GB of weights, %.2f GB for a token, drawn in %.1f s", name, bytes / 1e9, read / 1e9, now() - begin)
    decode_in_all_ways(name, model, read, bandwidth)
    if os.getenv "SHOW" then
      for _, batch in ipairs(BATCHES) do
        print(T.profile.report(function() generate(model, batch, 24) end))
      end
    end
    if os.getenv "PREFILL" then prefill(name, model, tonumber(os.getenv "PREFILL")) end
    model = nil
    collectgarbage()
  end
end)
