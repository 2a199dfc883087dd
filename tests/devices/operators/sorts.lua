-- Scans, sorts and the first elements of rows on a device against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local check, random = on.check, on.random

for _, shape in ipairs { { 5, 40 }, { 3, 129, 7 }, { 2, 3, 200 }, { 4, 1 }, { 70, 33 } } do
  for _, d in ipairs { "f32", "bf16", "i32", "bool" } do
    for axis = 0, #shape - 1 do
      local x, at = random(shape, d), { axis = axis }
      local what = (" %s %s along %d"):format(table.concat(shape, "x"), d, axis)
      for _, row in ipairs { "cumsum", "cumprod", "cummax", "sort" } do
        check(row .. what, function(y) return op[row](y, at) end, x)
      end
      check("argsort" .. what, function(y)
        return op.argsort(y, { axis = axis, descending = true })
      end, x)
      check("topk" .. what, function(y) return op.topk(y, { k = 1, axis = axis }) end, x)
      if d:find "f" then
        check("linear_scan" .. what, function(a, b) return op.linear_scan(a, b, at) end, x,
          random(shape, d))
      end
    end
  end
end
local odd = tessera.tensor { 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e-40, -1e-40, 2, 2, -0.0 }
check("sort of corners", op.sort, odd)
check("cummax of corners", op.cummax, odd)

-- rows that a block sorts by counting, rows of any length, and the first of them
local function corners(n) -- every 7th element is one that sorts in a way of its own
  local x, rare = random { n }, { 0 / 0, 0, -0.0, 1 / 0, -1 / 0, 1e-40, -1e-40 }
  for i = 0, n - 1, 7 do x[i] = rare[i / 7 % 7 + 1] end
  return x
end
for _, d in ipairs { "f32", "f16", "bf16", "i32", "u8", "i8", "i64", "f64" } do
  local wide = d == "i64" or d == "f64"
  for _, n in ipairs { 600, wide and 4200 or 9000 } do
    local x = random({ 2, n }, d)
    check(("sort of %d %s"):format(n, d), op.sort, x)
    check(("argsort of %d %s"):format(n, d), function(y) return op.argsort(y, { descending = true }) end, x)
    check(("topk of %d %s"):format(n, d), function(y) return op.topk(y, { k = 9 }) end, x)
    check(("least of %d %s"):format(n, d), function(y)
      return op.topk(y, { k = 70, largest = false })
    end, x)
  end
end
check("sort of 40 i64", op.sort, op.cast(random { 3, 40 } * 1e9, "i64"))
check("sort down 700", function(y) return op.sort(y, { axis = 0 }) end, random { 700, 3 })
check("topk of equals", function(y) return op.topk(y, { k = 33 }) end, op.floor(random { 2, 1500 } / 20))
check("sort of 700 corners", op.sort, corners(700))
check("topk of 700 corners", function(y) return op.topk(y, { k = 120 }) end, corners(700))
check("sort of long rows", op.sort, random { 2, 18000 })
check("sort of long corners", function(y) return op.sort(y, { descending = true }) end, corners(17000))
check("topk of long rows", function(y) return op.topk(y, { k = 20 }) end, random { 1, 70000 })
check("sort of long f64", op.sort, random({ 9000 }, "f64"))

-- ---- what is made of rows in order
for _, d in ipairs { "f32", "bf16", "i64" } do
  local x = random({ 5, 3, 40 }, d)
  check("median of all " .. d, op.median, x)
  for axis = 0, 2 do
    check("median " .. d, function(y) return op.median(y, { axis = axis }) end, x)
    for _, q in ipairs { 0.25, 0.77, 1 } do
      check("quantile " .. d, function(y)
        return op.quantile(y, { q = q, axis = axis, keepdims = true })
      end, x)
    end
  end
end
check("median of corners", op.median, odd)
check("median of zeros", op.median, tessera.tensor { -0.0, -0.0, -0.0 })
check("quantile beside infinities", function(y) return op.quantile(y, { q = 0.9 }) end,
  tessera.tensor { 1 / 0, -1 / 0, 3, 1 / 0, 1e-40 })
for _, d in ipairs { "f32", "i32" } do
  local x = random({ 7, 30 }, d)
  for _, o in ipairs { {}, { bins = 70, low = -5, high = 12 }, { bins = 1 } } do
    check("histogram " .. d, function(y) return op.histogram(y, o) end, x)
  end
end
check("histogram of corners", function(y) return op.histogram(y, { bins = 3, low = 0, high = 3 }) end, odd)
