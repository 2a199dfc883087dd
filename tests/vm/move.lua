-- clone, cast, concat, stack, split, chunk, pad, roll, tile, repeat_interleave
local tessera = require "tessera"
local op = tessera.op
local function list(x)
  local t = {}
  for i, v in ipairs(x:flatten():totable()) do t[i] = tostring(v) end
  return table.concat(t, " ")
end
local x = op.arange(6):reshape(2, 3)

list(op.concat({x, x}, 1)) --> 0 1 2 0 1 2 3 4 5 3 4 5
list(op.concat{x, x:narrow(0, 1, 1)}) --> 0 1 2 3 4 5 3 4 5
op.concat({x, op.ones({2, 1})}, 1).dtype --> f32
list(op.concat({x:T(), x:T()}, 1)) --> 0 3 0 3 1 4 1 4 2 5 2 5
op.concat({x, op.ones({3, 1})}, 1) --! shapes do not fit: i64[2,3] x f32[3,1]
op.concat({x}, 2) --! axis 2 is out of range
op.concat({x, op.zeros({0, 3}, {dtype = "i64"})}).shape[1] --> 2
op.stack({x, x}, -1).shape[3] --> 2
list(op.stack({x[0], x[1]}, 1)) --> 0 3 1 4 2 5
op.stack{x, x:T()} --! shapes differ: i64[2,3] x i64[3,2]

local a, b = op.split(x, 2, 1)
list(a) --> 0 1 3 4
list(b) --> 2 5
select("#", op.split(op.arange(10), {1, 2, 7})) --> 3
op.split(op.arange(10), {1, 2}) --! sizes add up to 3, axis 0 of i64[10] has 10
op.split(op.arange(10), 0) --! pieces of 0 elements
select("#", op.chunk(op.arange(10), 4)) --> 4
list((select(4, op.chunk(op.arange(10), 4)))) --> 9
op.chunk(op.arange(4), 0) --! 0 chunks

list(op.pad(x, {1, 0})) --> 0 0 1 2 0 3 4 5
list(op.pad(x, {1, 1, 0, 1}, {value = 9})) --> 9 9 9 9 0 1 2 9 3 4 5 9 9 9 9 9
list(op.pad(x[0], {2, 2}, "reflect")) --> 2 1 0 1 2 1 0
list(op.pad(x[0], {2, 1}, "replicate")) --> 0 0 0 1 2 2
list(op.pad(x[0], {2, 1}, "circular")) --> 1 2 0 1 2 0
op.pad(x, {3, 0}, "reflect") --! 3 elements cannot come from axis 1
op.pad(x, {-1, 0}) --! -1 is negative
op.pad(x, {1}) --! 1 numbers for i64[2,3]
op.pad(op.zeros({2}, {dtype = "u8"}), {1, 1}, {value = 256}) --! does not fit into u8
op.pad(op.zeros({0, 2}), {1, 1, 0, 0}).shape[1] --> 2

list(op.roll(x, 1)) --> 5 0 1 2 3 4
list(op.roll(x, 1, 1)) --> 2 0 1 5 3 4
list(op.roll(x, {1, -1}, {0, 1})) --> 4 5 3 1 2 0
list(op.roll(x, {7, 7}, {1, 1})) --> 1 2 0 4 5 3
op.roll(x, {1, 2}, {0}) --! 2 shifts for 1 axes
op.roll(op.zeros({0}), 3).numel --> 0

list(op.tile(x, {1, 2})) --> 0 1 2 0 1 2 3 4 5 3 4 5
op.tile(x, {2, 1, 1}).shape[1] --> 2
op.tile(x, {0}).numel --> 0
list(op.repeat_interleave(x, 2, 1)) --> 0 0 1 1 2 2 3 3 4 4 5 5
list(op.repeat_interleave(x:T(), 2)) --> 0 0 3 3 1 1 4 4 2 2 5 5
op.repeat_interleave(x, -1) --! count -1 is negative

local y = x:clone()
y:copy_(op.zeros({2, 3}))
list(x) --> 0 1 2 3 4 5
list(tessera.tensor({1.9, -1.9, 300, 0 / 0}):cast("i8")) --> 1 -1 127 0
list(op.arange(3):cast("bool")) --> false true true
op.zeros({3, 32}):cast("mxfp4").nbytes --> 51
op.full({2, 32}, 1.5):cast("mxfp4"):cast("f32"):sum():item() --> 96
do -- blocks from and to elements that are apart
  local x = op.uniform({ 3, 1280 }, { seed = 1, stream = 0 })
  local apart = x[":, ::2"]
  local block = op.clone(apart):cast("mxfp4")
  apart:cast("mxfp4"):hash() == block:hash() --> true
  x:T():T():cast("mxfp4"):hash() == x:cast("mxfp4"):hash() --> true
  apart:copy_(block)
  op.clone(apart):hash() == block:cast("f32"):hash() --> true
end
op.zeros({3, 31}):cast("mxfp4") --! a multiple of 32 elements
op.zeros({32}, {dtype = "f16"}):cast("mxfp4") --! no conversion from f16 to mxfp4
op.zeros({32}):cast("mxfp4"):roll(1) --! mxfp4 is a storage format

list(op.masked_fill(x, x:gt(2), -1)) --> 0 1 2 -1 -1 -1
op.masked_fill(x, x:gt(2), 0.5) --! 0.5 does not fit into i64
op.masked_fill(x, x, 1) --! the mask must be bool
local h = op.ones({2}, {dtype = "f16"})
op.masked_fill(h, tessera.tensor({true, false}), -math.huge).dtype --> f16
