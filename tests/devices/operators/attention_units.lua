-- Gradients of attention by the matrix units of AMD's GPUs, on a simulated one: near the CPU's, the same for parts of a
-- batch, unharmed by what nobody sees, no registers spilled; and where they leave the unit alone, why.
local tessera = require "tessera"
local core, op, graph, rng, jit = tessera.core, tessera.op, tessera.graph, tessera.rng, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end
local ffi = require "ffi"
pcall(ffi.cdef, "int setenv(const char *, const char *, int);")
ffi.C.setenv("TESSERA_GPU", "gfx942", 0)
local target = os.getenv "TESSERA_GPU"
core.jit_later(false)
rng.seed(3)

local function random(shape, d) return op.cast(rng.normal(shape), d) end
local function sim(x) return x and x:to "sim" end
local function gradients(q, k, v, y, g, o, sink, mask)
  local before = core.jit_device()
  local out = { op.attention_grad(sim(q), sim(k), sim(v), sim(mask), sim(sink), sim(y), sim(g), o) }
  local after = core.jit_device()
  return out, after.fallback - before.fallback
end
-- Most of the differences, in parts of the largest number.
local function off(x, y)
  x, y = op.cast(x:to "cpu", "f32"), op.cast(y, "f32")
  return op.max(op.abs(x - y)):item() / op.max(op.abs(y)):item()
end

local fallbacks, worst, cut = 0, 0, 0
for _, case in ipairs {
  { "bf16", 64, 64, { 2, 70 }, { 1, 200 }, { causal = true } }, { "f16", 128, 128, { 2, 64 }, { 2, 130 } },
  { "bf16", 32, 96, { 4, 33 }, { 2, 50 }, { causal = true, window = 20 } }, { "f16", 64, 32, { 1, 1 }, { 1, 3 }, { scale = 0.3 } },
  { "bf16", 64, 64, { 1, 140 }, { 1, 140 }, { window = 30 } }, { "f16", 32, 32, { 1, 60 }, { 1, 20 }, { causal = true } },
  { "bf16", 128, 128, { 2, 100 }, { 1, 90 }, { causal = true, window = 40 } },
} do
  local d, size, dv, a, b, o = unpack(case, 1, 6)
  local q, k, v = random({ 2, a[1], a[2], size }, d), random({ 2, b[1], b[2], size }, d), random({ 2, b[1], b[2], dv }, d)
  local g, y = random({ 2, a[1], a[2], dv }, d), op.attention(q, k, v, nil, nil, o)
  local got, fell = gradients(q, k, v, y, g, o)
  local want = { op.attention_grad(q, k, v, nil, nil, y, g, o) }
  fallbacks = fallbacks + fell
  for i = 1, 3 do worst = math.max(worst, off(got[i], want[i]) * (d == "f16" and 8 or 1)) end
  -- the second of the batch alone
  local function last(x) return x["1:2"]:contiguous() end
  local alone = gradients(last(q), last(k), last(v), last(y), last(g), o)
  for i = 1, 3 do if alone[i]:hash() ~= last(got[i]:to "cpu"):hash() then cut = cut + 1 end end
end
fallbacks --> 0
worst < 2 ^ -6 --> true
cut --> 0

-- With a mask, as bool and added, of all its axes and of some; a sink; slopes of all scores; parts of the batch.
fallbacks, worst, cut = 0, 0, 0
for _, case in ipairs {
  { "bf16", 64, 64, { 2, 70 }, { 1, 200 }, { 1, 1, 70, 200 }, true, nil, "bf16" },
  { "bf16", 64, 64, { 2, 70 }, { 1, 200 }, { 2, 2, 70, 200 }, false, { causal = true, scores = true }, "f32" },
  { "f16", 128, 96, { 2, 33 }, { 2, 50 }, { 2, 1, 1, 50 }, false },
  { "f16", 32, 32, { 2, 140 }, { 1, 150 }, { 140, 1 }, true, { window = 9, scores = true } },
  { "bf16", 128, 128, { 1, 64 }, { 1, 64 }, { 1, 64, 64 }, false, { window = 20 } },
  { "f16", 64, 128, { 4, 300 }, { 2, 300 }, nil, false, { causal = true, window = 40 }, "f16" },
} do
  local d, size, dv, a, b, shape, seen, o, sinks = unpack(case, 1, 9)
  local q, k, v = random({ 2, a[1], a[2], size }, d), random({ 2, b[1], b[2], size }, d), random({ 2, b[1], b[2], dv }, d)
  local mask = seen and op.gt(rng.normal(shape), -0.5) or shape and random(shape, d) or nil
  local sink = sinks and random({ a[1] }, sinks)
  local y = op.attention(q, k, v, mask, sink, o and { causal = o.causal, window = o.window })
  local g = random({ 2, a[1], a[2], dv }, d)
  local got, fell = gradients(q, k, v, y, g, o, sink, mask)
  local want = { op.attention_grad(q, k, v, mask, sink, y, g, o) }
  fallbacks = fallbacks + fell
  for i = 1, #want do worst = math.max(worst, off(got[i], want[i]) * (d == "f16" and 8 or 1)) end
  local function last(x) return x["1:2"]:contiguous() end
  local alone = gradients(last(q), last(k), last(v), last(y), last(g), o, sink, shape and shape[1] == 2 and last(mask) or mask)
  for i = 1, #want - (sink and 1 or 0) do if alone[i]:hash() ~= last(got[i]:to "cpu"):hash() then cut = cut + 1 end end
