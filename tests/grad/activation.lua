-- Derivatives of activations, at kinks and far out as well.
local check = dofile "tests/grad/_check.lua"
local random = check.random

local smooth = { "gelu_erf", "gelu_tanh", "silu", "softplus", "mish" }
for _, name in ipairs(smooth) do
  check(name, { random({ 2, 3 }, -3, 3) })
  check(name, { random({ 3, 2 }, -3, 3):T() })
  check(name, { random { 2, 0 } })
  check(name, { random {} })
end
local kinked = { relu = {}, leaky_relu = { slope = 0.2 }, elu = { alpha = 1.5 }, hardswish = {} }
for name, options in pairs(kinked) do
  for _, range in ipairs { { -5, -3.1 }, { -2.9, -0.1 }, { 0.1, 2.9 }, { 3.1, 5 } } do
    check(name, { random({ 2, 3 }, range[1], range[2]) }, options)
    check(name, { random({ 2, 3 }, range[1], range[2]) })
  end
end

local core = require "tessera.core"
local function at(name, x, options)
  x = core.tensor(x, { dtype = "f64" })
  local g = core.vjp(name, { x }, options or {}, { core.op.ones_like(x) })
  return table.concat((g + 0):totable(), " ")
end
at("relu", { -1, 0, 1 }) --> 0 0 1
at("leaky_relu", { -1, 0, 1 }, { slope = 0.2 }) --> 0.2 0.2 1
at("elu", { 0, 1, 800, -800 }, { alpha = 2 }) --> 2 1 1 0
at("elu", { 0, 1, 800, -800 }) --> 1 1 1 0
at("hardswish", { -3, 3, -4, 4, 0 }) --> 0 1 0 1 0.5
at("gelu_tanh", { 0, 100, -100, 1e200, -1e200 }) --> 0.5 1 0 1 0
at("gelu_erf", { 0, 100, -100, 1e200, -1e200 }) --> 0.5 1 0 1 0
at("silu", { 0, 100, -1000, 1e200, -1e200 }) --> 0.5 1 0 1 0
at("mish", { 0, 100, -1000, 1e200, -1e200 }) --> 0.6 1 0 1 0
at("softplus", { 0, 1000, -1000 }) --> 0.5 1 0

-- Narrow types: the dtype of x, near the derivative in f64.
local function narrow_error(name, dtype)
  local x = core.op.linspace(-4.1, 4.1, 83):cast(dtype)
  local g = core.vjp(name, { x }, {}, { core.op.ones_like(x) })
  local wide = x:cast "f64"
  local want = core.vjp(name, { wide }, {}, { core.op.ones_like(wide) })
  assert(g.dtype == dtype)
  return (g:cast "f64" - want):abs():max():item()
end
for _, name in ipairs { "gelu_erf", "gelu_tanh", "silu", "softplus", "mish", "relu", "leaky_relu", "elu", "hardswish" } do
  assert(narrow_error(name, "f32") < 1e-6, name)
  assert(narrow_error(name, "bf16") < 6e-3, name)
  assert(narrow_error(name, "f16") < 1e-3, name)
end
