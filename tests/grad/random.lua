-- Derivatives of drawing and of making tensors.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op = core.op
local random = check.random

for _, shape in ipairs { { 2, 3 }, { 2, 0 }, {}, { 7 } } do
  check("dropout", { random(shape) }, { p = 0.3, seed = 5, stream = 9 })
end
check("dropout", { random { 3, 4 }:T() }, { p = 0.5, seed = 5, stream = 9 })
check("dropout", { random { 3 } }, { p = 0, seed = 5, stream = 9 })

-- The gradient is kept exactly where the value is.
local o = { p = 0.4, seed = 3, stream = 4 }
for _, dtype in ipairs { "f64", "f32", "bf16" } do
  local x = op.ones({ 1000 }, { dtype = dtype })
  local y, g = core.run("dropout", { x }, o), core.vjp("dropout", { x }, o, { x })
  assert(g.dtype == dtype and g:hash() == y:hash())
end
core.vjp("dropout", { op.ones { 3 } }, {}, { op.ones { 3 } }) --! dropout: its derivative needs the seed and stream

assert(core.vjp("categorical", { random { 2, 3 } }, { seed = 1, stream = 2 }, { false }) == false)
for _, name in ipairs { "tril", "triu" } do
  for diagonal = -1, 1 do
    check(name, { random { 2, 3, 4 } }, { diagonal = diagonal })
    check(name, { random { 3, 3 }:T() }, { diagonal = diagonal })
  end
  check(name, { check.complex { 2, 3 } })
end
for _, name in ipairs { "zeros_like", "ones_like" } do check(name, { random { 2, 3 } }) end
check("full_like", { random { 2 } }, { value = 3 })

local g = op.ones { 2 }
core.vjp("sgd_step", { g, g }, { lr = 1 }, { g, false }) --! sgd_step has no derivative
