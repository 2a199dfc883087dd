-- What is stored in blocks, beside what the Python package gguf reads and writes (tests/vectors/blocks.py).
local tessera = require "tessera"
local op = tessera.op
local known = tessera.load "tests/vectors/blocks.safetensors"
local numbers = known.numbers
local formats = { "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q4_k", "q5_k", "q6_k" }

-- NaN is NaN, whatever its bits are.
local function same(x, y) return op.where(op.isnan(x), 0, x):hash() == op.where(op.isnan(y), 0, y):hash() and
  op.isnan(x):hash() == op.isnan(y):hash() end
local function left(x) return ((x - numbers) ^ 2):cast("f64"):sum():item() end

local function all_formats()
  for _, name in ipairs(formats) do
    local x, want = known[name .. ".read"], known[name .. ".is"]
    assert(x.dtype == name and same(x:cast "f32", want), name)
    assert(same(x:cast "f64", want:cast "f64") and same(x:cast "bf16", want:cast "bf16"), name)
    assert(same(x:cast "f16", want:cast "f16"), name)
    for i = 0, 255, 37 do -- one by one: the block's own element
      local e, w = x:totable()[16][i + 1], want:totable()[16][i + 1]
      assert(e == w or (e ~= e and w ~= w), name)
    end
    -- What was written and read is written alike, and no farther from the numbers than theirs.
    local ours = numbers:cast(name):cast "f32"
    assert(ours:cast(name):cast("f32"):hash() == ours:hash(), name)
    local theirs = known[name .. ".left"]
    assert(not theirs or left(ours) <= 1.01 * left(theirs), name)
    local wrong = op.where(op.arange(256):eq(5), 0 / 0, numbers):cast(name):cast "f32"
    assert(op.isnan(wrong[":, :32"]):all():item(), name)
  end
end
local isa = tessera.core.isa()
for _, other in ipairs { "avx512", "avx2", "base" } do
  if pcall(tessera.core.isa, other) then all_formats() end
end
tessera.core.isa(isa)

-- More bits, less left.
left(numbers:cast("q8_0"):cast "f32") < left(numbers:cast("q6_k"):cast "f32") --> true
left(numbers:cast("q6_k"):cast "f32") < left(numbers:cast("q5_k"):cast "f32") --> true
left(numbers:cast("q5_k"):cast "f32") < left(numbers:cast("q4_k"):cast "f32") --> true

op.zeros({2, 128}):cast "q4_k" --! cast: q4_k needs a last axis of a multiple of 256 elements, not f32[2,128]
op.zeros({2, 256}, {dtype = "f64"}):cast "q6_k" --! cast: no conversion from f64 to q6_k
op.zeros({2, 32}):cast "q8_0" + 1 --! q8_0 is a storage format
op.zeros({2, 256}):cast "q4k" --! did you mean 'q4_k'?
