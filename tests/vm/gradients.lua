-- The gradients with kernels of their own, bit for bit against their definitions in other
-- operators: sums in the canonical order, products as chains, each operation rounded once.
local core = require "tessera.core"
local op = core.op
local seed = 0

local function random(shape, dtype)
  seed = seed + 1
  return op.uniform(shape, { low = -2, high = 2, dtype = dtype, seed = 5, stream = seed })
end

local function same(what, a, b)
  if a:hash() ~= b:hash() then
    error(("%s differs from its definition by %g"):format(what, (a:cast "f64" - b:cast "f64"):abs():max():item()), 0)
  end
end

local function keep(x, how, axis) return op[how](x, { axis = axis or -1, keepdims = true }) end

local function softmaxes(dtype, shape)
  local y, g = random(shape, dtype), random(shape, dtype)
  same("softmax_grad", op.softmax_grad(y, g), y * (g - keep(y * g, "sum")))
  same("log_softmax_grad", op.log_softmax_grad(y, g), g - op.exp(y) * keep(g, "sum"))
  local t = op.randint({ shape[1] }, { low = 0, high = shape[2], seed = 2 })
  local one = op.eq(t:unsqueeze(1), op.arange(shape[2])):cast(dtype)
  local e = op.exp(y - keep(y, "max"))
  local p = e * (1 / keep(e, "sum"))
  local h = random({ shape[1] }, dtype)
  same("cross_entropy_grad", op.cross_entropy_grad(y, t, h, { reduction = "none" }), (p - one) * h:unsqueeze(1))
  local q = op.abs(g)
  same("cross_entropy_grad", op.cross_entropy_grad(y, q, h, { reduction = "none" }), (p * keep(q, "sum") - q) * h:unsqueeze(1))
end

