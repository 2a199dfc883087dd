-- The rows of `make bench DEV=cuda`, in the form of rows.lua. The limit of what is bound by
-- memory is PyTorch's copy of a tensor of the same size on the device, in the same rounds.

local function tflops(n) return { unit = "TFLOP/s", n = n / 1e12 } end
local function usec() return { unit = "us", n = 1e6, time = true } end

local function product(title, dtype, m, n, k, layout, least, peer)
  return { title, ("matmul %s %d %d %d %s"):format(dtype, m, n, k, layout), per = tflops(2 * m * n * k),
    goals = { peers = { [peer or "torch"] = least } } }
end

local products = { name = "matmul", title = "bf16 matrix products" }
for _, size in ipairs { { 4096, 4096, 4096 }, { 8192, 8192, 8192 }, { 16384, 16384, 16384 }, { 8192, 16384, 4096 } } do
  for _, layout in ipairs { "nn", "nt", "tn", "tt" } do
    local m, n, k = unpack(size)
    products[#products + 1] = product(("%dx%dx%d %s"):format(m, n, k, layout:upper()), "bf16", m, n, k, layout, 0.98)
  end
end

local awkward = { name = "awkward", title = "Awkward and skinny bf16 products" }
for _, size in ipairs { { 1024, 1024, 1024 }, { 2048, 2048, 2048 }, { 3072, 3072, 3072 }, { 16, 4096, 4096 },
  { 64, 8192, 8192 }, { 128, 50304, 768 }, { 8192, 1024, 28672 }, { 1000, 1000, 1000 } } do
  local m, n, k = unpack(size)
  awkward[#awkward + 1] = product(("%dx%dx%d"):format(m, n, k), "bf16", m, n, k, "nn", 0.9)
end

-- Rows in groups of uneven sizes, as experts get them; bound by multiplying, or by reading the matrices.
local function grouped(title, call, rows, groups, k, n, least)
  return { ("%s, %d rows in %d groups, %d x %d"):format(title, rows, groups, k, n),
    ("%s bf16 %d %d %d %d"):format(call, rows, groups, k, n), per = tflops(2 * rows * n * k),
    goals = { peers = { torch = least } } }
end

local function attention(title, call, count, b, h, s, d, causal, least)
  return { title, ("%s %d %d %d %d %d"):format(call, b, h, s, d, causal and 1 or 0),
    per = tflops(count * b * h * s * s * d / (causal and 2 or 1)), goals = { peers = { torch = least } } }
end

local attentions = { name = "attention", title = "Attention, bf16" }
for _, d in ipairs { 64, 128 } do
  for _, causal in ipairs { false, true } do
    local kind = causal and "causal" or "full"
    for _, s in ipairs { 1024, 4096, 16384 } do
      local b = math.max(1, 16384 / s)
      attentions[#attentions + 1] = attention(("forward D%d S%d %s"):format(d, s, kind), "attention", 4, b, 16, s, d,
        causal, 1)
    end
    attentions[#attentions + 1] = attention(("forward and backward D%d S4096 %s"):format(d, kind), "attention_grad",
      14, 4, 16, 4096, d, causal, 0.95)
  end
end

-- 8 query heads to each of 8 heads of keys and values, one query of each: bound by reading keys and values.
local decode = { name = "decode", title = "Attention of one query over kept keys and values, bf16, D 128" }
for _, case in ipairs { { 1, 4096 }, { 1, 131072 }, { 16, 4096 }, { 16, 32768 }, { 64, 4096 }, { 64, 16384 } } do
  local b, t = unpack(case)
  local bytes = 2 * b * 8 * t * 128 * 2
  local rows = bytes / 8192 / 4 -- a copy that reads and writes as many bytes
  decode[#decode + 1] = { ("B%d S%d"):format(b, t), ("decode %d %d"):format(b, t),
    per = { unit = "TB/s", n = bytes / 1e12 }, goals = { limit = 0.85, peers = { torch = 0.95 } },
    limit = { call = ("copy bf16 %d 8192"):format(rows), per = { unit = "TB/s", n = bytes / 1e12 } } }
end

local memory = { name = "memory", title = "Bound by memory, 8192 x 8192" }
for _, dtype in ipairs { "bf16", "f32" } do
  local mib = dtype == "bf16" and 128 or 256
  local limit = { call = ("copy %s 8192 8192"):format(dtype), per = { unit = "TB/s", n = 2 * mib * 2 ^ 20 / 1e12 } }
  local function pass(title, name, passes)
    memory[#memory + 1] = { title .. ", " .. dtype, ("%s %s 8192 8192"):format(name, dtype),
      per = { unit = "TB/s", n = passes * mib * 2 ^ 20 / 1e12 }, limit = limit,
      goals = { limit = 0.93, peers = { torch = 1, compile = 1, jax = 1 } } }
  end
  pass("softmax", "softmax", 2)
  pass("layernorm", "layernorm", 2)
  pass("rmsnorm", "rmsnorm", 2)
  pass("gelu(x + b) * y + x", "chain", 3)
  pass("sum of each row", "sum_rows", 1)
  pass("sum of each column", "sum_columns", 1)
  pass("sum of everything", "sum_all", 1)
  pass("transpose", "transpose", 2)
end

return {
  { name = "copy", title = "Copy of 8192 x 8192 on the device",
    { "copy, bf16", "copy bf16 8192 8192", per = { unit = "TB/s", n = 2 ^ 28 / 1e12 } },
    { "copy, f32", "copy f32 8192 8192", per = { unit = "TB/s", n = 2 ^ 29 / 1e12 } } },
  { name = "eager", title = "Small operators, called one by one",
    { "add, 16 f32", "small_add 16", noisy = true, per = usec(), goals = { most = 3, peers = { torch = 1 } } } },
  products,
  awkward,
  { name = "other products", title = "Products of other types",
    product("f32 4096, canonical order", "f32", 4096, 4096, 4096, "nn", 0.9),
    product("f32 8192, canonical order", "f32", 8192, 8192, 8192, "nn", 0.9),
    { "gelu(x w + b) bf16 8192x16384x4096", "mlp bf16 8192 16384 4096", per = tflops(2 * 8192 * 16384 * 4096),
      goals = { peers = { compile = 1.1 } } },
    { "fp8 e4m3 8192", "matmul_fp8 8192", per = tflops(2 * 8192 ^ 3), goals = { peers = { torch = 0.9 } } } },
  { name = "grouped", title = "Grouped bf16 products",
    grouped("products", "grouped", 8192, 8, 4096, 14336, 0.9),
    grouped("products", "grouped", 16384, 64, 2048, 1408, 0.9),
    grouped("products", "grouped", 128, 64, 4096, 2048, 0.9),
    grouped("gradients of the matrices", "grouped_weights", 8192, 8, 4096, 14336, 0.9),
    grouped("gradients of the matrices", "grouped_weights", 16384, 64, 2048, 1408, 0.9) },
  memory,
  attentions,
  decode,
  { name = "start", title = "From the start of a process to its first fused kernel on a GPU, nothing on disk", kind = "cold",
    { "softmax(x / 8), 4096 x 4096", per = { unit = "s" }, goals = { most = 1, peers = { compile = 1 } },
      ours = "scripts/bench/first_gpu.lua", compile = "cold cuda" } },
  { name = "fft", title = "Fourier transforms, complex64",
    { "fft 65536 x 1024", "fft 65536 1024", per = { unit = "TB/s", n = 2 ^ 30 / 1e12 }, goals = { peers = { torch = 0.85 } } },
    { "fft2 4096", "fft2 4096", per = usec(), goals = { peers = { torch = 0.85 } } } },
  { name = "training", title = "GPT-2 124M, one step of AdamW, bf16 products",
    { "32 x 1024 tokens", "gpt2 32 1024", per = { unit = "tok/s", n = 32 * 1024 }, goals = { peers = { compile = 1 } } } },
}
