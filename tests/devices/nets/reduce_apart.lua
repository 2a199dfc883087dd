-- Sums, products, means and extremes of floats along axes between which others lie are the device's, with the CPU's bits.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"

local shapes = { { { 4, 8, 16, 16 }, { 0, 2, 3 } }, { { 3, 5, 2, 7 }, { 0, 2 } }, { { 3, 5, 2, 7 }, { 1, 3 } }, { { 2, 3, 5000 }, { 0, 2 } },
  { { 300, 2, 2 }, { 0, 2 } }, { { 1, 6, 1, 9 }, { 0, 2, 3 } } }
local function fallbacks() return tessera.jit.device().fallback end

for _, dtype in ipairs { "f32", "bf16", "f16", "f64" } do
  for i, case in ipairs(shapes) do
    local x = op.normal(case[1], { seed = 1, stream = i }):cast(dtype)
    if i == 2 then x["1, 2, 0, 3"] = 0 / 0 end
    local there = x:to(name)
    for _, row in ipairs { "sum", "mean", "prod", "max", "min" } do
      local function f(y) return op[row](y, { axis = case[2] }) end
      local before = fallbacks()
      local have = f(there):to "cpu"
      assert(fallbacks() == before, ("%s of %s, case %d, is the CPU's"):format(row, dtype, i))
      assert(have:hash() == f(x):hash(), ("%s of %s, case %d"):format(row, dtype, i))
    end
  end
end

-- A view whose rows are not one after the other, and a norm by batches with its gradients as one function.
local wide = op.normal({ 6, 10, 8 }, { seed = 2 }):to(name)
wide["::, 1:9:2"]:sum { axis = { 1, 2 } }:to("cpu"):hash() == wide:to("cpu")["::, 1:9:2"]:sum { axis = { 1, 2 } }:hash() --> true
local norm = tessera.nn.BatchNorm2d(5)
local step = graph.value_and_grad(function(x, w) return op.sum(norm(x * w):tanh() * x) end, { 1, 2 })
local x, w = op.normal({ 4, 5, 6, 7 }, { seed = 3 }), op.normal({ 5, 1, 1 }, { seed = 4 })
local function hashes(...)
  local list = {}
  for i, t in ipairs { ... } do list[i] = t:to("cpu"):hash() end
  return table.concat(list, " ")
end
local function told(y, grads) return hashes(y, grads[1], grads[2], norm.running_mean, norm.running_var) end
local want = told(step(x, w))
norm = tessera.nn.BatchNorm2d(5)
norm:to(name)
local before = fallbacks()
told(step(x:to(name), w:to(name))) == want, fallbacks() == before --> true, true
