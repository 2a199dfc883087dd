-- Attention out of its parts: scales, masks, casts and heads in the order in which they are
-- written.
local tessera = require "tessera"
local op = tessera.op
local rules = dofile "tests/ir/rules/_rules.lua"
local ops = rules.ops
local function line(f, ...) return rules.line(f, "attention", ...) end
local S, T, D = 7, 7, 8
local function random(shape, i) return op.normal(shape, { seed = 3, stream = i }) end
local q, k, v = random({ 2, 3, S, D }, 1), random({ 2, 3, T, D }, 2), random({ 2, 3, T, D }, 3)
local bias = random({ S, T }, 4)
local seen = bias:gt(-1)

-- ---- scales
local function attend(mask, before)
  return function(q, k, v, m)
    local s = op.matmul(before and q * before or q, k:transpose(-2, -1))
    return op.matmul(op.softmax(mask and mask(s, m) or s), v)
  end
end
rules.check("softmax_attention", attend(), function(q, k, v) local p = op.softmax(op.matmul(q, k:transpose(-2, -1))) return op.matmul(p, v), p end, q, k, v) --> ok
line(attend(), q, k, v) --> attention %q, %k, %v {scale=1} : f32[2,3,7,8]
line(attend(function(s) return s / 4 end), q, k, v) --> attention %q, %k, %v {scale=0.25} : f32[2,3,7,8]
line(attend(function(s) return 0.5 * s end, 0.5), q, k, v) --> attention %q, %k, %v {scale=0.25} : f32[2,3,7,8]
line(function(q, k, v) return op.matmul(op.softmax(op.matmul(q, (k * 0.25):transpose(-2, -1))), v) end, q, k, v) --> attention %q, %k, %v {scale=0.25} : f32[2,3,7,8]
line(function(q, k, v) return op.matmul(op.softmax(op.matmul(q, k:permute(0, 1, 3, 2))), v) end, q, k, v) --> attention %q, %k, %v {scale=1} : f32[2,3,7,8]
-- Not attention: scores that something else reads, another axis, an infinite scale.
ops(function(q, k, v) local s = op.matmul(q, k:transpose(-2, -1)) return op.matmul(op.softmax(s), v), s end, q, k, v) --> transpose matmul softmax matmul
ops(function(q, k, v) return op.matmul(op.softmax(op.matmul(q, k:transpose(-2, -1)), { axis = -2 }), v) end, q, k, v) --> transpose matmul softmax matmul
ops(attend(function(s) return s * (1 / 0) end), q, k, v) --> transpose matmul mul softmax matmul
ops(attend(function(s) return op.relu(s) end), q, k, v) --> transpose matmul softmax matmul
local function by_hand(q, k, v)
  local e = op.exp(op.matmul(q, k:transpose(-2, -1)))
  return op.matmul(e / e:sum { axis = -1, keepdims = true }, v)
end
rules.fast.line(by_hand, "attention", q, k, v) --> attention %q, %k, %v {scale=1} : f32[2,3,7,8]
rules.fast.ops(tessera.graph.grad(function(q, k, v) return by_hand(q, k, v):sum() end, { 1, 2, 3 }).body, q, k, v) --> attention ones broadcast_to attention_grad

