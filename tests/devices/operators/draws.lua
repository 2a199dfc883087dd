-- Rotary embeddings, and draws on a device against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
local check, random = on.check, on.random
local name = on.name

-- ---- rotary embeddings
for _, d in ipairs { "f32", "bf16", "f64" } do
  for _, o in ipairs { {}, { dims = 8 }, { interleaved = true }, { offset = 100, theta = 5e5 },
    { scaling = "yarn", factor = 4 }, { scaling = "linear", factor = 3, concentration = 0.5 },
    { scaling = "yarn", factor = 40, beta_fast = 2, beta_slow = 2, theta = 150000, dims = 14 } } do
    local x = random({ 2, 3, 21, 16 }, d)
    check("rope " .. d, function(y) return op.rope(y, nil, o) end, x)
    check("rope at positions " .. d, function(y, p) return op.rope(y, p, o) end, x, op.arange(0, 21))
    check("rope at positions of batches " .. d, function(y, p) return op.rope_grad(y, p, o) end, x,
      op.cast(op.arange(0, 42), "i32"):reshape(2, 21))
  end
end

-- The offset is a size of the kernel: a loop that goes on has one kernel.
do
  local x = random { 2, 3, 1, 16 }
  local there = x:to(name)
  local function at(y, i) return op.rope(y, nil, { offset = i }) end
  at(there, 0)
  local kernels = core.jit_device().kernels
  for i = 1, 5 do assert(at(there, i):hash() == at(x, i):hash(), "rope of word " .. i) end
  assert(core.jit_device().kernels == kernels, "one kernel for all offsets")
end

-- ---- draws: seed and stream are the context's, on either side
local function drawn(what, f)
  local before = core.jit_device().fallback
  rng.seed(7)
  local got = tessera.device(name, f)
  assert(core.jit_device().fallback == before, what .. ": the CPU ran it")
  rng.seed(7)
  assert(got:hash() == f():hash(), what .. " differs")
end
for _, n in ipairs { 5, 64, 5003 } do
  for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
    local function own(o)
      o.dtype = d
      return o
    end
    drawn("uniform " .. d, function() return op.uniform({ n }, own {}) + op.uniform({ n }, own { low = -2, high = 3 }) end)
    -- The number below the upper limit is one of its type.
    drawn("narrow uniform " .. d, function()
      return op.uniform({ n }, own { low = 1, high = 1.001 }) + op.uniform({ n }, own { low = -1, high = 0 })
    end)
    drawn("normal " .. d, function()
      local x = op.normal({ n }, own {})
      return x + op.normal({ n }, own { mean = 1, std = 3, seed = 5 })
    end)
    drawn("dropout " .. d, function()
      local x = op.ones({ n }, own {})
      return op.dropout(x, 0.3) + op.dropout(x, { p = 0.5 })
    end)
    drawn("exponential " .. d, function() return op.exponential({ n }, own {}) end)
    drawn("whole numbers " .. d, function() return op.randint({ n }, own { low = -5, high = 100 }) end)
  end
  for _, d in ipairs { "bool", "f32", "i64" } do
    drawn("bernoulli " .. d, function() return op.bernoulli({ n }, { p = 0.3, dtype = d }) end)
  end
  for _, d in ipairs { "bool", "u8", "i32", "i64" } do
    drawn("whole numbers " .. d, function() return op.randint({ n }, { low = 0, high = 2, dtype = d }) end)
  end
  for _, d in ipairs { "i64", "i32", "f32" } do
    drawn("permutation " .. d, function() return op.permutation(n, { dtype = d }) end)
  end
  for _, r in ipairs { { -2 ^ 62, 2 ^ 62 }, { -2 ^ 40, 2 ^ 40 + 12345 }, { 0, 2 ^ 31 } } do
    drawn("a wide range", function() return op.randint({ n }, { low = r[1], high = r[2] }) end)
  end
end

-- A draw of nothing uses up its stream there as well.
local function behind(draw, on)
  return tessera.device(on, function()
    rng.seed(5)
    draw()
    return rng.uniform { 3 }:to "cpu":hash()
  end)
end
for _, draw in ipairs {
  function() return rng.normal { 0, 4 } end, function() return rng.uniform { 3, 0 } end, function() return rng.bernoulli { 0 } end,
  function() return rng.randint({ 0 }, 0, 4) end, function() return op.dropout(op.ones { 0, 2 }, 0.3) end,
  function() return op.categorical(op.zeros { 0, 2, 1 }) end,
  function() return tessera.graph.module("f", function(x) return op.dropout(x, 0.3) end)(op.ones { 0, 2 }) end,
} do
  behind(draw, name) == behind(draw, "cpu") --> true
end
