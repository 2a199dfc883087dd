-- Derivatives of the rows that are derivatives themselves, and of barrier.
local check = dofile "tests/grad/_check.lua"
local op = require("tessera").op
local function y(shape) return op.softmax(check.random(shape)) end
check("softmax_grad", { y { 2, 5 }, check.random { 2, 5 } }, {}, { tolerance = 1e-6 })
check("log_softmax_grad", { op.log_softmax(check.random { 2, 5 }), check.random { 2, 5 } }, {}, { tolerance = 1e-6 })
for _, name in ipairs { "gelu_erf_grad", "gelu_tanh_grad", "silu_grad" } do
  check(name, { check.random { 3, 4 }, check.random { 3, 4 } })
  check(name, { check.random { 3, 1 }, check.random { 4 } })
end
check("barrier", { check.random { 3 }, check.random { 2 } })
