-- Functions of elements, made of operators: special ones, activations, comparisons. Loaded by op when one is
-- first named (named_functions.lua).

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need = options.argument
local TENSOR, OPERAND, NUMBER, FLAG, AXIS = options.tensor, options.operand, options.number(), options.flag, options.whole()
local SIZE, SHARE = options.number { least = 0 }, options.number { least = 0, most = 1 }
local F = {}

-- In f64 and back, where differences of near numbers would be lost.
local function wide(x, f)
  if x.dtype == "f64" then return f(x) end
  local d = x.dtype:match "^b?f" and x.dtype or "f32"
  return f(x:cast "f64"):cast(d)
end

-- ---- special functions

local read_logit = options.placed("logit", { eps = SHARE }, nil, { "eps" })
-- logit(x, {eps}): log(x / (1 - x)), the inverse of op.sigmoid; with eps x is limited to [eps, 1 - eps] before.
--   y = op.logit(op.full({2}, 0.25))      -- -1.0986 twice
function F.logit(x, ...)
  need("logit", "x", TENSOR, x)
  local o = read_logit(...)
  if o.eps then x = x:clamp(o.eps, 1 - o.eps) end
  return op.log(x / (1 - x))
end

-- x f(y), 0 where x is 0 though f(y) is none.
local function times(x, y, f, one)
  local none = op.eq(x, 0):logical_and(op.isnan(y):logical_not()):logical_and(op.le(y, one - 1):logical_or(op.isinf(y)))
  return x * f(op.where(none, op.ones_like(y) * one, y))
end

-- xlogy(x, y): x log(y), and 0 where x is 0 unless y is NaN.
--   y = op.xlogy(op.zeros{2}, op.zeros{2})      -- 0 twice
function F.xlogy(x, y)
  need("xlogy", "y", TENSOR, y)
  return times(x, y, op.log, 1)
end

-- xlog1py(x, y): x log(1 + y), and 0 where x is 0 unless y is NaN.
--   y = op.xlog1py(op.ones{2}, op.ones{2})      -- log(2) twice
function F.xlog1py(x, y)
  need("xlog1py", "y", TENSOR, y)
  return times(x, y, op.log1p, 0)
end

-- entr(x): -x log(x), 0 at 0 and -inf below: the terms of an entropy.
--   y = op.entr(op.full({4}, 0.25)):sum()      -- log(4)
function F.entr(x)
  need("entr", "x", TENSOR, x)
  local some = op.gt(x, 0)
  local y = -x * op.log(op.where(some, x, 1))
  return op.where(some, y, op.where(op.eq(x, 0), x * 0, op.where(op.isnan(x), x, -math.huge)))
end

-- sinc(x): sin(pi x) / (pi x), 1 at 0.
--   y = op.sinc(op.arange(3):cast "f32")      -- 1, and 0 nearly
function F.sinc(x)
  need("sinc", "x", TENSOR, x)
  local zero = op.eq(x, 0)
  local z = op.where(zero, 1, x * math.pi)
  return op.where(zero, 1, op.sin(z) / z)
end

-- Two steps of Halley's method for erf(y) = x, in f64, from an approximation by Winitzki (2008); of the
-- smaller tail, which does not round away.
local function inverse_erf(x)
  local a = 0.147
  local size = x:abs()
  local inside = size:lt(1)
  local s = op.where(inside, size, 0)
  local l = op.log1p(-s * s)
  local t = 2 / (math.pi * a) + l / 2
  local y = op.sqrt(op.maximum(op.sqrt(t * t - l / a) - t, 1e-300))
  y = op.where(s:lt(1e-8), s * (math.sqrt(math.pi) / 2), y)
  for _ = 1, 3 do
    local off = ((1 - s) - op.erfc(y)) * op.exp(y * y) * (math.sqrt(math.pi) / 2) -- erf(y) - s is minus that
    local small = (op.erf(y) - s) * op.exp(y * y) * (math.sqrt(math.pi) / 2)
    local u = op.where(s:lt(0.5), small, off)
    y = y - u / (1 + y * u)
  end
  y = op.where(inside, y, op.where(op.eq(size, 1), math.huge, 0 / 0))
  return op.copysign(y, x)
end

-- erfinv(x): the inverse of op.erf, in f64 whatever x is: infinite at -1 and 1, NaN beyond.
--   y = op.erfinv(op.erf(op.full({1}, 0.75)))      -- 0.75
function F.erfinv(x)
  need("erfinv", "x", TENSOR, x)
  return wide(x, inverse_erf)
end

-- ndtr(x): the normal distribution function, erfc(-x / sqrt(2)) / 2.
--   y = op.ndtr(op.zeros{1})      -- 0.5
function F.ndtr(x)
  need("ndtr", "x", TENSOR, x)
  return op.erfc(x * -math.sqrt(0.5)) / 2
