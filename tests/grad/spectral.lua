-- Derivatives of transforms.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op, R, C = core.op, check.random, check.complex

for _, norm in ipairs { "ortho", "backward", "forward" } do
  for _, n in ipairs { 1, 2, 3, 4, 6, 7 } do
    local o = { norm = norm, n = n }
    check("fft", { C { 2, 4 } }, o)
    check("ifft", { R { 2, 5 } }, o)
    check("rfft", { R { 2, 4 } }, o)
    check("irfft", { C { 2, 4 } }, o)
    check("dct", { R { 2, 4 } }, o)
    check("idct", { R { 2, 4 } }, o)
  end
  check("fft", { R { 3, 2 } }, { norm = norm, axis = 0 })
  check("ifft", { C { 3, 2 } }, { norm = norm, axis = -2, n = 4 })
  check("rfft", { R { 3, 2, 2 } }, { norm = norm, axis = 0, n = 5 })
  check("irfft", { C { 3, 2, 2 } }, { norm = norm, axis = 0 })
  check("irfft", { R { 3, 2 } }, { norm = norm, axis = 0 })
  check("irfft", { C { 1 } }, { norm = norm, n = 5 })
  check("rfft", { R { 4, 3 }:T() }, { norm = norm })
  check("dct", { R { 3, 2 } }, { norm = norm, axis = 0 })
  check("idct", { R { 3, 2, 2 } }, { norm = norm, axis = 1, n = 3 })
  for _, row in ipairs { "fft2", "ifft2" } do
    check(row, { C { 2, 3, 2 } }, { norm = norm })
    check(row, { R { 2, 3, 2 } }, { norm = norm, axes = { 0, -1 } })
  end
  for _, row in ipairs { "fftn", "ifftn" } do
    check(row, { C { 2, 3 } }, { norm = norm })
    check(row, { C { 2, 1, 3 } }, { norm = norm, axes = { 1, 0 } })
  end
  check("stft", { R { 9 } }, { frame = 4, norm = norm })
  check("istft", { C { 3, 4 } }, { frame = 4, norm = norm })
end
check("fft", { op.zeros({ 0, 4 }, { dtype = "f64" }) })
check("stft", { R { 2, 7 }, R { 4 } }, { frame = 4, hop = 2, center = false })
check("istft", { C { 2, 3, 3 }, R({ 4 }, 0.5, 1) }, { frame = 4, hop = 2, length = 5 })
check("spectral_filter", { R { 2, 6 }, C { 4 } })
check("spectral_filter", { C { 2, 5 }, C { 5 } })
check("spectral_filter", { R { 2, 6 }, R { 4 } })
for _, norm in ipairs { "ortho", "backward", "forward" } do
  local o = { norm = norm }
  check("spectral_filter", { R { 2, 6 }, C { 2, 4 } }, o)
  check("spectral_filter", { R { 2, 5 }, C { 3, 1, 3 } }, o)
  check("spectral_filter", { C { 5 }, C { 1 } }, o)
  check("spectral_filter", { R { 2, 3, 4 }, C { 2, 1, 3 } }, { norm = norm, axes = { 0, 2 }, n = 5 })
  check("spectral_filter", { R { 5, 3 }, C { 2, 3 } }, { norm = norm, axes = { 0 }, n = 3 })
  check("spectral_filter", { C { 2, 3, 2 }, R { 3, 2 } }, { norm = norm, axes = { -2, -1 } })
  check("spectral_filter", { C { 2, 3 }, C { 2, 3 } }, { norm = norm, axes = { 0, 1 }, n = 3 })
end
for _, mode in ipairs { "full", "same", "valid" } do
  check("conv_fft", { R { 2, 6 }, R { 3 } }, { mode = mode })
end

-- Gradients have the type of the input.
for _, t in ipairs { { "f32", "complex64", 1e-6 }, { "bf16", "complex64", 2e-2 } } do
  local x, u = R { 3, 8 }, C { 3, 5 }
  local want = core.vjp("rfft", { x }, {}, { u })
  local got = core.vjp("rfft", { x:cast(t[1]) }, {}, { u:cast(t[2]) })
  assert(got.dtype == t[1] and (got:cast("f64") - want):abs():max():item() < t[3])
end
