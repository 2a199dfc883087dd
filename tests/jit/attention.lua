-- Attention in captured functions: the compiled kernel, which writes its result as the projection
-- behind it reads it, against the operator and the copy, by hash.
local tessera = require "tessera"
local op, jit = tessera.op, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end
jit.eager(true)

local stream = 0
local function normal(shape, dtype)
  stream = stream + 1
  return op.cast(op.normal(shape, { seed = 7, stream = stream }), { dtype = dtype })
end

local different, modules = {}, {}
local function check(s, t, heads, kv, d, dtype, options)
  local q = normal({ 2, s, heads, d }, dtype):transpose(1, 2)
  local k, v = normal({ 2, kv, t, d }, dtype), normal({ 2, t, kv, d }, dtype):transpose(1, 2)
  local function attend(q, k, v)
    local y = op.attention(q, k, v, options):permute(0, 2, 1, 3):reshape { 2, s, heads * d }
    return y, y * 2 + 1
  end
  local module = tessera.graph.module("attend", attend)
  modules[#modules + 1] = module
  local y, z = module(q, k, v)
  local want, more = attend(q, k, v)
  if y:hash() ~= want:hash() or z:hash() ~= more:hash() then
    different[#different + 1] = ("%d %d %d/%d %d %s"):format(s, t, heads, kv, d, dtype)
  end
end

-- How the schedule says that the result lies as its reader wants it.
local function turned(f) return f:ir("schedule"):match("attention.- transposed ") ~= nil end

check(128, 128, 4, 4, 32, "f32", { causal = true })
check(200, 200, 4, 2, 40, "f32", { causal = true })
check(33, 140, 2, 1, 16, "bf16", { causal = true, window = 50 })
check(70, 130, 2, 2, 24, "f64", {})
#different --> 0
turned(modules[1]) --> true

-- A result that is also read as it is keeps its order, and so does a result of the function.
local q = normal({ 1, 2, 40, 16 }, "f32")
local function both(q)
  local y = op.attention(q, q, q)
  return y, y:transpose(1, 2):reshape { 40, 32 }
end
local module = tessera.graph.module("both", both)
local a, b = module(q)
turned(module) --> false
local c, d = both(q)
a:hash() == c:hash() and b:hash() == d:hash() --> true

-- In training the gradient reads result and gradient where they lie.
local w = normal({ 32, 32 }, "f32")
local function trained(q, k, v)
  local y = op.attention(q, k, v, { causal = true }):transpose(1, 2):reshape { 40, 32 }
  return (op.matmul(y, w) * y):sum()
end
local qkv = { normal({ 1, 2, 40, 16 }, "f32"), normal({ 1, 2, 40, 16 }, "f32"), normal({ 1, 2, 40, 16 }, "f32") }
local slope = tessera.graph.grad(trained, { 1, 2, 3 })
local function hashes(f)
  local t = { f(unpack(qkv)) }
  for i = 1, #t do t[i] = t[i]:hash() end
  return table.concat(t, " ")
end
jit.off()
local want = hashes(tessera.graph.module("slope", slope))
jit.on()
local step = tessera.graph.module("slope", slope)
hashes(step) == want --> true
hashes(step) == want --> true
turned(step) --> true

-- The operator in place of the kernel, whose readers expect its result turned; kernels are given
-- up like that where they turn out slower.
local core = require "tessera.core"
core.jit_returns(2)
hashes(step) == want --> true
step:ir "why":match "kernel of" ~= nil --> true
core.jit_returns(0)