end

-- ndtri(p): the inverse of op.ndtr, in f64.
--   y = op.ndtri(op.full({1}, 0.975))      -- 1.96
function F.ndtri(p)
  need("ndtri", "p", TENSOR, p)
  return wide(p, function(p) return inverse_erf(p * 2 - 1) * math.sqrt(2) end)
end

-- i0(x): the modified Bessel function of order 0, in f64: its series up to 20, then its asymptotic one
-- (Abramowitz and Stegun 9.6.12, 9.7.1).
--   y = op.i0(op.ones{1})      -- 1.2661
function F.i0(x)
  need("i0", "x", TENSOR, x)
  return wide(x, function(x)
    local size = x:abs()
    local near = size:le(20)
    local q = op.where(near, size, 1):square() / 4
    local y = q * 0 + 1
    for k = 60, 1, -1 do y = y * q / (k * k) + 1 end
    local r = 1 / (op.where(near, 20, size) * 8)
    local z = r * 0 + 1
    for k = 20, 1, -1 do z = z * r * ((2 * k - 1) ^ 2 / k) + 1 end
    local far = z * op.exp(op.where(near, 0, size)) / op.sqrt(op.where(near, 1, size) * (2 * math.pi))
    return op.where(near, y, far)
  end)
end

-- The sum of 1 / (x + k)^s from k = 0 on, x > 0: 12 terms, then by Euler and Maclaurin.
local BERNOULLI = { 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6 }
local function zeta(s, x)
  local sum = 0
  for k = 0, 11 do sum = sum + (x + k) ^ -s end
  local z = x + 12
  sum = sum + z ^ (1 - s) / (s - 1) + z ^ -s / 2
  local factor, power = s, z ^ (-s - 1)
  for j, b in ipairs(BERNOULLI) do
    local fact = 1
    for i = 2, 2 * j do fact = fact * i end
    sum = sum + power * (factor * b / fact)
    factor, power = factor * (s + 2 * j - 1) * (s + 2 * j), power / (z * z)
  end
  return sum
end

-- polygamma(n, x): derivative n of op.digamma, in f64; of n >= 2 for x > 0 alone.
--   y = op.polygamma(1, op.ones{1})      -- pi^2 / 6
function F.polygamma(n, x)
  need("polygamma", "n", options.whole { least = 0 }, n)
  need("polygamma", "x", TENSOR, x)
  if n == 0 then return op.digamma(x) end
  local factor = n % 2 == 1 and 1 or -1
  for i = 2, math.min(n, 171) do factor = factor * i end -- infinite from there on
  return wide(x, function(x)
    local right = x:gt(0)
    if n > 1 then return op.where(right, zeta(n + 1, op.where(right, x, 1)) * factor, op.where(op.eq(x, 0), factor * math.huge, 0 / 0)) end
    local y = zeta(2, op.where(right, x, 1 - x))
    local turn = op.where(right, 0.5, x - op.floor(x)) * math.pi
    return op.where(right, y, op.square(math.pi / op.sin(turn)) - y)
  end)
end

-- logaddexp2(x, y): log2(2^x + 2^y), without overflow.
--   y = op.logaddexp2(op.ones{1}, op.ones{1})      -- 2
function F.logaddexp2(x, y)
  need("logaddexp2", "x", TENSOR, x)
  need("logaddexp2", "y", OPERAND, y)
  return op.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)
end

-- deg2rad(x): degrees as radians, x pi / 180.
--   y = op.deg2rad(op.full({1}, 180))      -- pi
function F.deg2rad(x)
  need("deg2rad", "x", TENSOR, x)
  return x * (math.pi / 180)
end

-- rad2deg(x): radians as degrees, 180 x / pi.
--   y = op.rad2deg(op.full({1}, math.pi))      -- 180
function F.rad2deg(x)
  need("rad2deg", "x", TENSOR, x)
  return x * (180 / math.pi)
end

-- signbit(x): true where the sign is minus, also that of -0.
--   y = op.signbit(-op.zeros{1})      -- true
function F.signbit(x)
  need("signbit", "x", TENSOR, x)
  if not x.dtype:match "^b?f" then return op.lt(x, 0) end
  return op.lt(op.copysign(op.ones_like(x), x), 0):logical_and(op.isnan(x):logical_not())
end

-- ---- comparisons

local read_close = options.placed("isclose", { rtol = SIZE, atol = SIZE, equal_nan = FLAG }, { rtol = 1e-5, atol = 1e-8, equal_nan = false },
  { "rtol", "atol", "equal_nan" })
