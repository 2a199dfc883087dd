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

-- Rows know nothing of the others: of a result that goes past the caches the same bits.
do
  local op = require "tessera".op
  for _, name in ipairs { "layernorm_grad", "rmsnorm_grad" } do
    local x = op.normal({ 3100, 1024 }, { seed = 5, stream = 1 })
    local g = op.normal({ 3100, 1024 }, { seed = 5, stream = 2 })
    local w = op.normal({ 1024 }, { seed = 5, stream = 3 })
    local all = op[name](x, w, g)
    for _, at in ipairs { 0, 255, 2816, 3099 } do
      local one = op[name](x:narrow(0, at, 1), w, g:narrow(0, at, 1))
      assert(all:narrow(0, at, 1):hash() == one:hash(), name .. " row " .. at)
    end
  end
end