-- ---- masks
line(attend(function(s, m) return s * 0.5 + m end), q, k, v, bias) --> attention %q, %k, %v, %m {scale=0.5} : f32[2,3,7,8]
line(attend(function(s, m) return m + s end), q, k, v, random({ 2, 3, S, T }, 5)) --> attention %q, %k, %v, %m {scale=1} : f32[2,3,7,8]
line(attend(function(s, m) return m + s end), q, k, v, random({ T }, 5)) --> attention %q, %k, %v, %m {scale=1} : f32[2,3,7,8]
ops(attend(function(s, m) return (s + m) * 0.5 end), q, k, v, bias) --> transpose matmul add mul softmax matmul
line(attend(function(s, m) return op.where(m, s, -1 / 0) end), q, k, v, seen) --> attention %q, %k, %v, %m {scale=1} : f32[2,3,7,8]
rules.fast.ops(attend(function(s, m) return s:masked_fill(m, -1 / 0) end), q, k, v, seen) --> logical_not attention
-- Rows that see nothing are NaN, as they were.
ops(attend(function(s, m) return s:masked_fill(m, -1 / 0) end), q, k, v, seen) --> logical_not attention any full full where mul
-- A large number hides as well; where a row may be hidden as a whole it must be so large
-- that it swallows the scores.
ops(attend(function(s, m) return op.where(m, s, -3e38) end), q, k, v, seen) --> full where attention
ops(attend(function(s, m) return op.where(m, s, -1e9) end), q, k, v, seen) --> transpose matmul where softmax matmul
ops(attend(function(s, m) return op.where(m, s, 0) end), q, k, v, seen) --> transpose matmul where softmax matmul
-- A mask that makes the scores larger than they were.
ops(function(q, k, v, m) return op.matmul(op.softmax(op.matmul(q, k:transpose(-2, -1)) + m), v) end, q[0][0], k[0][0], v[0][0], random({ 2, S, T }, 5)):find "attention" --> nil

