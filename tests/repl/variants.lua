-- Calls of one row that mean another, as their arguments say: with places, with limits that are
-- tensors, with several q, with counts.
local tessera = require "tessera"
local graph = require "tessera.graph"
local core = require "tessera.core"
local op, tensor = tessera.op, tessera.tensor

local x = tensor { { 3, 1, 2 }, { 5, 4, 6 } }
local function whole(list) return tensor(list, { dtype = "i64" }) end
local function same(a, b) return core.is_tensor(a) and core.type_text(a) .. a:hash() == core.type_text(b) .. b:hash() end
local function both(f, g)
  local a, b = { f(x) }, { g(x) }
  local captured = { graph.module("f", f)(x) }
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same(a[i], b[i]) or not same(captured[i], b[i]) then return false end
  end
  return true
end

both(function(t) return t:max { axis = 1, indices = true } end, function(t) return op.max_indices(t, 1) end) --> true
both(function(t) return op.min { t, indices = true } end, function(t) return op.min_indices(t) end) --> true
both(function(t) return op.median(t, -1, { indices = true }) end, function(t) return op.median_indices(t, -1) end) --> true
both(function(t) return t:max { axis = 1, indices = false } end, function(t) return t:max(1) end) --> true
x:max { indices = true } --> 6. f32[], 5 i64[]
x:sum { indices = true } --! unknown option 'indices'
x:argmax { indices = true } --! unknown option 'indices'

local lo, hi = tensor { 1, 2, 3 }, tensor { { 2 }, { 5 } }
local clip = op.clip
for _, way in ipairs {
  { function(t) return t:clamp(lo, hi) end, function(t) return clip(t, lo, hi) end },
  { function(t) return t:clamp(lo) end, function(t) return clip(t, lo) end },
  { function(t) return t:clamp(nil, hi) end, function(t) return clip(t, nil, hi) end },
  { function(t) return op.clamp { t, max = hi } end, function(t) return clip(t, nil, hi) end },
  { function(t) return t:clamp(2, hi) end, function(t) return clip(t, tensor(2), hi) end },
  { function(t) return t:clamp(lo, 4) end, function(t) return clip(t, lo, tensor(4)) end },
  { function(t) return t:clamp { min = lo, max = 4 } end, function(t) return clip(t, lo, tensor(4)) end },
  { function(t) return t:clamp(2, 4) end, function(t) return clip(t, { min = 2, max = 4 }) end },
} do
  both(way[1], way[2]) --> true
end
x:clamp(lo, hi, hi) --! too many tensors
x:clamp(2, hi, { min = lo }) --! two values
x:clamp(lo, { min = 2 }) --! two values
x:clamp { min = "a" } --! option 'min' must be a number
x:sum { axis = lo } --! option 'axis' must be

both(function(t) return t:quantile { 0.1, 0.5 } end, function(t) return op.quantiles(t, { 0.1, 0.5 }) end) --> true
both(function(t) return t:quantile { q = { 0.1, 0.5 }, axis = 0 } end, function(t) return op.quantiles(t, { 0.1, 0.5 }, 0) end) --> true
local lower = { method = "lower" }
both(function(t) return t:quantile(0.5, 1, lower) end, function(t) return op.quantiles(t, { 0.5 }, 1, lower) end) --> true
x:quantile(0.5, { method = "median" }) --! cannot be 'median'
x:quantile { 0.5, 1.5 } --! q = 1.5 is not in 0..1

local counts, size = whole { 2, 1 }, { size = 3 }
both(function(t) return t:repeat_interleave(counts, 0, size) end, function(t) return op.repeat_counts(t, counts, 0, size) end) --> true
both(function(t) return op.repeat_interleave { t, count = 2, axis = 1 } end, function(t) return t:repeat_interleave(2, 1) end) --> true
x:repeat_interleave(whole { 2, 0, 1 }, 1) --> [[3. 3. 2.]
-->  [5. 5. 6.]]
--> f32[2,3]

both(function(t) return t:div(2, { rounding_mode = "floor" }) end, function(t) return t:floordiv(2) end) --> true
both(function(t) return op.div { t, -t, rounding_mode = "trunc" } end, function(t) return t:truncdiv(-t) end) --> true
x:div(2, { rounding_mode = "up" }) --! rounding_mode

local t, w = whole { 2, 0 }, tensor { 1, 2, 3 }
both(function(v) return op.cross_entropy(v, t, w) end, function(v) return op.weighted_cross_entropy(v, t, w) end) --> true
both(function(v) return op.cross_entropy(v, t, { weight = w }) end, function(v) return op.weighted_cross_entropy(v, t, w) end) --> true
op.weighted_cross_entropy(x, whole { 2, 3 }, w) --! 3
op.weighted_cross_entropy(x, whole { 2, -1 }, w) --! index
op.weighted_cross_entropy(x, whole { 2 }, w) --! targets are whole numbers
op.weighted_cross_entropy(x, t, tensor { 1 }) --! one weight for each class
op.weighted_cross_entropy(x, x, x) --! one weight for each class
op.nll(x, t:cast "f32") --! targets are whole numbers

