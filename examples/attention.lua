-- The attention of the introduction, written with elementary operators, beside the
-- attention operator.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local function attention(Q, K, V)
  local A = op.softmax(op.matmul(Q, K:T()))
  return op.matmul(A, V)
end

rng.seed(1)
local Q, K, V = rng.normal { 8, 128, 64 }, rng.normal { 8, 128, 64 }, rng.normal { 8, 128, 64 }
local scale = 1 / math.sqrt(64)
local plain = attention(Q * scale, K, V)
local fused = op.attention(Q, K, V)
local difference = (plain - fused):abs():max():item()
print("attention of 8 heads, 128 positions, width 64")
print("largest difference of the two ways: " .. difference)
assert(difference < 1e-5)
return { fused }