end
fallbacks --> 0
worst < 2 ^ -6 --> true
cut --> 0

-- The mask as it lies: turned, and a part of a larger one.
do
  local q, k = random({ 1, 2, 70, 64 }, "bf16"), random({ 1, 2, 90, 64 }, "bf16")
  local y, whole = random({ 1, 2, 70, 64 }, "bf16"), random({ 1, 1, 100, 80 }, "bf16"):to "sim"
  local view = whole:transpose(2, 3)[":, :, 5:75, 10:100"]
  local f = graph.module("viewed", function(a, b, m, c) return op.attention_grad(a, b, b, m:transpose(2, 3)[":, :, 5:75, 10:100"], nil, c, c) end)
  local want, same = { op.attention_grad(sim(q), sim(k), sim(k), view:contiguous(), nil, sim(y), sim(y)) }, 0
  for _, got in ipairs { { op.attention_grad(sim(q), sim(k), sim(k), view, nil, sim(y), sim(y)) }, { f(sim(q), sim(k), whole, sim(y)) } } do
    for i = 1, 3 do if got[i]:hash() == want[i]:hash() then same = same + 1 end end
  end
  same --> 6
end

-- A NaN in blocks that queries do not see changes none of their gradients.
do
  local q, k, g = random({ 1, 1, 128, 64 }, "bf16"), random({ 1, 1, 128, 64 }, "bf16"), random({ 1, 1, 128, 64 }, "bf16")
  local o = { causal = true }
  local y = op.attention(q, k, k, nil, nil, o)
  local clean = gradients(q, k, k, y, g, o)
  local nan = op.cast(op.full({ 1, 1, 100, 64 }, 0 / 0), "bf16")
  local function joined(x) return op.concat({ x, nan }, { axis = 2 }) end
  local qn, kn, gn = joined(q), joined(k), joined(g)
  local yn = joined(y)
  local got = gradients(qn, kn, kn, yn, gn, o)
  got[1]:to "cpu"[":, :, 0:128"]:contiguous():hash() == clean[1]:to "cpu":hash() --> true
end

-- Strict: chains of f32, the CPU's.
do
  local q, k, g = random({ 1, 2, 32, 64 }, "bf16"), random({ 1, 1, 128, 64 }, "bf16"), random({ 1, 2, 32, 64 }, "bf16")
  local y = op.attention(q, k, k)
  local want = { op.attention_grad(q, k, k, nil, nil, y, g) }
  local before = core.profile()
  core.profile "strict"
  local got = gradients(q, k, k, y, g)
  core.profile(before)
  local same = 0
  for i = 1, 3 do if got[i]:hash() == want[i]:hash() then same = same + 1 end end
  same --> 3
end

-- Objects of all targets with a unit: nothing spilled, whatever edges there are.
local function module(size, a, b, o, mask)
  local q, k = op.zeros({ 1, 2, a, size }):cast "bf16", op.zeros({ 1, 1, b, size }):cast "bf16"
  local f = graph.module("gradients", function(x, y, z, g) return op.attention_grad(x, y, y, mask, nil, z, g, o) end)
  f(q, k, q, q)
  return f
end
local spilled, multiplied = {}, 0
for _, size in ipairs { 64, 128 } do
  for _, sizes in ipairs { { 70, 200 }, { 128, 256 } } do
    local f = module(size, sizes[1], sizes[2], { causal = true })
    for _, t in ipairs { "gfx942", "gfx950", "gfx1100", "gfx1200" } do
      local text = f:ir("asm", { target = t })
      if text:find "v_mfma_f32" or text:find "v_wmma_f32" then multiplied = multiplied + 1 end
      for bytes in text:gmatch "%.private_segment_fixed_size: (%d+)" do
        if bytes ~= "0" then spilled[#spilled + 1] = ("%s, heads of %d: %s bytes"):format(t, size, bytes) end
      end
    end
  end
end
multiplied --> 16
table.concat(spilled, "; ") --> 

-- Heads of 96 in blocks of 512 threads leave three numbers a thread, which are no vector that lies at its own multiples.
do
  local q = op.zeros { 1, 1, 128, 96 }:cast "bf16"
  local f = graph.module("attention", function(x) return op.attention(x, x, x) end)
  f(q)
  f:ir("llvm", { target = "gfx942" }):find "store <3 x" == nil --> true
end

-- Who leaves the unit alone says why.
local function why(f, t, options) return f:ir("why", { target = t or target }):match ": ([^\n]*), [%d.]+ us" end
why(module(64, 96, 128)) --> would be a kernel of 1 operator
why(module(48, 96, 128)) --> would be a kernel of 1 operator, without the matrix unit: heads are not of 32, 64, 96 or 128 numbers
why(module(64, 96, 128, nil, op.zeros({ 96, 128 }):cast "bf16")) --> would be a kernel of 1 operator
why(module(64, 96, 128, nil, op.zeros { 96, 128 })):match "the mask is of another type" ~= nil --> true
why(module(64, 96, 128), "gfx10-3-generic") --> would be a kernel of 1 operator
