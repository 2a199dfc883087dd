-- Derivatives of pools and of resampling.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op, R = core.op, check.random

-- Distinct numbers with gaps wider than the steps of the differences.
local seed = 0
local function apart(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  seed = seed + 1
  local order = op.argsort(op.uniform({ n }, { dtype = "f64", seed = 5, stream = seed }))
  return (order:cast("f64") * 0.1 - n * 0.05):reshape(shape)
end

check("max_pool", { apart { 2, 2, 7 } }, { window = { 2 } })
check("max_pool", { apart { 1, 2, 6, 7 } }, { window = { 3, 2 }, stride = { 1, 2 }, padding = { 1, 1 } })
check("max_pool", { apart { 1, 1, 7, 6 } }, { window = { 2, 2 }, dilation = { 2, 3 } })
check("max_pool", { apart { 2, 5, 4, 3 } }, { window = { 2, 2 }, stride = 1, layout = "nhwc" })
check("max_pool", { apart { 1, 1, 4, 4, 4 } }, { window = { 2, 3, 2 }, stride = 1 })
check("max_pool", { R { 0, 2, 4 } }, { window = { 2 } })
check("max_pool", { apart { 2, 6, 2 }:transpose(1, 2) }, { window = { 3 } })
for _, layout in ipairs { "nchw", "nhwc" } do
  for _, pad in ipairs { true, false } do
    check("avg_pool", { R { 1, 5, 4, 2 } }, { window = { 3, 2 }, stride = { 2, 1 }, padding = { 1, 1 }, layout = layout, count_include_pad = pad })
    check("avg_pool_grad", { R { 1, 3, 4, 5 } }, { size = layout == "nchw" and { 4, 5 } or { 3, 4 }, window = 3, stride = 1, padding = 1, layout = layout, count_include_pad = pad })
  end
end
check("avg_pool", { R { 2, 2, 7 } }, { window = { 2 }, dilation = 2, stride = 1 })
check("avg_pool", { R { 1, 2, 3, 4, 3 } }, { window = { 2, 2, 2 } })
check("adaptive_avg_pool", { R { 2, 2, 7 } }, { size = { 3 } })
check("adaptive_avg_pool", { R { 1, 2, 5, 4 } }, { size = { 3, 1 } })
check("adaptive_avg_pool", { R { 1, 1, 2, 3, 4 } }, { size = { 3, 2, 2 } })
check("adaptive_avg_pool_grad", { R { 1, 2, 3, 1 } }, { size = { 5, 4 } })

for _, mode in ipairs { "nearest", "linear", "cubic" } do
  for _, corners in ipairs { false, mode ~= "nearest" or nil } do
    local o = { mode = mode, align_corners = corners }
    local function with(t) for k, v in pairs(o) do t[k] = v end return t end
    if mode ~= "cubic" then
      check("interpolate", { R { 2, 2, 5 } }, with { size = { 8 } })
      check("interpolate", { R { 1, 2, 2, 3, 2 } }, with { size = { 3, 2, 4 } })
    end
    check("interpolate", { R { 1, 2, 4, 3 } }, with { size = { 7, 5 } })
    check("interpolate", { R { 1, 2, 5, 6 } }, with { size = { 2, 3 } })
    check("interpolate", { R { 2, 1, 3, 4 } }, with { scale = { 1.7, 2 } })
    check("interpolate", { R { 1, 1, 1, 4 } }, with { size = { 1, 6 } })
    check("interpolate_grad", { R { 1, 1, 5, 6 } }, with { size = { 3, 4 } })
  end
end

-- The first of equal elements gets the gradient, the first NaN before all numbers.
local x = core.tensor { 1, 3, 3, 2, 0 / 0, 5, 0 / 0, 1 }:reshape(1, 1, 8)
op.max_pool_index(x, { window = { 4 } }) --> [[[1 4]]]
--> i64[1,1,2]
core.vjp("max_pool", { x }, { window = { 4 } }, { core.tensor { 10, 20 }:reshape(1, 1, 2) }) --> [[[ 0. 10.  0.  0. 20.  0.  0.  0.]]]
--> f32[1,1,8]
op.max_pool_index(op.full({ 1, 1, 2, 2 }, -1 / 0), { window = { 2, 2 }, stride = 1, padding = 1 }) --> [[[[0 0 1]
-->    [0 0 1]
-->    [2 2 3]]]]
--> i64[1,1,3,3]

-- Narrow types round once.
local function close(a, b, tolerance) assert((a:cast("f64") - b):abs():max():item() <= tolerance) end
for _, t in ipairs { { "f32", 1e-6 }, { "bf16", 2e-2 }, { "f16", 2e-3 } } do
  local dtype, tolerance = unpack(t)
  local g = R { 2, 3, 4, 4 }:cast(dtype)
  for name, o in pairs { avg_pool = { window = { 2, 2 } }, adaptive_avg_pool = { size = { 4, 4 } }, interpolate = { size = { 4, 4 }, mode = "linear" } } do
    local input = R { 2, 3, 8, 8 }
    local wide = core.vjp(name, { input }, o, { g:cast("f64") })
    local narrow = core.vjp(name, { input:cast(dtype) }, o, { g })
    assert(narrow.dtype == dtype)
    close(narrow, wide, tolerance)
  end
end

-- Shapes that do not belong together.
op.avg_pool_grad(op.ones { 1, 1, 3, 3 }, { size = { 8, 8 }, window = { 2, 2 } }) --! avg_pool_grad: g must be f32[1,1,4,4] for x f32[1,1,8,8], not f32[1,1,3,3]
op.conv_weight_grad(op.ones { 1, 2, 8 }, op.ones { 1, 3, 7 }, { window = { 3 } }) --! has more than 6 places on axis 2
