-- The rows of the benchmark: sections of
--   { title, call, per =, limit =, goals... }
-- `call` is what the workers understand (scripts/bench/ours.lua, peer.py, onednn.c):
-- a name and the sizes, so that everybody runs the same shapes. per = { unit, n }
-- turns seconds into n / seconds, or into n * seconds with time = true. limit names
-- the row of scripts/bench/machine.c that bounds this one; moves names one that moves the
-- same lines in the same order, and cached a small call of the operator that stays in the
-- second-level cache, `times` of which are the row's work. The results of a noisy row are
-- too small a sample to be compared with the peers'.
-- Goals: limit = least part of the limit, peers = { name = least ratio in speed },
-- most = greatest value in the row's unit; threads = n: of that number of threads only.

local MiB = 2 ^ 20
local COPY = "copy %s 67108864"

local function flops(n) return { unit = "GFLOP/s", n = n / 1e9 } end
local function bytes(mib) return { unit = "GB/s", n = mib * MiB / 1e9 } end
local function ms() return { unit = "ms", n = 1e3, time = true } end

local PEAK = {
  f32 = { call = "flops f32", per = flops(1e9) },
  f64 = { call = "flops f64", per = flops(1e9) },
  fast = { call = "flops bf16", per = flops(1e9) }, -- by pairs
}
local READING = { call = COPY:format "read", per = bytes(64) }
local MEMORY = { call = COPY:format "stream", per = bytes(128) }
local WIDENING = { call = COPY:format "widen", per = bytes(96) } -- writes are slower than reads

local function product(dtype, m, k, n, layout, goals)
  local title = m == n and ("%s %d"):format(dtype, n)
    or ("%s %dx%d by %dx%d%s"):format(dtype, m, k, k, n, layout == "nt" and " transposed" or "")
  return { title, ("matmul %s %d %d %d %s"):format(dtype, m, k, n, layout),
    per = flops(2 * m * k * n), limit = PEAK[dtype] or PEAK.f32, goals = goals }
end

local ONEDNN = { peers = { onednn = 0.95 } }

-- Where products may round as the processor's instruction for bf16 does, as oneDNN's do.
local function fast(n)
  local row = product("bf16", n, n, n, "nn", { peers = { onednn = 1 } })
  row[1], row[2] = row[1] .. ", profile fast", "fast_" .. row[2]
  row.limit = PEAK.fast
  return row
end

-- Separate operators cost the peers as much as the result's way through memory, and their gelu.
local function epilogue(m, k, n)
  local title = m == n and m == k and ("f32 %d"):format(n) or ("f32 %dx%d by %dx%d"):format(m, k, k, n)
  return { title, ("fused_product %d %d %d"):format(m, k, n), per = flops(2 * m * k * n), limit = PEAK.f32,
    goals = { peers = { onednn = 1.1, torch = 1.1 } } }
end

-- The same in bf16, in the profile fast; each operator rounds.
local function fast_epilogue(m, k, n)
  local row = epilogue(m, k, n)
  row[1], row[2] = row[1]:gsub("f32", "bf16") .. ", profile fast", row[2]:gsub("fused", "fast")
  row.limit = PEAK.fast
  return row
end

-- Reading a matrix of 64 MiB for one or eight rows is bound by memory.
local function skinny(m, layout)
  local row = product("f32", m, 4096, 4096, layout, { peers = { onednn = 1.1 } })
  row.per = bytes(64)
  row.limit = READING
  return row
end

local SQUARES = { call = COPY:format "squares", per = bytes(128) }
local TWICE = { call = COPY:format "rows", per = bytes(128) }

local PASS = { limit = 0.85, peers = { torch = 1, numpy = 1 } }
local function pass(title, call, mib, limit)
  return { title, call, per = bytes(mib), limit = limit or mib == 64 and READING or MEMORY, goals = PASS }
end

-- An operator that may be bound by what it computes, or by the order in which it moves.
local function bounded(title, call, moves)
  local row = pass(title, call, 128)
  row.moves = moves
  local name = call:match "^(%a+) 4096 4096$"
  if name and name ~= "transpose" then row.cached, row.times = name .. " 16 4096", 256 end
  return row
end

