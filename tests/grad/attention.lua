-- Derivatives of attention: first order against differences, then over sizes that make
-- every path take part against the definition in other operators.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op, random = core.op, check.random

local function qkv(b, h, hk, s, t, d, dv)
  return random { b, h, s, d }, random { b, hk, t, d }, random { b, hk, t, dv or d }
end

for _, o in ipairs { {}, { causal = true }, { causal = true, window = 2 }, { window = 3 }, { scale = 0.75 },
  { causal = true, upper_left = true }, { window = 2, upper_left = true } } do
  local q, k, v = qkv(1, 2, 2, 3, 4, 2)
  check("attention", { q, k, v }, o)
  q, k, v = qkv(2, 2, 1, 4, 3, 2, 3)
  check("attention", { q, k, v }, o)
  check("attention", { q, k, v, false, random { 2 } }, o)
end
local q, k, v = qkv(1, 2, 1, 3, 4, 2)
check("attention", { q, k, v, random { 3, 4 } })
check("attention", { q, k, v, random { 4 } })
check("attention", { q, k, v, random { 2, 1, 4 }, random { 2 } }, { causal = true })
check("attention", { q, k, v, core.tensor { { true, false, true, true }, { true, true, false, false }, { false, false, true, true } } })
check("attention", { random { 3, 2 }, random { 4, 2 }, random { 4, 2 } })
check("attention", { random { 3, 2 }, random { 4, 2 }, random { 4, 2 }, false, random { 1 } })
check("attention", { random { 0, 2 }, random { 4, 2 }, random { 4, 2 } })
check("attention_grad", { q, k, v, random { 3, 4 }, random { 2 }, random { 1, 2, 3, 2 }, random { 1, 2, 3, 2 } },
  { causal = true, scores = true })

local whole = { dtype = "i64" }
local pages, start = core.tensor({ { 2, 0 }, { 1, -1 } }, whole), core.tensor({ 1, 3 }, whole)
q, k, v = random { 2, 2, 2, 2 }, random { 1, 3, 3, 2 }, random { 1, 3, 3, 3 }
check("paged_attention", { q, k, v, pages, start })
check("paged_attention", { q, k, v, pages, start, random { 2 } }, { window = 2, scale = 0.5 })

-- The definition, which stores the scores, in f64.
local function reference(q, k, v, mask, sink, g, o)
  local nd, group = q.ndim, q.shape[q.ndim - 2] / k.shape[k.ndim - 2]
  local kk, vv = op.repeat_interleave(k, group, nd - 3), op.repeat_interleave(v, group, nd - 3)
  local s, t = q.shape[nd - 1], k.shape[nd - 1]
  local scale = o.scale or q.shape[nd] ^ -0.5
  local z = q:matmul(kk:T()) * scale
  if mask then z = mask.dtype == "bool" and op.where(mask, z, -1 / 0) or z + mask end
  local i, j = op.arange(t - s, t):unsqueeze(1), op.arange(t)
  if o.causal then z = op.where(j:le(i), z, -1 / 0) end
  if o.window then z = op.where(j:gt(i - o.window), z, -1 / 0) end
  local m = z:max { axis = -1, keepdims = true }
  if sink then m = op.maximum(m, sink:reshape { -1, 1, 1 }) end
  m = op.where(m:gt(-1 / 0), m, 0)
  local e = op.exp(z - m)
  local l = e:sum { axis = -1, keepdims = true }
  if sink then l = l + op.exp(sink:reshape { -1, 1, 1 } - m) end
  local p = op.where(l:gt(0), e / l, 0)
  local out = p:matmul(vv)
  local delta = (g * out):sum { axis = -1, keepdims = true }
  local dt = p * (g:matmul(vv:T()) - delta)
  local function shared(x)
    local c = x.shape
    return x:reshape { c[1], c[2] / group, group, c[3], c[4] }:sum { axis = 2 }
  end
  local r = { dt:matmul(kk) * scale, shared(dt:T():matmul(q)) * scale, shared(p:T():matmul(g)), dt }
  if sink then
    local ps = op.where(l:gt(0), op.exp(sink:reshape { -1, 1, 1 } - m) / l, 0)
    r[5] = -(ps * delta):sum { axis = { 0, 2, 3 } }
  end
  return out, r
end

local function far(a, b) return (a:cast "f64" - b):abs():max():item() end

