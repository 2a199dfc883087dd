-- Softmax and norms, recognised where they are written by exponentials, means and roots.
local tessera = require "tessera"
local op = tessera.op
local rules = dofile "tests/ir/rules/_rules.lua"
local check, ops, line = rules.check, rules.ops, rules.line
local x = op.normal({ 6, 33 }, { seed = 2, stream = 1 })
local w = op.normal({ 33 }, { seed = 2, stream = 2 })
local b = op.normal({ 33 }, { seed = 2, stream = 3 })
local last = { axis = -1, keepdims = true }

-- ---- softmax
local function share(x, keep)
  local e = op.exp(x)
  return e / e:sum(keep or last)
end
local function shifted(x)
  local e = op.exp(x - op.max(x, last))
  return e / e:sum(last)
end
local function not_share(x) return op.exp(x) / op.exp(-x):sum(last) end
-- Without the largest element an exponential may overflow, which the operator has none of.
rules.fast.check("exp_share", share, not_share, x) --> ok
check("exp_share", shifted, not_share, x) --> ok
check("softmax_shift", shifted, function(x) return op.softmax(x - x) end, x) --> ok
line(shifted, "softmax", x) --> softmax %x {axis=1} : f32[6,33]
rules.fast.line(function(x) return share(x, { axis = 0, keepdims = true }) end, "softmax", x) --> softmax %x {axis=0} : f32[6,33]
-- Without keepdims the sums broadcast along the first axis alone.
rules.fast.line(function(x) return share(x, { axis = 0 }) end, "softmax", x) --> softmax %x {axis=0} : f32[6,33]
rules.fast.ops(function(x) return share(x, { axis = 1 }) end, op.ones { 5, 5 }) --> exp sum div
rules.fast.line(function(x) local e = op.exp(x) return e / e:sum(1):unsqueeze(1) end, "softmax", x) --> softmax %x {axis=1} : f32[6,33]
-- Two axes are no row.
rules.fast.ops(function(x) return share(x, { axis = { 0, 1 }, keepdims = true }) end, x) --> exp sum div
check("exp_share_mul", function(x) local e = op.exp(x - op.max(x, last)) return e * (1 / e:sum(last)) end, function(x) local e = op.exp(x) return x * (1 / e:sum(last)) end, x) --> ok
-- Who reads the exponentials as well keeps them. A backward pass is built of what was
-- recognised.
rules.fast.ops(function(x) local e = op.exp(x) return e / e:sum(last), e end, x) --> exp sum div
ops(tessera.graph.grad(function(x) return (shifted(x) * w):sum() end).body, x) --> softmax broadcast_to softmax_grad
check("log_of_softmax", function(x) return op.log(op.softmax(x)) end, function(x) local p = op.softmax(x) return op.log(p), p end, x) --> ok
rules.fast.check("log_sum_exp", function(x) return op.log(op.exp(x):sum(last)) end, function(x) local e = op.exp(x) return op.log(e:sum(last)), e end, x) --> ok
local function lse(x) local m = op.max(x, last) return m + op.log(op.exp(x - m):sum(last)) end
check("logsumexp_lift", lse, function(x) return 1 + op.log(op.exp(x - op.max(x, last)):sum(last)) end, x) --> ok
ops(lse, x) --> logsumexp
check("sub_logsumexp", function(x) return x - op.logsumexp(x, last) end, function(x) return x - op.logsumexp(-x, last) end, x) --> ok
local function by_hand(x) local s = x - op.max(x, last) return s - op.log(op.exp(s):sum(last)) end
check("log_sum_exp", function(x) return op.log(op.exp(x - op.max(x, last)):sum(last)) end, function(x) return op.log(op.exp(-x):sum(last)) end, x) --> ok
check("log_softmax_shift", by_hand, function(x) return op.log_softmax(x - w) end, x) --> ok
ops(by_hand, x) --> log_softmax
-- Large numbers, where the form by hand would overflow.
op.exp(tessera.numerics.profile("fast", function() return tessera.graph.module(share)(x * 100) end)):isfinite():all():item() --> true

-- ---- cross entropy
local classes = op.randint({ 6 }, { low = 0, high = 33, seed = 1, stream = 9 })
local function picked(x, t) return op.log_softmax(x):gather(t:unsqueeze(-1), { axis = -1 }) end
check("picked_loss", picked, function(x, t) return op.log_softmax(x, { axis = 0 }):gather(t:unsqueeze(-1), { axis = -1 }) end, x, classes) --> ok
ops(function(x, t) return op.nll(op.log_softmax(x), t) end, x, classes):match "cross_entropy" --> cross_entropy
-- Classes counted from the end, in a type that cannot hold their number; two a row; logarithms
-- that something else reads.
local ends = tessera.tensor({ -1, -33, 0, 1, 32, -2 }, { dtype = "i8" })
(tessera.graph.module(picked)(x, ends) - picked(x, ends)):abs():max():item() < 1e-5 --> true
ops(function(x, t) return op.log_softmax(x):gather(t:reshape(6, 1):concat({ t:reshape(6, 1) }, { axis = 1 }), { axis = 1 }) end, x, classes):find "cross" --> nil
ops(function(x, t) local p = op.log_softmax(x) return p:gather(t:unsqueeze(-1), { axis = -1 }), p end, x, classes):find "cross" --> nil
local function hot(x, t) return (op.log_softmax(x) * op.one_hot(t, { classes = 33 })):sum(-1) end
check("one_hot_loss", hot, function(x, t) return (op.log_softmax(x) * op.one_hot(t, { classes = 33 })):sum(0) end, x, classes) --> ok
ops(hot, x, classes) --> cross_entropy neg

