-- gather, scatter, scatter_add, take, index_select, embedding, masks, segments
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local function list(x)
  local t = {}
  for i, v in ipairs(x:flatten():totable()) do t[i] = tostring(v) end
  return table.concat(t, " ")
end
local T = tessera.tensor
local function I(list) return T(list, {dtype = "i64"}) end
local x = op.arange(6):reshape(2, 3)

list(op.gather(x, I({{2, 0}, {-1, 1}}), 1)) --> 2 0 5 4
list(op.gather(x, I({{1, 0, 1}}), 0)) --> 3 1 5
list(op.gather(x:T(), I({{1, 0}}), 0)) --> 1 3
op.gather(x, I({{3}}), 1) --! index 3 is out of range for axis 1 of i64[2,3], of size 3
op.gather(x, I({{-4}}), 1) --! index -4 is out of range
op.gather(x, I({1}), 0) --! the index does not fit
op.gather(x, op.zeros({2, 1}), 1) --! the index must be integers, not f32
op.gather(x, op.zeros({2, 0}, {dtype = "i64"}), 1).numel --> 0

list(op.take(x, I({{5, 0}, {-1, 2}}))) --> 5 0 5 2
list(op.take(x:T(), I({1}))) --> 3
op.take(x, I({6})) --! index 6 is out of range for the 6 elements of i64[2,3]
list(op.index_select(x, I({1, 1, 0}))) --> 3 4 5 3 4 5 0 1 2
op.index_select(x, I({{0, 1}, {2, 0}}), 1).shape[3] --> 2
list(op.index_select(x, I({2, 0}), -1)) --> 2 0 5 3
op.index_select(x, op.zeros({}, {dtype = "i32"}), 0).ndim --> 1
list(op.embedding(x, I({1, 0}))) --> 3 4 5 0 1 2
op.embedding(x, I({2})) --! index 2 is out of range for axis 0
op.embedding(op.zeros({0, 3}), op.zeros({1}, {dtype = "i64"})) --! out of range

-- the last of equal indices wins, sums go in order
list(op.scatter(op.zeros({4}), I({1, 1, -1}), T({1., 2, 3}))) --> 0 2 0 3
list(op.scatter(x, I({{0}, {2}}), 9, 1)) --> 9 1 2 3 4 9
list(op.scatter(op.zeros({3, 2}), I({{0, 2}, {0, 1}}), T({{1., 2}, {3, 4}}), 0)) --> 3 0 0 4 0 2
list(op.scatter_add(op.ones({4}), I({1, 1, -1}), T({1., 2, 3}))) --> 1 4 1 4
local hundred = I({100, 100}):cast("i8")
list(op.scatter_add(x[0]:cast("i8"), I({1, 0}), hundred)) --> 100 101 2
op.scatter_add(op.zeros({1}, {dtype = "i8"}), I({0, 0}), hundred):item() --> -56
-- 2^24 + 1 + 1 in f32, one after the other, and in bf16 with one rounding at the end
op.scatter_add(op.full({1}, 2^24), I({0, 0}), op.ones({2})):item() --> 16777216
local b, one = op.full({1}, 256, {dtype = "bf16"}), op.ones({2}, {dtype = "bf16"})
op.scatter_add(b, I({0, 0}), one):item() --> 258
op.scatter(x, I({{0}}), op.ones({1, 1}), 1) --! the source's type does not fit: i64[2,3] x f32[1,1]
op.scatter(x, I({{0, 1}}), I({1, 2, 3}), 1) --! the source does not fit the index
op.scatter(x, I({{3}}), 1, 1) --! index 3 is out of range for axis 1

-- long rows are shared by parts of the destination
local ids, v = rng.randint({100000}, 0, 50, {seed = 1}), rng.normal({100000}, {seed = 2})
local sum = op.scatter_add(op.zeros({50}), ids, v)
local chain = op.zeros({50})
for _, part in ipairs{op.chunk(op.arange(100000), 10)} do -- the same chains, continued
  chain = op.scatter_add(chain, op.take(ids, part), op.take(v, part))
