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
  local before = core.jit_device().fallback
  local got, want = { f(unpack(there)) }, { f(unpack(x)) }
  assert(core.jit_device().fallback == before, what .. ": the CPU ran it")
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

-- ---- convolutions
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
check("max_pool of integers", function(y) return op.max_pool(y, { window = 2 }) end,
  random({ 1, 2, 6, 6 }, "i32"))

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
  { { 3, 50, 100, 48 }, { 1, 2 } }, { { 12300, 300 }, { 0 } }, { { 90, 16, 16 }, { 0 } } } do
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
local graph = tessera.graph
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
