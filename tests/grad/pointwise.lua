-- Derivatives of arithmetic and of elementary functions.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op = core.op
local random, complex = check.random, check.complex

-- Two inputs, broadcast, complex and mixed.
for _, name in ipairs { "add", "sub", "mul", "div" } do
  check(name, { random { 2, 3 }, random({ 2, 3 }, 0.5, 2) })
  check(name, { random { 2, 1 }, random({ 3 }, 0.5, 2) })
  check(name, { random {}, random({ 2, 0 }, 0.5, 2) })
  check(name, { complex { 2 }, complex { 3, 2 } + 2 })
  check(name, { complex { 2 }, random({ 3, 2 }, 0.5, 2) })
  check(name, { random { 3, 2 }, complex { 2 } + 2 })
end
check("mul", { random { 3, 2 }:T(), random { 2, 6 }:slice({ 0, 0 }, { 2, 6 }, { 1, 2 }) })

-- One input: rows with the interval that keeps away from poles and jumps.
local one = {
  neg = { -1, 1 }, square = { -1, 1 }, abs = { 0.1, 1 }, sign = { 0.1, 1 }, reciprocal = { 0.5, 2 }, sqrt = { 0.5, 2 },
  rsqrt = { 0.5, 2 }, exp = { -1, 1 }, exp2 = { -1, 1 }, expm1 = { -1, 1 }, log = { 0.5, 2 }, log2 = { 0.5, 2 },
  log10 = { 0.5, 2 }, log1p = { -0.4, 1 }, sin = { -2, 2 }, cos = { -2, 2 }, tan = { -1, 1 },
  asin = { -0.8, 0.8 }, acos = { -0.8, 0.8 }, atan = { -2, 2 }, sinh = { -1, 1 }, cosh = { -1, 1 },
  tanh = { -2, 2 }, sigmoid = { -2, 2 }, erf = { -2, 2 }, erfc = { -2, 2 }, floor = { 0.1, 0.9 },
  ceil = { 0.1, 0.9 }, round = { 0.6, 1.4 }, trunc = { 0.1, 0.9 }, frac = { 0.1, 0.9 }, real = { -1, 1 },
  imag = { -1, 1 }, conj = { -1, 1 }, angle = { 0.5, 1 },
}
for name, range in pairs(one) do
  check(name, { random({ 2, 3 }, range[1], range[2]) })
  check(name, { random({ 3, 2 }, range[1], range[2]):T() })
  check(name, { random({ 2, 0 }, range[1], range[2]) })
  check(name, { random({}, range[1], range[2]) })
  check.narrow(name, { random({ 40 }, range[1], range[2]) })
end
for _, name in ipairs { "neg", "square", "abs", "sign", "reciprocal", "sqrt", "exp", "log", "sin", "cos", "sinh",
  "cosh", "tanh", "real", "imag", "conj", "angle" } do
  local away = op.complex(random({ 2, 3 }, 0.4, 1), random({ 2, 3 }, 0.4, 1))
  check(name, { away })
  check(name, { op.conj(away):T() })
end

check("complex", { random { 2, 3 }, random { 3 } })
check("where", { random { 2, 3 }:gt(0), random { 3 }, random { 2, 1 } })
check("where", { random { 2, 3 }:gt(0), complex { 3 }, random { 2, 1 } })
check("clamp", { random({ 5 }, -2, 2) + 0.013 }, { min = -0.5 })
check("clamp", { random({ 5 }, -2, 2) + 0.013 }, { max = 0.5 })
check("clamp", { random({ 5 }, -2, 2) + 0.013 }, { min = -0.5, max = 0.5 })
check("clamp", { random { 5 } })
check("atan2", { random({ 2, 3 }, 0.3, 1), random({ 3 }, -1, -0.3) })
check("heaviside", { random({ 2, 3 }, 0.3, 1), random({ 3 }, -1, -0.3) })
check("heaviside", { random({ 2, 3 }, -1, -0.3), random({ 3 }, -1, -0.3) })
check("hypot", { random({ 2, 3 }, 0.3, 1), random({ 3 }, -1, -0.3) })
check("minimum", { random({ 2, 3 }, 0, 0.4), random({ 3 }, 0.5, 1) })
check("minimum", { random({ 2, 3 }, 0.5, 1), random({ 3 }, 0, 0.4) })
check("maximum", { random({ 2, 3 }, 0, 0.4), random({ 3 }, 0.5, 1) })
check("maximum", { random({ 2, 3 }, 0.5, 1), random({ 3 }, 0, 0.4) })
check("fma", { random { 2, 3 }, random { 3 }, random { 2, 1 } })
check("mod", { random({ 2, 3 }, 2.2, 2.8), core.tensor({ 1, -1, 0.7 }, { dtype = "f64" }) })
check("floordiv", { random({ 2, 3 }, 2.2, 2.8), core.tensor({ 1, -1, 0.7 }, { dtype = "f64" }) })
check("pow", { random({ 2, 3 }, 0.5, 2), random { 3 } })
check("pow", { random({ 2, 3 }, 0.5, 2), complex { 3 } })
check("pow", { complex { 2, 3 } + 2, random { 3 } })
check("pow", { complex { 2, 3 } + 2, complex { 3 } })
for _, name in ipairs { "add", "sub", "mul", "div", "atan2", "hypot", "pow" } do
  check.narrow(name, { random({ 20 }, 0.5, 2), random({ 20 }, 0.5, 2) })
end
check("pow", { random { 4 }, core.tensor(3, { dtype = "i64" }) })
check("pow", { core.tensor({ 2, 3 }, { dtype = "i64" }), random { 2 } })

-- At edges: the values of the gradient for a gradient of ones, as PyTorch has them.
local f64 = { dtype = "f64" }
local function at(name, inputs, options)
  for i, x in ipairs(inputs) do inputs[i] = core.tensor(x, f64) end
  local g = { core.vjp(name, inputs, options or {}, { op.ones(inputs[1].shape, f64) }) }
  local text = {}
  for i = 1, #inputs do
    text[i] = g[i] and table.concat((g[i] + 0):totable(), " ") or "none"
  end
  return table.concat(text, " | ")
end
at("abs", { { 0, -0.0, 2 } }) --> 0 0 1
at("sqrt", { { 0, 4 } }) --> inf 0.25
at("clamp", { { -1, 1, 2, 0 / 0 } }, { min = -1, max = 1 }) --> 1 1 0 0
at("maximum", { { 1, 2, 3 }, { 1, 3, 2 } }) --> 0.5 0 1 | 0.5 1 0
at("minimum", { { 1, 2, 3 }, { 1, 3, 2 } }) --> 0.5 1 0 | 0.5 0 1
at("atan2", { { 0, 1 }, { 0, 0 } }) --> 0 0 | 0 -1
at("hypot", { { 0, 3 }, { 0, 4 } }) --> 0 0.6 | 0 0.8
at("pow", { { 0, 0, 0, 2 }, { 0, 2, -1, 0 } }) --> 0 0 -inf 0 | 0 0 -inf 0.69314718055995
at("pow", { { 0, 0, 0 }, { 1, 3, 0.5 } }) --> 1 0 inf | 0 0 0
at("sign", { { 0, 2 } }) --> none
at("floor", { { 0.5 } }) --> none
