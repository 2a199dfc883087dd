-- Pools and resampling on a device against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local check, random = on.check, on.random

-- ---- pools
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, layout in ipairs { "nchw", "nhwc" } do
    local x = random({ 2, 5, 9, 7 }, d)
    for _, o in ipairs { { window = 2 }, { window = { 3, 2 }, stride = { 2, 1 }, padding = 1 },
      { window = 3, stride = 1, dilation = 2, padding = 1 } } do
      o.layout = layout
      check("max_pool " .. d, function(y) return op.max_pool(y, o) end, x)
      check("max_pool_index " .. d, function(y) return op.max_pool_index(y, o) end, x)
      check("avg_pool " .. d, function(y) return op.avg_pool(y, o) end, x)
      o.count_include_pad = false
      check("avg_pool without padding " .. d, function(y) return op.avg_pool(y, o) end, x)
      o.count_include_pad = nil
    end
  end
end
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, layout in ipairs { "nchw", "nhwc" } do
    for _, o in ipairs { { window = 2 }, { window = { 3, 2 }, stride = { 2, 1 }, padding = 1 },
      { window = 3, stride = 1, dilation = 2, padding = 1 } } do
      for _, counts in ipairs { true, false } do
        o.layout, o.count_include_pad, o.size = layout, counts, nil
        local shape = op.avg_pool(random({ 2, 5, 9, 7 }, d), o).shape
        o.size = layout == "nchw" and { 9, 7 } or { 5, 9 }
        check("avg_pool_grad " .. d, function(g) return op.avg_pool_grad(g, o) end, random(shape, d))
      end
    end
  end
end
check("max_pool of integers", function(y) return op.max_pool(y, { window = 2 }) end,
  random({ 1, 2, 6, 6 }, "i32"))

-- ---- resampling
for _, d in ipairs { "f32", "bf16", "f64" } do
  for _, s in ipairs { { 1, 1 }, { 3, 4 }, { 7, 9 }, { 10, 13 } } do
    check("adaptive_avg_pool " .. d, function(x) return op.adaptive_avg_pool(x, { size = s }) end,
      random({ 2, 3, 7, 9 }, d))
    check("adaptive_avg_pool_grad " .. d, function(g)
      return op.adaptive_avg_pool_grad(g, { size = { 7, 9 } })
    end, random({ 2, 3, s[1], s[2] }, d))
  end
  for _, mode in ipairs { "nearest", "linear", "cubic" } do
    for _, o in ipairs { { size = { 9, 13 } }, { size = { 3, 4 } }, { scale = { 2, 2 } },
      { scale = { 1.7, 0.6 } }, { size = { 9, 5 }, align_corners = mode ~= "nearest" } } do
      o.mode = mode
      check("interpolate " .. mode .. " " .. d, function(x) return op.interpolate(x, o) end,
        random({ 2, 3, 5, 7 }, d))
    end
  end
  check("interpolate a line " .. d, function(x)
    return op.interpolate(x, { size = { 11 }, mode = "linear" })
  end, random({ 2, 3, 5 }, d))
  check("interpolate a volume " .. d, function(x)
    return op.interpolate(x, { size = { 3, 4, 5 }, mode = "linear" })
  end, random({ 1, 2, 2, 5, 3 }, d))
end
