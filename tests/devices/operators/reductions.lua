-- Reductions of every kind, sums down columns and rows too long for registers, on a device
-- against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local check, random = on.check, on.random

-- ---- reductions
for _, shape in ipairs { { 40, 50 }, { 3, 700 }, { 5, 3, 4 }, { 5000 } } do
  for _, d in ipairs { "f32", "bf16", "i32", "bool" } do
    local x = random(shape, d)
    for _, row in ipairs { "argmax", "argmin", "all", "any", "count_nonzero", "var", "std", "norm", "logsumexp" } do
      for _, o in ipairs { { axis = 0 }, { axis = #shape - 1, keepdims = true }, {} } do
        check(row .. " " .. d, function(y) return op[row](y, o) end, x)
      end
    end
  end
end

-- ---- axes of one element: each result is an element, and no business of the CPU
do
  local before = tessera.core.jit_device().fallback
  for _, d in ipairs { "f32", "bf16", "f16", "f64", "i32", "u8", "bool", "c64" } do
    local x = d:find "^[fb]" and d ~= "bool" and op.cast(tessera.tensor { 0 / 0, -1 / 0, -0.0, 0, 1e-40, 3, 7, 65000 }, d)
      or random({ 8 }, d)
    for _, row in ipairs { "sum", "mean", "prod", "max", "min" } do
      local skip = d == "c64" and (row == "max" or row == "min")
      for _, c in ipairs { { { 1, 8 }, 0 }, { { 4, 1, 2 }, 1 }, { { 8, 1 }, -1 }, { { 2, 1, 4 }, 1, true } } do
        local o = { axis = c[2], keepdims = c[3] or false }
        if not skip then check(row .. " of one " .. d, function(y) return op[row](y:reshape(c[1]), o) end, x) end
      end
      if not skip then check(row .. " of all", function(y) return op[row](y:narrow(0, 5, 1)) end, x) end
    end
  end
  for _, row in ipairs { "sum", "prod" } do
    check(row .. " of none", function(y) return op[row](y, { axis = 0 }) end, op.zeros { 0, 5 })
  end
  assert(tessera.core.jit_device().fallback == before, "the CPU reduced axes of one element")
end

-- ---- means, added up in f64, and products of whole numbers and of what is true or false
for _, d in ipairs { "bool", "u8", "i16", "i32", "i64" } do
  local wide = d == "i64" and 2 ^ 62 or 2
  local x = op.randint({ 7, 3, 1500 }, { low = d == "i64" and -wide or 0, high = wide, dtype = d })
  for _, row in ipairs { "mean", "prod" } do
    for _, axis in ipairs { 0, 1, 2 } do
      check(row .. " of " .. d, function(y) return op[row](y, { axis = axis }) end, x)
    end
    check(row .. " of all of " .. d, function(y) return op[row](y) end, x)
  end
end

-- ---- sums down columns: leaves of 4096, short ones, edges, neighbours that are one axis
for _, c in ipairs { { { 64, 32 }, { 0 } }, { { 129, 33 }, { 0 } }, { { 3, 200, 70 }, { 1 } },
  { { 5000, 37 }, { 0 } }, { { 2, 4097, 40 }, { 1 } }, { { 8192, 64 }, { 0 } },
  { { 3, 50, 100, 48 }, { 1, 2 } }, { { 12300, 300 }, { 0 } },
  { { 2, 600 }, { 0 } }, { { 3, 33, 1111 }, { 1 } }, { { 63, 2048 }, { 0 } }, { { 90, 16, 16 }, { 0 } } } do
  for _, d in ipairs { "f32", "bf16", "f16", "f64" } do
    local x, o = random(c[1], d), { axis = c[2] }
    local what = (" %s %s"):format(table.concat(c[1], "x"), d)
    check("sum down" .. what, function(y) return op.sum(y, o) end, x)
    check("mean down" .. what, function(y)
      return op.mean(y, { axis = c[2], keepdims = true })
    end, x)
  end
end
check("sum down of -0", function(y) return op.sum(y, { axis = 0 }) end,
  op.neg(op.zeros(4100, 40)))
check("sum down of a part", function(y) return op.sum(y:narrow(0, 1, 299), { axis = 0 }) end,
  random({ 301, 67 }, "bf16"))

-- ---- columns of few rows, and rows too long for registers: wide and narrow about their largest
local graph = tessera.graph
tessera.jit.eager(true)
for _, rows in ipairs { 2, 17, 32, 63 } do
  local function down(x, y) return x:sum { axis = 0 }, (x * y):mean { axis = 0 } end
  check("sum of few rows", graph.module("few", down), random { rows, 1111 }, random { rows, 1111 })
end
do -- each row of few is written out, but not a long function of each
  local x, y = random({ 64, 1111 }, "bf16"), random({ 64, 1111 }, "bf16")
  local function down(a, b)
    local g = op.gelu_tanh_grad(a, b)
    return g, g:sum { axis = 0 }
  end
  local f = graph.module("gates of few rows", down)
  f(x:to(on.name), y:to(on.name))
  local explicit = require("_device").unit -- form of NVIDIA's
  assert(not explicit or #f:ir "explicit" < 10000, "gates of few rows: a long kernel")
  check("sum of gates of few rows", f, x, y)
end
for _, d in ipairs { "f32", "bf16" } do
  for _, scale in ipairs { 0.1, 10 } do
    local function loss(x, y)
      local function f(z) return op.cross_entropy(z:cast "f32", y) end
      return graph.grad(f)(x), f(x)
    end
    local x = random({ 3, 17000 }, d) * scale
    check("loss of long rows " .. d, graph.module("loss", loss), x, op.randint({ 3 }, { low = 0, high = 17000 }))
    check("softmax of long rows " .. d, op.softmax, x)
  end
end
local odd = random { 3, 20000 }
odd[0][5], odd[2][3] = 0 / 0, 1 / 0
odd[1] = -1 / 0
for _, d in ipairs { "f32", "bf16" } do
  check("long rows of no numbers " .. d, function(x) return op.softmax(x), x:max { axis = 1 }, x:sum { axis = 1 } end,
    odd:cast(d))
end
tessera.jit.eager(false)
