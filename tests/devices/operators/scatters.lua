-- Operators with indices, and those that move elements, on a device against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local check, random = on.check, on.random
local name = on.name

-- ---- what is read of views
for _, d in ipairs { "f32", "bf16", "i64" } do
  local x, i = random({ 7, 9, 11 }, d), tessera.tensor({ 3, 0, -1, 5 }, { dtype = "i64" })
  check("take of a view " .. d, function(a, b) return op.take(a:select(1, 2), b) end, x, i)
  check("take of a transposed one " .. d, function(a, b) return op.take(a:transpose(0, 2), b) end, x, i)
  check("index_select of a view " .. d, function(a, b) return op.index_select(a:transpose(0, 2), b, { axis = 1 }) end, x, i)
end

-- ---- indices: chains side by side, runs of one place, slices
local function ids(shape, n, d)
  return op.cast(op.floor(op.mul(rng.uniform(shape), n)), d or "i64")
end
for _, d in ipairs { "f32", "bf16", "f16", "i32", "i64", "f64", "bool", "complex64" } do
  local adds = d ~= "bool" and d ~= "complex64"
  local function some(shape)
    return d == "complex64" and op.fft(random(shape)) or random(shape, d)
  end
  for axis = 0, 2 do
    local at, n, long = { axis = axis }, ({ 7, 9, 11 })[axis + 1], { 7, 9, 11 }
    local x, i, src = some { 7, 9, 11 }, ids({ 5, 3, 4 }, n), some { 5, 3, 4 }
    check("gather " .. d, function(a, b) return op.gather(a, b, at) end, x, i)
    check("scatter " .. d, function(a, b, c) return op.scatter(a, b, c, at) end, x, i, src)
    long[axis + 1] = 200
    if adds then
      check("scatter_add " .. d, function(a, b, c) return op.scatter_add(a, b, c, at) end, x, i - n, src)
      check("index_add " .. d, function(a, b, c) return op.index_add(a, b, c, at) end, x,
        ids({ 200 }, n, "i32"), some(long))
    end
  end
  local x, i, src = some { 50 }, ids({ 5000 }, 49), some { 5000 }
  check("scatter of runs " .. d, function(a, b, c) return op.scatter(a, b, c) end, x, i, src)
  if adds then
    check("scatter_add of runs " .. d, function(a, b, c) return op.scatter_add(a, b, c) end, x, i, src)
    check("index_add of slices " .. d, function(a, b, c) return op.index_add(a, b, c, { axis = 1 }) end,
      some { 2, 9, 40 }, ids({ 300 }, 8), some { 2, 300, 40 })
    for _, mode in ipairs { "sum", "mean", "prod", "min", "max" } do
      local o = { segments = 13, mode = mode }
      if mode ~= "mean" or d:find "f" then
        for _, cols in ipairs { 3, 40 } do
          check(("segment %s of %d %s"):format(mode, cols, d), function(a, b)
            return op.segment_reduce(a, b, o)
          end, some { 70, cols }, ids({ 70 }, 12, "i32"))
        end
      end
    end
  end
end
check("one_hot", function(i) return op.one_hot(i, { classes = 9 }) end, ids({ 4, 5 }, 9))
check("scatter of a row", function(a, b, c) return op.scatter(a, b, c, { axis = 0 }) end,
  random { 6, 5 }, ids({ 3, 5 }, 6), random { 1, 5 })

-- ---- places
for _, d in ipairs { "f32", "bool", "complex64" } do
  local x = random({ 3, 5, 7 }, d == "complex64" and "f32" or d)
  if d == "complex64" then x = op.fft(x) end
  check("roll " .. d, function(y) return op.roll(y, { shift = { 2, -3 }, axis = { 1, 2 } }) end, x)
  check("flat roll " .. d, function(y) return op.roll(y, { shift = { 11 } }) end, x)
  check("tril " .. d, function(y) return op.tril(y, { diagonal = 1 }) end, x)
  check("triu " .. d, function(y) return op.triu(y, { diagonal = -1 }) end, x)
  check("repeat_interleave " .. d, function(y)
    return op.repeat_interleave(y, { count = 3, axis = 1 })
  end, x)
  for _, mode in ipairs { "constant", "reflect", "replicate", "circular" } do
    check(mode .. " pad " .. d, function(y)
      return op.pad(y, { pads = { 2, 1, 0, 3 }, mode = mode, value = 1 })
    end, x)
  end
  check("slice_update " .. d, function(y, z)
    return op.slice_update(y, z, { start = { 1, 0, 1 }, stop = { 3, 5, 7 }, step = { 1, 2, 3 } })
  end, x, x[0][0][0]:reshape(1))
end
-- Regions that are filled with a number, and sources of another type.
for _, d in ipairs { "f32", "bf16", "f16", "f64", "i8", "u8", "i32", "i64", "bool", "complex64" } do
  local x = random({ 3, 5, 7 }, d == "complex64" and "f32" or d)
  if d == "complex64" then x = op.fft(x) end
  local region = { start = { 1, 0, 6 }, stop = { 3, 5, 0 }, step = { 1, 2, -3 } }
  for _, v in ipairs(d:find "[fx]" and { 1, -2.3, 70001, 0 / 0, -0.0 } or { 0, 1 }) do
    check(("slice_update by %g %s"):format(v, d), function(y)
      return op.slice_update(y, v, region)
    end, x)
  end
  for _, of in ipairs { "f32", "i32", "bf16", "bool" } do
    local src = op.cast(random { 1 }, of)
    if pcall(op.slice_update, x, src, region) then
      check(("slice_update of %s by %s"):format(d, of), function(y, z)
        return op.slice_update(y, z, region)
      end, x, src)
    end
  end
end
local filled = tessera.graph.module(function(y) return op.slice_update(y, 3, { start = { 1 }, stop = { 5 } }) * 2 end)
check("slice_update by a number, captured", function(y) return filled(y) end, random({ 9 }))
for _, d in ipairs { "f32", "bf16", "i64" } do
  local x = random({ 7, 30 }, d)
  for _, shape in ipairs { { 7, 30 }, { 30 }, { 7, 1 } } do
    local mask = op.gt(rng.normal(shape), 0)
    local n = op.count_nonzero(op.logical_and(mask, op.ones({ 7, 30 }, { dtype = "bool" }))):item()
    check("masked_scatter " .. d, op.masked_scatter, x, mask, random({ n }, d))
  end
end
local function made(f) -- on the device, against the CPU
  local got, want = tessera.device(name, f), f()
  assert(got.device == name and got:hash() == want:hash(), "made there")
end
made(function() return op.arange(-3, 40, 2) end)
made(function() return op.arange(0, 1, 0.01, { dtype = "f32" }) end)
made(function() return op.linspace(-1, 2, 37, { dtype = "f64" }) end)
made(function() return op.eye(5, 9, { dtype = "bf16" }) end)
