-- Products whose factors are of two types, or are added up in f64: on the device with the CPU's bits, as
-- operands lie, of groups, in functions and their gradients. The device is simulated, or that of `make check DEV=cuda`.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local core, op, graph, rng = tessera.core, tessera.op, tessera.graph, tessera.rng
local device = require "_device"
local check, name = on.check, on.name
local types = { "f32", "f64", "bf16", "f16" }
local function numbers(shape, d) return op.cast(rng.normal(shape), d) end

core.seed(3)
for _, d in ipairs(types) do
  for _, e in ipairs(types) do
    for _, s in ipairs { { 64, 32, 48 }, { 5, 7, 9 }, { 1, 64, 32 } } do
      local m, k, n = unpack(s)
      local what = ("%s %s %dx%dx%d"):format(d, e, m, n, k)
      if d ~= e then
        check(what, op.matmul, numbers({ m, k }, d), numbers({ k, n }, e))
        check(what .. ", columns", function(a, b) return op.matmul(a:T(), b:T()) end, numbers({ k, m }, d), numbers({ n, k }, e))
        check(what .. ", many", op.matmul, numbers({ 3, m, k }, d), numbers({ 3, k, n }, e))
        check(what .. ", a vector", op.matmul, numbers({ k }, d), numbers({ k, n }, e))
        local wide = op.matmul(numbers({ m, k }, d), numbers({ k, n }, e)).dtype
        check(what .. ", bias", function(a, b, c) return op.matmul(a, b, c, { epilogue = "bias_relu" }) end,
          numbers({ m, k }, d), numbers({ k, n }, e), numbers({ n }, wide))
      end
      if d ~= e and device.unit then
        local sizes = tessera.tensor({ math.floor(m / 2), 0, math.floor(m / 3) }, { dtype = "i64" })
        local x, w, g = numbers({ m, k }, d), numbers({ 3, k, n }, e), numbers({ m, n }, e)
        check(what .. ", groups", op.grouped_matmul, x, w, sizes)
        check(what .. ", gradient of groups", op.grouped_matmul_weight_grad, x, g, sizes)
        check(what .. ", matrices turned", function(a, b, c) return op.grouped_matmul(a, b:transpose(-1, -2), c) end,
          x, numbers({ 3, n, k }, e), sizes)
      end
    end
  end
end
check("whole numbers", op.matmul, rng.randint({ 33, 16 }, -9, 9), numbers({ 16, 16 }, "f32"))
check("sums in f64", function(a, b) return op.matmul(a, b, { accumulate = "f64" }) end, numbers({ 33, 16 }, "f32"), numbers({ 16, 16 }, "bf16"))

-- In a function, with gradients of both; again and again, so that launches are replayed.
local x, w, g = numbers({ 40, 16 }, "f32"), numbers({ 16, 24 }, "bf16"), numbers({ 40, 24 }, "f32")
local function f(x, w, g) return op.sum(op.relu(op.matmul(x, w)) * g) end
local grad = graph.grad(f, { 1, 2 })
local want = { grad(x, w, g) }
local before = core.jit_device().fallback
for round = 1, 4 do
  local got = { grad(x:to(name), w:to(name), g:to(name)) }
  for i = 1, 2 do
    assert(got[i].dtype == want[i].dtype and got[i]:hash() == want[i]:hash(), ("gradient %d, round %d"):format(i, round))
  end
end
assert(core.jit_device().fallback == before, "gradients: the CPU ran one")

-- Sizes that only the device has are looked at as others are.
if device.unit then
  local a, b = numbers({ 16, 8 }, "f32"):to(name), numbers({ 2, 8, 12 }, "bf16"):to(name)
  local s = tessera.tensor({ 4, -1 }, { dtype = "i64" }):to(name) + 0
  local ok, message = pcall(function() return op.grouped_matmul(a, b, s):totable() end)
  assert(not ok and tostring(message):find "group 1 has %-1 rows", tostring(message))
end
