-- Transforms: inverse pairs, linearity, derivatives of derivatives.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local rules = dofile "tests/ir/rules/_rules.lua"
local check, ops = rules.check, rules.ops
local even = op.normal({ 48, 32 }, { seed = 5, stream = 1 })
local odd = op.normal({ 48, 33 }, { seed = 5, stream = 2 })
local z = op.complex(even, even + 1)
local function count(list, word) return select(2, (" " .. list .. " "):gsub("%f[%w]" .. word .. "%f[%W]", "")) end

-- ---- inverse pairs
check("ifft_fft", function(z) return op.ifft(op.fft(z)) end, function(z) return op.ifft(op.fft(z), { norm = "backward" }) end, z) --> ok
check("fft_ifft", function(z) return op.fft(op.ifft(z)) end, function(z) return op.fft(op.ifft(z, { axis = 0 })) end, z) --> ok
check("irfft_rfft", function(x) return op.irfft(op.rfft(x)) end, function(x) return op.irfft(op.rfft(x), { n = 30 }) end, even) --> ok
ops(function(x) return op.irfft(op.rfft(x)) end, odd) --> rfft irfft
rules.fast.ops(function(x) return op.irfft(op.rfft(x), { n = 33 }) end, odd) --> clone
check("idct_dct", function(x) return op.idct(op.dct(x)) end, function(x) return op.idct(op.dct(x), { axis = 0 }) end, even) --> ok
check("dct_idct", function(x) return op.dct(op.idct(x)) end, function(x) return op.dct(op.idct(x), { n = 30 }) end, even) --> ok

-- ---- linearity
check("add_transforms", function(x) return op.rfft(op.sin(x)) + op.rfft(op.cos(x)) end, function(x) return op.rfft(op.sin(x)) + op.rfft(op.cos(x), { norm = "forward" }) end, even) --> ok
check("sub_transforms", function(x) return op.dct(op.sin(x)) - op.dct(op.cos(x)) end, function(x) return op.dct(op.sin(x)) - op.idct(op.cos(x)) end, even) --> ok
ops(function(x) local s = op.rfft(op.sin(x)) return s + op.rfft(x), s end, even) --> sin rfft rfft add
check("scaled_transform", function(x) return op.irfft(op.rfft(x) * op.arange(17, { dtype = "f32" })) * 3 end, function(x) return op.irfft(op.rfft(x) * op.rfft(x + 1)) * 3 end, even) --> ok
-- Products in another order overflow elsewhere: in deterministic only factors of known size are joined.
rules.fast.check("mul_small", function(x, a, b) return x * a * b end, function(x, a, b) return x * a * op.broadcast_to(b, { 48, 32 }):contiguous() end, even, even[0], even[1]) --> ok

-- ---- there and back: only where what irfft ignores is zero
local function filtered(x, h) return op.irfft(op.rfft(x) * h, { n = x.shape[2] }) end
local real = op.normal({ 17 }, { seed = 5, stream = 3 })
local any = op.complex(real, op.normal({ 17 }, { seed = 5, stream = 4 }))
check("rfft_irfft", function(x, h) return op.irfft(op.rfft(filtered(x, h)) * h) end, function(x, h) return op.rfft(filtered(x, op.complex(h, h))) end, even, real) --> ok
ops(function(x, h) return op.rfft(filtered(x, h)) end, even, any) --> spectral_filter rfft
-- What is zero at 0 alone is enough for odd lengths.
local function wave(n) local k = op.arange(n, { dtype = "f32" }) return op.complex(k * 0, k) end
ops(function(x) return op.rfft(filtered(x, wave(17))) end, odd):match "spectral_filter" --> nil
ops(function(x) return op.rfft(filtered(x, wave(17))) end, even):match "spectral_filter" --> spectral_filter
rules.inaccurate(function(x) return op.rfft(filtered(x, wave(17))) end, odd) --> nil
ops(function(x) return op.rfft(op.irfft(op.fft(x)["..., 0:17"])) end, even):match "irfft" --> irfft

