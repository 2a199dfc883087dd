-- What makes an operand of a product is part of its kernel where that pays, with the VM's bits:
-- shapes at the edges of tiles and blocks, several steps of k, batches, dtypes, dequantisation.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local ways = require "_ways"
local op, rng, graph, jit = tessera.op, tessera.rng, tessera.graph, tessera.jit
rng.seed(7)
core.threads(2)
-- Without a code generator or fused multiply-adds products are the VM's.
local absent = select(2, jit.status()) or core.isa() == "base"
if absent then print "skipped: nothing is compiled here, or without fused multiply-adds: kernels" end

-- Groups of kind matmul with rows before the product, and all groups.
local function groups(f)
  local fused, all = 0, 0
  for kind, names in f:ir("schedule"):gmatch "\n  (%l+) +([^\n]- space)" do
    all = all + 1
    if kind == "matmul" and names:find "," then fused = fused + 1 end
  end
  return fused, all
end

-- "one" if all tiers agree and the schedule is one group with rows before the product.
local function tiers(f, interpreted, ...)
  local way = ways.differs(f, interpreted, ...)
  if way then return way .. " differs\n" .. f:ir "schedule" end
  local fused, all = groups(f)
  return fused == 1 and all == 1 and "one" or ("%d of %d"):format(fused, all)
end

-- ---- chosen cases: each is one group
local function normal(dtype, ...) return rng.normal { ... }:cast(dtype) end
local function one(f, interpreted, ...)
  local got = tiers(graph.module("f", f), interpreted, ...)
  return absent and "one" or got
end
local wide, deep = normal("f32", 2115, 300), normal("f32", 300, 70)
local along, down, bias = normal("f32", 300), normal("f32", 2115, 1), normal("f32", 70)
one(function(x, w) return op.relu(x):matmul(w) end, false, wide, deep) --> one
local function affine(x, w, s, c) return (x * s + s - c):matmul(w) end
one(affine, false, wide, deep, along, down) --> one
-- Rows of a function: one block of columns.
local function gelu(x, w) return op.gelu_erf(x):matmul(w) end
one(gelu, false, wide, normal("f32", 300, 33)) --> one
-- What follows stays.
one(function(x, w, b) return op.tanh((x * 2):matmul(w) + b) end, false, wide, deep, bias) --> one
local function layer(x, w, b) return op.relu(op.relu(x):matmul(w) + b) end
one(layer, false, wide, deep, bias) --> one
-- Columns of B; both.
local function of_b(x, w) return x:matmul(op.relu(w)) end
local function of_both(x, w) return op.abs(x):matmul(op.relu(w)) end
one(of_b, true, normal("f32", 37, 65), normal("f32", 65, 131)) --> one
one(of_both, false, normal("f32", 515, 1500), normal("f32", 1500, 96)) --> one
-- A batch of A over one B is one tall matrix.
local function scaled(x, w, s) return (x * s):matmul(w) end
one(scaled, false, normal("f32", 4, 529, 300), deep, along) --> one
one(of_b, true, normal("f32", 2, 33, 100), normal("f32", 2, 100, 97)) --> one
-- A part of something wider.
one(scaled, false, wide:narrow(1, 3, 290), normal("f32", 290, 70), along:narrow(0, 9, 290)) --> one

-- ---- weights of few bits
local function weights(dtype, k, n) return op.floor(rng.uniform { k, n } * 100):cast(dtype) end
local function dequantised(x, q, s, z) return x:matmul((op.cast(q, x.dtype) - z) * s) end
for _, dtype in ipairs { "i8", "u8", "i16", "bf16", "f16" } do
  for _, s in ipairs { { 33, 65, 131 }, { 33, 513, 97 }, { 64, 1100, 160 }, { 67, 700, 515 } } do
    local m, k, n = unpack(s)
    local x, q = normal("f32", m, k), weights(dtype, k, n)
    local got = one(dequantised, k < 100, x, q, normal("f32", n), normal("f32", k, 1))
    if got ~= "one" then print(dtype, m, k, n, got) end
  end
