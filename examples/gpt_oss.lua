-- GPT-OSS: attention with sinks, every other layer a window, and a mixture of experts in MXFP4, of which a token reads four.
--
--   tessera examples/gpt_oss.lua [--steps N] [--text FILE]         a tiny one: trained, its experts made MXFP4, writing
--   tessera examples/gpt_oss.lua --size 20b|120b|small [--device cuda:0] [--tokens N] [--batch N]      the true shapes, drawn
--   tessera examples/gpt_oss.lua --model FOLDER [--device cuda:0] [--prompt TEXT] [--tokens N]   as published
--
-- The weights of the true shapes are random numbers (Philox) that are made on the device: codes of 4 bits with a scale for 32. What
-- is shown is how long a token takes beside what reading its weights takes at the bandwidth of a copy.

local tessera = require "tessera"
local op, data, graph, hf, optim = tessera.op, tessera.data, tessera.graph, tessera.hf, tessera.optim
local drawn = require "tessera.hf.drawn"

local YARN = { rope_type = "yarn", factor = 32, beta_fast = 32, beta_slow = 1, original_max_position_embeddings = 4096, truncate = false }
local MXFP4 = { quant_method = "mxfp4" }

local function like(base, more)
  local c = {}
  for k, v in pairs(base) do c[k] = v end
  for k, v in pairs(more) do c[k] = v end
  return c
end

local TRUE = { model_type = "gpt_oss", hidden_size = 2880, intermediate_size = 2880, head_dim = 64, num_attention_heads = 64, num_key_value_heads = 8,
  vocab_size = 201088, num_experts_per_tok = 4, quantization_config = MXFP4, rope_scaling = YARN }
local SIZES = { tiny = {}, small = like(TRUE, { device = "cuda:0", hidden_size = 128, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, num_local_experts = 8 }), -- for a simulated device, --device sim:0
  ["20b"] = like(TRUE, { device = "cuda:0", num_hidden_layers = 24, num_local_experts = 32 }),
  ["120b"] = like(TRUE, { device = "cuda:0", num_hidden_layers = 36, num_local_experts = 128 }) }

local options = tessera.arguments({ steps = 120, text = "/usr/share/common-licenses/GPL-3", size = "tiny", tokens = 48, batch = 1, device = false,
  model = false, prompt = "The capital of France is" }, SIZES)

-- ---- the true shapes
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } gpt_oss_time; int clock_gettime(int, gpt_oss_time *);"
local time = ffi.new "gpt_oss_time"
local function seconds()
  tessera.synchronize(options.device)
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.n) * 1e-9
end

local function timed(f)
  local begin = seconds()
  f()
  return seconds() - begin
end

local function copy_bandwidth(device)
  local n = device:find "^cuda" and 2 ^ 29 or 2 ^ 12
  local x, y = op.zeros({ n }, { dtype = "bf16", device = device }), op.ones({ n }, { dtype = "bf16", device = device })
  local function copies()
    for _ = 1, 8 do y:copy_(x) end
  end
  copies()
  return 8 * 2 * x.nbytes / timed(copies)
end

local function large(size)
  local device = options.device
  local config = SIZES[size]
  local bandwidth = copy_bandwidth(device)
  collectgarbage()
  local model, bytes, read
  local t = timed(function() model, bytes, read = drawn.model(config, { device = device }) end)
  print(("gpt-oss %s: %.3g GB of weights, drawn in %.1f s; a token reads %.3g GB"):format(size, bytes / 1e9, t, read / 1e9))
  local prompts = {}
  for i = 1, options.batch do prompts[i] = { i, (1000 + i) % config.vocab_size, 77 * i % config.vocab_size } end
  local texts
  for round = 1, 2 do -- the first one makes kernels
    local each = timed(function() texts = model:generate { ids = prompts, max_new_tokens = options.tokens, eos = false } end) / options.tokens
    print(("round %d: %.1f tokens/s, %.2f ms a step; reading the weights of one token alone takes %.2f ms at %.2f TB/s"):format(round,
      options.batch / each, each * 1e3, read / bandwidth * 1e3, bandwidth / 1e12))
  end
  print("tokens of the first text: " .. table.concat(texts[0]:totable(), " ", 1, math.min(16, options.tokens)))
end

-- ---- as published
local function published(folder)
  local model, tokenizer = hf.load(folder, { device = options.device or nil }), hf.tokenizer(folder)
  print(model.plan)
  for _, _, about in model:stream { ids = tokenizer:encode(options.prompt), max_new_tokens = options.tokens, tokenizer = tokenizer } do
    io.write(about[1] or "")
    io.flush()
  end
  print()
