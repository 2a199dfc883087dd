-- Whole numbers are drawn on the device, with the CPU's bits; ranges of more than 31 bits are the CPU's.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"
local function fallbacks() return tessera.jit.device().fallback end

for i, shape in ipairs { { 1 }, { 33 }, { 3, 7 }, { 2, 511 }, { 5000 } } do
  for _, o in ipairs { { 0, 10, "i64" }, { -5, 3, "i32" }, { 0, 256, "u8" }, { -128, 127, "i8" }, { 7, 7 + 2 ^ 31 - 1, "i64" } } do
    local how = { low = o[1], high = o[2], dtype = o[3], seed = 3, stream = i }
    local want, before = op.randint(shape, how), fallbacks()
    how.device = name
    assert(op.randint(shape, how):to("cpu"):hash() == want:hash(), table.concat(o, " ") .. " " .. i)
    assert(fallbacks() == before, table.concat(o, " "))
  end
end
local wide = { low = 0, high = 2 ^ 40, seed = 1, device = name }
op.randint({ 9 }, wide):to("cpu"):hash() == op.randint({ 9 }, { low = 0, high = 2 ^ 40, seed = 1 }):hash() --> true
op.randint({ 9 }, { low = 3, high = 3, device = name }) --! randint: no whole number in [3, 3)
-- Within a function, which draws others at each call.
local f = graph.module("f", function(x) return op.randint({ 40 }, { low = 0, high = 1000, device = x.device }) + x end)
local function drawn(device)
  tessera.rng.seed(4)
  local x, list = op.zeros({ 40 }, { dtype = "i64" }):to(device), {}
  for i = 1, 3 do list[i] = f(x):to("cpu"):hash() end
  return table.concat(list, " ")
end
drawn(name) == drawn "cpu" --> true
