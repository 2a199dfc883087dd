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
-- The matrix unit, by sub-groups of 16: the interpreter's chain, which is not the CPU's.
for _, d in ipairs { "bf16", "f16" } do
  local a, b = random({ 20, 70 }, d), random({ 70, 41 }, d)
  local function f(t, u) return op.gelu(op.matmul(t, u)) end
  local before = tessera.core.jit_device()
  local got, want = f(a:to "opencl:0", b:to "opencl:0"), f(a:to "sim:0", b:to "sim:0")
  local after = tessera.core.jit_device()
  assert(after.fallback == before.fallback and after.refused == before.refused, d .. ": the CPU ran it")
  assert(got:hash() == want:hash(), d .. ": the unit's sums differ")
end
dofile "tests/devices/agree.lua"