-- isclose(x, y, {rtol = 1e-5, atol = 1e-8, equal_nan = false}): true where |x - y| <= atol + rtol |y|, or both are
-- equal; with equal_nan also where both are NaN.
--   y = op.isclose(op.ones{2}, op.full({2}, 1.000001))      -- true twice
function F.isclose(x, y, ...)
  need("isclose", "x", TENSOR, x)
  need("isclose", "y", TENSOR, y)
  local o = read_close(...)
  local near = op.le(op.abs(x - y), op.abs(y) * o.rtol + o.atol)
  near = op.eq(x, y):logical_or(near:logical_and(op.isfinite(x)):logical_and(op.isfinite(y)))
  if o.equal_nan then near = near:logical_or(op.isnan(x):logical_and(op.isnan(y))) end
  return near
end

-- allclose(x, y, {rtol = 1e-5, atol = 1e-8, equal_nan = false}): whether all elements are as op.isclose says; a
-- boolean of Lua.
--   print(op.allclose(op.ones{2}, op.full({2}, 1.000001)))
function F.allclose(x, y, ...) return op.all(F.isclose(x, y, ...)):item() end

-- isin(x, values): true where an element is one of values.
--   y = op.isin(op.arange(4), tessera.tensor({1, 3}, {dtype = "i64"}))
function F.isin(x, values)
  need("isin", "x", TENSOR, x)
  need("isin", "values", TENSOR, values)
  return op.any(op.eq(x:unsqueeze(-1), values:reshape(-1)), { axis = -1 })
end

local read_addcmul = options.placed("addcmul", { value = NUMBER }, { value = 1 }, { "value" })
-- addcmul(x, y, z, {value = 1}): x + value y z.
--   y = op.addcmul(op.ones{2}, op.ones{2}, op.ones{2}, {value = 3})      -- 4 twice
function F.addcmul(x, y, z, ...)
  need("addcmul", "x", OPERAND, x)
  need("addcmul", "y", OPERAND, y)
  need("addcmul", "z", TENSOR, z)
  return x + y * z * read_addcmul(...).value
end

local read_addcdiv = options.placed("addcdiv", { value = NUMBER }, { value = 1 }, { "value" })
-- addcdiv(x, y, z, {value = 1}): x + value y / z.
--   y = op.addcdiv(op.ones{2}, op.ones{2}, op.full({2}, 2))      -- 1.5 twice
function F.addcdiv(x, y, z, ...)
  need("addcdiv", "x", OPERAND, x)
  need("addcdiv", "y", OPERAND, y)
  need("addcdiv", "z", TENSOR, z)
  return x + y / z * read_addcdiv(...).value
end

local read_lerp = options.of("lerp", {})
-- lerp(x, y, weight): x + weight (y - x), a number or a tensor that broadcasts.
--   y = op.lerp(op.zeros{2}, op.ones{2}, 0.25)      -- 0.25 twice
function F.lerp(x, y, weight, ...)
  read_lerp(...)
  need("lerp", "x", TENSOR, x)
  return x + (y - x) * weight
end

-- ---- activations

-- relu6(x): x limited to [0, 6], element by element.
--   y = op.relu6(op.full({1}, 7))      -- 6
function F.relu6(x) return op.clamp(x, { min = 0, max = 6 }) end

local read_hardtanh = options.placed("hardtanh", { min = NUMBER, max = NUMBER }, { min = -1, max = 1 }, { "min", "max" })
-- hardtanh(x, {min = -1, max = 1}): x limited to [min, max].
--   y = op.hardtanh(op.full({1}, 7))      -- 1
function F.hardtanh(x, ...)
  local o = read_hardtanh(...)
  return op.clamp(x, { min = o.min, max = o.max })
end

-- hardsigmoid(x): x / 6 + 1 / 2 limited to [0, 1], element by element.
--   y = op.hardsigmoid(op.zeros{1})      -- 0.5
function F.hardsigmoid(x) return op.clamp(need("hardsigmoid", "x", TENSOR, x) + 3, { min = 0, max = 6 }) / 6 end

local read_hardshrink = options.placed("hardshrink", { lambda = SIZE }, { lambda = 0.5 }, { "lambda" })
-- hardshrink(x, {lambda = 0.5}): x where |x| > lambda, else 0.
--   y = op.hardshrink(op.full({1}, 0.25))      -- 0
function F.hardshrink(x, ...)
  local lambda = read_hardshrink(...).lambda
  return op.where(op.le(op.abs(x), lambda), 0, x)
end

local read_softshrink = options.placed("softshrink", { lambda = SIZE }, { lambda = 0.5 }, { "lambda" })
-- softshrink(x, {lambda = 0.5}): x nearer to 0 by lambda, 0 where |x| <= lambda.
--   y = op.softshrink(op.ones{1})      -- 0.5
function F.softshrink(x, ...)
  need("softshrink", "x", TENSOR, x)
  local lambda = read_softshrink(...).lambda
  return op.where(op.gt(x, lambda), x - lambda, op.where(op.lt(x, -lambda), x + lambda, x * 0))
end

