-- Derivatives of softmax, norms, cross entropy and gated activations, of first and second
-- order, and of the rows that compute the first ones.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op, random = core.op, check.random

for _, row in ipairs { "softmax", "log_softmax" } do
  check(row, { random { 3, 5 } })
  check(row, { random { 2, 3, 4 } }, { axis = 1 })
  check(row, { random { 4, 3 } }, { axis = 0 })
  check(row, { random { 1, 1 } })
  check(row, { random {} })
  check(row, { random { 0, 3 } })
  check(row, { random { 4, 3 }:T() }, { axis = -2 })
  check(row .. "_grad", { random { 3, 4 }, random { 3, 4 } })
  check(row .. "_grad", { random { 3, 4 }, random { 3, 4 } }, { axis = 0 })
end

for _, o in ipairs { { dims = 1 }, { dims = 2, eps = 0.25 } } do
  local shape = o.dims == 1 and { 3, 5 } or { 2, 3, 4 }
  local row = o.dims == 1 and { 5 } or { 3, 4 }
  check("layernorm", { random(shape) }, o)
  check("layernorm", { random(shape), random(row), random(row) }, o)
  check("layernorm", { random(shape), random(row) }, o)
  check("layernorm", { random(shape), false, random(row) }, o)
  check("rmsnorm", { random(shape) }, o)
  check("rmsnorm", { random(shape), random(row) }, o)
  check("layernorm_grad", { random(shape), false, random(shape) }, o)
  check("layernorm_grad", { random(shape), random(row), random(shape) }, { dims = o.dims, eps = o.eps, bias = true })
  check("rmsnorm_grad", { random(shape), random(row), random(shape) }, o)
end
check("layernorm", { random { 0, 4 }, random { 4 }, random { 4 } })
check("layernorm", { random { 3, 1 }, random { 1 }, random { 1 } })
check("rmsnorm", { random { 5, 4 }:T(), random { 5 } })

local t = core.tensor({ 2, 0, 4, 2 }, { dtype = "i64" })
for _, reduction in ipairs { "mean", "sum", "none" } do
  for _, smoothing in ipairs { 0, 0.2 } do
    local o = { reduction = reduction, label_smoothing = smoothing }
    check("cross_entropy", { random { 4, 5 }, t }, o)
    check("cross_entropy", { random { 2, 2, 5 }, t:reshape { 2, 2 } }, o)
    check("cross_entropy", { random({ 3, 4 }), random({ 3, 4 }, 0, 1) }, o)
    check("cross_entropy", { random { 4, 5 }, t }, { reduction = reduction, label_smoothing = smoothing, ignore_index = 2 })
    local g = reduction == "none" and { 4 } or {}
    check("cross_entropy_grad", { random { 4, 5 }, t, random(g) }, o)
    check("cross_entropy_grad", { random { 4, 5 }, random({ 4, 5 }, 0, 1), random(g) }, o)
  end
end
check("cross_entropy", { random { 5 }, core.tensor(3, { dtype = "i64" }) })
op.cross_entropy_grad(random { 2, 3 }, core.tensor({ 0, 3 }, { dtype = "i64" }), random {}) --! target 3 of row 1
op.cross_entropy_grad(random { 2, 3 }, core.tensor({ 0, 1 }, { dtype = "i64" }), random { 2 }) --! shape
op.softmax_grad(random { 2, 3 }, random { 3 }) --! shape
op.layernorm_grad(random { 2, 3 }, random { 2 }, random { 2, 3 }) --! weight

for _, row in ipairs { "gelu_erf", "gelu_tanh", "silu" } do
  check(row, { random({ 9 }, -5, 5) })
  check(row .. "_grad", { random({ 3, 4 }, -5, 5), random { 3, 4 } })
  check(row .. "_grad", { random({ 3, 4 }, -5, 5), random { 4 } })
end

-- Narrower types: the gradient has the type of its input and is near that in f64.
local function near(name, inputs, options)
  local function gradients(dtype)
    local x = {}
    for i, v in ipairs(inputs) do x[i] = v and v.dtype == "f64" and v:cast "bf16":cast(dtype) or v end
    local y = { core.run(name, x, options) }
    local u = {}
    for i, v in ipairs(y) do u[i] = op.ones_like(v) * 0.5 end
    return { core.vjp(name, x, options, u) }
  end
  local want = gradients "f64"
  for dtype, bound in pairs { f32 = 1e-5, bf16 = 2e-2, f16 = 3e-3 } do
    for i, g in ipairs(gradients(dtype)) do
      if g then
        assert(g.dtype == dtype, name .. ": " .. g.dtype)
        local far = (g:cast "f64" - want[i]):abs():max():item()
        assert(far <= bound, ("%s %s: off by %g"):format(name, dtype, far))
      end
    end
  end
end
local x = random { 6, 40 }
near("softmax", { x }, {})
near("log_softmax", { x }, {})
near("layernorm", { x, random { 40 }, random { 40 } }, {})
near("rmsnorm", { x, random { 40 } }, {})
near("cross_entropy", { x, core.tensor({ 0, 1, 2, 3, 4, 39 }, { dtype = "i64" }) }, {})
near("gelu_erf", { x }, {})
near("silu", { x }, {})
