-- Reductions along leading axes as kernels, against the VM, by hash: with what is stored beside
-- them, in several passes, of several axes, in leaves, in all types.
local tessera = require "tessera"
local graph, op, jit = tessera.graph, tessera.op, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end
jit.eager(true)

local function u(shape, stream, dtype)
  local x = op.uniform(shape, { low = -2, high = 2, seed = 3, stream = stream })
  return dtype and x:cast(dtype) or x
end

local wrong = {}
local function check(name, f, ...)
  local m, list = graph.module(name, f), { ... }
  local function hashes()
    local t = { m(unpack(list)) }
    for i = 1, #t do t[i] = t[i]:hash() end
    return table.concat(t, " ")
  end
  jit.off()
  local want = hashes()
  jit.on()
  local kernels = jit.stats().kernels
  if hashes() ~= want or hashes() ~= want then wrong[#wrong + 1] = name .. " differs" end
  if not m:ir("schedule"):find "columns" then wrong[#wrong + 1] = name .. ": no columns" end
  if jit.stats().kernels == kernels then wrong[#wrong + 1] = name .. ": no kernel" end
end

local function sum(x, axes) return op.sum(x, { axis = axes or 0 }) end
check("stored", function(x, y) local d = x * y return sum(d), d end, u({ 1536, 100 }, 1), u({ 1536, 100 }, 2))
check("scaled", function(x, y) return op.mean(x * y, { axis = 0 }) + 1 end, u({ 77, 33 }, 1), u({ 77, 33 }, 2))
check("batch", function(x, y)
  local c = x - op.mean(x, { axis = 0 })
  return c * op.rsqrt(op.mean(op.square(c), { axis = 0 }) + 1e-5) * y
end, u({ 300, 100 }, 1), u({ 100 }, 2))
check("two_axes", function(x, y)
  return sum(op.gelu(x) * y, { 0, 1 }), op.max(op.exp(x), { axis = { 0, 1 } })
end, u({ 8, 40, 70 }, 1), u({ 8, 40, 70 }, 2))
check("planes", function(x, y) return sum(x * y) end, u({ 8, 40, 70 }, 1), u({ 70 }, 2))
check("leaves", function(x, y)
  return sum(x * y), op.mean(op.abs(x), { axis = 0, keepdims = true })
end, u({ 40001, 17 }, 1), u({ 17 }, 2))
check("planes_in_leaves", function(x, y) return sum(x * y) end, u({ 33000, 4, 5 }, 1), u({ 5 }, 2))
check("bf16", function(x, y) return sum(x * y) * 2, op.prod(x * 0.5 + 1, { axis = 0 }) end, u({ 5000, 40 }, 1, "bf16"),
  u({ 40 }, 2, "bf16"))
check("f64", function(x, y) return sum(x * y) * 2, op.min(x * 0.5 + 1, { axis = 0 }) end, u({ 500, 40 }, 1, "f64"),
  u({ 40 }, 2, "f64"))
jit.eager(false)
print(#wrong == 0 and "the same" or table.concat(wrong, "\n")) --> the same