local FUSED = { limit = 0.9, peers = { torch = 1, compile = 1, jax = 1 } }
local function fused(title, call, mib, limit)
  return { title, call, per = bytes(mib), limit = limit or MEMORY, goals = FUSED }
end

local function against(title, call, per, goals)
  local limit = per.unit == "GFLOP/s" and PEAK.f32 or nil
  return { title, call, per = per, goals = goals, limit = limit }
end

-- Of the smaller model on two threads; products take nearly all of the larger one's step.
local STEP = { peers = { torch = 1.5, compile = 1.1 }, threads = 2 }

local function operator(title, call) return { title, call, per = ms(), goals = { peers = { torch = 1 } } } end

-- f64; of one matrix the larger part of the work is in products, of many small ones in the call.
local function linalg()
  local section = { name = "linalg", title = "Linear algebra, f64" }
  for _, name in ipairs { "solve", "inv", "cholesky", "qr", "eigh", "svd" } do
    for _, size in ipairs { { 200, 1 }, { 1000, 1 }, { 4, 256 }, { 32, 64 } } do
      local n, batch = unpack(size)
      local title = batch == 1 and ("%s %d"):format(name, n) or ("%s %d x %d x %d"):format(name, batch, n, n)
      section[#section + 1] = { title, ("linalg %s %d %d"):format(name, n, batch), per = ms(),
        goals = { peers = { torch = batch == 1 and 0.8 or 2 } } }
    end
  end
  return section
end

-- Whole programs of scripts/bench/programs. within: how near the first results have to be, wider where random
-- numbers are drawn.
local function program(name, title, within)
  return { title, "program " .. name, per = ms(), within = within or 1e-3, goals = { peers = { torch = 1.2, eager = 1 } } }
end

-- Real models (models/cpu.lua): tokens that a text of 8 goes on with, and a text of 256 that is read.
local function model_rows()
  local section = { name = "models, running", title = "Models of Python packages, running" }
  for _, format in ipairs { "q4_1", "q8_0", "q4_k" } do
    section[#section + 1] = { "SmolLM2 135M " .. format .. ", decode", ("model_decode %s 64"):format(format), noisy = true,
      per = { unit = "tokens/s", n = 64 }, goals = { peers = { llama = 1 } } }
    section[#section + 1] = { "SmolLM2 135M " .. format .. ", prompt", ("model_prompt %s 256"):format(format), noisy = true,
      per = { unit = "tokens/s", n = 256 }, goals = { peers = { llama = 1 } } }
  end
  for _, batch in ipairs { 1, 32 } do
    section[#section + 1] = { ("MiniLM, %d x 64 tokens"):format(batch), ("model_embed %d 64"):format(batch),
      per = { unit = "texts/s", n = batch }, goals = { peers = { torch = 1.2, onnx = 1.2 } } }
  end
  return section
end

local function transform(n, count) return flops(5 * n * count * math.log(n) / math.log(2)) end
local LIBRARIES = { peers = { torch = 1, numpy = 1, scipy = 1 } }

