-- Operators with kernels of their own on a device (jit/offload_<family>.c) against the CPU, bit by
-- bit, over sizes that reach every path, and that the device ran them. ALL=1: more lengths.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local function check(what, f, ...)
  local x, there = { ... }, {}
  for i, t in ipairs(x) do there[i] = t:to(name) end
  local before = core.jit_device()
  local got, want = { f(unpack(there)) }, { f(unpack(x)) }
  local after = core.jit_device()
  assert(after.fallback == before.fallback, what .. ": the CPU ran it")
  assert(after.refused == before.refused, what .. ": a kernel was refused")
  for i, y in ipairs(want) do
    assert(got[i]:hash() == y:hash(), ("%s: output %d differs"):format(what, i))
  end
end

local function random(shape, d) return op.cast(op.mul(rng.normal(shape), 10), d or "f32") end

-- ---- transforms
local lengths = { 1, 2, 8, 30, 61, 67, 96, 128, 521, 1000 }
if os.getenv "ALL" then
  for _, n in ipairs { 3, 4, 5, 12, 16, 37, 60, 243, 256, 360, 512, 1024, 2048, 4096 } do
    lengths[#lengths + 1] = n
  end
end
for _, d in ipairs { "f32", "f64" } do
  for _, n in ipairs(lengths) do
    local x, down = random({ 3, n }, d), random({ n, 3 }, d)
    local z, w = op.fft(x, { norm = "forward" }), op.fft(down, { norm = "forward" })
    local what = n .. " " .. d
    check("fft " .. what, op.fft, z)
    check("ifft " .. what, op.ifft, z)
    check("fft of reals " .. what, op.fft, x)
    check("rfft " .. what, op.rfft, x)
    check("irfft " .. what, function(h) return op.irfft(h, { n = n }) end, op.rfft(x))
    check("fft down " .. what, function(y) return op.fft(y, { axis = 0 }) end, w)
    check("rfft down " .. what, function(y) return op.rfft(y, { axis = 0 }) end, down)
    check("irfft down " .. what, function(h) return op.irfft(h, { axis = 0, n = n }) end,
      op.rfft(down, { axis = 0 }))
    check("fft padded " .. what, function(y) return op.fft(y, { n = n + 1 }) end, z)
  end
end
check("fft2", op.fft2, op.fft(random { 3, 20, 24 }))
check("ifftn", op.ifftn, op.fft(random { 6, 10, 8 }))
check("fft in two phases", op.fft, op.fft(random { 1, 32768 }))
check("ifft in two phases", op.ifft, op.fft(random({ 2, 18000 }, "f64")))

-- ---- scans and sorts
for _, shape in ipairs { { 5, 40 }, { 3, 129, 7 }, { 2, 3, 200 }, { 4, 1 }, { 70, 33 } } do
  for _, d in ipairs { "f32", "bf16", "i32", "bool" } do
    for axis = 0, #shape - 1 do
      local x, at = random(shape, d), { axis = axis }
      local what = (" %s %s along %d"):format(table.concat(shape, "x"), d, axis)
      for _, row in ipairs { "cumsum", "cumprod", "cummax", "sort" } do
        check(row .. what, function(y) return op[row](y, at) end, x)
      end
      check("argsort" .. what, function(y)
        return op.argsort(y, { axis = axis, descending = true })
      end, x)
      check("topk" .. what, function(y) return op.topk(y, { k = 1, axis = axis }) end, x)
      if d:find "f" then
        check("linear_scan" .. what, function(a, b) return op.linear_scan(a, b, at) end, x,
          random(shape, d))
      end
    end
  end
end
local odd = tessera.tensor { 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e-40, -1e-40, 2, 2, -0.0 }
check("sort of corners", op.sort, odd)
check("cummax of corners", op.cummax, odd)

-- rows that a block sorts by counting, rows of any length, and the first of them
local function corners(n) -- every 7th element is one that sorts in a way of its own
  local x, rare = random { n }, { 0 / 0, 0, -0.0, 1 / 0, -1 / 0, 1e-40, -1e-40 }
  for i = 0, n - 1, 7 do x[i] = rare[i / 7 % 7 + 1] end
  return x
end
for _, d in ipairs { "f32", "f16", "bf16", "i32", "u8", "i8", "i64", "f64" } do
  local wide = d == "i64" or d == "f64"
  for _, n in ipairs { 600, wide and 4200 or 9000 } do
    local x = random({ 2, n }, d)
    check(("sort of %d %s"):format(n, d), op.sort, x)
    check(("argsort of %d %s"):format(n, d), function(y) return op.argsort(y, { descending = true }) end, x)
    check(("topk of %d %s"):format(n, d), function(y) return op.topk(y, { k = 9 }) end, x)
    check(("least of %d %s"):format(n, d), function(y)
      return op.topk(y, { k = 70, largest = false })
    end, x)
  end
end
check("sort of 40 i64", op.sort, op.cast(random { 3, 40 } * 1e9, "i64"))
check("sort down 700", function(y) return op.sort(y, { axis = 0 }) end, random { 700, 3 })
check("topk of equals", function(y) return op.topk(y, { k = 33 }) end, op.floor(random { 2, 1500 } / 20))
check("sort of 700 corners", op.sort, corners(700))
check("topk of 700 corners", function(y) return op.topk(y, { k = 120 }) end, corners(700))
check("sort of long rows", op.sort, random { 2, 18000 })
check("sort of long corners", function(y) return op.sort(y, { descending = true }) end, corners(17000))
check("topk of long rows", function(y) return op.topk(y, { k = 20 }) end, random { 1, 70000 })
check("sort of long f64", op.sort, random({ 9000 }, "f64"))

-- ---- indices: chains side by side, runs of one place, slices
local function ids(shape, n, d)
  return op.cast(op.floor(op.mul(rng.uniform(shape), n)), d or "i64")
end
for _, d in ipairs { "f32", "bf16", "f16", "i32", "i64", "f64", "bool", "complex64" } do
  local adds = d ~= "bool" and d ~= "complex64"
  local function some(shape)
    return d == "complex64" and op.fft(random(shape)) or random(shape, d)
  end
  for axis = 0, 2 do
    local at, n, long = { axis = axis }, ({ 7, 9, 11 })[axis + 1], { 7, 9, 11 }
    local x, i, src = some { 7, 9, 11 }, ids({ 5, 3, 4 }, n), some { 5, 3, 4 }
    check("gather " .. d, function(a, b) return op.gather(a, b, at) end, x, i)
    check("scatter " .. d, function(a, b, c) return op.scatter(a, b, c, at) end, x, i, src)
    long[axis + 1] = 200
    if adds then
      check("scatter_add " .. d, function(a, b, c) return op.scatter_add(a, b, c, at) end, x, i - n, src)
      check("index_add " .. d, function(a, b, c) return op.index_add(a, b, c, at) end, x,
        ids({ 200 }, n, "i32"), some(long))
    end
  end
  local x, i, src = some { 50 }, ids({ 5000 }, 49), some { 5000 }
  check("scatter of runs " .. d, function(a, b, c) return op.scatter(a, b, c) end, x, i, src)
  if adds then
    check("scatter_add of runs " .. d, function(a, b, c) return op.scatter_add(a, b, c) end, x, i, src)
    check("index_add of slices " .. d, function(a, b, c) return op.index_add(a, b, c, { axis = 1 }) end,
      some { 2, 9, 40 }, ids({ 300 }, 8), some { 2, 300, 40 })
    for _, mode in ipairs { "sum", "mean", "prod", "min", "max" } do
      local o = { segments = 13, mode = mode }
      if mode ~= "mean" or d:find "f" then
        for _, cols in ipairs { 3, 40 } do
          check(("segment %s of %d %s"):format(mode, cols, d), function(a, b)
            return op.segment_reduce(a, b, o)
          end, some { 70, cols }, ids({ 70 }, 12, "i32"))
        end
      end
    end
  end
end
check("one_hot", function(i) return op.one_hot(i, { classes = 9 }) end, ids({ 4, 5 }, 9))
check("scatter of a row", function(a, b, c) return op.scatter(a, b, c, { axis = 0 }) end,
  random { 6, 5 }, ids({ 3, 5 }, 6), random { 1, 5 })

-- ---- rotary embeddings
for _, d in ipairs { "f32", "bf16", "f64" } do
  for _, o in ipairs { {}, { dims = 8 }, { interleaved = true }, { offset = 100, theta = 5e5 },
    { scaling = "yarn", factor = 4 } } do
    local x = random({ 2, 3, 21, 16 }, d)
    check("rope " .. d, function(y) return op.rope(y, nil, o) end, x)
    check("rope at positions " .. d, function(y, p) return op.rope(y, p, o) end, x, op.arange(0, 21))
    check("rope at positions of batches " .. d, function(y, p) return op.rope_grad(y, p, o) end, x,
      op.cast(op.arange(0, 42), "i32"):reshape(2, 21))
  end
end

-- ---- draws: seed and stream are the context's, on either side
local function drawn(what, f)
  local before = core.jit_device().fallback
  rng.seed(7)
  local got = tessera.device(name, f)
  assert(core.jit_device().fallback == before, what .. ": the CPU ran it")
  rng.seed(7)
  assert(got:hash() == f():hash(), what .. " differs")
end
for _, n in ipairs { 5, 64, 5003 } do
  drawn("uniform", function()
    return op.uniform({ n }) + op.uniform({ n }, { low = -2, high = 3 })
  end)
  for _, d in ipairs { "f32", "bf16", "f16" } do
    drawn("normal " .. d, function()
      local x = op.normal({ n }, { dtype = d })
      return x + op.normal({ n }, { dtype = d, mean = 1, std = 3, seed = 5 })
    end)
    drawn("dropout " .. d, function()
      local x = op.ones({ n }, { dtype = d })
      return op.dropout(x, 0.3) + op.dropout(x, { p = 0.5 })
    end)
  end
  for _, d in ipairs { "bool", "f32", "i64" } do
    drawn("bernoulli " .. d, function() return op.bernoulli({ n }, { p = 0.3, dtype = d }) end)
  end
end

-- ---- convolutions. Of 16-bit floats a matrix unit adds up channels tap by tap
local function near(what, f, ...)
  local x, there = { ... }, {}
  for i, t in ipairs(x) do there[i] = t:to(name) end
  local before = core.jit_device()
  local got, want = f(unpack(there)):to "cpu", f(unpack(x))
  assert(core.jit_device().fallback == before.fallback, what .. ": the CPU ran it")
  local function f32(t) return op.cast(t, "f32") end
  local most = op.max(op.abs(f32(want))):item()
  local off = op.max(op.abs(f32(got) - f32(want))):item()
  assert(off <= most / (want.dtype == "bf16" and 128 or 1024), what .. ": off by " .. off)
end
for _, d in ipairs { "bf16", "f16" } do
  for _, c in ipairs {
    { { 2, 32, 6, 8 }, { 16, 32, 3, 3 }, { padding = 1 } },
    { { 2, 64, 5, 7 }, { 24, 64, 3, 3 }, { padding = 1 }, true },
    { { 2, 128, 5, 7 }, { 72, 128, 1, 1 }, {} },
    { { 2, 64, 9, 8 }, { 16, 64, 3, 3 }, { padding = 1, stride = 2 } },
    { { 2, 64, 9, 8 }, { 16, 64, 1, 1 }, { stride = 2 } },
    { { 1, 64, 12, 13 }, { 8, 64, 4, 3 }, { padding = 3, stride = { 2, 1 }, dilation = { 1, 2 } } },
    { { 3, 32, 9, 7 }, { 264, 32, 1, 1 }, {} },
  } do
    local x, w, o = random(c[1], d), random(c[2], d), c[3]
    near("conv2d by the unit " .. d, function(a, b, bias)
      return op.conv2d(a, b, bias, nil, o)
    end, x, w, c[4] and random({ c[2][1] }, d))
    local last = { layout = "nhwc" }
    for k, v in pairs(o) do last[k] = v end
    near("channels last " .. d .. " " .. table.concat(c[1], "x"), function(a, b) return op.conv2d(a, b, nil, nil, last) end,
      x:permute(0, 2, 3, 1):contiguous(), w:permute(0, 2, 3, 1):contiguous())
  end
  for _, c in ipairs { { { 2, 32, 6, 8 }, { 16, 32, 3, 3 }, { padding = 1 } },
    { { 2, 40, 9, 8 }, { 72, 40, 3, 3 }, { padding = 1, stride = 2 } },
    { { 1, 32, 50, 50 }, { 16, 32, 1, 1 }, {} } } do
    local x, g = random(c[1], d), { window = { c[2][3], c[2][4] } }
    for k, v in pairs(c[3]) do g[k] = v end
    local y = random(op.conv2d(x, random(c[2], d), nil, nil, c[3]).shape, d)
    near("gradient of weights by the unit " .. d, function(a, b) return op.conv_weight_grad(a, b, g) end, x, y)
    g.layout = "nhwc"
    near("the same with channels last " .. d, function(a, b) return op.conv_weight_grad(a, b, g) end,
      x:permute(0, 2, 3, 1):contiguous(), y:permute(0, 2, 3, 1):contiguous())
  end
  near("conv1d by the unit " .. d, function(a, b) return op.conv1d(a, b, nil, nil, { padding = 2 }) end,
    random({ 2, 32, 40 }, d), random({ 16, 32, 5 }, d))
  near("conv3d by the unit " .. d, function(a, b) return op.conv3d(a, b, nil, nil, { padding = 1 }) end,
    random({ 1, 32, 4, 4, 4 }, d), random({ 8, 32, 3, 3, 3 }, d))
  near("conv_transpose by the unit " .. d, function(a, b)
    return op.conv_transpose(a, b, nil, { padding = 1 })
  end, random({ 2, 32, 6, 8 }, d), random({ 32, 16, 3, 3 }, d))
end
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, c in ipairs {
    { { 2, 3, 9, 8 }, { 5, 3, 3, 3 }, { padding = 1 } },
    { { 1, 4, 12, 7 }, { 6, 2, 3, 2 }, { stride = { 2, 1 }, groups = 2, dilation = { 1, 2 }, padding = { 1, 0 } } },
    { { 2, 8, 6, 6 }, { 70, 8, 1, 1 }, {} },
    { { 300, 2, 5, 5 }, { 65, 2, 3, 3 }, {} },
  } do
    local x, w, o = random(c[1], d), random(c[2], d), c[3]
    local y, g = op.conv2d(x, w, nil, nil, o), { window = { c[2][3], c[2][4] } }
    for k, v in pairs(o) do g[k] = v end
    check("conv2d " .. d, function(a, b) return op.conv2d(a, b, nil, nil, o) end, x, w)
    check("conv2d with bias " .. d, function(a, b, bias)
      return op.conv2d(a, b, bias, nil, o)
    end, x, w, random({ c[2][1] }, d))
    check("conv_weight_grad " .. d, function(a, b) return op.conv_weight_grad(a, b, g) end, x, y)
  end
  check("conv1d " .. d, function(a, b) return op.conv1d(a, b) end, random({ 2, 3, 40 }, d),
    random({ 4, 3, 5 }, d))
  check("conv3d " .. d, function(a, b) return op.conv3d(a, b, nil, nil, { padding = 1 }) end,
    random({ 1, 2, 4, 5, 6 }, d), random({ 3, 2, 2, 3, 2 }, d))
  check("conv_transpose " .. d, function(a, b, bias)
    return op.conv_transpose(a, b, bias, { padding = 1, groups = 2, dilation = 2 })
  end, random({ 2, 6, 9, 8 }, d), random({ 6, 4, 3, 2 }, d), random({ 8 }, d))
end

-- ---- complex numbers
for _, d in ipairs { "f32", "f64" } do
  local x, y = op.fft(random({ 4, 33 }, d)), op.fft(random({ 4, 33 }, d))
  for _, row in ipairs { "add", "sub", "mul", "eq" } do
    check("complex " .. row, op[row], x, y)
    check("complex " .. row .. " of rows", function(a, b) return op[row](a, b[1]) end, x, y)
    check("complex " .. row .. " of reals", op[row], x, random({ 4, 1 }, d))
    check("complex " .. row .. " of a number", function(a) return op[row](a, 0.3) end, x)
    check("complex " .. row .. " turned", function(a, b) return op[row](a:T(), b:T()) end, x, y)
  end
  for _, row in ipairs { "neg", "conj", "real", "imag", "square" } do check(row, op[row], x) end
  check("complex", op.complex, random({ 7, 300 }, d), random({ 7, 300 }, d))
  check("cast to complex", function(a) return op.cast(a, "complex64") end, random({ 7, 30 }, d))
end

-- ---- pools
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, layout in ipairs { "nchw", "nhwc" } do
    local x = random({ 2, 5, 9, 7 }, d)
    for _, o in ipairs { { window = 2 }, { window = { 3, 2 }, stride = { 2, 1 }, padding = 1 },
      { window = 3, stride = 1, dilation = 2, padding = 1 } } do
      o.layout = layout
      check("max_pool " .. d, function(y) return op.max_pool(y, o) end, x)
      check("max_pool_index " .. d, function(y) return op.max_pool_index(y, o) end, x)
      check("avg_pool " .. d, function(y) return op.avg_pool(y, o) end, x)
      o.count_include_pad = false
      check("avg_pool without padding " .. d, function(y) return op.avg_pool(y, o) end, x)
      o.count_include_pad = nil
    end
  end
end
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, layout in ipairs { "nchw", "nhwc" } do
    for _, o in ipairs { { window = 2 }, { window = { 3, 2 }, stride = { 2, 1 }, padding = 1 },
      { window = 3, stride = 1, dilation = 2, padding = 1 } } do
      for _, counts in ipairs { true, false } do
        o.layout, o.count_include_pad, o.size = layout, counts, nil
        local shape = op.avg_pool(random({ 2, 5, 9, 7 }, d), o).shape
        o.size = layout == "nchw" and { 9, 7 } or { 5, 9 }
        check("avg_pool_grad " .. d, function(g) return op.avg_pool_grad(g, o) end, random(shape, d))
      end
    end
  end
end
check("max_pool of integers", function(y) return op.max_pool(y, { window = 2 }) end,
  random({ 1, 2, 6, 6 }, "i32"))

-- ---- resampling
for _, d in ipairs { "f32", "bf16", "f64" } do
  for _, s in ipairs { { 1, 1 }, { 3, 4 }, { 7, 9 }, { 10, 13 } } do
    check("adaptive_avg_pool " .. d, function(x) return op.adaptive_avg_pool(x, { size = s }) end,
      random({ 2, 3, 7, 9 }, d))
    check("adaptive_avg_pool_grad " .. d, function(g)
      return op.adaptive_avg_pool_grad(g, { size = { 7, 9 } })
    end, random({ 2, 3, s[1], s[2] }, d))
  end
  for _, mode in ipairs { "nearest", "linear", "cubic" } do
    for _, o in ipairs { { size = { 9, 13 } }, { size = { 3, 4 } }, { scale = { 2, 2 } },
      { scale = { 1.7, 0.6 } }, { size = { 9, 5 }, align_corners = mode ~= "nearest" } } do
      o.mode = mode
      check("interpolate " .. mode .. " " .. d, function(x) return op.interpolate(x, o) end,
        random({ 2, 3, 5, 7 }, d))
    end
  end
  check("interpolate a line " .. d, function(x)
    return op.interpolate(x, { size = { 11 }, mode = "linear" })
  end, random({ 2, 3, 5 }, d))
  check("interpolate a volume " .. d, function(x)
    return op.interpolate(x, { size = { 3, 4, 5 }, mode = "linear" })
  end, random({ 1, 2, 2, 5, 3 }, d))
end

-- ---- reductions
for _, shape in ipairs { { 40, 50 }, { 3, 700 }, { 5, 3, 4 }, { 5000 } } do
  for _, d in ipairs { "f32", "bf16", "i32", "bool" } do
    local x = random(shape, d)
    for _, row in ipairs { "argmax", "argmin", "all", "any", "count_nonzero", "var", "std", "norm", "logsumexp" } do
      for _, o in ipairs { { axis = 0 }, { axis = #shape - 1, keepdims = true }, {} } do
        check(row .. " " .. d, function(y) return op[row](y, o) end, x)
      end
    end
  end
end

-- ---- sums down columns: leaves of 4096, short ones, edges, neighbours that are one axis
for _, c in ipairs { { { 64, 32 }, { 0 } }, { { 129, 33 }, { 0 } }, { { 3, 200, 70 }, { 1 } },
  { { 5000, 37 }, { 0 } }, { { 2, 4097, 40 }, { 1 } }, { { 8192, 64 }, { 0 } },
  { { 3, 50, 100, 48 }, { 1, 2 } }, { { 12300, 300 }, { 0 } },
  { { 2, 600 }, { 0 } }, { { 3, 33, 1111 }, { 1 } }, { { 63, 2048 }, { 0 } }, { { 90, 16, 16 }, { 0 } } } do
  for _, d in ipairs { "f32", "bf16", "f16", "f64" } do
    local x, o = random(c[1], d), { axis = c[2] }
    local what = (" %s %s"):format(table.concat(c[1], "x"), d)
    check("sum down" .. what, function(y) return op.sum(y, o) end, x)
    check("mean down" .. what, function(y)
      return op.mean(y, { axis = c[2], keepdims = true })
    end, x)
  end
end
check("sum down of -0", function(y) return op.sum(y, { axis = 0 }) end,
  op.neg(op.zeros(4100, 40)))
check("sum down of a part", function(y) return op.sum(y:narrow(0, 1, 299), { axis = 0 }) end,
  random({ 301, 67 }, "bf16"))

-- ---- columns of few rows, and rows too long for registers: wide and narrow about their largest
local graph = tessera.graph
tessera.jit.eager(true)
for _, rows in ipairs { 2, 17, 32, 63 } do
  local function down(x, y) return x:sum { axis = 0 }, (x * y):mean { axis = 0 } end
  check("sum of few rows", graph.module("few", down), random { rows, 1111 }, random { rows, 1111 })
end
for _, d in ipairs { "f32", "bf16" } do
  for _, scale in ipairs { 0.1, 10 } do
    local function loss(x, y)
      local function f(z) return op.cross_entropy(z:cast "f32", y) end
      return graph.grad(f)(x), f(x)
    end
    local x = random({ 3, 17000 }, d) * scale
    check("loss of long rows " .. d, graph.module("loss", loss), x, op.randint({ 3 }, { low = 0, high = 17000 }))
    check("softmax of long rows " .. d, op.softmax, x)
  end
end
local odd = random { 3, 20000 }
odd[0][5], odd[2][3] = 0 / 0, 1 / 0
odd[1] = -1 / 0
for _, d in ipairs { "f32", "bf16" } do
  check("long rows of no numbers " .. d, function(x) return op.softmax(x), x:max { axis = 1 }, x:sum { axis = 1 } end,
    odd:cast(d))
end
tessera.jit.eager(false)

-- ---- copies that turn
for _, d in ipairs { "f32", "bf16", "u8", "f64", "bool", "complex64" } do
  local function some(...)
    local x = random({ ... }, d == "complex64" and "f32" or d)
    return d == "complex64" and op.fft(x) or x
  end
  local function turned(...)
    local perm = { ... }
    return function(y) return y:permute(unpack(perm)):contiguous() end
  end
  check("turned " .. d, turned(1, 0), some(256, 192))
  check("turned, odd " .. d, turned(1, 0), some(301, 129))
  check("turned, thin " .. d, turned(1, 0), some(9, 2300))
  check("turned in batches " .. d, turned(0, 1, 3, 2), some(2, 3, 72, 65))
  check("to channels last " .. d, turned(0, 2, 3, 1), some(2, 16, 24, 25))
  check("to channels first " .. d, turned(0, 3, 1, 2), some(2, 24, 25, 16))
  check("all turned " .. d, turned(3, 2, 1, 0), some(8, 5, 9, 64))
  check("a part turned " .. d, function(y)
    return y:narrow(0, 1, 299):narrow(1, 3, 131):T():contiguous()
  end, some(301, 135))
end

-- ---- maps of operands that are turned, eager and captured
for _, d in ipairs { "f32", "bf16", "f64" } do
  for _, c in ipairs { { 256, 192 }, { 301, 129 }, { 9, 2300 } } do
    local x, y = random(c, d), random({ c[2], c[1] }, d)
    local function add(a, b) return a:T() * 2 + b end
    local function both(a, b) return op.tanh(a:T()), op.cast(a:T() + b[0][0], "f32"), a + b:T() end
    check("sum with turned " .. d, add, x, y)
    check("maps of turned " .. d, both, x, y)
    local one, more = graph.module("add", add), graph.module("both", both)
    tessera.jit.eager(true)
    check("captured sum with turned " .. d, one, x, y)
    check("captured maps of turned " .. d, more, x, y)
    tessera.jit.eager(false)
  end
  check("turned in batches, a row " .. d, function(a, b)
    return a:permute(0, 2, 1) + b
  end, random({ 3, 70, 130 }, d), random({ 70 }, d))
end

-- ---- places
for _, d in ipairs { "f32", "bool", "complex64" } do
  local x = random({ 3, 5, 7 }, d == "complex64" and "f32" or d)
  if d == "complex64" then x = op.fft(x) end
  check("roll " .. d, function(y) return op.roll(y, { shift = { 2, -3 }, axis = { 1, 2 } }) end, x)
  check("flat roll " .. d, function(y) return op.roll(y, { shift = { 11 } }) end, x)
  check("tril " .. d, function(y) return op.tril(y, { diagonal = 1 }) end, x)
  check("triu " .. d, function(y) return op.triu(y, { diagonal = -1 }) end, x)
  check("repeat_interleave " .. d, function(y)
    return op.repeat_interleave(y, { count = 3, axis = 1 })
  end, x)
  for _, mode in ipairs { "constant", "reflect", "replicate", "circular" } do
    check(mode .. " pad " .. d, function(y)
      return op.pad(y, { pads = { 2, 1, 0, 3 }, mode = mode, value = 1 })
    end, x)
  end
  check("slice_update " .. d, function(y, z)
    return op.slice_update(y, z, { start = { 1, 0, 1 }, stop = { 3, 5, 7 }, step = { 1, 2, 3 } })
  end, x, x[0][0][0]:reshape(1))
end
local function made(f) -- on the device, against the CPU
  local got, want = tessera.device(name, f), f()
  assert(got.device == name and got:hash() == want:hash(), "made there")
end
made(function() return op.arange(-3, 40, 2) end)
made(function() return op.arange(0, 1, 0.01, { dtype = "f32" }) end)
made(function() return op.linspace(-1, 2, 37, { dtype = "f64" }) end)
made(function() return op.eye(5, 9, { dtype = "bf16" }) end)
