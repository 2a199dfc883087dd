-- Derivatives of convolutions.
local check = dofile "tests/grad/_check.lua"
local R, C = check.random, check.complex

-- every option, one to three axes
check("conv1d", { R { 2, 3, 7 }, R { 4, 3, 3 }, R { 4 } })
check("conv1d", { R { 1, 4, 9 }, R { 6, 2, 3 } }, { stride = 2, padding = 2, dilation = 2, groups = 2 })
check("conv1d", { R { 2, 3, 1 }, R { 2, 3, 1 } })
check("conv2d", { R { 2, 2, 4, 5 }, R { 3, 2, 3, 2 }, R { 3 } }, { padding = { 1, 0 } })
check("conv2d", { R { 1, 4, 6, 5 }, R { 4, 2, 3, 3 } }, { stride = { 2, 3 }, padding = { 1, 2 }, dilation = { 1, 2 }, groups = 2 })
check("conv2d", { R { 1, 2, 6, 6 }, R { 2, 2, 2, 2 } }, { stride = 3 })
check("conv2d", { R { 1, 3, 4, 4 }, R { 3, 1, 3, 3 } }, { groups = 3, padding = 1 })
check("conv2d", { R { 1, 3, 5, 4 }, R { 6, 1, 3, 3 } }, { groups = 3, padding = 1, stride = 2 })
check("conv2d", { R { 2, 3, 3, 3 }, R { 2, 3, 1, 1 } })
check("conv3d", { R { 1, 2, 3, 4, 3 }, R { 2, 2, 2, 3, 2 }, R { 2 } }, { stride = { 1, 2, 1 }, padding = { 1, 1, 0 } })
check("conv2d", { R { 0, 2, 4, 4 }, R { 2, 2, 3, 3 } })

-- channels last
check("conv1d", { R { 2, 6, 3 }, R { 2, 3, 3 }, R { 2 } }, { layout = "nhwc", padding = 1 })
check("conv2d", { R { 2, 4, 5, 4 }, R { 4, 3, 2, 2 }, R { 4 } }, { layout = "nhwc", stride = 2, padding = 1, groups = 2 })
check("conv2d", { R { 2, 4, 4, 3 }, R { 3, 3, 3, 1 } }, { layout = "nhwc", groups = 3 })
check("conv3d", { R { 1, 3, 3, 3, 2 }, R { 2, 2, 2, 2, 2 } }, { layout = "nhwc" })

-- epilogues; inputs left out
check("conv2d", { R { 1, 2, 4, 4 }, R { 2, 2, 3, 3 }, R { 2 }, R { 1, 2, 2, 2 } })
check("conv2d", { R { 1, 2, 4, 4 }, R { 2, 2, 3, 3 }, false, R { 1, 2, 2, 2 } })
check("conv1d", { R { 1, 2, 5 }, R { 3, 2, 3 }, R { 3 }, R { 1, 3, 3 } }, { epilogue = "bias_residual_relu" })
check("conv1d", { R { 1, 2, 5 }, R { 3, 2, 3 }, R { 3 }, R { 1, 3, 3 } }, { epilogue = "bias_gelu_residual" })
check("conv1d", { R { 1, 5, 2 }, R { 3, 3, 2 }, R { 3 } }, { epilogue = "bias_silu", layout = "nhwc" })
check("conv2d", { R { 1, 2, 4, 4 }, R { 2, 2, 3, 3 } }, { epilogue = "relu" })

-- complex; one real operand
check("conv1d", { C { 2, 2, 5 }, C { 4, 1, 3 }, C { 4 } }, { groups = 2, padding = 1, stride = 2 })
check("conv2d", { C { 1, 4, 4, 4 }, C { 2, 3, 3, 2 } }, { layout = "nhwc", padding = 1, groups = 2 })
check("conv2d", { C { 1, 2, 4, 3 }, R { 2, 2, 3, 2 } })