-- ---- means and variances
check("moments_var", function(x) return op.square(x):mean(last) - op.square(x:mean(last)) end, function(x) return op.square(x):mean(last) - op.square(x:mean { axis = 0, keepdims = true }) end, x) --> ok
check("centred_var", function(x) return op.square(x - x:mean(last)):mean { axis = -1 } end, function(x) return op.square(x - x:mean { axis = 0, keepdims = true }):mean { axis = -1 } end, x) --> ok
rules.fast.ops(function(x) return op.square(x - x:mean()):mean() end, x) --> var
-- A mean that lies along the rows of a square is not the mean of each.
ops(function(x) return op.square(x - x:mean { axis = 1 }):mean { axis = 1 } end, op.ones { 4, 4 }) --> mean sub square mean

-- ---- layernorm
local function mean(x) return x:mean(last) end
local function var(x) local c = x - mean(x) return mean(c * c) end
local function ln(x) return (x - mean(x)) / op.sqrt(var(x) + 1e-5) end
check("norm_div", ln, function(x) local v = var(x) return (x - mean(x)) / op.sqrt(v + 1e-5), v end, x) --> ok
check("norm_mul", function(x) return (x - mean(x)) * op.rsqrt(var(x) + 1e-5) end, function(x) return (x - 1) * op.rsqrt(var(x) + 1e-5) end, x) --> ok
check("norm_weight", function(x, w) return ln(x) * w end, function(x, w) return ln(x) * w:reshape(33, 1):narrow(0, 0, 6) end, x, w) --> ok
check("norm_bias", function(x, w, b) return w * ln(x) + b end, function(x, w, b) return w * ln(x) - b end, x, w, b) --> ok
line(function(x, w, b) return w * ln(x) + b end, "layernorm", x, w, b) --> layernorm %x, %w, %b : f32[6,33]
line(function(x, w, b) return b + ln(x) end, "layernorm", x, w, b) --> layernorm %x, _, %b : f32[6,33]
line(function(x, w) return ln(x) * w:reshape(1, 33) end, "layernorm", x, w):match "^layernorm %%x, %%[w%d]+ :" --> layernorm %x, %w :
ops(function(x, w) return ln(x) * w:reshape(1, 1, 33) end, x, w) --> layernorm reshape mul
-- The ways to write it.
ops(function(x) return (x - mean(x)) * (var(x) + 1e-6) ^ -0.5 end, x) --> layernorm
ops(function(x) return (x - mean(x)) / (var(x) + 1e-6) ^ 0.5 end, x) --> layernorm
ops(function(x) return (x - mean(x)) * (1 / op.sqrt(var(x) + 1e-6)) end, x) --> layernorm
ops(function(x) return (x - mean(x)) / op.sqrt(op.var(x, last) + 1e-6) end, x) --> layernorm
rules.fast.ops(function(x) return (x - mean(x)) / op.sqrt(mean(x ^ 2) - mean(x) ^ 2 + 1e-6) end, x) --> layernorm
ops(function(x) return (x - mean(x)) / op.std(x, last) end, x) --> layernorm
ops(function(x) local m = x:mean(1):unsqueeze(1) local v = ((x - m) ^ 2):sum(1):unsqueeze(1) / 33 return (x - m) / op.sqrt(v + 1e-6) end, x) --> layernorm
line(ln, "layernorm", x:reshape(2, 3, 33)) --> layernorm %x : f32[2,3,33]
line(function(x) local o = { axis = { 1, 2 }, keepdims = true } local c = x - x:mean(o) return c / op.sqrt(op.square(c):mean(o) + 1e-5) end, "layernorm", x:reshape(2, 3, 33)) --> layernorm %x {dims=2} : f32[2,3,33]
-- Not layernorm: unbiased variance, another axis, eps outside of the root.
ops(function(x) return (x - mean(x)) / op.sqrt(op.var(x, { axis = -1, keepdims = true, correction = 1 }) + 1e-6) end, x) --> mean sub var add sqrt div
ops(function(x) local o = { axis = 0, keepdims = true } return (x - x:mean(o)) / op.sqrt(op.var(x, o) + 1e-6) end, x) --> mean sub var add sqrt div
ops(function(x) return (x - mean(x)) / (op.std(x, last) + 1e-6) end, x) --> mean sub std add div
ops(function(x) return (x - mean(x)) / op.sqrt(var(x) - 1e-6) end, x):find "layernorm" --> nil
-- A backward pass is built of what was recognised.
ops(tessera.graph.grad(function(x) return (ln(x) * w):sum() end).body, x):match "%S+$" --> layernorm_grad

-- ---- rmsnorm
local function rms(x) return x * op.rsqrt(mean(x * x) + 1e-6) end
line(function(x, w) return rms(x) * w end, "rmsnorm", x, w) --> rmsnorm %x, %w {eps=1e-6} : f32[6,33]
ops(function(x) return x / op.sqrt(mean(x ^ 2) + 1e-6) end, x) --> rmsnorm
ops(function(x) return x / (mean(op.square(x)) + 1e-6) ^ 0.5 end, x) --> rmsnorm
ops(function(x, b) return rms(x) + b end, x, b) --> rmsnorm add
ops(function(x, w) return rms(x) * w end, x, op.normal { 6, 33 }) --> rmsnorm mul

-- ---- in 16 bits, computed in f32
local h = x:cast "bf16"
local function up(x) return rms(x:cast "f32"):cast "bf16" end
check("cast_rows", function(x) return op.softmax(x:cast "f32"):cast "bf16" end, function(x) return op.softmax(x:cast "f32"):cast "f16" end, h) --> ok
line(up, "rmsnorm", h) --> rmsnorm %x {eps=1e-6} : bf16[6,33]
