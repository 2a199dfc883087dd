-- A filter in one pass has the bits of its three operators: on every instruction set, for one thread
-- and two, where rows share a filter and where each has its own, for any strides.
local tessera = require "tessera"
local core = require "tessera.core"
local op = tessera.op
local default = core.isa()

local function real(shape, d) return op.normal(shape, { seed = 3, stream = #shape }):cast(d) end
local function complex(shape, d)
  local a, b = op.normal(shape, { seed = 4, stream = 1 }), op.normal(shape, { seed = 4, stream = 2 })
  return op.complex(a, b):cast(d == "f64" and "complex128" or "complex64")
end
local function half(n) return math.floor(n / 2) + 1 end

local wrong = {}
local function same(what, want, got)
  if core.type_text(want) ~= core.type_text(got) or want:hash() ~= got:hash() then wrong[#wrong + 1] = what end
end

local function along_last(n, rows, d, norm)
  local o, what = { norm = norm }, ("%d x %d %s %s"):format(rows, n, d, norm)
  local x, z, h, hc = real({ rows, n }, d), complex({ rows, n }, d), complex({ half(n) }, d), complex({ n }, d)
  same("complex " .. what, op.ifft(op.fft(z, o) * hc, o), op.spectral_filter(z, hc, o))
  same("real " .. what, op.irfft(op.rfft(x, o) * h, { norm = norm, n = n }), op.spectral_filter(x, h, o))
  h = complex({ rows, half(n) }, d)
  same("own " .. what, op.irfft(op.rfft(x, o) * h, { norm = norm, n = n }), op.spectral_filter(x, h, o))
  h = real({ half(n + 5) }, d)
  same("filled " .. what, op.irfft(op.rfft(x, { n = n + 5 }) * h, { n = n + 5 }), op.spectral_filter(x, h, { n = n + 5 }))
  if n > 1 then
    h = complex({ n - 1 }, d)
    same("cut " .. what, op.ifft(op.fft(z, { n = n - 1 }) * h), op.spectral_filter(z, h, { n = n - 1 }))
  end
end

local function along_others(n, rows, d, norm)
  local o, what = { norm = norm }, ("%d x %d %s %s"):format(rows, n, d, norm)
  local x, h = real({ rows, n, 3 }, d), complex({ half(n), 1 }, d)
  same("middle " .. what, op.irfft(op.rfft(x, { axis = 1 }) * h, { n = n, axis = 1 }), op.spectral_filter(x, h, { axes = { 1 } }))
  x, h = x:T(), h:reshape(half(n))
  same("strided " .. what, op.irfft(op.rfft(x, { axis = 2 }) * h, { n = n }), op.spectral_filter(x, h))
  local z = complex({ rows, n, 6 }, d)
  h = complex({ n, 6 }, d)
  same("two " .. what, op.ifft2(op.fft2(z, o) * h, o), op.spectral_filter(z, h, { axes = { -2, -1 }, norm = norm }))
  same("three " .. what, op.ifftn(op.fftn(z, o) * h, o), op.spectral_filter(z, h, { axes = { 0, 1, 2 }, norm = norm }))
  o = { axes = { 2, 0 } }
  same("others " .. what, op.ifftn(op.fftn(z, o) * h, o), op.spectral_filter(z, h, o))
  x, h = real({ rows, n, 3 }, d), complex({ 2, 1, n, 2 }, d)
  same("real two " .. what, op.irfft(op.ifft(op.fft(op.rfft(x), { axis = 1 }) * h, { axis = 2 }), { n = 3 }),
    op.spectral_filter(x, h, { axes = { 1, 2 } }))
end

local norms = { "ortho", "backward", "forward" }
for _, isa in ipairs { "avx512", "avx2", "base" } do
  if pcall(core.isa, isa) then
    for threads = 1, 2 do
      tessera.threads(threads)
      for i, n in ipairs { 1, 2, 3, 8, 15, 64, 97, 128, 1000 } do
        for k, rows in ipairs { 1, 3, 40 } do
          for _, d in ipairs { "f32", "f64" } do
            along_last(n, rows, d, norms[(i + k) % 3 + 1])
            if n < 130 then along_others(n, rows, d, norms[(i + k) % 3 + 1]) end
          end
        end
      end
      along_last(30011, 2, "f32", "ortho")
      along_last(32768, 2, "f32", "ortho")
    end
  end
end
core.isa(default)
table.concat(wrong, ", ") -->

-- ---- messages
local x = op.ones { 3, 8 }
op.spectral_filter(x, op.ones { 7 }) --! spectral_filter: the filter f32[7] does not broadcast to the transform, complex64[3,5]
op.spectral_filter(x[0], op.ones { 5 }, { axes = { 0, 0 } }) --! axis 0 is named twice
op.spectral_filter(x, op.ones { 5 }, { axes = { 2 } }) --! axis 2 is out of range
op.spectral_filter(x, op.ones { 5 }, { n = 0 }) --! spectral_filter: a transform of length 0 of f32[3,8]
op.spectral_filter(op.ones({}), op.ones { 5 }) --! needs a signal, not a scalar
op.spectral_filter(op.ones { 0, 8 }, op.ones { 5 }).shape[1] --> 0
(op.spectral_filter(x, 2) - 2):abs():max():item() < 1e-6 --> true
