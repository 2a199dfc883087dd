-- Convolutions and their gradients on a device against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local check, near, random = on.check, on.near, on.random

for _, d in ipairs { "bf16", "f16" } do
  for _, c in ipairs {
    { { 2, 32, 6, 8 }, { 16, 32, 3, 3 }, { padding = 1 } },
    { { 2, 64, 5, 7 }, { 24, 64, 3, 3 }, { padding = 1 }, true },
    { { 2, 128, 5, 7 }, { 72, 128, 1, 1 }, {} },
    { { 2, 64, 9, 8 }, { 16, 64, 3, 3 }, { padding = 1, stride = 2 } },
    { { 2, 64, 9, 8 }, { 16, 64, 1, 1 }, { stride = 2 } },
    { { 1, 64, 12, 13 }, { 8, 64, 4, 3 }, { padding = 3, stride = { 2, 1 }, dilation = { 1, 2 } } },
    { { 3, 32, 9, 7 }, { 264, 32, 1, 1 }, {} },
    -- Few channels, with the places of the window beside them.
    { { 2, 3, 17, 18 }, { 16, 3, 7, 7 }, { padding = 3, stride = 2 }, true },
    { { 2, 3, 8, 6 }, { 24, 3, 3, 3 }, { padding = 1 } },
    { { 1, 5, 9, 12 }, { 8, 5, 2, 3 }, { padding = { 0, 2 }, stride = { 1, 3 }, dilation = { 2, 1 } } },
    { { 2, 16, 5, 5 }, { 8, 16, 1, 1 }, {} },
  } do
    local x, w, o = random(c[1], d), random(c[2], d), c[3]
    near("conv2d by the unit " .. d, function(a, b, bias)
      return op.conv2d(a, b, bias, nil, o)
    end, x, w, c[4] and random({ c[2][1] }, d))
    local last = { layout = "nhwc" }
    for k, v in pairs(o) do last[k] = v end
    near("channels last " .. d .. " " .. table.concat(c[1], "x"), function(a, b) return op.conv2d(a, b, nil, nil, last) end,
      x:permute(0, 2, 3, 1):contiguous(), w:permute(0, 2, 3, 1):contiguous())
  end
  for _, c in ipairs { { { 2, 32, 6, 8 }, { 16, 32, 3, 3 }, { padding = 1 } },
    { { 2, 40, 9, 8 }, { 72, 40, 3, 3 }, { padding = 1, stride = 2 } },
    { { 1, 32, 50, 50 }, { 16, 32, 1, 1 }, {} },
    { { 2, 3, 65, 66 }, { 8, 3, 7, 7 }, { padding = 3, stride = 2 } },
    { { 2, 5, 7, 9 }, { 8, 5, 2, 3 }, { dilation = { 2, 1 } } } } do
    local x, g = random(c[1], d), { window = { c[2][3], c[2][4] } }
    for k, v in pairs(c[3]) do g[k] = v end
    local y = random(op.conv2d(x, random(c[2], d), nil, nil, c[3]).shape, d)
    near("gradient of weights by the unit " .. d, function(a, b) return op.conv_weight_grad(a, b, g) end, x, y)
    g.layout = "nhwc"
    near("the same with channels last " .. d, function(a, b) return op.conv_weight_grad(a, b, g) end,
      x:permute(0, 2, 3, 1):contiguous(), y:permute(0, 2, 3, 1):contiguous())
  end
  near("conv1d by the unit " .. d, function(a, b) return op.conv1d(a, b, nil, nil, { padding = 2 }) end,
    random({ 2, 32, 40 }, d), random({ 16, 32, 5 }, d))
  near("conv3d of few channels by the unit " .. d, function(a, b)
    return op.conv3d(a, b, nil, nil, { padding = 1, stride = { 1, 2, 1 } })
  end, random({ 2, 2, 4, 5, 4 }, d), random({ 8, 2, 3, 2, 3 }, d))
  near("conv3d by the unit " .. d, function(a, b) return op.conv3d(a, b, nil, nil, { padding = 1 }) end,
    random({ 1, 32, 4, 4, 4 }, d), random({ 8, 32, 3, 3, 3 }, d))
  near("conv3d of steps of all axes by the unit " .. d, function(a, b)
    return op.conv3d(a, b, nil, nil, { padding = 1, stride = { 2, 3, 2 } })
  end, random({ 2, 32, 5, 7, 5 }, d), random({ 8, 32, 2, 3, 2 }, d))
  near("images that lie channels last " .. d, function(a, b)
    return op.conv2d(a:permute(0, 3, 1, 2), b:permute(0, 3, 1, 2))
  end, random({ 2, 5, 6, 64 }, d), random({ 16, 1, 1, 64 }, d))
  near("images at odd addresses " .. d, function(a, b)
    return op.conv2d(a["1:1921"]:reshape(1, 5, 6, 64), b["3:1027"]:reshape(16, 1, 1, 64), nil, nil, { layout = "nhwc" })
  end, random({ 1925 }, d), random({ 1030 }, d))
  near("conv_transpose by the unit " .. d, function(a, b)
    return op.conv_transpose(a, b, nil, { padding = 1 })
  end, random({ 2, 32, 6, 8 }, d), random({ 32, 16, 3, 3 }, d))
end
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, c in ipairs {
    { { 2, 3, 9, 8 }, { 5, 3, 3, 3 }, { padding = 1 } },
    { { 1, 4, 12, 7 }, { 6, 2, 3, 2 }, { stride = { 2, 1 }, groups = 2, dilation = { 1, 2 }, padding = { 1, 0 } } },
    { { 2, 8, 6, 6 }, { 70, 8, 1, 1 }, {} },
    { { 300, 2, 5, 5 }, { 65, 2, 3, 3 }, {} },
  } do
    local x, w, o = random(c[1], d), random(c[2], d), c[3]
    local y, g = op.conv2d(x, w, nil, nil, o), { window = { c[2][3], c[2][4] } }
    for k, v in pairs(o) do g[k] = v end
    check("conv2d " .. d, function(a, b) return op.conv2d(a, b, nil, nil, o) end, x, w)
    check("conv2d with bias " .. d, function(a, b, bias)
      return op.conv2d(a, b, bias, nil, o)
    end, x, w, random({ c[2][1] }, d))
    check("conv2d with words " .. d, function(a, b, bias, more)
      local all = { epilogue = "bias_residual_relu" }
      for k, v in pairs(o) do all[k] = v end
      return op.conv2d(a, b, bias, more, all)
    end, x, w, random({ c[2][1] }, d), random(y.shape, d))
    check("conv_weight_grad " .. d, function(a, b) return op.conv_weight_grad(a, b, g) end, x, y)
  end
  check("conv1d " .. d, function(a, b) return op.conv1d(a, b) end, random({ 2, 3, 40 }, d),
    random({ 4, 3, 5 }, d))
  check("conv3d " .. d, function(a, b) return op.conv3d(a, b, nil, nil, { padding = 1 }) end,
    random({ 1, 2, 4, 5, 6 }, d), random({ 3, 2, 2, 3, 2 }, d))
  check("conv_transpose " .. d, function(a, b, bias)
    return op.conv_transpose(a, b, bias, { padding = 1, groups = 2, dilation = 2 })
  end, random({ 2, 6, 9, 8 }, d), random({ 6, 4, 3, 2 }, d), random({ 8 }, d))
end