end
local x, s = normal("f64", 35, 67), normal("f64", 131)
one(dequantised, true, x, weights("i8", 67, 131), s, s) --> one
-- Casts that round on their way are no cast.
local function truncated(x, w) return x:matmul(w:cast("i32"):cast "f32") end
one(truncated, true, normal("f32", 33, 40), weights("f32", 40, 200) / 7) --> one

-- ---- what is not joined
local function kinds(f, ...)
  local got = tiers(graph.module("f", f), false, ...)
  return absent and "0 of 2" or got
end
-- Others read it; it is a result; a view between changes the order.
kinds(function(x, w) local y = op.relu(x) return y:matmul(w), y end, wide, deep) --> 0 of 2
local function turned(x, w) return op.relu(x):transpose():matmul(w) end
kinds(turned, wide, normal("f32", 2115, 64)) --> 0 of 2
-- A function that would be computed for each block of columns.
kinds(gelu, wide, normal("f32", 300, 2000)) --> 0 of 2
-- Few rows are the VM's.
kinds(of_both, normal("f32", 5, 300), deep) --> 0 of 2

-- ---- random ones
local state = 12345
local function rnd(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end
local function pick(t) return t[rnd(#t) + 1] end
local sizes = { 32, 33, 37, 48, 53, 61, 64, 65, 67, 70, 96, 97, 128, 131, 192 }
local depths = { 8, 13, 31, 64, 67, 128, 257, 385, 513, 700 }
-- Of x, vectors along its rows and down its columns.
local makes = {
  function(x) return x end,
  function(x) return op.relu(x) end,
  function(x, s) return x * s + s end,
  function(x, s, c) return (x - c) * s end,
  function(x, s) return x * s:narrow(0, 0, 1) + 2 end,
  function(x) return op.where(op.gt(x, 0), x, x * 0.1) end,
  function(x, s) local y = op.abs(x) + s return y * y - y end,
  function(x, s) return (x * s):cast "bf16":cast(x.dtype) end,
  function(x) return x:cast "f64":cast(x.dtype) end,
  function(x, s) return (x * 20):cast "i32":clamp(nil, 5):cast(x.dtype) * s end,
}
local ends = {
  function(y) return y end,
  function(y, b) return op.relu(y + b) end,
  function(y, b) return op.tanh(y), y * 2 + b end,
}
local batches = {
  { {}, {} }, { {}, {} }, { { 3 }, { 3 } }, { { 3 }, {} }, { {}, { 2 } }, { { 2, 1 }, { 3 } },
}

local function shape(batch, ...)
  local s = { unpack(batch) }
  for i = 1, select("#", ...) do s[#s + 1] = select(i, ...) end
  return unpack(s)
end

local function differ(count)
  local fused = 0
  for i = 1, count do
    local m, n, k = pick(sizes), pick(sizes), pick(depths)
    local d = pick { "f32", "f32", "f64", "bf16", "f16" }
    while m * n * k < 262144 do k = k * 2 end
    local batch, of_a, of_b, finish = pick(batches), pick(makes), pick(makes), pick(ends)
    local f = graph.module("f", function(a, b, s, c, t, e, y)
      return finish(of_a(a, s, c):matmul(of_b(b, t, e)), y)
    end)
    local got = tiers(f, m * n * k < 300000 and i % 4 == 0, normal(d, shape(batch[1], m, k)),
      normal(d, shape(batch[2], k, n)), normal(d, k), normal(d, m, 1), normal(d, n),
      normal(d, k, 1), normal(d, n))
    if got:find "differs" then return ("%dx%dx%d %s: %s"):format(m, k, n, d, got) end
    fused = fused + (got:find "^[o1]" and 1 or 0)
  end
  return absent and "equal" or fused > count / 5 and "equal" or fused
end
differ(80) --> equal
local s = jit.stats()
s.refused --> 0
