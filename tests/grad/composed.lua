-- Derivatives of rows that are made of others, and of the functions that came with them.
local core = require "tessera.core"
local check = dofile "tests/grad/_check.lua"
local op = core.op
local function x(...) return check.random { ... } end
local function apart(...) return check.distinct({ ... }, -2.03, 2) end
local function whole(list) return core.tensor(list, { dtype = "i64" }) end
local c = check.complex

-- ---- functions
check("asinh", { check.random({ 7 }, -4, 4) })
check("acosh", { check.random({ 7 }, 1.2, 5) })
check("atanh", { check.random({ 7 }, -0.9, 0.9) })
check("logaddexp", { check.random({ 3, 4 }, -3, 3), check.random({ 4 }, -3, 3) })
check("copysign", { check.random({ 6 }, 0.1, 2), apart(6) })
check("fmod", { core.tensor({ 5.3, -5.3, 0.4, 7.7 }, { dtype = "f64" }), core.tensor({ 2.1, 2.1, -1.3, -3.1 }, { dtype = "f64" }) })
check("truncdiv", { core.tensor({ 5.3, -5.3 }, { dtype = "f64" }), core.tensor({ 2.1, 2.1 }, { dtype = "f64" }) })
check("softplus", { x(5) }, { beta = 2.5 })
check("softplus", { core.tensor({ -1, 0.2, 0.9, 3 }, { dtype = "f64" }) }, { beta = 2, threshold = 1 })
check.narrow("asinh", { x(5) })
check.narrow("logaddexp", { x(5), x(5) })
check.narrow("softplus", { x(5) }, { beta = 2 })

-- Where a derivative is special: at equal infinities, zeros, beyond the threshold.
local function slopes(name, list, options)
  local t = core.tensor(list, { dtype = "f64" })
  return (core.vjp(name, { t }, options or {}, { op.ones_like(t) }))
end
slopes("asinh", { 0, 1e200, -1e200 }) --> [ 1.0000e+00 1.0000e-200 1.0000e-200]
--> f64[3]
slopes("softplus", { -1000, 0, 1000 }, { threshold = 20 }) --> [0.0000 0.5000 1.0000]
--> f64[3]
local inf = core.tensor({ -1 / 0, 1 / 0 }, { dtype = "f64" })
core.vjp("logaddexp", { inf, inf:clone() }, {}, { op.ones_like(inf) }) --> [0.5000 0.5000]
--> f64[2], [0.5000 0.5000]
--> f64[2]

-- ---- activations
check("prelu", { apart(2, 3, 2), x(3) })
check("prelu", { apart(6), x(1) })
check("selu", { apart(6) })
check("celu", { apart(6) }, { alpha = 0.7 })

-- ---- choices
check("clip", { apart(3, 4), check.random({ 4 }, -0.9, -0.8), check.random({ 3, 1 }, 0.7, 0.8) })
check("clip", { apart(6) }, { min = -0.77 })
check("nan_to_num", { x(5) })
check("masked_fill", { x(3, 4), op.bernoulli({ 3, 1 }, { p = 0.5, seed = 4 }):cast "bool", x(4) })
local some = core.tensor({ { 1, 0 / 0, 2 }, { 0 / 0, 3, 4 } }, { dtype = "f64" })
core.vjp("nansum", { some }, { axis = 1 }, { core.tensor({ 1, 2 }, { dtype = "f64" }) }) --> [[1. 0. 1.]
-->  [0. 2. 2.]]
--> f64[2,3]
core.vjp("nanmean", { some }, { axis = 1 }, { core.tensor({ 1, 2 }, { dtype = "f64" }) }) --> [[0.5000 0.0000 0.5000]
-->  [0.0000 1.0000 1.0000]]
--> f64[2,3]
check("nansum", { x(3, 4) }, { axis = 0 })
check("nanmean", { x(3, 4) }, { axis = { 0, 1 }, keepdims = true })

-- ---- places
for axis = -2, 1 do
  for _, row in ipairs { "max_indices", "min_indices", "median_indices" } do
    check(row, { apart(3, 4) }, { axis = axis })
    check(row, { apart(3, 4):T() }, { axis = axis, keepdims = true })
  end
  check("kthvalue", { apart(3, 4) }, { k = 2, axis = axis })
  check("cummin", { apart(3, 4) }, { axis = axis })
  check("quantiles", { apart(3, 4) }, { q = { 0.1, 0.6 }, axis = axis })
  check("quantiles", { apart(3, 4) }, { q = { 0.4 }, axis = axis, method = "midpoint" })
end
check("max_indices", { apart(3, 4) })
check("max_indices", { x() })
check("bincount", { whole { 0, 2, 2, 1 }, x(4) }, { length = 4 })
check("bincount", { whole { 0, 2, 2, 1 }, x(4) })
check("repeat_counts", { x(3, 2), whole { 2, 0, 1 } }, { axis = 0 })
check("repeat_counts", { x(4), whole { 2, 0, 1, 3 } }, { size = 6 })