-- ---- derivatives of derivatives along one axis stay transformed
local function d(f, order, axis) return op.d(f, { method = "spectral", axis = axis or 1, order = order }) end
local function twice(n) return function(f) return d(d(f, n)) end end
local found = {}
for n = 1, 2 do
  for _, f in ipairs { even, odd } do
    local list = ops(twice(n), f)
    found[#found + 1] = count(list, "spectral_filter") .. count(list, "rfft") .. tostring(rules.inaccurate(twice(n), f))
  end
end
table.concat(found, " ") --> 10nil 10nil 10nil 10nil
check("second_derivative", twice(1), function(f) return d(d(f, 1, 0)) end, even) --> ok
check("mixed_derivative", function(f) return d(op.d(f, { method = "spectral", axis = 1, spacing = 0.5 })) end, twice(2), even) --> ok
-- A real part that is not known to be zero.
rules.fired(function(x, k) return op.rfft(x) * op.square(op.complex(k, k)) end, even, even[0]["0:17"]):match "second" --> nil

-- ---- the divergence of a gradient: each component's second derivative. For odd lengths that is
-- the Laplacian, by its graph and by its bits; for even ones the Laplacian keeps the highest
-- frequency of each axis, and the divergence has lost it.
local function div_grad(f)
  return op.divergence(op.stack { d(f, 1, 0), d(f, 1, 1) }, { method = "spectral" })
end
local function laplacian(f) return op.laplacian(f, { method = "spectral" }) end
local function sorted(list)
  local t = {}
  for word in list:gmatch "%S+" do t[#t + 1] = word end
  table.sort(t)
  return table.concat(t, " ")
end
local square = op.normal({ 33, 35 }, { seed = 5, stream = 5 })
sorted(ops(div_grad, square)) == sorted(ops(laplacian, square)) --> true
graph.module(div_grad)(square):hash() == graph.module(laplacian)(square):hash() --> true
ops(function(f) return div_grad(f) - laplacian(f) end, square):match "sub.*" --> sub
count(ops(function(f) return div_grad(f) - laplacian(f) end, square), "spectral_filter") --> 2
rules.inaccurate(div_grad, square) --> nil
rules.inaccurate(div_grad, even) --> nil
(graph.module(div_grad)(even) - laplacian(even)):abs():max():item() > 1e-3 --> true
-- Finite differences have no such rule: a difference of differences is wider than the second.
ops(function(f) return op.d(op.d(f)) - op.d(f, { order = 2 }) end, odd):match "sub$" --> sub
-- One captured function serves lengths of either parity.
local any_size, farthest = graph.module(div_grad), 0
for _, n in ipairs { 33, 35, 37, 34, 36, 39, 32 } do
  local f = op.normal({ n, n + 2 }, { seed = 5, stream = n }):cast "f64"
  farthest = math.max(farthest, (any_size(f) - div_grad(f)):abs():max():item())
end
farthest < 1e-10 --> true
-- A sum of derivatives of one field: one filter.
local function mixed(f) return d(f, 2) + 0.3 * d(f, 1) end
local list = ops(mixed, even)
count(list, "spectral_filter") .. count(list, "rfft") --> 10
rules.fast.check("add_factors", function(x, a, b) local t = op.fft(x) return op.fft(t * a + b * t) end, function(x, a, b) local t = op.fft(x) return op.fft(t * a + b * x) end, z, even[0], even[1]) --> ok
rules.fast.check("sub_factors", function(x, a, b) local t = op.fft(x) return op.fft(t * a - b * t) end, function(x, a, b) local t = op.fft(x) return op.fft(t * a - t * (x + b)) end, z, even[0], even[1]) --> ok
rules.inaccurate(mixed, even) --> nil
local k = function() return op.arange(32, { dtype = "f32" }) end
check("mul_small", function(x) return x * k() * (k() + 1) end, function(x, a) return x * k() * a end, even, even[0]) --> ok
check("add_factors", function(x) local t = op.fft(x) return op.fft(t * k() + (k() + 1) * t) end, function(x, a) local t = op.fft(x) return op.fft(t * a + k() * t) end, z, even[0]) --> ok
check("sub_factors", function(x) local t = op.fft(x) return op.fft(t * k() - (k() + 1) * t) end, function(x, a) local t = op.fft(x) return op.fft(t * a - k() * t) end, z, even[0]) --> ok

-- ---- filters: the terms that nobody else reads
local h17, h32, hz = op.complex(real, real + 1), even[0], op.complex(even[0], even[1])
local o = { axis = 0 }
check("filter_fft", function(z, h) return op.ifft(op.fft(z) * h) end, function(z, h) local t = op.fft(z) return op.ifft(t * h), t end, z, hz) --> ok
check("filter_rfft", function(x, h) return op.irfft(h * op.rfft(x)) end, function(x, h) return op.irfft(op.rfft(x) * h, { n = 31 }) end, even, h17) --> ok
check("filter_fft2", function(z, h) return op.ifft2(op.fft2(z) * h) end, function(z, h) return op.ifft2(op.fft2(z, { norm = "forward" }) * h) end, z, hz) --> ok
check("filter_fftn", function(z, h) return op.ifftn(op.fftn(z, { axes = { 0, -1 } }) * h, { axes = { -2, 1 } }) end, function(z, h) return op.ifftn(op.fftn(z, { axes = { 0, 1 } }) * h, { axes = { 1, 0 } }) end, z, hz) --> ok
check("filter_axes", function(x, h) return op.irfft(op.ifft(op.fft(op.rfft(x), o) * h, o)) end, function(x, h) return op.irfft(op.ifft(op.fft(op.rfft(x), o) * h, o), { n = 30 }) end, even, h17) --> ok
ops(function(x, h) return op.irfft(op.ifft(op.fft(op.rfft(x), o) * h, o)) end, even, h17) --> spectral_filter
-- Lengths that are cut or filled, narrow signals, real filters, axes in front.
ops(function(x, h) return op.irfft(op.rfft(x, { n = 33 }) * h, { n = 33 }) end, even, h17) --> spectral_filter
rules.fired(function(x, h) return op.irfft(op.rfft(x, { n = 33 }) * h, { n = 33 }) end, odd:cast "bf16", h17) --> filter_rfft
ops(function(x, h) return op.ifft(op.fft(x) * h) end, even, h32) --> cast spectral_filter
ops(function(x, h) return op.irfft(op.rfft(x, { axis = 0 }) * h, { axis = 0 }) end, even, even["0:25"]) --> spectral_filter
-- A filter that makes more rows, or needs a wider type.
ops(function(x, h) return op.ifft(op.fft(x) * h) end, z[0], z) --> fft mul ifft
ops(function(x, h) return op.ifft(op.fft(x) * h) end, z, hz:cast "complex128") --> fft mul ifft
-- A mask of terms; the transforms of two signals.
check("masked_terms", function(x, m) return op.irfft(op.where(m, op.rfft(x), 0)) end, function(x, m) return op.irfft(op.where(m, op.rfft(x), 1)) end, even, even[0]["0:17"]:gt(0)) --> ok
rules.fast.ops(function(x, m) return op.irfft(op.where(m, op.rfft(x), 0)) end, even, even[0]["0:17"]:gt(0)) --> cast spectral_filter
ops(function(x, w) return op.irfft(op.rfft(x) * op.rfft(w)) end, even, even[0]) --> rfft spectral_filter
ops(function(x, w) return op.conv_fft(x, w) end, even, even[0]["0:5"]) --> rfft spectral_filter narrow