-- The sum over rows of chains of fma(a, r, chain): row i goes on from row i - lanes.
local function column_sum(a, r)
  local lanes = a.dtype == "f64" and 128 or 256
  local m, parts = a.shape[1], {}
  for leaf = 0, m - 1, 4096 do
    local n = math.min(4096, m - leaf)
    local w = math.min(n, lanes)
    local chain = op.ones({ w, a.shape[2] }, { dtype = a.dtype }) * -0.0
    for i = 0, n - 1, lanes do
      local k = math.min(lanes, n - i)
      local part = op.fma(a:narrow(0, leaf + i, k), r:narrow(0, leaf + i, k), chain:narrow(0, 0, k))
      chain = k == w and part or op.concat { part, chain:narrow(0, k, w - k) }
    end
    parts[#parts + 1] = chain:sum { axis = 0 }
  end
  while #parts > 1 do
    local next = {}
    for i = 1, #parts, 2 do next[#next + 1] = parts[i + 1] and parts[i] + parts[i + 1] or parts[i] end
    parts = next
  end
  return parts[1]
end

local function norms(dtype, m, n)
  local x, g, w = random({ m, n }, dtype), random({ m, n }, dtype), random({ n }, dtype)
  for _, layer in ipairs { true, false } do
    local xc = layer and x - keep(x, "sum") / n or x
    local r = 1 / op.sqrt(keep(op.square(xc), "sum") / n + 1e-5)
    local gw = g * w
    local c2 = keep(gw * xc, "sum") * r / n * r
    local d = op.fma(-xc, c2, layer and gw - keep(gw, "sum") / n or gw) * r
    local name = layer and "layernorm_grad" or "rmsnorm_grad"
    local got = { op[name](x, w, g, layer and { bias = true } or {}) }
    same(name .. " x", got[1], d)
    same(name .. " weight", got[2], column_sum(g * xc, r:broadcast_to { m, n }))
    if layer then same(name .. " bias", got[3], g:sum { axis = 0 }) end
  end
end

-- m and l as attention's definition has them, block after block.
local function statistics(t, sink)
  local n = t.shape[t.ndim]
  local m, l
  for first = 0, n - 1, 128 do
    local b = t:narrow(-1, first, math.min(128, n - first))
    local top = keep(b, "max")
    top = m and op.maximum(m, top) or top
    local sum = keep(op.exp(b - top), "sum")
    l = m and l * op.exp(m - top) + sum or sum
    m = top
  end
  if sink then
    local top = op.maximum(m, sink)
    l, m = l * op.exp(m - top) + op.exp(sink - top), top
  end
  return m, l
end

local function attention(dtype, b, h, hk, s, t, d, dv, causal, sinks)
  local q, k, v = random({ b, h, s, d }, dtype), random({ b, hk, t, d }, dtype), random({ b, hk, t, dv }, dtype)
  local g, sink = random({ b, h, s, dv }, dtype), sinks and random({ h }, dtype) or nil
  local out = op.attention(q, k, v, nil, sink, { causal = causal, scale = 0.3 })
  local got = { op.attention_grad(q, k, v, nil, sink, out, g, { causal = causal, scale = 0.3, scores = true }) }
  local group = h / hk
  local kk, vv = op.repeat_interleave(k, group, 1), op.repeat_interleave(v, group, 1)
  local seen = op.le(op.arange(t), op.arange(t - s, t):unsqueeze(1))
  local z = q:matmul(kk:T()) * 0.3
  if causal then z = op.where(seen, z, -1 / 0) end
  local x = sink and sink:reshape { h, 1, 1 }
  local m, l = statistics(z, x)
  local r = 1 / l
  local p = op.exp(z - m) * r
  local delta = keep(g * out, "sum")
  local dt = p * (g:matmul(vv:T()) - delta)
  if causal then dt = op.where(seen, dt, 0) end
  local function rows(y) return y:contiguous():reshape { b, hk, group * s, y.shape[4] } end
  same("attention_grad q", got[1], dt:matmul(kk) * 0.3 + 0)
  same("attention_grad k", got[2], rows(dt):T():matmul(rows(q)) * 0.3 + 0)
  same("attention_grad v", got[3], rows(p):T():matmul(rows(g)) + 0)
  same("attention_grad scores", got[4] + 0, dt + 0)
  if sink then
    local part = -(op.exp(x - m) * r) * delta
    same("attention_grad sink", got[5], part:permute { 1, 0, 2, 3 }:contiguous():reshape { h, b * s }:sum { axis = 1 })
  end
end

local default = core.isa()
for _, isa in ipairs { "avx512", "avx2", "base" } do
  if pcall(core.isa, isa) then
    for _, dtype in ipairs { "f32", "f64" } do
      for _, n in ipairs { 1, 5, 16, 17, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300, 511, 1000, 4096, 4097, 9000 } do
        softmaxes(dtype, { 19, n })
        norms(dtype, 3, n)
      end
      for _, m in ipairs { 1, 2, 3, 63, 64, 65, 127, 129, 255, 256, 257, 1000, 4095, 4097, 9000 } do norms(dtype, m, 7) end
      norms(dtype, 300, 128)
      norms(dtype, 270, 300)
      norms(dtype, 130, 600)
      for _, causal in ipairs { false, true } do
        attention(dtype, 1, 1, 1, 1, 1, 1, 1, causal)
        attention(dtype, 2, 4, 2, 37, 37, 5, 9, causal, true)
        attention(dtype, 1, 2, 1, 128, 128, 32, 32, causal)
        attention(dtype, 2, 2, 2, 100, 120, 16, 40, causal, true)
      end
      attention(dtype, 1, 2, 1, 140, 133, 8, 8, false, true)
      attention(dtype, 1, 2, 2, 300, 1100, 6, 5, false)
    end
  end
end
core.isa(default)

-- Results of 12 MiB or more go past the caches where rows are whole lines: short rows in batches
-- whose last one is a part, a leaf, more than one, more than half of the second cache. Others of
-- that size stay as they are.
do
  local threads = core.threads()
  local function past(dtype, n)
    local m = math.ceil(12 * 2 ^ 20 / (n * (dtype == "f64" and 8 or 4))) + 1
    local y, g = random({ m, n }, dtype), random({ m, n }, dtype)
    local soft = (y * (g - keep(y * g, "sum"))):hash()
    local log = (g - op.exp(y) * keep(g, "sum")):hash()
    for _, isa in ipairs { "avx512", "avx2", "base" } do
      for t = isa == default and 1 or 2, pcall(core.isa, isa) and 2 or 0 do
        core.threads(t)
        local what = ("_grad of %s, rows of %d, %s, %d threads"):format(dtype, n, isa, t)
        assert(op.softmax_grad(y, g):hash() == soft, "softmax" .. what)
        assert(op.log_softmax_grad(y, g):hash() == log, "log_softmax" .. what)
      end
    end
    core.isa(default)
    core.threads(threads)
  end
  for _, n in ipairs { 16, 32, 64, 512, 1008, 1023, 4096, 9008, 40000 } do
    past("f32", n)
    past("f64", n)
  end
end

-- attention_grad reads the result and its gradient where they lie.
do
  local function n(stream) return op.normal({ 2, 5, 3, 8 }, { seed = 3, stream = stream }) end
  local q, k, v = n(1), n(2), n(3)
  local y, g = n(4):transpose(1, 2), n(5):transpose(1, 2)
  q, k, v = q:transpose(1, 2), k:transpose(1, 2), v:transpose(1, 2)
  local function hashes(...)
    local t = { op.attention_grad(q, k, v, nil, nil, ...) }
    for i = 1, #t do t[i] = t[i]:hash() end
    return table.concat(t, " ")
  end
  assert(hashes(y, g) == hashes(y:contiguous(), g:contiguous()))
end
