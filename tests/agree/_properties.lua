-- Checks of results that are not unique or are random, by what defines them. Each takes
-- the case, the inputs and the outputs; gives an error in ulp, or nil and words.

local core = require "tessera.core"
local op = core.op
local P = {}

local function f64(x) return x:cast(x.dtype:match "complex" and "complex128" or "f64") end

local function largest(x) return x.numel == 0 and 0 or x:abs():max():item() end

local eps = { f16 = 2 ^ -10, bf16 = 2 ^ -7, f32 = 2 ^ -23, f64 = 2 ^ -52, complex64 = 2 ^ -23, complex128 = 2 ^ -52,
  fp8_e4m3 = 2 ^ -3, fp8_e5m2 = 2 ^ -2 }

-- Passes if |x - y| <= bound eps(dtype) scale.
local function near(x, y, dtype, scale, bound)
  local e = largest(f64(x) - f64(y)) / (eps[dtype] * math.max(scale, 1e-300))
  if e <= bound then return e end
  return nil, ("%.3g ulp of %.3g, more than %g"):format(e, scale, bound)
end

local function adjoint(x)
  x = f64(x):transpose()
  return x.dtype == "complex128" and x:conj() or x
end

-- Columns of q are orthonormal.
local function orthonormal(q, bound)
  local k = q.shape[q.ndim]
  local eye = op.eye(k, { dtype = "f64" })
  local gram = adjoint(q):matmul(f64(q))
  if gram.dtype == "complex128" then eye = eye:cast("complex128") end
  return near(gram, op.broadcast_to(eye, gram.shape), q.dtype, 1, bound)
end

local function bound(c, x)
  local n = math.max(x.shape[x.ndim], x.shape[x.ndim - 1])
  return (x.dtype == "f16" or x.dtype == "bf16" or x.dtype:match "fp8") and 4 * n or 10 * n
end

function P.qr(c, x, out)
  local a, q, r = x[1], out[1], out[2]
  local b = bound(c, a)
  local e, why = orthonormal(q, b)
  if not e then return nil, "q: " .. why end
  if largest(f64(r) - f64(r):triu()) ~= 0 then return nil, "r is not triangular" end
  return near(f64(q):matmul(f64(r)), f64(a), q.dtype, largest(f64(a)), b)
end

function P.svd(c, x, out)
  local a, u, s, v = x[1], out[1], out[2], out[3]
  local b = bound(c, a)
  local k = s.shape[s.ndim]
  local e, why = orthonormal(u, b)
  if not e then return nil, "u: " .. why end
  e, why = orthonormal(f64(v):transpose():cast(v.dtype), b)
  if not e then return nil, "vh: " .. why end
  if k == 0 then return 0 end
  local us = f64(u):narrow(-1, 0, k) * f64(s):unsqueeze(-2)
  return near(us:matmul(f64(v):narrow(-2, 0, k)), f64(a), u.dtype, largest(f64(s)), b)
end

function P.lu(c, x, out)
  local a, p, l, u = x[1], out[1], out[2], out[3]
  if largest(f64(l) - f64(l):tril()) ~= 0 then return nil, "l is not lower" end
  if largest(f64(u) - f64(u):triu()) ~= 0 then return nil, "u is not upper" end
  -- LAPACK pivots complex numbers by |re| + |im|.
  local most = l.dtype:match "complex" and 1.42 or 1.01
  if largest(l) > most then return nil, "l exceeds 1: no pivoting" end
  return near(f64(p):matmul(f64(l)):matmul(f64(u)), f64(a), l.dtype, largest(f64(a)), bound(c, a))
end

function P.eigh(c, x, out)
  local a, w, v = x[1], out[1], out[2]
  local b = bound(c, a)
  local e, why = orthonormal(v, b)
  if not e then return nil, "v: " .. why end
  if w.numel == 0 then return 0 end
  local low = f64(a):tril()
  local full = low + adjoint(f64(a):tril{ diagonal = -1 })
  -- The diagonal of a Hermitian matrix is real: LAPACK ignores imaginary parts there.
  if full.dtype == "complex128" then
    local diagonal = op.complex(op.zeros_like(full:imag()), full:imag()) * op.eye(full.shape[full.ndim]):cast("complex128")
    full = full - diagonal
  end
  return near(full:matmul(f64(v)), f64(v) * f64(w):unsqueeze(-2), v.dtype, largest(f64(w)), b)