-- transposed
check("conv_transpose", { R { 2, 3, 4 }, R { 3, 2, 3 }, R { 2 } })
check("conv_transpose", { R { 1, 4, 3, 3 }, R { 4, 2, 3, 2 }, R { 4 } }, { stride = 2, padding = 1, output_padding = 1, groups = 2 })
check("conv_transpose", { R { 1, 2, 3, 3 }, R { 2, 2, 3, 3 } }, { stride = 1, dilation = 3, output_padding = 2 })
check("conv_transpose", { R { 1, 2, 2, 2, 2 }, R { 2, 1, 2, 2, 2 } }, { stride = { 2, 1, 3 } })
check("conv_transpose", { C { 1, 2, 4 }, C { 2, 2, 3 }, C { 4 } }, { groups = 2, stride = 2, padding = 1 })
check("depthwise_conv2d", { R { 1, 3, 4, 4 }, R { 3, 1, 3, 3 }, R { 3 } }, { padding = 1 })

-- the weight gradient itself, of fewer positions than there are
check("conv_weight_grad", { R { 2, 4, 7 }, R { 2, 4, 3 } }, { window = { 3 }, groups = 2, stride = 2 })
check("conv_weight_grad", { R { 2, 4, 7 }, R { 2, 4, 2 } }, { window = { 3 }, stride = 2, padding = 1 })
check("conv_weight_grad", { R { 1, 4, 5, 2 }, R { 1, 4, 3, 4 } }, { window = { 3, 3 }, layout = "nhwc", padding = { 1, 0 } })
check("conv_weight_grad", { C { 1, 2, 5 }, C { 1, 4, 3 } }, { window = { 3 }, groups = 2 })

-- strided operands, larger than a panel, against the definition in f32
local core = require "tessera.core"
local op = core.op
local function close(a, b, tolerance)
  local d = (a:cast("f64") - b:cast("f64")):abs():max():item()
  assert(d <= tolerance * math.max(1, b:cast("f64"):abs():max():item()), d)
end
for _, o in ipairs { { 5, 20, 1, 1 }, { 17, 9, 2, 1 }, { 16, 32, 1, 2 }, { 40, 3, 2, 1 } } do
  local c, out, stride, groups = unpack(o)
  local x = op.transpose(R { 3, c * groups, 13, 12 })
  local w = R { out * groups, c, 3, 3 }
  local options = { stride = stride, padding = 1, groups = groups }
  local y = op.conv2d(x, w, options)
  local g = R(y.shape)
  local gw = ({ core.vjp("conv2d", { x, w }, options, { g }) })[2]
  -- tap by tap: the shifted image times g
  local padded = op.pad(x, { 1, 1, 1, 1 })
  for _, tap in ipairs { { 0, 0 }, { 1, 2 }, { 2, 1 } } do
    local shifted = padded:slice({ 0, 0, tap[1], tap[2] },
      { 3, c * groups, tap[1] + (y.shape[3] - 1) * stride + 1, tap[2] + (y.shape[4] - 1) * stride + 1 }, { 1, 1, stride, stride })
    for k = 0, groups - 1 do
      local a = g:narrow(1, k * out, out):transpose(0, 1):reshape(out, -1)
      local b = shifted:narrow(1, k * c, c):transpose(0, 1):reshape(c, -1)
      local part = gw:narrow(0, k * out, out):select(3, tap[2]):select(2, tap[1])
      close(part, a:matmul(b:T()), 1e-12)
    end
  end
  for _, dtype in ipairs { "f32", "bf16", "f16" } do
    local narrow = { core.vjp("conv2d", { x:cast(dtype), w:cast(dtype) }, options, { g:cast(dtype) }) }
    assert(narrow[1].dtype == dtype and narrow[2].dtype == dtype)
    close(narrow[2], gw, dtype == "f32" and 1e-5 or 3e-2)
  end
end
