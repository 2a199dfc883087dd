-- sort, argsort, topk, median, quantile, unique, histogram
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local nan, inf = 0 / 0, math.huge
local function list(x)
  local t = {}
  for i, v in ipairs(x:flatten():totable()) do t[i] = v ~= v and "nan" or tostring(v) end
  return table.concat(t, " ")
end
local T = tessera.tensor

local x = T({3., nan, -inf, 1, inf, -1, nan, 1})
list((op.sort(x))) --> -inf -1 1 1 3 inf nan nan
list(op.argsort(x)) --> 2 5 3 7 0 4 1 6
list(op.argsort(x, {descending = true})) --> 1 6 4 0 3 7 5 2
list((op.topk(x, 3))) --> nan nan inf
list((select(2, op.topk(x, 3, {largest = false})))) --> 2 5 3
op.topk(x, 9) --! k = 9 of 8 elements on axis 0
list(op.argsort(T({0., -0.0, 0., -0.0}))) --> 0 1 2 3

-- every type, along every axis
local y = T({{3, 1, 2}, {1, 5, 0}})
local types = "i8 u8 i16 i32 i64 f16 bf16 f32 f64 fp8_e4m3 fp8_e5m2"
for d in types:gmatch("%S+") do
  assert(list((op.sort(y:cast(d)))) == "1 2 3 0 1 5", d)
  assert(list(op.argsort(y:cast(d), 0)) == "1 0 1 0 1 0", d)
  assert(list((op.sort(y:cast(d):T(), 0))) == "1 0 2 1 3 5", d)
end
list((op.sort(T({true, false, true})))) --> false true true
op.sort(op.zeros({})):item() --> 0
op.sort(op.zeros({0, 3})).numel --> 0
op.sort(op.zeros({2}, {dtype = "complex64"})) --! takes floats, integers, bool

-- long rows, by all threads: a permutation and its inverse
local p = rng.permutation(150000, {seed = 1})
local s, i = op.sort(p)
assert(s:hash() == op.arange(150000):hash())
assert(op.take(p, i):hash() == s:hash())
local v = rng.normal({150000}, {seed = 1})
local sv, iv = op.sort(v)
assert(op.take(v, iv):hash() == sv:hash())
assert(op.all(sv:narrow(0, 1, 149999):ge(sv:narrow(0, 0, 149999))):item())
for _, k in ipairs{1, 32, 33, 1000, 150000} do
  local value, at = op.topk(v, k, {largest = false})
  assert(value:hash() == sv:narrow(0, 0, k):hash())
  assert(at:hash() == iv:narrow(0, 0, k):hash())
end

op.median(T({1., 2, 4, 3})):item() --> 2.5
op.median(T({5, 1, 3})):item() --> 3
op.median(T({1., nan, 2})):item() ~= 0 --> true
list(op.median(y, 0)) --> 2 3 1
op.median(y, {axis = 1, keepdims = true}).shape[2] --> 1
op.median(op.zeros({0})) --! of no elements
op.quantile(T({1., 2, 3, 4}), 0.5):item() --> 2.5
op.quantile(T({1., 2, 3, 4}), 1):item() --> 4
list(op.quantile(y, 0.25, {axis = 1})) --> 1.5 0.5
op.quantile(y, 1.5) --! q = 1.5 is not in 0..1
op.quantile(T({-inf, inf, inf}), 0.75):item() --> inf

local u, inverse, count = op.unique(x)
list(u) --> -inf -1 1 3 inf nan
list(inverse) --> 3 5 0 2 4 1 5 2
list(count) --> 1 1 2 1 1 2
select(2, op.unique(y)).shape[2] --> 3
op.unique(op.zeros({0})).numel --> 0

local h, edges = op.histogram(T({1., 2, 2, 4}), 3)
list(h) --> 1 2 1
list(edges) --> 1 2 3 4
list((op.histogram(T({1., 2, nan, 4, -9}), {bins = 2, low = 0, high = 4}))) --> 1 2
list((op.histogram(T({1, 1, 1}), 2))) --> 0 3
op.histogram(T({1., nan})) --! not finite
op.histogram(T({1.}), {low = 2, high = 1}) --! no interval from 2 to 1
op.histogram(op.zeros({0})):sum():item() --> 0
op.histogram(T({1.}), 0) --! 0 bins
