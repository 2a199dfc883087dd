-- Products of groups of rows on a device, and the gradients of their matrices: bits equal to a
-- product a group there and, of f32 and f64, to the CPU; groups of any sizes, matrices either way
-- round, kernels with roles and of warps. The device is simulated, or that of `make check DEV=cuda`.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, rng = tessera.core, tessera.op, tessera.graph, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local passed, failed = 0, 0
local function check(what, good)
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print("FAILED " .. what) end
end

-- Kernels are for a matrix unit: without it the CPU has these operators.
local function stays(before) return not device.unit or core.jit_device().fallback == before end
local function numbers(d, shape) return op.cast(rng.normal(shape), d) end

-- A product for each group, as far as rows go; of weights a sum over rows.
local function by_hand(x, w, sizes)
  local rows, row, parts = x.shape[1], 0, {}
  for g = 1, #sizes do
    local n = math.min(sizes[g], rows - row)
    if n > 0 then parts[#parts + 1] = op.matmul(x:narrow(0, row, n), w:select(0, g - 1)) end
    row = row + n
  end
  if row < rows then
    parts[#parts + 1] = op.zeros({ rows - row, w.shape[3] }, { dtype = x.dtype }):to(x.device)
  end
  return op.concat(unpack(parts))
end

local function weights_by_hand(x, g, sizes)
  local rows, row, parts = x.shape[1], 0, {}
  for i = 1, #sizes do
    local n = math.min(sizes[i], rows - row)
    parts[i] = n > 0 and op.matmul(x:narrow(0, row, n):T(), g:narrow(0, row, n))
      or op.zeros({ x.shape[2], g.shape[2] }, { dtype = x.dtype }):to(x.device)
    row = row + n
  end
  return op.stack(unpack(parts))
end

local function both(what, d, rows, k, n, sizes)
  local groups = #sizes
  local s = tessera.tensor(sizes, { dtype = "i32" })
  local x, w, g = numbers(d, { rows, k }), numbers(d, { groups, k, n }), numbers(d, { rows, n })
  local wt = w:transpose(-1, -2):contiguous():to(name):transpose(-1, -2)
  local x1, w1, g1, s1 = x:to(name), w:to(name), g:to(name), s:to(name)
  local before = core.jit_device().fallback
  local y, yt = op.grouped_matmul(x1, w1, s1), op.grouped_matmul(x1, wt, s1)
  local dw = op.grouped_matmul_weight_grad(x1, g1, s1)
  check(what .. ": runs on the device", stays(before) and y.device == name)
  if d == "f32" or d == "f64" or core.profile() == "strict" then
    check(what, device.same(y, op.grouped_matmul(x, w, s)))
    check(what .. " turned", device.same(yt, op.grouped_matmul(x, w, s)))
    check(what .. " weights", device.same(dw, op.grouped_matmul_weight_grad(x, g, s)))
  else
    check(what, device.same(y, by_hand(x1, w1, sizes):to "cpu"))
    check(what .. " turned", device.same(yt, by_hand(x1, w1, sizes):to "cpu"))
    check(what .. " weights", device.same(dw, weights_by_hand(x1, g1, sizes):to "cpu"))
  end
end

-- Groups with room of their own, beside the same rows side by side.
local function own(what, d, room, k, n, sizes)
  local groups, rows = #sizes, 0
  for _, size in ipairs(sizes) do rows = rows + size end
  local s = tessera.tensor(sizes, { dtype = "i64" }):to(name)
  local x, w, g = numbers(d, { groups, room, k }):to(name), numbers(d, { groups, k, n }):to(name), numbers(d, { groups, room, n }):to(name)
  local function packed(t)
    local parts = {}
    for i, size in ipairs(sizes) do parts[i] = t:select(0, i - 1):narrow(0, 0, size) end
    return op.concat(unpack(parts))
  end
  local before = core.jit_device().fallback
  local y, dw = op.grouped_matmul(x, w, s), op.grouped_matmul_weight_grad(x, g, s)
  check(what .. ": runs on the device", stays(before) and y.device == name)
  check(what, device.same(packed(y), op.grouped_matmul(packed(x), w, s):to "cpu"))
  check(what .. " weights", device.same(dw, op.grouped_matmul_weight_grad(packed(x), packed(g), s):to "cpu"))
  local rest = 0
  for i, size in ipairs(sizes) do rest = rest + y:select(0, i - 1):narrow(0, size, room - size):abs():sum():item() end
  check(what .. " behind", rest == 0)
end

-- Groups that share a room, side by side from its first row on: of one, which is what a device of a mesh has, on the device; of
-- several by the CPU. Beside each room's rows without one.
local function shared(what, d, rooms, room, k, n, sizes)
  local groups, each = #sizes, #sizes / rooms
  local s = tessera.tensor(sizes, { dtype = "i64" }):to(name)
  local x, w, g = numbers(d, { rooms, room, k }):to(name), numbers(d, { groups, k, n }):to(name), numbers(d, { rooms, room, n }):to(name)
  local before = core.jit_device().fallback
  local y, dw = op.grouped_matmul(x, w, s), op.grouped_matmul_weight_grad(x, g, s)
  check(what .. ": runs on the device", y.device == name and (rooms > 1 or stays(before)))
  for i = 0, rooms - 1 do
    local own, its = w:narrow(0, i * each, each), s:narrow(0, i * each, each)
    -- 16-bit products are those of the device that has them.
    local alone, grad = op.grouped_matmul(x:select(0, i), own, its), op.grouped_matmul_weight_grad(x:select(0, i), g:select(0, i), its)
    if rooms > 1 then
      alone = op.grouped_matmul(x:select(0, i):to "cpu", own:to "cpu", its:to "cpu")
      grad = op.grouped_matmul_weight_grad(x:select(0, i):to "cpu", g:select(0, i):to "cpu", its:to "cpu")
    end
    check(what .. ", room " .. i, device.same(y:select(0, i), alone:to "cpu"))
    check(what .. " weights, room " .. i, device.same(dw:narrow(0, i * each, each), grad:to "cpu"))
    if d == "f32" or d == "f64" then
      check(what .. " as on the CPU", device.same(y:select(0, i), op.grouped_matmul(x:select(0, i):to "cpu", own:to "cpu", its:to "cpu")))
    end
  end
end

core.seed(11)
for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
  shared(d .. " a shared room", d, 1, 40, 16, 24, { 7, 0, 20, 5 })
  shared(d .. " a shared room, full", d, 1, 80, 32, 72, { 66, 0, 1, 13 })
  shared(d .. " two shared rooms", d, 2, 24, 16, 24, { 7, 0, 20, 4 })
end
for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
  own(d .. " own room", d, 20, 16, 24, { 7, 0, 20, 13 })
  own(d .. " own room, one", d, 40, 64, 40, { 39 })
  own(d .. " own room, large", d, 80, 32, 72, { 80, 0, 1, 65 })
end
local cases = {
  { 40, 16, 24, { 7, 0, 20, 13 } },
  { 40, 64, 40, { 40 } },
  { 33, 72, 16, { 0, 5, 0, 9, 0 } },
  { 24, 8, 72, { 10, 20, 5 } }, -- more than there are
  { 150, 32, 72, { 130, 0, 20 } },
  { 5, 16, 8, { 0, 0 } },
  { 70, 16, 8, { 1, 1, 1, 1, 1, 64, 1 } },
}
for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
  for i, c in ipairs(cases) do
    both(("%s case %d"):format(d, i), d, unpack(c))
  end
  both(d .. " odd widths", d, 37, 10, 14, { 12, 25 })
end
if device.kind ~= "sim" then
  for _, d in ipairs { "f32", "bf16" } do
    both(d .. " large", d, 3000, 520, 1032, { 700, 0, 1024, 1, 63, 65, 128, 900 })
  end
end
core.profile "strict"
both("strict bf16", "bf16", 40, 16, 24, { 7, 0, 20, 13 })
both("strict f16", "f16", 33, 40, 16, { 12, 9, 0, 12 })
core.profile "deterministic"

-- In functions, with gradients of both operands and sizes that are computed; replayed.
for _, d in ipairs { "f32", "bf16" } do
  local x, w, g = numbers(d, { 40, 16 }), numbers(d, { 3, 16, 24 }), numbers(d, { 40, 24 })
  local groups = tessera.tensor({ 0, 2, 2, 1, 0, 2, 0, 0, 2, 2 }, { dtype = "i64" })
  local function f(x, w, g, groups)
    local sizes = op.sum(op.one_hot(groups, { classes = 3 }):cast "i32", { axis = 0 }) * 4
    return op.sum(op.grouped_matmul(x, w, sizes) * g)
  end
  local m, there = graph.grad(f, { 1, 2 }), { x:to(name), w:to(name), g:to(name), groups:to(name) }
  local sizes = tessera.tensor({ 16, 4, 20 }, { dtype = "i32" }):to(name)
  local dx = op.grouped_matmul(there[3], there[2]:transpose(-1, -2), sizes)
  local dw = op.grouped_matmul_weight_grad(there[1], there[3], sizes)
  for round = 1, 4 do
    local a, b = m(unpack(there))
    check(("%s gradients, round %d"):format(d, round), a.device == name and a:hash() == dx:hash() and b:hash() == dw:hash())
  end
end

-- Sizes that only the device has; wrong ones are told when somebody reads.
local x, w = numbers("f32", { 16, 8 }):to(name), numbers("f32", { 3, 8, 12 }):to(name)
local function told(sizes)
  local s = tessera.tensor(sizes, { dtype = "i64" }):to(name) + 0
  local ok, message = pcall(function() return op.grouped_matmul(x, w, s):totable() end)
  return not ok and tostring(message) or "nothing"
end
check("negative: " .. told { 4, -1, 4 }, told({ 4, -1, 4 }):find("group 1 has %-1 rows"))
check("too many: " .. told { 4, 4, 17 }, told({ 4, 4, 17 }):find("group 2 has 17 rows"))
check("goes on", device.same(op.grouped_matmul(x, w, tessera.tensor({ 4, 4, 8 }, { dtype = "i64" })),
  op.grouped_matmul(x:to "cpu", w:to "cpu", tessera.tensor({ 4, 4, 8 }, { dtype = "i64" }))))
print(("%d passed, %d failed"):format(passed, failed))
assert(failed == 0, failed .. " failed")
