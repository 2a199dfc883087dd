-- Values that are made in their places in the result of a concat or pad, on a device: bits of the
-- CPU's operators one by one, with kernels of groups and without.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if not tessera.jit.status() then print "skipped: nothing is compiled here: kernels" end

local function u(shape, stream) return op.uniform(shape, { low = -2, high = 2, seed = 3, stream = stream }) end
local function cat(axis, ...) return op.concat({ ... }, { axis = axis }) end

local wrong = {}
local function check(case, rooms, f, ...)
  local args, there = { ... }, {}
  for i, x in ipairs(args) do there[i] = x:to(name) end
  local want, m = f(unpack(args)):hash(), graph.module(case, f)
  for _, kernels in ipairs { false, true } do
    tessera.jit.eager(kernels)
    for _ = 1, 3 do
      local y = m(unpack(there))
      if y:hash() ~= want then wrong[#wrong + 1] = case .. (kernels and " with kernels" or "") end
    end
    local _, n = m:ir("bytecode"):gsub("= room", "")
    if n ~= rooms and kernels and tessera.jit.status() then wrong[#wrong + 1] = ("%s: %d rooms"):format(case, n) end
  end
end

local x, y = u({ 40, 36 }, 1), u({ 40, 36 }, 2)
check("rows", 1, function(a, b) return cat(0, op.exp(a) * b, op.tanh(a + b) * 2) end, x, y)
check("columns", 1, function(a, b) return cat(1, op.exp(a) * b, op.tanh(a + b) * 2) end, x, y)
check("inside", 1, function(a, b) return op.sum(cat(1, op.exp(a) * b, a - b * 2), { axis = 1 }) * 2 end, x, y)
check("softmax", 1, function(a, b) return cat(-1, op.softmax(a * 2), op.layernorm(a + b), a - b * 3) end, x, y)
check("converted", 1, function(a, b)
  return cat(1, (op.exp(a) * b):cast("f16"), op.tanh(a + b) * 2, op.cos(a) - 1)
end, x, y)
check("pad", 1, function(a, b) return op.pad(op.exp(a) * b, { pads = { 1, 2, 3, 0 }, value = 7 }) end, x, y)
check("stack", 1, function(a, b) return op.stack({ op.exp(a) * b, op.tanh(a + b) * 2 }, { axis = 1 }) end, x, y)
check("halves", 1, function(a, b)
  local p, q = a:chunk(2, { axis = -1 })
  return cat(-1, p * q - 1, q - p * 2) * b
end, x, y)
tessera.jit.eager(false)
print(#wrong == 0 and "the same" or table.concat(wrong, "\n")) --> the same
