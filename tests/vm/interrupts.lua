-- Long operators look for Ctrl-C wherever they are divided. What is counted is how often, so that
-- nothing is timed: so many looks in work of some milliseconds are one in well below 0.1 s. Left at
-- any of them, an operator gives the error with its line, and the same call gives the same bits
-- afterwards.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
tessera.jit.off() -- calls that repeat would become kernels, which look elsewhere

local function normal(shape, dtype) return op.normal(shape, { seed = 1, stream = 1 }):cast(dtype or "f32") end
local function indices(n, most) return op.randint({ n }, { low = 0, high = most, seed = 1, stream = 1 }) end

local LONG = 2 ^ 17
local a, long, plane = normal { 256, 256 }, normal { LONG }, normal { 1, 1, 192, 192 }
local image, heads = normal { 1, 16, 40, 40 }, normal { 1, 2, 256, 32 }
local rows = op.stack { long, long }
local at, zeros = indices(LONG, LONG), op.zeros { LONG }
local count = core.tensor({ 100, 156 }, { dtype = "i64" })
local typed = { a = {}, long = {} }
for _, d in ipairs { "f64", "bf16", "i32", "i64", "u8", "complex64" } do
  typed.a[d] = d == "complex64" and a:cast(d) or (a * 50):cast(d)
  typed.long[d] = d ~= "complex64" and (long * 50):cast(d) or nil
end

local points, gates, hidden, state = normal { 2, 300, 64 }, normal { 24, 16, 128 }, normal { 128, 32 }, normal { 16, 32 }
local points64, many, far = points:cast "f64", points:reshape { 100, 6, 64 }, points * 1e25
local image64, mean, cube = image:cast "f64", normal { 16 }, normal { 1, 4, 12, 12, 12 }
local var, mean64, weights, apart, taps = mean:abs(), mean:cast "f64", normal { 16, 16, 1, 1 }, normal { 16, 1, 3, 3 }, normal { 4, 4, 3, 3, 3 }
local var64 = mean64:abs()

-- {name, looks at least, call[, "all": left at each of them]}
local cases = {
  { "matmul", 10, function() return op.matmul(a, a) end },
  { "matmul f64", 10, function() return op.matmul(typed.a.f64, typed.a.f64) end },
  { "matmul bf16", 10, function() return op.matmul(typed.a.bf16, typed.a.bf16) end },
  { "matmul i32", 10, function() return op.matmul(typed.a.i32, typed.a.i32) end },
  { "matmul complex64", 3, function() return op.matmul(typed.a.complex64, typed.a.complex64) end },
  { "matmul of rows of a batch", 200, function() return op.matmul(long:reshape { LONG / 64, 8, 8 }, long:reshape { LONG / 64, 8, 8 }) end },
  { "matmul of few rows", 4, function() return op.matmul(a["0:4"], a) end },
  { "grouped_matmul", 10, function() return op.grouped_matmul(a, normal { 2, 256, 256 }, count) end },
  { "moe_places", 6, function() return op.moe_places(at, { experts = LONG }) end, "all" },
  { "csr_rows", 6, function() return op.csr_rows(op.arange(LONG), { entries = LONG - 1 }) end, "all" },
  { "route_rows", 3, function() return op.route_rows(long:reshape { LONG, 1 }, at, at) end, "all" },
  { "solve", 200, function() return op.solve(a, a) end },
  { "sort", 12, function() return long:sort() end },
  { "sort f64", 15, function() return typed.long.f64:sort() end },
  { "sort bf16", 8, function() return typed.long.bf16:sort() end },
  { "sort i64", 15, function() return typed.long.i64:sort() end },
  { "sort u8", 8, function() return typed.long.u8:sort() end },
  { "sort of rows", 100, function() return long:reshape { 32, 4096 }:sort() end },
  { "argsort of columns", 100, function() return long:reshape { LONG / 64, 64 }:argsort { axis = 0 } end },
  { "topk", 100, function() return long:topk(5) end },
  { "topk of many", 100, function() return long:topk(50000) end },
  { "median", 10, function() return long:median() end },
  { "unique", 12, function() return long:unique() end },
  { "permutation", 15, function() return op.permutation(LONG, { seed = 1, stream = 1 }) end },
  { "categorical", 200, function() return op.categorical(rows, { count = 3, seed = 1, stream = 1 }) end },
  { "cumsum", 8, function() return long:cumsum() end },
  { "cummax", 2000, function() return long:cummax() end },
  { "cumsum of columns", 8, function() return long:reshape { LONG / 4, 4 }:cumsum { axis = 0 } end },
  { "linear_scan", 3, function() return op.linear_scan(zeros, long) end },
  { "linear_scan of columns", 2000, function() return op.linear_scan(zeros:reshape { LONG / 64, 64 }, long:reshape { LONG / 64, 64 }, { axis = 0 }) end },
  { "scatter", 4, function() return op.scatter(zeros, at, long) end },
  { "scatter_add", 4, function() return op.scatter_add(zeros, at, long) end },
  { "index_add", 4, function() return op.index_add(zeros, at, long) end },
  { "segment_reduce", 4, function() return op.segment_reduce(long, at, { segments = LONG }) end },
  { "fft", 50, function() return op.fft(long) end },
  { "fft of a prime length", 50, function() return op.fft(long["0:65537"]) end },
  { "rfft", 50, function() return op.rfft(long) end },
  { "dct", 50, function() return op.dct(long) end },
  { "spectral_filter", 50, function() return op.spectral_filter(long, op.rfft(zeros)) end },
  { "conv2d", 8, function() return op.conv2d(image, normal { 16, 16, 5, 5 }) end },
  { "conv2d of channels apart", 10, function() return op.conv2d(image, normal { 16, 1, 5, 5 }, { groups = 16 }) end },
  { "conv1d of a long signal", 4, function() return op.conv1d(long:reshape { 1, 1, LONG }, normal { 1, 1, 2 ^ 10 }) end },
  { "conv_transpose", 4, function() return op.conv_transpose(image, normal { 16, 16, 5, 5 }) end },
  { "conv_weight_grad", 10, function() return op.conv_weight_grad(image, image, { window = { 5, 5 }, padding = { 2, 2 } }) end },
  { "cdist", 90, function() return op.cdist(points, points) end, "all" },
  { "cdist f64", 90, function() return op.cdist(points64, points64) end, "all" },
  { "cdist of a long batch", 200, function() return op.cdist(many, many) end, "all" },
  { "cdist beyond the range", 90, function() return op.cdist(far, points) end, "all" },
  { "lstm", 24, function() return op.lstm(gates, hidden, state, state) end, "all" },
  { "batch_norm", 1, function() return op.batch_norm(image, mean, var, mean, mean) end, "all" },
  { "batch_norm f64", 1, function() return op.batch_norm(image64, mean64, var64) end, "all" },
  { "conv2d of the smallest windows", 4, function() return op.conv2d(image, weights, { stride = { 2, 2 } }) end, "all" },
  { "conv3d", 4, function() return op.conv3d(cube, taps, { dilation = { 2, 1, 1 } }) end, "all" },
  { "depthwise_conv2d", 4, function() return op.depthwise_conv2d(image, apart) end, "all" },
  { "max_pool", 100, function() return op.max_pool(plane, { window = { 31, 31 }, stride = { 1, 1 } }) end },
  { "max_pool_index", 100, function() return op.max_pool_index(plane, { window = { 31, 31 }, stride = { 1, 1 } }) end },
  { "avg_pool_grad", 200, function() return op.avg_pool_grad(plane, { size = { 222, 222 }, window = { 31, 31 }, stride = { 1, 1 } }) end },
  { "adaptive_avg_pool", 190, function() return op.adaptive_avg_pool(plane, { size = { 1, 1 } }) end },
  { "interpolate_grad", 200, function() return op.interpolate_grad(plane, { size = { 96, 96 }, mode = "cubic" }) end },
  { "attention", 8, function() return op.attention(heads, heads, heads) end },
  { "attention_grad", 12, function() return op.attention_grad(heads, heads, heads, nil, nil, heads, heads) end },
  { "cross_entropy", 30, function() return op.cross_entropy(long:reshape { 1, LONG }, at["0:1"]) end },
  { "layernorm_grad", 100, function() return op.layernorm_grad(long:reshape { 128, 1024 }, normal { 1024 }, long:reshape { 128, 1024 }) end },
  { "softmax_grad", 30, function() return op.softmax_grad(long:reshape { 128, 1024 }, long:reshape { 128, 1024 }) end },
}

