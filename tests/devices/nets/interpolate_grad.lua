-- Gradients of resampling are the device's, with the CPU's bits: of elements that were repeated by whole factors, and of any
-- sizes in any mode.
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

for i, case in ipairs { { { 1, 2, 9 }, { 17 } }, { { 1, 2, 9 }, { 4 } }, { { 2, 3, 5, 7 }, { 11, 8 } }, { { 2, 3, 1, 7 }, { 1, 3 } },
  { { 1, 1, 4, 3, 5 }, { 6, 3, 2 } }, { { 1, 1, 1, 1 }, { 3, 40 } }, { { 1, 2, 3, 1, 5 }, { 3, 1, 5 } } } do
  local space, g = {}, { case[1][1], case[1][2] }
  for a, n in ipairs(case[2]) do space[a], g[2 + a] = case[1][2 + a], n end
  for _, dtype in ipairs { "f32", "bf16", "f16", "f64" } do
    local x = op.normal(g, { seed = 3, stream = i }):cast(dtype)
    for _, mode in ipairs { "nearest", "nearest_exact", "linear", "cubic" } do
      for _, corners in ipairs(mode:find "^n" and { false } or { false, true }) do
        if mode ~= "cubic" or #space == 2 then
          local o = { mode = mode, align_corners = corners }
          local want, before = op.interpolate_grad(x, space, o), fallbacks()
          assert(op.interpolate_grad(x:to(name), space, o):to("cpu"):hash() == want:hash(), ("sizes %d of %s, %s"):format(i, dtype, mode))
          assert(fallbacks() == before, i)
        end
      end
    end
  end
end