-- ---- causal masks, known by their form
local low = -1 / 0
local function triangle(n, m, d) return op.tril(op.ones({ n, m }), { diagonal = d or 0 }) end
local function above(x) return op.triu(x, { diagonal = 1 }) end
local causal = "attention %q, %k, %v {causal=true scale=1} : f32[2,3,7,8]"
local written = {
  where_tril = function(s) return op.where(triangle(S, T):ne(0), s, low) end,
  fill_eq = function(s) return s:masked_fill(triangle(S, T):eq(0), low) end,
  fill_triu = function(s) return s:masked_fill(above(op.ones({ S, T })):cast "bool", low) end,
  far = function(s) return s:masked_fill(above(op.ones({ S, T }, { dtype = "bool" })), -1e9) end,
  add_triu = function(s) return s + above(op.full({ S, T }, low)) end,
  add_far = function(s) return s + (1 - triangle(S, T)) * -1e10 end,
  add_where = function(s) return s + op.where(triangle(S, T):gt(0), op.zeros({ S, T }), low) end,
  four_axes = function(s) return s + above(op.full({ S, T }, low)):reshape(1, 1, S, T) end,
  positions = function(s) return op.where(op.arange(T):le(op.arange(S):unsqueeze(1)), s, low) end,
  reverse = function(s) return op.where(op.arange(S):reshape(S, 1):lt(op.arange(T):unsqueeze(0)), low, s) end,
  distance = function(s) return op.where((op.arange(T) - op.arange(S):unsqueeze(1)):gt(0), low, s) end,
  offset = function(s) return op.where((op.arange(S) + 1):unsqueeze(1):gt(op.arange(T)), s, low) end,
  transposed = function(s) return op.where(op.triu(op.ones({ T, S })):transpose(0, 1):ne(0), s, low) end,
  negated = function(s) return op.where(op.logical_not(above(op.ones({ S, T })):gt(0.5)), s, low) end,
}
local wrong = {}
for name, mask in pairs(written) do
  local got = line(attend(mask), q, k, v)
  if got ~= causal then wrong[#wrong + 1] = name .. ": " .. tostring(got) end
  local why = rules.inaccurate(attend(mask), q, k, v)
  if why then wrong[#wrong + 1] = name .. ": " .. why end
end
table.concat(wrong, "\n") -->
-- Fewer queries than keys: the last query sees all of them.
local tail = q:narrow(2, 0, 4)
line(attend(function(s) return op.where(triangle(4, T, 3):ne(0), s, low) end), tail, k, v) --> attention %q, %k, %v {causal=true scale=1} : f32[2,3,4,8]
rules.inaccurate(attend(function(s) return op.where(triangle(4, T, 3):ne(0), s, low) end), tail, k, v) --> nil
-- Other triangles are masks like others, and are not hidden by small numbers.
ops(attend(function(s) return op.where(triangle(4, T):ne(0), s, low) end), tail, k, v) --> ones tril ne attention
ops(attend(function(s) return op.where(triangle(S, T, -1):ne(0), s, low) end), q, k, v) --> ones tril ne attention any full full where mul
ops(attend(function(s) return op.where(triangle(S, T, 1):ne(0), s, low) end), q, k, v) --> ones tril ne attention
ops(attend(function(s) return op.where(op.arange(T):le(2 * op.arange(S):unsqueeze(1)), s, low) end), q, k, v):match "attention" --> attention
line(attend(function(s) return op.where(op.arange(T):le(2 * op.arange(S):unsqueeze(1)), s, low) end), q, k, v):match "causal" --> nil
line(attend(function(s) return s + op.tril(op.full({ S, T }, low)) end), q, k, v):match "causal" --> nil
ops(attend(function(s) return op.where(triangle(S, T):ne(0), s, -10) end), q, k, v):find "attention" --> nil
line(attend(function(s) return s + above(op.full({ S, T }, -10)) end), q, k, v):match "causal" --> nil
-- Causal and another mask.
line(attend(function(s, m) return op.where(triangle(S, T):ne(0), s * 0.5 + m, low) end), q, k, v, bias) --> attention %q, %k, %v, %m {causal=true scale=0.5} : f32[2,3,7,8]
rules.check("attention_causal", function(q, k, v) return op.attention(q, k, v, triangle(S, T):ne(0)) end, function(q, k, v) return op.attention(q, k, v, triangle(S, T, 1):ne(0)) end, q, k, v) --> ok

-- ---- ranks, heads, types
line(attend(), q[0][0], k[0][0], v[0][0]) --> attention %q, %k, %v {scale=1} : f32[7,8]
line(attend(), q[0], k[0], v[0]) --> attention %q, %k, %v {scale=1} : f32[3,7,8]
line(attend(), q, k, v:narrow(3, 0, 5)) --> attention %q, %k, %v {scale=1} : f32[2,3,7,5]
ops(attend(), q, k[0][0], v[0]) --> broadcast_to broadcast_to attention
rules.inaccurate(attend(), q, k[0][0], v[0]) --> nil
local function letters(q, k, v)
  local p = op.softmax(op.einsum("bqhd,bkhd->bhqk", q, k) * 0.5)
  return op.einsum("bhqk,bkhd->bqhd", p, v)
end
local function turned(x) return op.clone(x:permute(0, 2, 1, 3)) end
ops(letters, turned(q), turned(k), turned(v)):match "attention" --> attention
rules.inaccurate(letters, turned(q), turned(k), turned(v)) --> nil
local function wide(q, k, v)
  return op.matmul(op.softmax(op.matmul(q, k:transpose(-2, -1)):cast "f32" * 0.5):cast "bf16", v)
end
line(wide, q:cast "bf16", k:cast "bf16", v:cast "bf16") --> attention %q, %k, %v {scale=0.5} : bf16[2,3,7,8]
rules.inaccurate(wide, q:cast "bf16", k:cast "bf16", v:cast "bf16") --> nil
line(attend(), q:cast "f64", k:cast "f64", v:cast "f64") --> attention %q, %k, %v {scale=1} : f64[2,3,7,8]
ops(attend(), q, k, v:cast "f64"):find "attention" --> nil

-- ---- many masks at once give what they gave
rules.inaccurate(attend(function(s, m) return op.where(m, s, -3e38) end), q, k, v, op.zeros { S, T }:gt(0)) --> nil
rules.inaccurate(attend(function(s, m) return op.where(m, s, low) end), q, k, v, triangle(S, T, 2):ne(0)) --> nil