-- Batches in and beyond lanes: a look for each matrix at the least.
local square, little = op.eye(40) * 40 + normal { 20, 40, 40 }, normal { 20, 12, 12 }
square = square + square:transpose()
for _, d in ipairs { "f32", "f64", "complex64" } do
  local x, y = square:cast(d), little:cast(d)
  for _, c in ipairs {
    { "cholesky", op.cholesky }, { "inv", op.inv }, { "det", op.det }, { "lu", op.lu }, { "qr", op.qr },
    { "eigh", op.eigh }, { "eig", op.eig }, { "pinv", op.pinv }, { "svd", op.svd },
    { "solve", function(a) return op.solve(a, a) end },
    { "pinv of Hermitian matrices", function(a) return op.pinv(a, { hermitian = true }) end },
  } do
    cases[#cases + 1] = { ("%s of a batch of %s"):format(c[1], d), 20, function() return c[2](x) end }
    if c[1] ~= "cholesky" then cases[#cases + 1] = { ("%s of small ones of %s"):format(c[1], d), 1, function() return c[2](y) end } end
  end
end

local function hashes(call)
  local out = { call() }
  for i, x in ipairs(out) do out[i] = x:hash() end
  return table.concat(out, " ")
end

local MANY = 2 ^ 50
local function looks(call)
  core.interrupt_after(MANY, "looks")
  call()
  return MANY - core.interrupt_after(0, "looks")
end

-- Left at the n-th look.
local function leave(call, n)
  core.interrupt_after(n, "looks")
  local ok, why = pcall(call)
  core.interrupt_after(0, "looks")
  return ok, tostring(why)
end

local wrong = {}
local function check(name, good, what, ...)
  if not good then wrong[#wrong + 1] = ("%s: " .. what):format(name, ...) end
end

local threads = core.threads()
for n = 1, 2 do
  core.threads(n)
  for _, c in ipairs(cases) do
    local name, least, call = c[1] .. ", threads " .. n, c[2], c[3]
    local before = hashes(call)
    core.trim()
    local all = looks(call)
    check(name, all >= least, "%d looks, %d at least", all, least)
    local places = { 1, math.floor(all * 0.4), math.floor(all * 0.8) }
    for at = 1, c[4] and all or 0 do places[at] = at end
    for _, at in ipairs(places) do
      core.trim() -- tables are made anew
      local ok, why = leave(call, math.max(at, 1))
      local late = n > 1 and at > all * 0.8 -- threads share work out by what they find: some looks more or less
      check(name, not ok or late, "look %d of %d did not end it", at, all)
      check(name, ok or why:find "interrupts.lua:%d+: .*interrupted", "%s", why)
      check(name, hashes(call) == before, "another result after look %d", at)
    end
  end
end
core.threads(threads)
#wrong == 0 or table.concat(wrong, "\n") --> true