return {
  { name = "machine", title = "Limits of the machine", kind = "machine",
    { "copy 64 MiB, streaming stores", COPY:format "stream", per = bytes(128) },
    { "the same, fetched 2 KiB ahead", COPY:format "fetched", per = bytes(128) },
    { "the same, each line written twice", COPY:format "widen", per = bytes(96) },
    { "the same, in the order of a transpose", COPY:format "squares", per = bytes(128) },
    { "the same, each row read twice", COPY:format "rows", per = bytes(128) },
    { "read 64 MiB", COPY:format "read", per = bytes(64) },
    { "copy 64 MiB, memcpy", COPY:format "memcpy", per = bytes(128) },
    { "multiply-adds, f32", "flops f32", per = flops(1e9) },
    { "multiply-adds, f64", "flops f64", per = flops(1e9) },
    { "multiply-adds of pairs, bf16", "flops bf16", per = flops(1e9) } },

  { name = "start", title = "Start of the process", kind = "start",
    { "prompt ready", "prompt", goals = { most = 10 }, per = ms() },
    { "empty program", "run", goals = { most = 10 }, per = ms() },
    { "resident at the prompt", "prompt", goals = { most = 20 }, per = { unit = "MB" } },
    { "resident, empty program", "run", goals = { most = 20 }, per = { unit = "MB" } } },

  { name = "eager", title = "Small operators, called one by one", one_thread = true,
    { "add, 16 f32", "small_add 16", noisy = true, per = { unit = "ns", n = 1e9, time = true },
      goals = { most = 200, peers = { torch = 1, numpy = 1 } } },
    { "7 operators in a loop, 16 f32, each", "eager_loop 16", noisy = true,
      per = { unit = "ns", n = 1e9 / 7, time = true }, goals = { peers = { vm = 3 } } },
    { "7 operators in a loop, 1024 f32, each", "eager_loop 1024", noisy = true,
      per = { unit = "ns", n = 1e9 / 7, time = true }, goals = { peers = { vm = 3 } } },
    { "add, 1024 f32", "small_add 1024", noisy = true, per = { unit = "ns", n = 1e9, time = true },
      goals = { peers = { torch = 1, numpy = 1 } } } },

  { name = "tiers", title = "What the tiers cost where nothing gets hot", one_thread = true,
    { "storm of 1000 shapes, one function", "storm 1000", noisy = true, per = ms(), goals = { peers = { vm = 0.91 } } },
    { "operators in no order, 16 f32, each", "eager_any 16", noisy = true,
      per = { unit = "ns", n = 1e9, time = true }, goals = { peers = { vm = 0.97 } } } },

  { name = "matmul", title = "Matrix products",
    product("f32", 256, 256, 256, "nn", ONEDNN),
    product("f32", 512, 512, 512, "nn", ONEDNN),
    product("f32", 1024, 1024, 1024, "nn", ONEDNN),
    product("f32", 2048, 2048, 2048, "nn", ONEDNN),
    product("f32", 4096, 4096, 4096, "nn", ONEDNN),
    product("f64", 1024, 1024, 1024, "nn"),
    product("bf16", 1024, 1024, 1024, "nn"),
    fast(256), fast(512), fast(1024), fast(2048) },

  { name = "epilogue", title = "gelu(x w + b) + r as one function; oneDNN and PyTorch by separate operators",
    epilogue(512, 512, 512), epilogue(1024, 1024, 1024), epilogue(1024, 1024, 4096), epilogue(4096, 768, 3072),
    fast_epilogue(512, 512, 512), fast_epilogue(1024, 1024, 1024), fast_epilogue(4096, 768, 3072) },

  { name = "skinny", title = "Matrix products with few rows",
    skinny(1, "nn"), skinny(1, "nt"), skinny(8, "nn"), skinny(8, "nt") },

  { name = "memory", title = "Operators bound by memory, 4096 x 4096 f32 (64 MiB)",
    pass("clone", "clone 4096 4096", 128),
    pass("add", "add 4096 4096", 192),
    pass("multiply by a number", "scale 4096 4096", 128),
    bounded("exp", "exp 4096 4096", MEMORY),
    bounded("gelu", "gelu 4096 4096", MEMORY),
    pass("add a row", "bias 4096 4096", 128),
    bounded("softmax", "softmax 4096 4096", TWICE),
    bounded("layernorm", "layernorm 4096 4096", TWICE),
    bounded("rmsnorm", "rmsnorm 4096 4096", TWICE),
    pass("sum of each row", "sum 4096 4096 rows", 64),
    pass("sum of each column", "sum 4096 4096 columns", 64),
    pass("sum of everything", "sum 4096 4096 all", 64),
    pass("max of each row", "max 4096 4096 rows", 64),
    bounded("transpose, copied", "transpose 4096 4096", SQUARES),
    bounded("NCHW to NHWC 16x64x128x128", "nhwc 16 64 128 128", SQUARES),
    bounded("NHWC to NCHW 16x128x128x64", "nchw 16 128 128 64", SQUARES),
    pass("f32 to bf16", "cast f32 bf16", 96),
    pass("bf16 to f32", "cast bf16 f32", 96, WIDENING),
    pass("concat of rows", "concat 2048 4096 0", 128),
    pass("concat of columns", "concat 4096 2048 1", 128) },

  { name = "fused", title = "Functions that become one kernel, 4096 x 4096 f32",
    fused("x * 2 - y * x + b", "fused_chain 4096 4096", 192),
    fused("gelu(x + b) * y + x", "fused_gelu 4096 4096", 192),
    fused("softmax(x / 8)", "fused_softmax 4096 4096", 128),
    fused("layernorm(x + y)", "fused_layernorm 4096 4096", 192),
    fused("layernorm(x + y), 16384 x 1024", "fused_layernorm 16384 1024", 192),
    fused("rmsnorm(x + y)", "fused_rmsnorm 4096 4096", 192),
    fused("rmsnorm(x + y), 16384 x 1024", "fused_rmsnorm 16384 1024", 192),
    fused("sum of each row of x * y", "fused_dot 4096 4096", 128, READING),
    fused("gradients of layernorm", "fused_layernorm_grad 4096 4096", 192),
    fused("gradients of layernorm, 16384 x 1024", "fused_layernorm_grad 16384 1024", 192),
    fused("gradients of rmsnorm", "fused_rmsnorm_grad 4096 4096", 192),
    fused("gradients of rmsnorm, 16384 x 1024", "fused_rmsnorm_grad 16384 1024", 192),
    fused("cross-entropy and its gradient", "fused_cross_entropy 4096 4096", 128),
    fused("step of AdamW, in place", "fused_adamw 4096 4096", 448) },

  { name = "compile", title = "Compiling while the program runs", kind = "compile",
    { "first kernel of a process", "first", cold = true, peer = true, per = ms(), goals = { most = 20 } },
    { "a later kernel", "later", cold = true, per = ms(), goals = { most = 5 } },
    { "a kernel from disk", "first", per = ms(), goals = { most = 5 } },
    { "kernels that a second process compiles", "compiles", per = { unit = "kernels", n = 1e3, time = true },
      goals = { most = 0 } },
    { "longest stop of the program, GPT step", "stop", cold = true, per = ms(), goals = { most = 1 } } },

  { name = "layers", title = "Attention and convolution",
    against("attention B1 H8 S1024 D64, causal", "attention 1 8 1024 64",
      flops(2 * 8 * 1024 * 1024 * 64), { peers = { torch = 1 } }),
    against("the same, forward and backward", "attention_grad 1 8 1024 64",
      flops(7 * 8 * 1024 * 1024 * 64), { peers = { torch = 1.2 } }),
    against("conv2d 64 to 64, 3x3, 8x56x56", "conv2d 8 64 64 56 3",
      flops(2 * 8 * 56 * 56 * 64 * 64 * 9), { peers = { torch = 1 } }),
    against("relu(conv2d(x * 2) + b), one function", "fused_conv 8 64 64 56 3",
      flops(2 * 8 * 56 * 56 * 64 * 64 * 9), { peers = { torch = 1 } }) },

  { name = "training", title = "Training step of a GPT: forward, backward, AdamW",
    against("4 layers of 128, 12 x 128 tokens", "gpt_step 4 128 4 128 12 76",
      { unit = "tok/s", n = 12 * 128 }, STEP),
    against("4 layers of 256, 8 x 256 tokens", "gpt_step 4 256 8 256 8 256",
      { unit = "tok/s", n = 8 * 256 }, { peers = { torch = 1, compile = 1 } }) },

  { name = "programs", title = "Whole programs: captured, and called eagerly, beside PyTorch's eager one",
    program("mlp", "MLP 784-256-128-10, step of 64"),
    program("cnn", "digits CNN 28x28, step of 32"),
    program("resnet18", "ResNet-18 inference 224"),
    program("resnet18_train_224", "ResNet-18 224, step of 2"),
    program("resnet18_train_64", "ResNet-18 64, step of 8"),
    program("lstm", "LSTM 2 x 128, 64 characters, step of 16"),
    program("gru", "GRU of 128, 40 steps, step of 32"),
    program("vae", "VAE 784-400-20, step of 64", 0.01),
    program("gan", "GAN, a step of both with 64", 0.01),
    program("translate", "encoder and decoder, 2 + 2 layers of 128, step of 16"),
    program("unet", "U-Net 64x64, step of 4"),
    program("gcn", "GCN of 2708 nodes, step"),
    program("word2vec", "word2vec, 5 of 5000 words drawn, step of 512", 0.01),
    program("reinforce", "REINFORCE, 32 carts 100 steps, step", 0.25),
    program("nbody", "256 bodies, 10 steps"),
    program("ode", "gradient through 100 steps of Lotka-Volterra"),
    program("kalman", "Kalman filter, 64 things, 50 steps"),
    program("gaussian_process", "Gaussian process of 200 points, gradient"),
    program("gpt", "GPT 4 x 128, 64 characters, step of 8"),
    program("heat", "heat on 128x128, 20 steps") },

  model_rows(),

  { name = "models, whole process", title = "SmolLM2 135M q4_1, a process that gives the first token of a text", kind = "start",
    { "first token", "first", goals = { most = 300 }, per = ms() },
    { "resident", "first", goals = { most = 1.15 * 98.362432 }, per = { unit = "MB" } } },

  { name = "training memory", title = "Growth of the peak resident memory by training steps", kind = "peak",
    { "4 layers of 128, 12 x 128 tokens", "gpt peak", train = "4 128 4 128 12 76", goals = { peers = { torch = 1 } },
      per = { unit = "MiB" } } },

  { name = "fft", title = "Fourier transforms, complex64 (5 n log2 n operations)",
    against("fft 4096 x 1024", "fft 4096 1024", transform(1024, 4096), LIBRARIES),
    against("fft 2^20", "fft 1 1048576", transform(2 ^ 20, 1), LIBRARIES),
    against("fft2 1024 x 1024", "fft2 1024", transform(2 ^ 20, 1), LIBRARIES) },

  { name = "order", title = "Sorting and linear algebra",
    against("sort 2^20 f32", "sort 1048576", ms(), LIBRARIES),
    against("topk 64 of 2^20 f32", "topk 1048576 64", ms(), LIBRARIES),
    against("cholesky 512 f32", "cholesky 512", ms(), LIBRARIES),
    against("svd 256 f32", "svd 256", ms(), LIBRARIES) },

  { name = "operators", title = "Operators that programs wait for",
    operator("categorical, 999 rows of 2048", "categorical 999 2048 1"),
    operator("categorical, 2048 of 999", "categorical 1 999 2048"),
    operator("batch norm, eval mode, 8x64x56x56", "batch_norm 8 64 56"),
    operator("permutation of 2^20", "permutation 1048576"),
    operator("cumsum along rows, 1000 x 1000", "cumsum 1000 1000 1"),
    operator("cumsum along columns, 1000 x 1000", "cumsum 1000 1000 0"),
    operator("sum over axis 0, 1000 x 1000", "sum_axis 1000 1000 0"),
    operator("depthwise 3x3, 8x64x56x56", "depthwise 8 64 56 3"),
    operator("depthwise 3x3, 8x512x7x7", "depthwise 8 512 7 3"),
    operator("conv2d 512 to 512, 3x3, 8x2x2", "conv2d 8 512 512 2 3"),
    operator("conv2d 512 to 512, 3x3, 1x7x7", "conv2d 1 512 512 7 3"),
    operator("conv2d 512 to 512, 1x1, 8x7x7", "conv2d 8 512 512 7 1"),
    operator("conv_transpose 64 to 32, 2x2 by 2, 4x32x32", "conv_transpose 4 64 32 32 2 0 2"),
    operator("conv_transpose 128 to 64, 4x4 by 2, 8x16x16", "conv_transpose 8 128 64 16 4 1 2"),
    operator("conv_transpose 512 to 512, 3x3, 8x2x2", "conv_transpose 8 512 512 2 3 1 1"),
    operator("conv_transpose 512 to 512, 3x3, 2x7x7", "conv_transpose 2 512 512 7 3 1 1"),
    operator("LSTM of 128, 64 steps of 16", "lstm 64 16 128"),
    operator("the same, forward and backward", "lstm_grad 64 16 128"),
    operator("cdist 1000 x 1000 of 64", "cdist 1000 64"),
    operator("distances by broadcasting, 256 x 256 of 64", "distances 256 64"),
    operator("256x256x3 times 256x256x1", "times_length 256"),
    operator("step of heat, 512 x 512", "heat_step 512"),
    operator("totable, 512 x 512", "totable 512 512") },

  linalg(),

  { name = "peak", title = "Peak resident memory while 1 MiB tensors come and go", kind = "peak",
    { "256 MiB live", "peak 256", live = 256, goals = { most = 1.25 * 256 },
      per = { unit = "MiB" } },
    { "8 MiB live", "peak 8", live = 8, per = { unit = "MiB" } } },
}
