-- Larger inputs for the rows, so that threads, blocks and every path of the kernels take
-- part. Cases as in tests/vectors, without expected results. Library of the tests.

local core = require "tessera.core"
local M = {}

local BIG = { 70001 }

local function list(text)
  local out = {}
  for word in text:gmatch "%S+" do out[#out + 1] = word end
  return out
end

local accepts = { { 1, { "bool" } }, { 2, { "u8" } }, { 4, { "i32", "i64" } }, { 8, { "bf16", "f16", "f32", "f64" } },
  { 16, { "complex64", "complex128" } } }

-- One dtype or two for each kind that a row takes.
local function dtypes(types)
  local out = {}
  for _, a in ipairs(accepts) do
    if math.floor(types / a[1]) % 2 == 1 then
      for _, d in ipairs(a[2]) do out[#out + 1] = d end
    end
  end
  return out
end

local whole = { u8 = true, i32 = true, i64 = true }

local function input(d, shape, seed, lo, hi)
  if whole[d] then return { d, shape, seed, 0, 99 } end
  return { d, shape, seed, lo or -3, hi or 3 }
end

local cases

local function add(row, x, o) cases[#cases + 1] = { row = row, x = x, o = o } end

local function pointwise(o)
  local n = #list(o.inputs)
  for _, d in ipairs(dtypes(o.types)) do
    local x = {}
    for i = 1, n do x[i] = input(d, BIG, i) end
    if o.name == "where" then x[1] = { "bool", BIG, 9, 0, 1 } end
    add(o.name, x)
    if n == 2 then add(o.name, { input(d, { 300, 1, 70 }, 1), input(d, { 5, 1 }, 2) }) end
  end
end

local function reductions(o)
  for _, d in ipairs(dtypes(o.types)) do
    local single = o.name:match "^arg" or o.class == "scan"
    for _, p in ipairs { { { 9, 9001 }, 1 }, { { 9001, 9 }, 0 }, { { 17, 67, 61 }, 1 }, { { 3, 70001 }, 1 } } do
      add(o.name, { input(d, p[1], 1, 0.5, 1.5) }, { axis = p[2] })
    end
    if not single then add(o.name, { input(d, { 17, 67, 61 }, 1, 0.5, 1.5) }, { axis = { 0, 2 } }) end
    if o.class ~= "scan" then add(o.name, { input(d, { 300001 }, 1, 0.5, 1.5) }) end
  end
end

local function rest()
  for _, d in ipairs { "f32", "f64", "bf16", "i32", "complex64" } do
    for _, s in ipairs { { { 130, 300 }, { 300, 129 } }, { { 1, 1000 }, { 1000, 333 } }, { { 500, 64 }, { 64, 1 } },
      { { 7, 65, 33 }, { 7, 33, 40 } }, { { 257, 17 }, { 17, 257 } } } do
      add("matmul", { input(d, s[1], 1), input(d, s[2], 2) })
    end
    local sizes = { "i32", { 7 }, 3, 0, 70 }
    if d ~= "i32" and d ~= "complex64" then
      local v, row, column = input(d, { 9000 }, 1), { "i64", { 9000 }, 2, 0, 49 }, { "i64", { 9000 }, 3, 0, 499 }
      add("spmm_coo", { v, row, column, input(d, { 500, 37 }, 4) }, { rows = 50 })
      add("sddmm", { input(d, { 50, 300 }, 1), input(d, { 300, 500 }, 4), row, column, v })
    end
    add("grouped_matmul", { input(d, { 230, 70 }, 1), input(d, { 7, 70, 130 }, 2), sizes })
    add("grouped_matmul_weight_grad", { input(d, { 230, 70 }, 1), input(d, { 230, 130 }, 2), sizes })
  end
  for _, d in ipairs { "f32", "bf16", "f64" } do
    local function g(shape, seed) return input(d, shape, seed) end
    for _, s in ipairs { { 1, "q8_0" }, { 70, "q4_k" } } do
      add("quantized_matmul", { g({ s[1], 512 }, 1), { s[2], { 130, 512 }, 2, -3, 3 }, g({ 130 }, 3) })
    end
    add("matmul", { g({ 130, 70 }, 1), g({ 70, 90 }, 2), g({ 90 }, 3), g({ 130, 90 }, 4) }, { epilogue = "bias_gelu_residual" })
    add("softmax", { g({ 300, 257 }, 1) })
    add("softmax", { g({ 257, 300 }, 1) }, { axis = 0 })
    add("log_softmax", { g({ 300, 257 }, 1) })
    add("layernorm", { g({ 300, 257 }, 1), g({ 257 }, 2), g({ 257 }, 3) })
    add("rmsnorm", { g({ 300, 257 }, 1), g({ 257 }, 2) })
    add("softmax_grad", { g({ 300, 257 }, 1), g({ 300, 257 }, 2) })
    add("log_softmax_grad", { g({ 257, 300 }, 1), g({ 257, 300 }, 2) }, { axis = 0 })
    add("layernorm_grad", { g({ 5000, 37 }, 1), g({ 37 }, 2), g({ 5000, 37 }, 3) }, { bias = true })
    add("layernorm_grad", { g({ 3, 9001 }, 1), g({ 9001 }, 2), g({ 3, 9001 }, 3) }, { bias = true })
    add("rmsnorm_grad", { g({ 700, 600 }, 1), g({ 600 }, 2), g({ 700, 600 }, 3) })
    add("cross_entropy_grad", { g({ 300, 257 }, 1), { "i64", { 300 }, 2, 0, 256 }, g({}, 3) })
    add("cross_entropy_grad", { g({ 20, 9000 }, 1), g({ 20, 9000 }, 2), g({}, 3) })
    add("attention_grad", { g({ 2, 4, 150, 32 }, 1), g({ 2, 2, 300, 32 }, 2), g({ 2, 2, 300, 32 }, 3), false, g({ 4 }, 4),
      g({ 2, 4, 150, 32 }, 5), g({ 2, 4, 150, 32 }, 6) }, { causal = true })
    add("attention_grad", { g({ 1, 1, 300, 9 }, 1), g({ 1, 1, 1300, 9 }, 2), g({ 1, 1, 1300, 9 }, 3), false, false,
      g({ 1, 1, 300, 9 }, 5), g({ 1, 1, 300, 9 }, 6) }, { window = 700, scores = true })
    add("conv2d", { g({ 3, 16, 20, 21 }, 1), g({ 24, 16, 3, 3 }, 2), g({ 24 }, 3) }, { padding = 1 })
    add("conv2d", { g({ 2, 16, 20, 21 }, 1), g({ 16, 1, 3, 3 }, 2) }, { groups = 16, stride = 2 })
    add("conv1d", { g({ 3, 16, 2000 }, 1), g({ 24, 16, 5 }, 2) })
    add("conv3d", { g({ 1, 4, 9, 10, 11 }, 1), g({ 5, 4, 3, 3, 3 }, 2) })
    add("conv_transpose", { g({ 2, 16, 13, 14 }, 1), g({ 16, 8, 3, 3 }, 2) }, { stride = 2 })
    add("conv_transpose", { g({ 2, 16, 13, 14 }, 1), g({ 16, 1, 3, 3 }, 2) }, { stride = 2, groups = 16 })
    add("conv_transpose", { g({ 2, 16, 20, 21 }, 1), g({ 16, 24, 1, 1 }, 2) })
    add("conv_weight_grad", { g({ 3, 16, 20, 21 }, 1), g({ 3, 24, 20, 21 }, 2) }, { window = { 3, 3 }, padding = 1 })
    add("conv_weight_grad", { g({ 3, 16, 20, 21 }, 1), g({ 3, 24, 20, 21 }, 2) }, { window = { 1, 1 } })
    add("conv_weight_grad", { g({ 3, 16, 20, 21 }, 1), g({ 3, 16, 10, 10 }, 2) }, { window = { 3, 2 }, stride = 2, groups = 16, padding = { 1, 0 } })
    add("conv_weight_grad", { g({ 2, 20, 21, 18 }, 1), g({ 2, 18, 9, 40 }, 2) }, { window = { 2, 5 }, stride = { 1, 2 }, dilation = { 2, 1 }, layout = "nhwc", groups = 2 })
    add("max_pool", { g({ 4, 16, 40, 41 }, 1) }, { window = { 3, 3 }, stride = 2 })
    add("max_pool_index", { g({ 4, 16, 40, 41 }, 1) }, { window = { 3, 3 }, stride = 2 })
    add("max_pool_index", { g({ 4, 40, 41, 17 }, 1) }, { window = { 3, 3 }, stride = 1, padding = 1, layout = "nhwc" })
    add("avg_pool_grad", { g({ 4, 16, 19, 20 }, 1) }, { size = { 40, 41 }, window = { 3, 3 }, stride = 2 })
    add("avg_pool_grad", { g({ 2, 20, 20, 130 }, 1) }, { size = { 20, 20 }, window = { 3, 3 }, stride = 1, padding = 1, layout = "nhwc", count_include_pad = false })
    add("adaptive_avg_pool_grad", { g({ 4, 16, 7, 6 }, 1) }, { size = { 40, 41 } })
    add("avg_pool", { g({ 4, 16, 40, 41 }, 1) }, { window = { 3, 3 }, stride = 2 })
    add("adaptive_avg_pool", { g({ 4, 16, 40, 41 }, 1) }, { size = { 7, 6 } })
    for _, mode in ipairs { "nearest", "linear", "cubic" } do
      add("interpolate", { g({ 2, 8, 30, 31 }, 1) }, { size = { 50, 47 }, mode = mode })
      add("interpolate_grad", { g({ 2, 8, 50, 47 }, 1) }, { size = { 30, 31 }, mode = mode })
    end
    add("attention", { g({ 2, 4, 150, 32 }, 1), g({ 2, 2, 300, 32 }, 2), g({ 2, 2, 300, 32 }, 3) }, { causal = true })
    add("attention", { g({ 8, 4, 1, 64 }, 1), g({ 8, 4, 1000, 64 }, 2), g({ 8, 4, 1000, 64 }, 3) })
    add("paged_attention", { g({ 2, 4, 3, 32 }, 1), g({ 2, 5, 16, 32 }, 2), g({ 2, 5, 16, 32 }, 3), { "i64", { 2, 3 }, 4, 0, 4 }, { "i64", { 2 }, 5, 0, 40 } })
    add("rope", { g({ 2, 4, 100, 64 }, 1) })
    add("rope_grad", { g({ 2, 4, 100, 64 }, 1) })
    add("cross_entropy", { g({ 300, 257 }, 1), { "i64", { 300 }, 2, 0, 256 } })
    for axis = 0, 1 do
      add("linear_scan", { g({ 300, 301 }, 1), g({ 300, 301 }, 2) }, { axis = axis })
      add("linear_scan", { g({ 9000, 3 }, 1), g({ 9000, 3 }, 2) }, { axis = axis })
    end
    add("sort", { g({ 100, 999 }, 1) }, { axis = 1 })
    add("sort", { g({ 999, 100 }, 1) }, { axis = 0 })
    add("argsort", { g({ 100001 }, 1) })
    add("topk", { g({ 50, 3001 }, 1) }, { k = 17 })
    add("median", { g({ 50, 3001 }, 1) }, { axis = 1 })
    add("quantile", { g({ 50, 3001 }, 1) }, { q = 0.3, axis = 1 })
    for _, row in ipairs { "max_indices", "min_indices", "median_indices", "cummin", "diff" } do
      add(row, { g({ 50, 3001 }, 1) }, { axis = 1 })
      add(row, { g({ 3001, 50 }, 1) }, { axis = 0 })
    end
    add("kthvalue", { g({ 50, 3001 }, 1) }, { k = 17 })
    add("quantiles", { g({ 50, 3001 }, 1) }, { q = { 0.3, 0.7 }, axis = 1 })
    add("bucketize", { g({ 300, 301 }, 1), { d, { 7 }, 2, 0, 0 } })
    add("bincount", { { "i64", { 70001 }, 2, 0, 40 }, g(BIG, 1) }, { length = 41 })
    add("repeat_counts", { g({ 300, 301 }, 1), { "i64", { 300 }, 2, 3, 3 } }, { axis = 0, size = 900 })
    add("diagonal", { g({ 7, 300, 301 }, 1) }, { axis0 = 1, axis1 = 2 })
    add("diag_embed", { g({ 3, 301 }, 1) })
    add("clip", { g({ 300, 301 }, 1), g({ 301 }, 2), g({ 300, 1 }, 3) })
    add("cdist", { g({ 200, 9 }, 1), g({ 130, 9 }, 2) })
    add("kron", { g({ 30, 20 }, 1), g({ 17, 13 }, 2) })
    add("grid_sample", { g({ 2, 5, 30, 31 }, 1), input(d, { 2, 50, 51, 2 }, 2, -1, 1) })
    add("im2col", { g({ 2, 5, 30, 31 }, 1) }, { window = { 3, 2 }, padding = 1, dilation = 2 })
    add("multinomial", { input(d, { 300, 50 }, 1, 0, 1) }, { count = 20, seed = 3 })
    add("exponential", {}, { shape = { 70001 }, dtype = d, seed = 3, stream = 4 })
    add("lgamma", { g(BIG, 1) })
    add("digamma", { g(BIG, 1) })
    add("pixel_shuffle", { g({ 2, 36, 30, 31 }, 1) }, { factor = 3 })
    add("unique", { input("i32", { 50000 }, 1) })
    add("histogram", { g({ 100001 }, 1) })
    add("segment_reduce", { g({ 3000, 17 }, 1), { "i64", { 3000 }, 2, 0, 40 } }, { segments = 41 })
    add("scatter_add", { g({ 50, 17 }, 1), { "i64", { 3000, 17 }, 2, 0, 49 }, g({ 3000, 17 }, 3) }, { axis = 0 })
    add("gather", { g({ 500, 17 }, 1), { "i64", { 3000, 17 }, 2, 0, 499 } }, { axis = 0 })
    add("scatter", { g({ 500, 17 }, 1), { "i64", { 3000, 17 }, 2, 0, 499 }, g({ 3000, 17 }, 3) }, { axis = 0 })
    add("take", { g({ 5000 }, 1), { "i64", { 70000 }, 2, 0, 4999 } })
    add("index_select", { g({ 500, 130 }, 1), { "i64", { 900 }, 2, 0, 499 } })
    add("embedding", { g({ 500, 130 }, 1), { "i64", { 900 }, 2, 0, 499 } })
    add("masked_select", { g({ 300, 301 }, 1), { "bool", { 300, 301 }, 2, 0, 1 } })
    add("index_add", { g({ 50, 17 }, 1), { "i64", { 9000 }, 2, 0, 49 }, g({ 9000, 17 }, 3) })
    add("index_add", { g({ 3, 500 }, 1), { "i64", { 90000 }, 2, 0, 499 }, g({ 3, 90000 }, 3) }, { axis = 1 })
    add("slice_add", { g({ 300, 301 }, 1), g({ 100, 301 }, 2) }, { start = { 0 }, stop = { 300 }, step = { 3 } })
    add("slice_update", { g({ 300, 301 }, 1), g({ 301 }, 2) }, { start = { 1 }, stop = { 300 } })
    add("fold", { g({ 30, 7, 900 }, 1) }, { axis = 0, length = 9600, step = 300 })
    add("fold", { g({ 2, 9000, 40 }, 1) }, { axis = 1, length = 90030, step = 10 })
    add("nonzero", { { "bool", { 300, 301 }, 2, 0, 1 } })
    add("concat", { g({ 300, 101 }, 1), g({ 300, 77 }, 2) }, { axis = 1 })
    add("roll", { g({ 300, 301 }, 1) }, { shift = { 7 } })
    add("pad", { g({ 300, 301 }, 1) }, { pads = { 3, 4, 5, 6 }, mode = "reflect" })
    add("repeat_interleave", { g({ 300, 301 }, 1) }, { count = 3, axis = 0 })
    add("tril", { g({ 3, 200, 201 }, 1) })
    add("clone", { g({ 300, 301 }, 1) })
    add("cast", { g({ 300, 301 }, 1) }, { dtype = "f16" })
    add("cast", { g({ 300, 301 }, 1) }, { dtype = "i16" })
    for _, row in ipairs { "uniform", "normal", "truncated_normal", "bernoulli" } do
      add(row, {}, { shape = { 70001 }, dtype = d, seed = 3, stream = 4 })
    end
    add("dropout", { g({ 70001 }, 1) }, { seed = 3 })
    add("categorical", { g({ 300, 50 }, 1) }, { seed = 3, count = 20 })
    add("adam_step", { g(BIG, 1), g(BIG, 2), g(BIG, 3), input(d, BIG, 4, 0.1, 1) }, { lr = 0.01, step = 2 })
    add("sgd_step", { g(BIG, 1), g(BIG, 2), g(BIG, 3) }, { lr = 0.01, momentum = 0.9 })
    add("lion_step", { g(BIG, 1), g(BIG, 2), g(BIG, 3) }, { lr = 0.01 })
    add("adafactor_step", { g({ 300, 200 }, 1), g({ 300, 200 }, 2), input(d, { 300 }, 3, 0.1, 1), input(d, { 200 }, 4, 0.1, 1) },
      { lr = 0.01, beta2 = 0.9 })
  end
  add("stop_gradient", { input("f32", BIG, 1) })
  add("reshard", { input("f32", BIG, 1) }, { spec = "a," })
  add("barrier", { input("f32", BIG, 1), input("f32", { 300, 7 }, 2) })
  add("randint", {}, { shape = { 70001 }, low = -5, high = 1000, seed = 3 })
  add("permutation", {}, { n = 50001, seed = 3 })
  for _, d in ipairs { "f32", "f64", "complex64" } do
    for _, n in ipairs { 128, 1000, 1021, 4096 } do add("fft", { input(d, { 40, n }, n) }) end
    add("fft", { input(d, { 300, 40 }, 1) }, { axis = 0 })
    add("ifft", { input(d, { 40, 1000 }, 1) })
    add("irfft", { input(d, { 40, 513 }, 1) })
    add("fft2", { input(d, { 3, 60, 64 }, 1) })
    add("solve", { input(d, { 5, 40, 40 }, 1), input(d, { 5, 40, 3 }, 2) })
  end
  for _, d in ipairs { "f32", "f64" } do
    add("rfft", { input(d, { 40, 1000 }, 1) })
    add("dct", { input(d, { 40, 1000 }, 1) })
  end
end

--- All of them.
function M.cases()
  cases = {}
  for _, o in ipairs(core.operators()) do
    if o.class == "pointwise" then pointwise(o) end
    if o.family == "reduce" and not o.inputs:match " " and not ("topk sort argsort median quantile unique histogram kthvalue quantiles cummin diff " ..
      "max_indices min_indices median_indices"):find(o.name, 1, true) then
      reductions(o)
    end
  end
  rest()
  return cases
end

return M