x:masked_fill(x:gt(2), tensor(7)) --> [[7. 1. 2.]
-->  [7. 7. 7.]]
--> f32[2,3]
x:masked_fill(x:gt(2), 7) --> [[7. 1. 2.]
-->  [7. 7. 7.]]
--> f32[2,3]
whole { 1, 2 }:masked_fill(tensor { true, false }, tensor(0.5)) --! a value of f32 in i64

-- ---- errors of the rows
op.kthvalue(x, 4) --! k = 4 of 3 elements
op.kthvalue(x, 0) --! k = 0
op.kthvalue(x, 1, 2) --! axis 2 is out of range
op.median_indices(op.zeros { 2, 0 }, 1) --! of no elements
op.quantiles(op.zeros { 0 }, { 0.5 }) --! of no elements
op.diag(op.zeros { 1, 2, 3 }) --! a vector or a matrix
op.diagonal(op.zeros { 3 }) --! at least 2 axes
op.diagonal(x, 0, 1, -1) --! axis 1 is named twice
op.trace(op.zeros { 3 }) --! at least 2 axes
op.meshgrid(x) --! vectors are needed
op.pixel_shuffle(op.zeros { 3, 2, 2 }, 2) --! factor^2 does not divide the channels
op.pixel_unshuffle(op.zeros { 1, 3, 2 }, 2) --! factor does not divide
op.pixel_shuffle(op.zeros { 4, 2, 2 }, 0) --! factor = 0
op.cross(x, op.zeros { 2, 2 }) --! three elements
op.tensordot(x, op.zeros { 2, 2 }) --! sizes of summed axes differ
op.tensordot(x, x, { left = { 0, 0 }, right = { 0, 1 } }) --! axis 0 is named twice
op.tensordot(x, x, { left = { 0 } }) --! left and right
op.tensordot(x, x, 3) --! fewer axes
op.cdist(x, op.zeros { 2, 2 }) --! points differ in size
op.cdist(x, x, { p = -1 }) --! p = -1
op.searchsorted(x, op.zeros { 3, 3 }) --! one sorted row is needed
op.bincount(whole { 1, -1 }) --! -1 is below 0
op.bincount(whole { 1, 5 }, { length = 3 }) --! 5
op.bincount(whole { 1, -1 }, { length = 3 }) --! index
op.bincount(whole { 1, 5 }, op.zeros { 3 }) --! weights differ in shape
op.bincount(x) --! whole numbers are needed, not f32[2,3]
op.repeat_counts(x, whole { 1, 2 }, 1) --! one whole count for each of 3 elements
op.repeat_counts(x, whole { 1, -2 }, 0) --! -2 repetitions
op.prelu(x, op.zeros { 2 }) --! one weight is needed
op.celu(x, { alpha = 0 }) --! alpha
op.softplus(x, { beta = 0 }) --! beta
op.diff(x, { n = -1 }) --! n = -1
op.unbind(tensor(1)) --! axis 0 is out of range

op.exponential({ 2 }, { rate = 0 }) --! rate = 0
op.exponential({ 2 }, { dtype = "i64" }) --! makes floats
op.multinomial(lo, 4) --! multinomial: count = 4 is more than the 3 classes of f32[3], each of which is drawn once
op.slogdet(x) --! must be square
op.matrix_exp(x) --! must be square
op.lstsq(x, tensor { 1, 2, 3 }) --! rows of a and of b differ
op.grid_sample(x, x) --! x [N, C, H, W]
op.im2col(x, 2) --! x [.., C, H, W]
op.im2col(op.zeros { 1, 3, 3 }, { window = { 1, 2, 3 } }) --! window is one number or two
op.im2col(op.zeros { 1, 3, 3 }, 4) --! im2col: size 4, step 1 on axis 1

-- Sizes that elements say cannot be captured unless they are named.
graph.module("f", function(t) return op.bincount(t) end)(whole { 1, 2 }) --! depends on data and cannot be captured
graph.module("f", function(t) return t:repeat_interleave(t) end)(whole { 1, 2 }) --! name it: {size = ..}
graph.module("f", function(t) return op.bincount(t, { length = 3 }) end)(whole { 1, 2 }) --> [0 1 1]
--> i64[3]

-- ---- views: no elements move
local cut = op.unbind(x)
cut:is_contiguous() --> true
x:narrow(1, 0, 2):diagonal():contiguous() --> [3. 4.]
--> f32[2]
local m = op.zeros { 3, 3 }
m:diagonal():copy_(tensor { 1, 2, 3 })
m --> [[1. 0. 0.]
-->  [0. 2. 0.]
-->  [0. 0. 3.]]
--> f32[3,3]

-- unbiased is correction = 1, in the help's first line too.
local sample = tessera.tensor { 1, 2, 4 }
sample:var { unbiased = true }:item() == sample:var { correction = 1 }:item() --> true
sample:std { unbiased = true, axis = 0 }:item() == sample:std { correction = 1 }:item() --> true
sample:var { unbiased = false }:hash() == sample:var():hash() --> true
sample:var { unbiased = 1 } --! var: option 'unbiased' must be a boolean, not number
sample:var { unbiased = true, correction = 1 } --! var: two values for option 'correction'
sample:sum { unbiased = true } --! sum: unknown option 'unbiased'
for _, row in ipairs(tessera.core.operators()) do
  if row.name == "var" or row.name == "std" then assert(row.help:sub(1, 80):find("unbiased = true", 1, true), row.help) end
end
