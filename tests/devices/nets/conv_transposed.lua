-- Transposed convolutions of a stride, and so gradients of convolutions of one, are the device's: bits of the CPU by chains, and by
-- the matrix unit what its other convolutions have.
local tessera = require "tessera"
local op, numerics = tessera.op, tessera.numerics
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"

local function drawn(shape, stream, dtype) return op.normal(shape, { seed = 5, stream = stream }):cast(dtype) end
local function fallbacks() return tessera.jit.device().fallback end

-- x [N, I, ..], w [I, O / groups, ..], options
local cases = {
  { { 2, 3, 5, 6 }, { 3, 4, 3, 3 }, { stride = { 2, 2 }, padding = { 1, 1 }, output_padding = { 1, 1 } } },
  { { 2, 3, 5, 6 }, { 3, 4, 1, 1 }, { stride = { 2, 2 } } },
  { { 1, 4, 6, 3 }, { 4, 3, 4, 3 }, { stride = { 2, 3 }, padding = { 1, 0 } } },
  { { 2, 4, 5, 5 }, { 4, 3, 3, 3 }, { stride = { 2, 2 }, dilation = { 2, 2 }, padding = { 2, 2 } } },
  { { 2, 4, 5, 5 }, { 4, 3, 4, 4 }, { stride = { 4, 4 }, dilation = { 3, 1 } } },
  { { 2, 4, 5, 4 }, { 4, 2, 3, 2 }, { stride = { 2, 2 }, groups = 2 } },
  { { 2, 3, 9 }, { 3, 5, 4 }, { stride = { 3 }, padding = { 2 } } },
  { { 1, 2, 3, 3, 2 }, { 2, 3, 2, 3, 2 }, { stride = { 2, 1, 2 }, padding = { 0, 1, 0 } } },
  { { 2, 3, 1, 1 }, { 3, 4, 1, 1 }, { stride = { 2, 2 } } },
}
local function compare(case, dtype, bias)
  local x, w = drawn(case[1], 1, dtype), drawn(case[2], 2, dtype)
  local b = bias and drawn({ case[2][2] * (case[3].groups or 1) }, 3, dtype) or nil
  local want = op.conv_transpose(x, w, b, case[3])
  local before = fallbacks()
  local have = op.conv_transpose(x:to(name), w:to(name), b and b:to(name), case[3]):to "cpu"
  return have:hash() == want:hash(), fallbacks() == before, (have:cast "f64" - want:cast "f64"):abs():max():item() / want:cast("f64"):abs():max():item()
end

numerics.profile("strict", function()
  for i, case in ipairs(cases) do
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      local same, there = compare(case, dtype, false)
      assert(same and there, ("case %d of %s: %s, %s"):format(i, dtype, tostring(same), tostring(there)))
      assert(compare(case, dtype, true), ("case %d of %s with a bias"):format(i, dtype))
    end
  end
end)

-- The unit's: 32 channels and more of 16 bits.
local wide = {
  { { 2, 32, 6, 5 }, { 32, 40, 3, 3 }, { stride = { 2, 2 }, padding = { 1, 1 }, output_padding = { 1, 1 } } },
  { { 2, 72, 6, 5 }, { 72, 32, 1, 1 }, { stride = { 2, 2 } } },
  { { 2, 64, 6, 5 }, { 64, 32, 2, 2 }, { stride = { 2, 2 } } },
  { { 2, 32, 7 }, { 32, 32, 4 }, { stride = { 2 }, padding = { 1 } } },
}
for i, case in ipairs(wide) do
  local same, there, far = compare(case, "bf16", false)
  assert(there and far <= 2 ^ -7, ("wide case %d: %s, %g"):format(i, tostring(there), far))
end

-- Gradients of a convolution of a stride, to the bit.
local x, w = drawn({ 2, 6, 9, 8 }, 7, "f32"), drawn({ 8, 6, 3, 3 }, 8, "f32")
local function gradients(a, b)
  a, b = a:clone():requires_grad_(true), b:clone():requires_grad_(true)
  op.conv2d(a, b, nil, { stride = { 2, 2 }, padding = { 1, 1 } }):square():sum():backward()
  return a.grad:to("cpu"):hash() .. b.grad:to("cpu"):hash()
end
local before = fallbacks()
gradients(x:to(name), w:to(name)) == gradients(x, w), fallbacks() == before --> true, true
