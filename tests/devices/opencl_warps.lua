-- The same with sub-groups of 32, as Intel's GPUs have them: shuffles, and parts of a block that meet by
-- themselves. Sub-groups want a compiler that makes vectors, so there are fewer cases.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("DEV", "opencl:0")
opencl.set("TESSERA_GPU", "pvc")
if not os.getenv "SAMPLE" then opencl.set("SAMPLE", "300") end
opencl.set("TESSERA_OPENCL_FUNCTIONS", require "_dpas")
local skipped = opencl.missing()
if skipped then return print(skipped) end
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
tessera.core.jit_later(false)
for _, d in ipairs(tessera.devices()) do
  if d.name == "opencl:0" then assert(d.text:find "code of pvc") end
end

local families = require "_families"
local check, random = families.check, families.random
for _, d in ipairs { "f32", "f64", "i32" } do
  local a, b = random({ 70, 300 }, d), random({ 300, 45 }, d)
  if d ~= "i32" then
    check("softmax " .. d, function(t) return op.softmax(t) end, a)
    check("product " .. d, function(t, u) return op.matmul(t, u) end, a, b)
  end
  check("sum " .. d, function(t) return t:sum { axis = 1 } end, a)
  check("sum of columns " .. d, function(t) return t:sum { axis = 0 } end, a)
  check("largest " .. d, function(t) return op.max(t, { axis = 1 }) end, a)
  check("sort " .. d, function(t) return op.sort(t, { axis = 1 }) end, a)
end
check("scan", function(t) return op.cumsum(t, { axis = 1 }) end, random { 33, 500 })
-- The matrix unit, by sub-groups of 16: the interpreter's chain, which is not the CPU's. Operands that 2D block loads
-- reach (lines of 64 bytes and more, at multiples of 16, along k or along columns of the right one), inside and over the
-- edge, and others, which go by shared memory: numbers of it say which way was taken.
local function numbers(d, ...)
  if d == "i8" then return op.cast(rng.randint({ ... }, { low = -128, high = 128 }), "i8") end
  return random({ ... }, d)
end
local function unit(what, boxes, d, f, a, b)
  local function g(t, u) return d == "i8" and f(t, u) or op.gelu(f(t, u)) end
  local before = tessera.core.jit_device()
  local got, want = g(a:to "opencl:0", b:to "opencl:0"), g(a:to "sim:0", b:to "sim:0")
  local after = tessera.core.jit_device()
  what = d .. " " .. what
  assert(after.fallback == before.fallback and after.refused == before.refused, what .. ": the CPU ran it")
  assert(got:hash() == want:hash(), what .. ": the unit's sums differ")
  local m = tessera.graph.module("product", f)
  m(a, b)
  local code = m:ir("llvm", { target = "pvc" })
  assert(code:find "matrix_mad" and (code:find "block_read_flat" ~= nil) == boxes, what .. ": " .. code)
end
local function plain(t, u) return op.matmul(t, u) end
local function right_along(t, u) return op.matmul(t, u:transpose(0, 1)) end
local function left_across(t, u) return op.matmul(t:transpose(0, 1), u) end
-- Parameters that begin elsewhere: nothing reads boxes of them.
local function later(t, u) return op.matmul(t["1:33"], u) end
local layouts = {
  { "odd", false, plain, { 20, 70 }, { 70, 41 } }, { "whole", true, plain, { 64, 128 }, { 128, 64 } },
  { "edges", true, plain, { 70, 80 }, { 80, 112 } }, { "right along k", true, right_along, { 33, 96 }, { 70, 96 } },
  { "left across k", false, left_across, { 96, 64 }, { 96, 64 } }, { "batch", true, plain, { 3, 32, 64 }, { 3, 64, 64 } },
  { "a part", true, later, { 40, 96 }, { 96, 64 } },
}
-- Intel's compiler takes three seconds for each: a layout with one of the types, with LONG=1 with all.
for i, d in ipairs { "bf16", "f16", "i8" } do
  for k, c in ipairs(layouts) do
    if os.getenv "LONG" or k % 3 == i % 3 then unit(c[1], c[2], d, c[3], numbers(d, unpack(c[4])), numbers(d, unpack(c[5]))) end
  end
end
dofile "tests/devices/agree.lua"