end

-- a v = v diag(w), columns of norm 1.
function P.eig(c, x, out)
  local a, w, v = x[1], out[1], out[2]
  local n = w.shape[w.ndim]
  if v.numel == 0 then return 0 end
  local norms = f64(v):abs():square():sum { axis = -2 }
  local e, why = near(norms, op.ones_like(norms), v.dtype, 1, 10 * n)
  if not e then return nil, "norms: " .. why end
  return near(f64(a):cast "complex128":matmul(f64(v)), f64(v) * f64(w):unsqueeze(-2), v.dtype, largest(f64(a)), 20 * n)
end

function P.cholesky(c, x, out)
  local a, l = f64(x[1]), f64(out[1])
  local upper = c.o and c.o.upper
  local t = upper and l:triu() or l:tril()
  if largest(t - l) ~= 0 then return nil, "not triangular" end
  local back = upper and adjoint(l):matmul(l) or l:matmul(adjoint(l))
  return near(back, a, out[1].dtype, largest(a), bound(c, a))
end

-- ---- random rows

local function moments(x)
  x = f64(x)
  return x:mean():item(), x:std():item()
end

local function within(what, got, wanted, tolerance)
  if math.abs(got - wanted) <= tolerance then return 0 end
  return nil, ("%s is %.5g, not %.5g"):format(what, got, wanted)
end

-- Mean and deviation to 5 of their standard errors, beside the type's rounding.
function P.normal(c, x, out)
  local m, s = moments(out[1])
  local mean, std = c.o.mean or 0, c.o.std or 1
  local n, round = out[1].numel, eps[out[1].dtype] * 0.3
  local e, why = within("mean", m, mean, 5 * std / math.sqrt(n) + round)
  if not e then return nil, why end
  return within("deviation", s, std, 5 * std / math.sqrt(2 * n) + round)
end

function P.truncated(c, x, out)
  local o = c.o
  local mean, std, lo, hi = o.mean or 0, o.std or 1, o.low or -2, o.high or 2
  local y = f64(out[1])
  if y:min():item() < mean + lo * std or y:max():item() > mean + hi * std then
    return nil, "a number lies outside the limits"
  end
  if y.numel < 1000 then return 0 end
  -- The deviation of the normal distribution limited to two deviations is 0.87963.
  local m, s = moments(out[1])
  local e, why = within("mean", m, 0, 0.04)
  if not e then return nil, why end
  return within("deviation", s, 0.87963, 0.03)
end

function P.permutation(c, x, out)
  local sorted = op.sort(out[1]:cast("i64"))
  if not op.all(op.eq(sorted, op.arange(c.o.n))):item() then return nil, "not a permutation" end
  if op.all(op.eq(out[1]:cast("i64"), op.arange(c.o.n))):item() then return nil, "the identity" end
  return 0
end

-- The share of each class to 5 standard errors.
function P.categorical(c, x, out)
  local n = c.o.count
  local p = f64(x[1]):softmax()
  for row = 0, p.shape[1] - 1 do
    for k = 0, p.shape[2] - 1 do
      local wanted = p[row][k]:item()
      local got = op.count_nonzero(op.eq(out[1][row], k)):item() / n
      local e, why = within("share", got, wanted, 5 * math.sqrt(wanted * (1 - wanted) / n))
      if not e then return nil, why end
    end
  end
  return 0
end

-- ---- block storage: numbers that the format holds come back exactly.
function P.blocks(c, x, out)
  local back = out[1]:cast("f32")
  if not op.all(op.eq(back, x[1])):item() then return nil, "exact numbers changed" end
  return 0
end

return P
