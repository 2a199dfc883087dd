-- Derivatives of scans, and the linear recurrence that they are made of.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op = core.op
local random, complex = check.random, check.complex

for _, name in ipairs { "cumsum", "cumprod", "cummax", "logcumsumexp" } do
  for axis = -2, 2 do
    check(name, { check.distinct { 2, 3, 2 } }, { axis = axis })
    check(name, { check.distinct { 2, 3, 2 }:permute { 2, 0, 1 } }, { axis = axis })
    check(name, { check.distinct { 2, 1, 2 } }, { axis = axis })
  end
  check(name, { check.distinct { 5 } })
  check(name, { random {} })
  check(name, { random { 2, 0 } })
  check(name, { random { 2, 0 } }, { axis = 0 })
end
check("cumsum", { complex { 2, 3 } }, { axis = 0 })
check("cumprod", { complex { 2, 3 } }, { axis = 0 })
check("cumprod", { complex { 4 } })
for _, t in ipairs { { 2, 0, 3, 4 }, { 0, 2, 0, 5 }, { 0, 0, 0, 2 }, { 0 } } do
  check("cumprod", { core.tensor(t, { dtype = "f64" }) })
end

for axis = -2, 2 do
  check("linear_scan", { random { 2, 3, 2 }, random { 2, 3, 2 } }, { axis = axis })
  check("linear_scan", { random { 2, 3, 2 }:permute { 2, 0, 1 }, random { 2, 2, 3 } }, { axis = axis })
end
check("linear_scan", { complex { 2, 3 }, complex { 2, 3 } })
check("linear_scan", { complex { 2, 3 }, random { 2, 3 } }, { axis = 0 })
check("linear_scan", { random {}, random {} })
check("linear_scan", { random { 2, 0 }, random { 2, 0 } })

local function at(name, x, g)
  x = core.tensor(x, { dtype = "f64" })
  return core.vjp(name, { x }, {}, { core.tensor(g, { dtype = "f64" }) }):totable()
end
local inf = 1 / 0
at("logcumsumexp", { -inf, -inf, 0 }, { 1, 1, 1 }) --> {0, 0, 1}
at("logcumsumexp", { -inf, -inf }, { 1, 1 }) --> {0, 0}
local far = at("logcumsumexp", { 1000, 1000, -1000 }, { 0, 1, 1 })
assert(math.abs(far[1] - 1) < 1e-12 and math.abs(far[2] - 1) < 1e-12 and far[3] == 0)
at("cummax", { 1, 3, 3, 2 }, { 1, 1, 1, 1 }) --> {1, 3, 0, 0}

for _, name in ipairs { "cumsum", "cumprod", "cummax", "logcumsumexp" } do
  for dtype, bound in pairs { f32 = 1e-5, bf16 = 2e-2 } do
    local x = op.linspace(0.8, 1.2, 40):reshape { 4, 10 }:cast(dtype)
    local g = core.vjp(name, { x }, {}, { op.ones_like(x) })
    local wide = x:cast "f64"
    local want = core.vjp(name, { wide }, {}, { op.ones_like(wide) })
    assert(g.dtype == dtype)
    assert(((g:cast "f64" - want) / want:abs():max()):abs():max():item() < bound, name)
  end
end

-- With factors of one it is the running sum.
local x = op.uniform({ 300, 7 }, { seed = 1, stream = 1 })
for axis = 0, 1 do
  assert(op.linear_scan(op.ones_like(x), x, { axis = axis }):hash() == op.cumsum(x, { axis = axis }):hash())
end
op.linear_scan(op.ones(2), op.ones(3)) --! linear_scan: a and b differ in shape: f32[2] x f32[3]