-- tanhshrink(x): x - tanh(x), element by element, of any shape.
--   y = op.tanhshrink(op.zeros{1})      -- 0
function F.tanhshrink(x) return need("tanhshrink", "x", TENSOR, x) - op.tanh(x) end

-- softsign(x): x / (1 + |x|), element by element, of any shape.
--   y = op.softsign(op.ones{1})      -- 0.5
function F.softsign(x) return need("softsign", "x", TENSOR, x) / (op.abs(x) + 1) end

-- logsigmoid(x): log(sigmoid(x)), without overflow.
--   y = op.logsigmoid(op.zeros{1})      -- -log(2)
function F.logsigmoid(x) return -op.softplus(-need("logsigmoid", "x", TENSOR, x)) end

local read_softmin = options.placed("softmin", { axis = AXIS }, { axis = -1 }, { "axis" })
-- softmin(x, {axis = -1}): op.softmax of -x.
--   y = op.softmin(op.zeros{2})      -- 0.5 twice
function F.softmin(x, ...) return op.softmax(-need("softmin", "x", TENSOR, x), { axis = read_softmin(...).axis }) end

-- threshold(x, limit, value): x where it is above limit, else value.
--   y = op.threshold(op.ones{1}, 2, -1)      -- -1
function F.threshold(x, limit, value)
  need("threshold", "limit", NUMBER, limit)
  need("threshold", "value", NUMBER, value)
  return op.where(op.gt(x, limit), x, value)
end

local read_glu = options.placed("glu", { axis = AXIS }, { axis = -1 }, { "axis" })
-- glu(x, {axis = -1}): the first half along axis times the sigmoid of the second.
--   y = op.glu(op.ones{2, 4})      -- f32[2,2]
function F.glu(x, ...)
  need("glu", "x", TENSOR, x)
  local axis = read_glu(...).axis
  local n = x.shape[axis < 0 and x.ndim + axis + 1 or axis + 1]
  if not n or n % 2 ~= 0 then core.fail(("glu: axis %d of %s has no two halves"):format(axis, core.type_text(x))) end
  return x:narrow(axis, 0, n / 2) * op.sigmoid(x:narrow(axis, n / 2, n / 2))
end

local read_gumbel = options.placed("gumbel_softmax", { tau = options.number { above = 0 }, hard = FLAG, axis = AXIS },
  { tau = 1, hard = false, axis = -1 }, { "tau", "hard", "axis" })
-- gumbel_softmax(logits, {tau = 1, hard = false, axis = -1}): softmax of (logits + noise of the Gumbel distribution) /
-- tau, a random choice that has a gradient; hard: 1 at the greatest and 0 elsewhere, with the gradient of the soft one.
--   y = op.gumbel_softmax(op.zeros{4, 3}, {hard = true})
function F.gumbel_softmax(logits, ...)
  need("gumbel_softmax", "logits", TENSOR, logits)
  local o = read_gumbel(...)
  local axis = o.axis
  local noise = -op.log(op.exponential(logits.shape, { dtype = logits.dtype }):to(logits.device))
  local y = op.softmax((logits + noise) / o.tau, { axis = axis })
  if not o.hard then return y end
  local top = op.argmax(y:detach(), { axis = axis, keepdims = true })
  local hard = op.scatter(op.zeros_like(y), top, op.ones_like(top):cast(y.dtype), { axis = axis })
  return hard - y:detach() + y
end

local read_normalize = options.placed("normalize", { p = NUMBER, axis = AXIS, eps = SIZE }, { p = 2, axis = 1, eps = 1e-12 }, { "p", "axis", "eps" })
-- normalize(x, {p = 2, axis = 1, eps = 1e-12}): x over its norm of order p along axis, which is at least eps.
--   y = op.normalize(op.ones{2, 4})      -- 0.5 everywhere
function F.normalize(x, ...)
  need("normalize", "x", TENSOR, x)
  local o = read_normalize(...)
  local n = op.norm(x, { ord = o.p, axis = o.axis, keepdims = true })
  return x / op.maximum(n, o.eps)
end

local read_pairwise = options.placed("pairwise_distance", { p = NUMBER, eps = SIZE, keepdims = FLAG }, { p = 2, eps = 1e-6, keepdims = false },
  { "p", "eps", "keepdims" })
-- pairwise_distance(x, y, {p = 2, eps = 1e-6, keepdims = false}): the norm of order p of x - y + eps along the last axis.
--   y = op.pairwise_distance(op.ones{3, 4}, op.zeros{3, 4})      -- f32[3]
function F.pairwise_distance(x, y, ...)
  need("pairwise_distance", "x", TENSOR, x)
  need("pairwise_distance", "y", OPERAND, y)
  local o = read_pairwise(...)
  return op.norm(x - y + o.eps, { ord = o.p, axis = -1, keepdims = o.keepdims })
end

return F
