-- Code for a GPU without f64 (dg2), run as SPIR-V: numbers of eager calls are rounded to f32 by whole numbers, with the
-- bits of a CPU's conversion, so that such calls stay on the device; what computes in f64 is the CPU's.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("DEV", "opencl:0")
opencl.set("TESSERA_GPU", "dg2")
local skipped = opencl.missing()
if skipped then return print(skipped) end
local tessera = require "tessera"
local op, rng, core = tessera.op, tessera.rng, tessera.core
core.jit_later(false)

local x = rng.normal { 100 }
local y = x:to "opencl:0"
local function both(v)
  return op.add(op.mul(y, 0), v):hash() == op.add(op.mul(x, 0), v):hash()
    and op.where(op.gt(y, 0.1), y, v):hash() == op.where(op.gt(x, 0.1), x, v):hash()
end
local numbers = { 2, 0.1, -0.1, 1 / 3, 1 / 0, -1 / 0, 0 / 0, 0, -0.0, 1e300, -1e300, 1e-300, 16777217, -- ties, and beside them
  1 + 2 ^ -24, 1 + 3 * 2 ^ -24, 1 + 2 ^ -24 + 2 ^ -50, 3.4028235677973366e38, 3.4028235677973362e38, -- denormals
  1e-40, -1e-40, 1e-45, 7e-46, 7.1e-46, 2 ^ -126, 2 ^ -126 - 2 ^ -151, 2 ^ -149, 2 ^ -150, 2 ^ -150 * 1.0001,
  2 ^ -140 * 1.5 + 2 ^ -151, 2 ^ -1074 }
math.randomseed(7)
for _ = 1, 100 do numbers[#numbers + 1] = (math.random() - 0.5) * 2 ^ math.random(-160, 140) end
for _, v in ipairs(numbers) do assert(both(v), ("%.17g"):format(v)) end

-- To bf16 and f16, too: half way between two numbers, up to the largest ones and down to denormals.
local narrow = { 2, 0.1, -1 / 3, 1 / 0, 0 / 0, -0.0, 65504, 65519.99, 65520, 2 ^ -14, 1.3 * 2 ^ -15, 2 ^ -24, 2 ^ -25, 1.0001 * 2 ^ -25, 3 * 2 ^ -25,
  1 + 2 ^ -11, 1 + 3 * 2 ^ -11, 1 + 2 ^ -11 + 2 ^ -40, 1 + 2 ^ -8, 1 + 3 * 2 ^ -8, 3.39e38, 3.4e38, 1e-40, 9e-41, 2 ^ -133, 2 ^ -134, 1.01 * 2 ^ -134 }
for _, d in ipairs { "f16", "bf16" } do
  local s = x:cast(d)
  local t = s:to "opencl:0"
  local on, on_device = op.gt(s, 0.1), op.gt(t, 0.1)
  for _, v in ipairs(narrow) do
    assert(op.where(on_device, t, v):hash() == op.where(on, s, v):hash(), ("%s %.17g"):format(d, v))
  end
end
for _, f in ipairs { function(t) return t * 2 end, function(t) return 1 - t end, function(t) return t / 3 end,
  function(t) return op.maximum(t, 0.3) end, function(t) return t ^ 2 end, function(t) return (t + 2 ^ -130):relu() end } do
  assert(f(y):hash() == f(x):hash())
end
local image, weight = rng.normal({ 2, 16, 9, 9 }):cast "f16", rng.normal({ 16, 16, 3, 3 }):cast "f16"
local strides = { stride = 2, padding = 1 }
op.conv2d(image:to "opencl:0", weight:to "opencl:0", nil, strides):hash() == op.conv2d(image, weight, nil, strides):hash() --> true
-- What was shortened from 64 bits to few, and is widened again.
local whole = rng.randint({ 1000 }, { low = -1e9, high = 1e9 })
local function cut(t) return op.cast(op.cast(t, "u8"), "i32") + op.cast(op.cast(t, "i16"), "i32") end
local f = tessera.graph.module("cut", cut)
tessera.jit.eager(true)
f(whole:to "opencl:0"):hash() == cut(whole):hash() --> true
tessera.jit.eager(false)
local s = core.jit_device()
s.fallback + s.refused --> 0
local wide = op.cast(x, "f64")
op.add(wide:to "opencl:0", 1):hash() == op.add(wide, 1):hash() --> true
core.jit_device().fallback > 0 --> true
