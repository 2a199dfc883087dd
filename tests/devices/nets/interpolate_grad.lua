-- Gradients of elements that were repeated by whole factors are the device's, with the CPU's bits.
local tessera = require "tessera"
local op = tessera.op
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"
local function fallbacks() return tessera.jit.device().fallback end

for i, case in ipairs { { { 2, 3, 4, 5 }, { 2, 2 } }, { { 2, 3, 4, 5 }, { 3, 1 } }, { { 1, 2, 7 }, { 4 } }, { { 2, 1, 2, 3, 4 }, { 2, 1, 3 } } } do
  for _, dtype in ipairs { "f32", "bf16", "f64" } do
    for _, mode in ipairs { "nearest", "nearest_exact" } do
      local g, sizes, space = { case[1][1], case[1][2] }, {}, {}
      for a, by in ipairs(case[2]) do space[a], sizes[a] = case[1][2 + a], case[1][2 + a] * by end
      for a, n in ipairs(sizes) do g[2 + a] = n end
      local x = op.normal(g, { seed = 1, stream = i }):cast(dtype)
      for _, o in ipairs { { mode = mode }, { mode = mode, scale = case[2] } } do
        local want, before = op.interpolate_grad(x, space, o), fallbacks()
        assert(op.interpolate_grad(x:to(name), space, o):to("cpu"):hash() == want:hash(), ("case %d of %s, %s"):format(i, dtype, mode))
        assert(fallbacks() == before, i)
      end
    end
  end
end
-- Others are the CPU's.
local g = op.normal({ 1, 2, 5, 7 }, { seed = 2 })
op.interpolate_grad(g:to(name), { 3, 4 }):to("cpu"):hash() == op.interpolate_grad(g, { 3, 4 }):hash() --> true
