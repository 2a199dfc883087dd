-- Fourier transforms and complex numbers on a device against the CPU. ALL=1: more lengths.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local check, random = on.check, on.random

-- ---- transforms
local lengths = { 1, 2, 8, 30, 61, 67, 96, 128, 521, 1000 }
if os.getenv "ALL" then
  for _, n in ipairs { 3, 4, 5, 12, 16, 37, 60, 243, 256, 360, 512, 1024, 2048, 4096 } do
    lengths[#lengths + 1] = n
  end
end
for _, d in ipairs { "f32", "f64" } do
  for _, n in ipairs(lengths) do
    local x, down = random({ 3, n }, d), random({ n, 3 }, d)
    local z, w = op.fft(x, { norm = "forward" }), op.fft(down, { norm = "forward" })
    local what = n .. " " .. d
    check("fft " .. what, op.fft, z)
    check("ifft " .. what, op.ifft, z)
    check("fft of reals " .. what, op.fft, x)
    check("rfft " .. what, op.rfft, x)
    check("irfft " .. what, function(h) return op.irfft(h, { n = n }) end, op.rfft(x))
    check("fft down " .. what, function(y) return op.fft(y, { axis = 0 }) end, w)
    check("rfft down " .. what, function(y) return op.rfft(y, { axis = 0 }) end, down)
    check("irfft down " .. what, function(h) return op.irfft(h, { axis = 0, n = n }) end,
      op.rfft(down, { axis = 0 }))
    check("fft padded " .. what, function(y) return op.fft(y, { n = n + 1 }) end, z)
  end
end
check("fft2", op.fft2, op.fft(random { 3, 20, 24 }))
check("ifftn", op.ifftn, op.fft(random { 6, 10, 8 }))

-- ---- those for which a block has no room, in two phases; the last ones of each type by a convolution
local long = { f32 = { 17010, 8209, 32768, 16418 }, f64 = { 9000, 4099, 8192 * 3 } }
for d, all in pairs(long) do
  for i = 1, os.getenv "ALL" and #all or 2 do
    local n = all[i]
    for _, inner in ipairs(os.getenv "ALL" and { 1, 3, 20 } or { 1, 20 - 17 * (i % 2) }) do
      local axis = inner == 1 and 1 or 0
      local x = random(inner == 1 and { 2, n } or { n, inner }, d)
      local function along(row, length) return function(y) return op[row](y, { axis = axis, n = length, norm = "ortho" }) end end
      local z, h = along("fft", n)(x), along("rfft", n)(x)
      local what = (" %d beside %d %s"):format(n, inner, d)
      check("fft" .. what, along("fft", n), z)
      check("ifft" .. what, along("ifft", n), z)
      check("fft of reals" .. what, along("fft", n), x)
      check("ifft of reals" .. what, along("ifft", n), x)
      check("fft padded" .. what, along("fft", n + 2), z)
      check("fft cut" .. what, along("fft", n - 2), z)
      for length = n - 2, n + 2 do
        if inner == 1 or length == n or length == n + 1 then
          check("rfft to " .. length .. what, along("rfft", length), x)
          check("irfft to " .. length .. what, along("irfft", length), h)
        end
      end
    end
  end
end
check("fft2 of long rows", op.fft2, op.fft(random { 6, 17010 }))
check("dct of long rows", op.dct, random { 1, 33000 })
check("idct of long columns", function(y) return op.idct(y, { axis = 0 }) end, random { 33000, 1 })
do
  local x = random({ 17010, 3 })
  local function slope(y)
    local leaf = op.clone(y)
    leaf.requires_grad = true
    op.rfft(leaf, { axis = 0 }):real():square():sum():backward()
    return leaf.grad
  end
  check("gradient of a long rfft", slope, x)
end

-- ---- operands that lie otherwise, or have other lengths than the transform wants
for _, d in ipairs { "f32", "f64" } do
  local z = op.fft(random({ 5, 6, 40 }, d))
  local x = random({ 4, 29, 3 }, d)
  check("fft of a view " .. d, op.fft, z["1:, ::2, 3:33"])
  check("ifft of a turned one " .. d, op.ifft, z:T())
  check("fft2 of a view " .. d, op.fft2, z:T()["::2"])
  check("fft of few of many axes " .. d, op.fft, z:reshape(1, 5, 1, 6, 1, 8, 1, 5, 1))
  for _, n in ipairs { 8, 30, 31, 67, 134 } do
    local what = n .. " " .. d
    check("fft cut or padded " .. what, function(y) return op.fft(y, { n = n }) end, z)
    check("rfft of an odd number " .. what, function(y) return op.rfft(y, { n = n, axis = 1 }) end, x)
    check("irfft of other terms " .. what, function(y) return op.irfft(y, { n = n }) end, z)
    check("irfft of reals " .. what, function(y) return op.irfft(y, { n = n, axis = 1 }) end, x)
  end
end
for _, d in ipairs { "f16", "i32", "bool" } do check("fft of " .. d, op.fft, random({ 3, 30 }, d)) end
-- Pairs of f32 that begin in the middle of one.
check("rfft of what begins between pairs", op.rfft, random { 65 }["1:"])
check("rfft of few between pairs", function(y) return op.rfft(y["1:"], { n = 8 }) end, random { 9 })

-- ---- cosine transforms
for _, d in ipairs { "f32", "f64", "bf16" } do
  for _, n in ipairs(d == "f32" and { 1, 2, 3, 15, 30, 67 } or { 15, 30 }) do
    local x, down = random({ 3, n }, d), random({ n, 3 }, d)
    for _, row in ipairs { "dct", "idct" } do
      local what = (" %d %s"):format(n, d)
      for _, norm in ipairs { "ortho", "forward", "backward" } do
        check(row .. what .. norm, function(y) return op[row](y, { norm = norm }) end, x)
      end
      check(row .. what .. " down", function(y) return op[row](y, { axis = 0 }) end, down)
      check(row .. what .. " padded", function(y) return op[row](y, { n = n + 3 }) end, x)
      check(row .. what .. " cut", function(y) return op[row](y, { n = math.floor((n + 1) / 2) }) end, x)
    end
  end
end

-- ---- complex numbers
for _, d in ipairs { "f32", "f64" } do
  local x, y = op.fft(random({ 4, 33 }, d)), op.fft(random({ 4, 33 }, d))
  for _, row in ipairs { "add", "sub", "mul", "eq" } do
    check("complex " .. row, op[row], x, y)
    check("complex " .. row .. " of rows", function(a, b) return op[row](a, b[1]) end, x, y)
    check("complex " .. row .. " of reals", op[row], x, random({ 4, 1 }, d))
    check("complex " .. row .. " of a number", function(a) return op[row](a, 0.3) end, x)
    check("complex " .. row .. " turned", function(a, b) return op[row](a:T(), b:T()) end, x, y)
  end
  for _, row in ipairs { "neg", "conj", "real", "imag", "square" } do check(row, op[row], x) end
  check("complex", op.complex, random({ 7, 300 }, d), random({ 7, 300 }, d))
  check("cast to complex", function(a) return op.cast(a, "complex64") end, random({ 7, 30 }, d))
end