-- ---- layout
check("unbind", { x(3, 2) }, { axis = 1 })
check("meshgrid", { x(2), x(3) })
check("meshgrid", { x(2), x(3), x(2) }, { indexing = "xy" })
for _, offset in ipairs { -2, 0, 1, 4 } do
  check("diagonal", { x(3, 4, 2) }, { offset = offset, axis0 = 1, axis1 = 0 })
  check("diag", { x(3) }, { offset = offset })
  check("diag_embed", { c { 2, 3 } }, { offset = offset })
end
check("diag", { c { 3, 2 } })
check("pixel_shuffle", { x(1, 8, 2, 1) }, { factor = 2 })
check("pixel_unshuffle", { x(1, 2, 4, 2) }, { factor = 2 })
check("diff", { x(3, 5) }, { n = 2 })
check("diff", { x(3, 2), x(1, 2), x(2, 2) }, { axis = 0 })
check("diff", { c { 4 } })

-- ---- products
check("tensordot", { x(2, 3, 2), x(3, 2, 2) })
check("tensordot", { c { 2, 3 }, c { 2, 2 } }, { left = { 0 }, right = { 1 } })
check("kron", { x(2, 2), x(3) })
check("kron", { c { 2 }, x(2) })
check("cross", { x(2, 3), x(2, 3) })
check("cross", { x(3, 2), x(3, 1) }, { axis = 0 })
check("trace", { x(2, 3, 4) })
check("trace", { c { 3, 3 } })
check("cdist", { apart(3, 2), x(2, 2) * 0.1 + 5 }, {}, { tolerance = 1e-6 })
check("cdist", { apart(3, 2), x(2, 2) * 0.1 + 5 }, { p = 1 })
check("cosine_similarity", { x(3, 4), x(3, 4) })
check("cosine_similarity", { x(3, 4), x(3, 4) }, { axis = 0 })

check("lgamma", { core.tensor({ 0.3, 0.8, 1.2, 2.2, 5.7, 9.5, 30, -0.4, -2.3 }, { dtype = "f64" }) }, {}, { tolerance = 1e-6 })
check("digamma", { core.tensor({ 0.6, 0.8, 1.2, 2.2, 5.7, 9.5, 30, -0.4, -2.4 }, { dtype = "f64" }) }, {}, { tolerance = 1e-6 })
core.vjp("digamma", { core.tensor({ 1 }, { dtype = "f64" }) }, {}, { op.ones({ 1 }, { dtype = "f64" }) }) --> [1.6449]
--> f64[1]
local eye = op.eye(3, { dtype = "f64" }) * 2
check("slogdet", { x(3, 3) + eye })
check("slogdet", { x(2, 3, 3) + eye }, {}, { only = 2 })
check("lstsq", { x(4, 3) + op.concat { eye, eye:narrow(0, 0, 1) }, x(4, 2) })
check("lstsq", { x(3, 3) + eye, x(3) })
check("lstsq", { x(2, 4) + op.eye(4, { dtype = "f64" }):narrow(0, 0, 2) * 2, x(2, 1) })
check("matrix_exp", { x(3, 3) })
check("matrix_exp", { c { 2, 2, 2 } })
check("matrix_exp", { x(2, 2) * 9 }, {}, { tolerance = 1e-4 })
check("interpolate", { x(1, 2, 3, 4) }, { size = { 5, 2 }, mode = "nearest_exact" })
check("im2col", { x(1, 2, 4, 4) }, { window = 2, dilation = 2, padding = 1 })
for _, padding in ipairs { "zeros", "border", "reflection" } do
  local o = { padding = padding }
  check("grid_sample", { x(1, 2, 4, 5), core.tensor({ { { { 0.13, 0.21 }, { -0.67, 0.55 }, { 0.31, -0.83 } } } }, { dtype = "f64" }) }, o)
end

-- ---- losses
for _, reduction in ipairs { "mean", "sum", "none" } do
  local o, t = { reduction = reduction, label_smoothing = 0.1, ignore_index = 1 }, whole { 0, 2, 1, 2 }
  check("weighted_cross_entropy", { x(4, 3), t, check.random({ 3 }, 0.5, 2) }, o)
  check("weighted_cross_entropy", { x(2, 3), check.random({ 2, 3 }, 0, 1), x(3) }, { reduction = reduction })
  check("nll", { x(4, 3), t, check.random({ 3 }, 0.5, 2) }, { reduction = reduction, ignore_index = 1 })
  check("bce", { check.random({ 4 }, 0.1, 0.9), check.random({ 4 }, 0, 1), x(4) }, { reduction = reduction })
  check("bce_with_logits", { x(4), check.random({ 4 }, 0, 1), x(4), x(4) }, { reduction = reduction })
end

-- A size that elements say is known where a call computes at once, also by the tape.
local w = x(4)
w.requires_grad = true
op.bincount(whole { 0, 2, 2, 1 }, w):square():sum():backward()
local sums = op.bincount(whole { 0, 2, 2, 1 }, w:detach())
(w.grad - sums:take(whole { 0, 2, 2, 1 }) * 2):abs():max():item() --> 0
w.grad = nil
op.repeat_interleave(w, whole { 3, 0, 1, 2 }):sum():backward()
w.grad --> [3. 0. 1. 2.]
--> f64[4]