end
assert(sum:hash() == chain:hash())
local count = op.scatter_add(op.zeros({50}, {dtype = "i64"}), ids, op.ones_like(ids))
count:sum():item() --> 100000

list(op.masked_select(x, x:gt(1))) --> 2 3 4 5
list(op.masked_select(x:T(), T({true, false}))) --> 0 1 2
op.masked_select(x, x:lt(0)).numel --> 0
op.masked_select(x, x) --! the mask must be bool
op.masked_select(x, T({true, false})) --! the mask does not fit
list(op.nonzero(I({{0, 2}, {3, 0}}))) --> 0 1 1 0
op.nonzero(op.zeros({4})).shape[2] --> 1
op.nonzero(op.ones({})).shape[1] --> 1
op.nonzero(op.ones({3000})):sum():item() --> 4498500

local s = I({0, 2, 0})
list(op.segment_reduce(T({1., 2, 3}), s, 4)) --> 4 0 2 0
list(op.segment_reduce(T({1., 2, 3}), s, 4, "mean")) --> 2 0 2 0
list(op.segment_reduce(T({2., 2, 3}), s, 4, "prod")) --> 6 1 2 1
list(op.segment_reduce(T({1., 2, 3}), s, 4, "min")) --> 1 inf 2 inf
list(op.segment_reduce(I({1, 2, 3}):cast("i8"), s, 4, "max")) --> 3 -128 2 -128
list(op.segment_reduce(x, I({1, 1}), 2)) --> 0 0 0 3 5 7
op.segment_reduce(x, I({0, 2}), 2) --! id 2 is out of range for 2 segments
op.segment_reduce(x, I({0, -1}), 2) --! id -1 is out of range
op.segment_reduce(x, I({0}), 2) --! one id for each row
op.segment_reduce(x, I({0, 1}), 2, "mean") --! the mean of i64 is no integer

-- Writing into parts.
list(op.slice_update(T({1., 2, 3, 4}), 9, {3}, {0}, {-2})) --> 1 9 3 9
list(op.slice_add(T({1., 2, 3}), T({1., 1}), {1}, {3})) --> 1 3 4
op.slice_update(T({1., 2, 3}), T({1., 1, 1}), {1}, {3}) --! the source does not fit the slice
op.slice_add(I({1, 2}), T({0.5}), {0}, {1}) --! the source's type does not fit
op.slice_add(I({1, 2}), I({1}), {0, 0}, {1, 1}) --! slice_add: 2 ranges
list(op.masked_scatter(T({1., 2, 3}), T({true, false, true}), T({8., 9}))) --> 8 2 9
op.masked_scatter(T({1., 2}), T({true, true}), T({8.})) --! the mask has 2 true elements, the source 1
op.masked_scatter(T({1., 2}), T({1., 0}), T({8.})) --! the mask must be bool
list(op.index_add(T({1., 2, 3}), I({2, -1, 0}), T({1., 1, 5}))) --> 6 2 5
op.index_add(T({1., 2, 3}), I({0, 3}), T({1., 1})) --! index 3 is out of range
op.index_add(T({1., 2, 3}), I({0, 1}), T({1.})) --! the source does not fit
list(op.fold(op.ones({3, 2}), 0, 4)) --> 1 2 2 1
list(op.fold(op.ones({2, 2}), 0, 6, 3)) --> 1 1 0 1 1 0
op.fold(op.ones({3, 2}), 0, 5) --! windows
op.fold(op.ones({3}), 0, 3) --! has no axis of windows

-- Rows of a few small elements are copied whole, from wherever the first of them lies.
local inner = op.arange(9):cast("bf16"):slice({1}, {9}):reshape(2, 4)
list(op.index_select(inner, I({1, 0}))) --> 5 6 7 8 1 2 3 4
list(op.index_select(op.arange(9, {dtype = "f32"}):slice({1}, {9}):reshape(2, 4), I({1, 0}))) --> 5 6 7 8 1 2 3 4
