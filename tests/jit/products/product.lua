-- Products in kernels have the VM's bits: random shapes at the edges of tiles and blocks,
-- layouts, batches, dtypes, epilogues and what is fused behind them.
local tessera = require "tessera"
local op, rng, graph, jit = tessera.op, tessera.rng, tessera.graph, tessera.jit
if not jit.status() then print "skipped: nothing is compiled here: kernels" end
rng.seed(7)
local state = 12345
local function rnd(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end
local function pick(t) return t[rnd(#t) + 1] end

local sizes = { 16, 17, 23, 31, 32, 33, 37, 48, 53, 61, 64, 65, 67, 70, 96, 97, 128, 131, 192 }
local deep = { 8, 9, 13, 16, 31, 64, 67, 128, 257, 384, 385, 512, 513, 700 }

-- A matrix or a batch of them, lying straight or turned.
local function matrix(batch, rows, cols, dtype, turned)
  local shape = { unpack(batch) }
  shape[#shape + 1] = turned and cols or rows
  shape[#shape + 1] = turned and rows or cols
  return rng.normal(shape):cast(dtype)
end
local function turn(x, turned) return turned and x:transpose(-1, -2) or x end

local ends = {
  plain = function(y) return y end,
  bias = function(y, c) return y + c end,
  relu = function(y, c) return op.relu(y + c) end,
  gelu = function(y, c, r) return op.gelu_erf(y + c) + r end,
  silu = function(y, c, r) return op.silu(y) * r end,
  two = function(y, c, r) return op.tanh(y), y * 2 + c end,
  cast = function(y, c, r) return (y - r):cast "bf16" end,
  rows = function(y, c, r) return op.where(op.gt(y, 0), y, r * 0.5) + r:narrow(-1, 0, 1) end,
}
local names = {}
for name in pairs(ends) do names[#names + 1] = name end
table.sort(names)

local function bits(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = select(i, ...):hash() end
  return table.concat(list, " ")
end

-- How many of `count` random products have other bits, and the first of them.
local function differ(count, batches)
  local bad, first, kernels = 0, "", 0
  for _ = 1, count do
    local m, n, k = pick(sizes), pick(sizes), pick(deep)
    local dtype = pick { "f32", "f32", "bf16", "f16", "f64" }
    while m * n * k < 262144 do k = k * 2 end
    local ba, bb, by = unpack(pick(batches))
    local ta, tb, name = rnd(2) == 1, rnd(2) == 1, pick(names)
    local a, b = matrix(ba, m, k, dtype, ta), matrix(bb, k, n, dtype, tb)
    local shape = { unpack(by) }
    shape[#shape + 1], shape[#shape + 2] = m, n
    local c, r = rng.normal { n }:cast(dtype), rng.normal(shape):cast(dtype)
    local f = graph.module("f", function(a, b, c, r)
      return ends[name](op.matmul(turn(a, ta), turn(b, tb)), c, r)
    end)
    jit.off()
    local want = bits(f(a, b, c, r))
    jit.on()
    jit.eager(true)
    f(a, b, c, r)
    local got = bits(f(a, b, c, r))
    jit.eager(false)
    if got ~= want then
      bad = bad + 1
      if bad == 1 then
        first = (" %dx%dx%d %s %s%s batch %d,%d %s"):format(m, k, n, dtype, ta and "T" or "N",
          tb and "T" or "N", #ba, #bb, name)
      end
    end
  end
  return bad .. first
end

local none = { { {}, {}, {} } }
differ(60, none) --> 0
local some = { { { 3 }, { 3 }, { 3 } }, { { 3 }, {}, { 3 } }, { {}, { 2 }, { 2 } },
  { { 2, 1 }, { 3 }, { 2, 3 } }, { { 2, 3 }, { 3 }, { 2, 3 } }, { { 2, 2 }, {}, { 2, 2 } } }
differ(40, some) --> 0
-- One column of 16-bit results at the edge: a store of two bytes, not of four.
local a, b = rng.normal { 23, 128 }, rng.normal { 128, 97 }
local narrow = graph.module("narrow", function(a, b) return op.matmul(a, b):cast "bf16" end)
jit.off()
local want = bits(narrow(a, b))
jit.on()
jit.eager(true)
local first = bits(narrow(a, b))
first == want and bits(narrow(a, b)) == want --> true
jit.eager(false)
-- They ran as kernels, if this program has a code generator.
local s = jit.stats()
s.refused --> 0
local _, absent = jit.status()
absent ~= nil or s.kernels > 0 --> true
