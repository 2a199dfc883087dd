-- Products whose inner size is 0 on a device: what follows them, over zeros, by a kernel.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local op = require "tessera".op
local check, random = on.check, on.random

for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
  local a, b = random({ 40, 0 }, d), random({ 0, 20 }, d)
  check("product " .. d, op.matmul, a, b)
  check("of a batch " .. d, op.matmul, random({ 3, 5, 0 }, d), random({ 3, 0, 7 }, d))
  check("of one row " .. d, op.matmul, random({ 0 }, d), b)
  check("turned " .. d, function(x, y) return op.matmul(x:T(), y:T()) end, b, a)
  check("and more " .. d, function(x, y, bias, residual)
    return op.matmul(x, y, bias, residual, { epilogue = "bias_gelu_residual" })
  end, a, b, random({ 20 }, d), random({ 40, 20 }, d))
end
