-- Products of bf16 in the profile "fast": kernels by the processor's instruction for pairs of steps, if
-- it has one, with the VM's bits, and what stands before and behind them.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local ways = require "_ways"
local op, rng, graph, jit = tessera.op, tessera.rng, tessera.graph, tessera.jit
rng.seed(11)
core.threads(2)
core.profile "fast"

local function tiers(name, f, interpreted, ...)
  f = graph.module("f", f)
  local way = ways.differs(f, interpreted, ...)
  return way and ("%s %s differs"):format(name, way), f
end

-- Ordinary numbers, and for some of them zeros, denormals, infinities and NaN.
local function matrix(odd, ...)
  local x = rng.normal { ... }
  if odd then
    local u = rng.uniform { ... }
    x = op.where(op.lt(u, 0.01), x * 1e-39, x)
    x = op.where(op.gt(u, 0.999), x * 1e39, x)
    x = op.where(op.logical_and(op.gt(u, 0.5), op.lt(u, 0.502)), x * 0, x)
  end
  return x:cast "bf16"
end
local function straight(x) return op.contiguous(x) end
local function turned(x) return op.transpose(op.contiguous(op.transpose(x, -2, -1)), -2, -1) end
local function part(x)
  local wide = op.concat({ x, x }, -1)
  return wide:narrow(-1, 0, x.shape[#x.shape])
end

local ends = {
  function(y) return y end,
  function(y, b) return op.relu(y + b) end,
  function(y, b, r) return op.gelu_erf(y + b) + r end,
  function(y, b, r) return (op.cast(y, "f32") * 2 + op.cast(r, "f32")), y end,
}
local begins = {
  function(x) return x end,
  function(x) return x * 2 + 1 end,
  function(x) return op.relu(x) end,
}
local wrong, count = {}, tonumber(os.getenv "PAIRS_COUNT" or 60)
for i = 1, count do
  local function size(most) return 1 + math.floor(rng.uniform({ 1 }):item() * most) end
  local m, n, k = 31 + size(90), 15 + size(120), 7 + size(i % 5 == 0 and 1500 or 200)
  while m * n * k < 270000 do k = k * 2 end
  if i % 6 == 0 then m, n, k = 64, 96, 64 * size(4) end
  local lead = i % 8 == 1 and { 3 } or i % 8 == 2 and { 1, 2 } or {}
  local function of(...)
    local dim = { unpack(lead) }
    for _, d in ipairs { ... } do dim[#dim + 1] = d end
    return dim
  end
  local way = { straight, turned, part }
  local odd = i % 4 == 0
  local x = way[size(3)](matrix(odd, unpack(of(m, k))))
  local w = way[size(3)](matrix(odd, unpack(i % 3 == 0 and of(k, n) or { k, n })))
  local b, r = matrix(odd, n), matrix(odd, unpack(of(m, n)))
  local before, behind = begins[size(#begins)], ends[size(#ends)]
  local name = ("%d: %dx%dx%d"):format(i, m, k, n)
  wrong[#wrong + 1] = tiers(name, function(x, w, b, r) return behind(before(x):matmul(w), b, r) end,
    i % 10 == 0, x, w, b, r)
end
table.concat(wrong, "; ") -->

-- Weights of few bits; words that a product has for itself.
local x, q, s = matrix(false, 96, 700), op.floor(rng.uniform { 700, 130 } * 100):cast "i8", matrix(false, 130)
local b, r = matrix(false, 130), matrix(false, 96, 130)
(tiers("dequantised", function(x, q, s) return x:matmul(op.cast(q, "bf16") * s) end, true, x, q, s)) --> nil
local w = matrix(false, 700, 130)
for _, words in ipairs { "bias_gelu_residual", "bias_relu", "residual_silu" } do
  local why = tiers(words, function(x, w, b, r)
    return op.matmul(x, w, words:find "bias" and b or nil, words:find "residual" and r or nil, { epilogue = words })
  end, true, x, w, b, r)
  if why then print(why) end
end

-- The kernel says by what it multiplies, down to the instruction.
local means = { amx_bf16 = "tdpbf16ps", avx512_bf16 = "vdpbf16ps" }
local _, f = tiers("whole", function(x, w, b, r) return op.gelu_erf(x:matmul(w) + b) + r end, false, x, w, b, r)
local unit = f:ir("tile"):match 'unit="([%w_]+)'
not unit or f:ir("asm"):find(means[unit]) ~= nil --> true
-- In another profile it is the chain of f32.
core.profile "deterministic"
_, f = tiers("default", function(x, w) return op.relu(x:matmul(w)) end, false, x, w)
f:ir("tile"):find "unit" --> nil
