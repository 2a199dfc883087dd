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
ops(function(x) return op.irfft(op.rfft(x), { n = 33 }) end, odd) -->
check("idct_dct", function(x) return op.idct(op.dct(x)) end, function(x) return op.idct(op.dct(x), { axis = 0 }) end, even) --> ok
check("dct_idct", function(x) return op.dct(op.idct(x)) end, function(x) return op.dct(op.idct(x), { n = 30 }) end, even) --> ok

-- ---- linearity
check("add_transforms", function(x) return op.rfft(op.sin(x)) + op.rfft(op.cos(x)) end, function(x) return op.rfft(op.sin(x)) + op.rfft(op.cos(x), { norm = "forward" }) end, even) --> ok
check("sub_transforms", function(x) return op.dct(op.sin(x)) - op.dct(op.cos(x)) end, function(x) return op.dct(op.sin(x)) - op.idct(op.cos(x)) end, even) --> ok
ops(function(x) local s = op.rfft(op.sin(x)) return s + op.rfft(x), s end, even) --> sin rfft rfft add
check("scaled_transform", function(x) return op.irfft(op.rfft(x) * op.arange(17, { dtype = "f32" })) * 3 end, function(x) return op.irfft(op.rfft(x) * op.rfft(x + 1)) * 3 end, even) --> ok
check("mul_small", function(x, a, b) return x * a * b end, function(x, a, b) return x * a * op.broadcast_to(b, { 48, 32 }):contiguous() end, even, even[0], even[1]) --> ok

-- ---- there and back: only where what irfft ignores is zero
local function filtered(x, h) return op.irfft(op.rfft(x) * h, { n = x.shape[2] }) end
local real = op.normal({ 17 }, { seed = 5, stream = 3 })
local any = op.complex(real, op.normal({ 17 }, { seed = 5, stream = 4 }))
check("rfft_irfft", function(x, h) return op.irfft(op.rfft(filtered(x, h)) * h) end, function(x, h) return op.rfft(filtered(x, op.complex(h, h))) end, even, real) --> ok
ops(function(x, h) return op.rfft(filtered(x, h)) end, even, any) --> rfft mul irfft rfft
-- What is zero at 0 alone is enough for odd lengths.
local function wave(n) local k = op.arange(n, { dtype = "f32" }) return op.complex(k * 0, k) end
ops(function(x) return op.rfft(filtered(x, wave(17))) end, odd):match "irfft" --> nil
ops(function(x) return op.rfft(filtered(x, wave(17))) end, even):match "irfft" --> irfft
rules.inaccurate(function(x) return op.rfft(filtered(x, wave(17))) end, odd) --> nil
ops(function(x) return op.rfft(op.irfft(op.fft(x)["..., 0:17"])) end, even):match "irfft" --> irfft

-- ---- derivatives of derivatives along one axis stay transformed
local function twice(n)
  return function(f)
    return op.d(op.d(f, { method = "spectral", axis = 1, order = n }), { method = "spectral", axis = 1 })
  end
end
local found = {}
for n = 1, 2 do
  for _, f in ipairs { even, odd } do
    local list = ops(twice(n), f)
    found[#found + 1] = count(list, "rfft") .. count(list, "irfft") .. tostring(rules.inaccurate(twice(n), f))
  end
end
table.concat(found, " ") --> 11nil 11nil 11nil 11nil
-- The divergence of a gradient: each component's second derivative.
local function div_grad(f)
  local o = { method = "spectral" }
  return op.divergence(op.stack { op.d(f, { method = "spectral", axis = 0 }), op.d(f, { method = "spectral", axis = 1 }) }, o)
end
rules.inaccurate(div_grad, even) --> nil
local list = ops(div_grad, even)
count(list, "rfft") .. count(list, "irfft") --> 22
-- The Laplacian is another operator for even lengths: it keeps the highest frequency.
(graph.module(div_grad)(even) - op.laplacian(even, { method = "spectral" })):abs():max():item() > 1e-3 --> true
(graph.module(div_grad)(odd["0:33"]) - op.laplacian(odd["0:33"], { method = "spectral" })):abs():max():item() < 1e-3 --> true
-- A sum of derivatives of one field: one transform back.
local function mixed(f) return op.d(f, { method = "spectral", axis = 1, order = 2 }) + 0.3 * op.d(f, { method = "spectral", axis = 1 }) end
list = ops(mixed, even)
count(list, "rfft") .. count(list, "irfft") --> 11
rules.inaccurate(mixed, even) --> nil