local function compare(b, h, hk, s, t, d, dv, o, mask, sink)
  local q, k, v = qkv(b, h, hk, s, t, d, dv)
  local g = random { b, h, s, dv }
  for dtype, bound in pairs { f64 = 1e-12, f32 = 2e-5, bf16 = 0.1 } do
    local function as(x) return x and (x.dtype == "bool" and x or x:cast "bf16":cast(dtype)) or nil end
    local function wide(x) return x and (x.dtype == "bool" and x or x:cast "bf16":cast "f64") or nil end
    local out = op.attention(as(q), as(k), as(v), as(mask), as(sink), o)
    local got = { op.attention_grad(as(q), as(k), as(v), as(mask), as(sink), out, as(g),
      { causal = o.causal, window = o.window, scale = o.scale, scores = true }) }
    local _, want = reference(wide(q), wide(k), wide(v), wide(mask), wide(sink), wide(g), o)
    assert(#got == #want)
    for i, x in ipairs(got) do
      local e = far(x, want[i]) / math.max(1, want[i]:abs():max():item())
      if not (e <= bound) then
        error(("output %d of %s, s %d t %d d %d: off by %g"):format(i, dtype, s, t, d, e))
      end
    end
  end
end

for _, o in ipairs { {}, { causal = true }, { causal = true, window = 40 }, { window = 150 } } do
  compare(2, 2, 2, 128, 128, 32, 32, o)
  compare(1, 4, 2, 133, 133, 16, 24, o)
  compare(1, 2, 1, 70, 300, 8, 8, o, nil, random { 2 })
  compare(1, 1, 1, 200, 150, 5, 7, o, random { 200, 150 })
  compare(2, 2, 1, 40, 260, 64, 33, o, op.bernoulli({ 40, 260 }, { p = 0.7, dtype = "f32", seed = 3 }):gt(0), random { 2 })
  compare(1, 1, 1, 300, 1100, 12, 12, o)
end

-- Keys that a row does not see may hold anything, up to the 32 that are taken together.
local q, k, v = qkv(1, 1, 1, 96, 96, 8)
local g = random { 1, 1, 96, 8 }
local out = op.attention(q, k, v, { causal = true })
local dq = op.attention_grad(q, k, v, nil, nil, out, g, { causal = true })
local bad = k:clone()
bad:narrow(2, 64, 32):mul_(0 / 0)
local other = op.attention_grad(q, bad, v, nil, nil, out, g, { causal = true })
dq:narrow(2, 0, 64):hash() == other:narrow(2, 0, 64):hash() --> true

-- The same bits whether heads are shared out whole or in parts, and for any batch.
local q, k, v = qkv(3, 4, 2, 260, 300, 16)
local out, g = op.attention(q, k, v, { causal = true }), random { 3, 4, 260, 16 }
local function part(x, from, n, axis) return op.clone(x:narrow(axis or 0, from, n)) end
local function all(threads, ...)
  local before = core.threads()
  core.threads(threads)
  local y = { op.attention_grad(...) }
  core.threads(before)
  return y
end
for _, dtype in ipairs { "f32", "bf16" } do
  local function c(x) return x:cast(dtype) end
  local o = { causal = true }
  local want = all(1, c(q), c(k), c(v), nil, nil, c(out), c(g), o)
  for _, threads in ipairs { 2, 16 } do
    local got = all(threads, c(q), c(k), c(v), nil, nil, c(out), c(g), o)
    for i = 1, 3 do assert(got[i]:hash() == want[i]:hash()) end
  end
  for _, threads in ipairs { 1, 2, 5 } do
    local got = all(threads, part(c(q), 1, 1), part(c(k), 1, 1), part(c(v), 1, 1), nil, nil, part(c(out), 1, 1), part(c(g), 1, 1), o)
    for i = 1, 3 do assert(got[i]:hash() == part(want[i], 1, 1):hash()) end
  end
end
op.attention_grad(q, k, v, nil, nil, out, g:narrow(2, 0, 7)) --! shape
-- One tensor in two and in all three places.
check("attention", { random { 3, 4 }, random { 3, 4 }, random { 3, 4 } })
check("attention", { random { 1, 3, 4 }, random { 1, 3, 4 }, random { 1, 3, 4 } }, { causal = true })
check("attention", { random { 2, 3, 4 }, random { 2, 3, 4 }, random { 2, 3, 4 }, random { 3, 3 }, random { 2 } })

-- Queries behind the last key's window see nothing and add nothing: gradients of keys are those of the queries in front of them.
do
  local function part(x, n) return x:narrow(2, 0, n):contiguous() end
  local q, g = random { 2, 2, 300, 8 }, random { 2, 2, 300, 8 }
  local k, v = random { 2, 1, 40, 8 }, random { 2, 1, 40, 8 }
  local o = { causal = true, window = 5, upper_left = true }
  local y = op.attention(q, k, v, nil, nil, o)
  local _, dk, dv = op.attention_grad(q, k, v, nil, nil, y, g, o)
  local _, want_k, want_v = op.attention_grad(part(q, 44), k, v, nil, nil, part(y, 44), part(g, 44), o)
  assert(dk:hash() == want_k:hash() and dv:hash() == want_v:hash(), "rows that see nothing")
end