end

-- ---- a tiny one
-- Matrices [experts, inputs, outputs] as codes and scales of [experts, outputs, inputs], as files have them.
local function as_mxfp4(w)
  local blocks = w:T():contiguous():cast "mxfp4"
  local e, rows, k = unpack(blocks.shape)
  local bytes = blocks:bitcast("u8"):reshape(e, rows, k / 32, 17)
  return bytes:narrow(-1, 1, 16):contiguous(), bytes:select(-1, 0):contiguous()
end

-- The same model with its experts in MXFP4.
local function quantised(model, config)
  local packed = drawn.model(like(config, { quantization_config = MXFP4 }), { dtype = "f32" })
  local weights = model:state_dict()
  for i in ipairs(packed.model.layers) do
    local prefix = ("model.layers.%d.mlp.experts."):format(i - 1)
    for _, name in ipairs { "gate_up_proj", "down_proj" } do
      local w = weights[prefix .. name]
      weights[prefix .. name .. "_blocks"], weights[prefix .. name .. "_scales"] = as_mxfp4(w)
      weights[prefix .. name] = nil
    end
  end
  packed:load_state_dict(weights)
  return packed
end

-- Logits of small weights that the transformers library has computed as well, where the project's tests stand beside.
local function compare()
  local f = io.open "tests/hf/vectors/gpt_oss.safetensors"
  if not f then return end
  f:close()
  local vectors = dofile "tests/hf/_vectors.lua"
  local known = vectors.read "gpt_oss"
  local model = vectors.load "gpt_oss"
  local distance = vectors.distance(tessera.no_grad(function() return model { ids = known.ins.ids } end), known.outs.logits)
  print(("logits of transformers: off by %.1e of the largest"):format(distance))
  assert(distance < 1e-4)
end

local function tiny()
  if options.device and options.device ~= "cpu" then
    error("--device: the tiny one learns on the CPU; with --size small, 20b or 120b it is asked", 0)
  end
  local CONTEXT, BATCH = 32, 8
  local text = data.text(options.text)
  local tokenizer = data.CharTokenizer(text)
  local tokens, V = tokenizer:encode(text), tokenizer.size
  local config = { model_type = "gpt_oss", hidden_size = 64, intermediate_size = 64, head_dim = 16, num_attention_heads = 4, num_key_value_heads = 2,
    num_hidden_layers = 2, vocab_size = V, num_local_experts = 8, num_experts_per_tok = 4, sliding_window = 16, max_position_embeddings = 1024,
    rope_theta = 10000 }
  tessera.rng.seed(1)
  local model = drawn.model(config, { dtype = "f32", std = 0.05 })
  model:train()
  local optimizer = optim.AdamW(model:parameters(), { lr = 3e-3 })
  local step = graph.training_step(model, function(m, x, y)
    return op.cross_entropy(m { ids = x }:reshape(-1, V), y:reshape(-1))
  end, optimizer)
  local first, last
  for i = 1, options.steps do
    local x, y = {}, {}
    for b, start in ipairs(op.randint({ BATCH }, { low = 0, high = tokens.numel - CONTEXT - 1 }):totable()) do
      x[b], y[b] = tokens:narrow(0, start, CONTEXT), tokens:narrow(0, start + 1, CONTEXT)
    end
    last = step(op.stack(x), op.stack(y)):item()
    first = first or last
    if i == 1 or i % 20 == 0 or i == options.steps then print(("step %d: loss %.4f"):format(i, last)) end
  end
  if options.steps >= 60 then assert(last < first - 1, "it has learned too little") end
  model:eval()
  tessera.no_grad(function()
    local packed = quantised(model, config)
    local ids = tokens:narrow(0, 0, CONTEXT):unsqueeze(0)
    local a, b = model { ids = ids }, packed { ids = ids }
    print(("experts in MXFP4: logits off by %.3f, where the largest is %.2f"):format((a - b):abs():max():item(), a:abs():max():item()))
    for _, m in ipairs { model, packed } do
      local out = m:generate { ids = tokenizer:encode("the "):totable(), max_new_tokens = options.tokens, eos = false }
      print((m == packed and "MXFP4" or "numbers") .. ": the " .. (tokenizer:decode(out[0]):gsub("%s+", " ")))
    end
    compare()
  end)
end

if options.model then
  published(options.model)
elseif options.size == "tiny" then
  tiny()
else
  tessera.no_grad(function() large(options.size) end)
end
