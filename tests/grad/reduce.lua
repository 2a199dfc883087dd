-- Derivatives of reductions: axes, empty and size-1 axes, strides, ties, zeros.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op = core.op
local random, complex, distinct = check.random, check.complex, check.distinct

local axes = { {}, { axis = 1 }, { axis = { 0, -1 } }, { axis = -2, keepdims = true }, { axis = { 0, 1, 2 } },
  { keepdims = true } }
local function with(options, more)
  local o = {}
  for k, v in pairs(options) do o[k] = v end
  for k, v in pairs(more or {}) do o[k] = v end
  return o
end
local function everywhere(name, more)
  for _, o in ipairs(axes) do
    check(name, { distinct({ 2, 3, 2 }, 0.2, 1) }, with(o, more))
    check(name, { distinct({ 2, 3, 2 }, -1, -0.2):permute { 2, 0, 1 } }, with(o, more))
    check(name, { distinct({ 2, 2, 1 }, 0.2, 1) }, with(o, more))
  end
end
local function scalar_and_empty(name, more)
  check(name, { random({}, 0.2, 1) }, more)
  check(name, { random { 2, 0 } }, with({ axis = 0 }, more))
end
for _, name in ipairs { "sum", "mean", "prod", "min", "max", "logsumexp" } do
  everywhere(name)
  scalar_and_empty(name)
end
for _, name in ipairs { "sum", "mean", "prod" } do
  check(name, { random { 2, 0 } }, { axis = 1 })
  check(name, { complex { 2, 3 } })
  check(name, { complex { 2, 3 } }, { axis = 0 })
  check(name, { complex { 2, 3, 2 } }, { axis = { 0, 2 }, keepdims = true })
end
for _, name in ipairs { "var", "std" } do
  for _, o in ipairs(axes) do
    check(name, { random { 2, 3, 2 } }, o)
    check(name, { random { 2, 3, 2 } }, with(o, { correction = 1 }))
    check(name, { random { 3, 2, 2 }:permute { 2, 0, 1 } }, with(o, { correction = 0.5 }))
  end
end
scalar_and_empty "var"
for _, ord in ipairs { 0, 0.5, 1, 1.5, 2, 3, -1, -2.5, 1 / 0, -1 / 0 } do
  everywhere("norm", { ord = ord })
  scalar_and_empty("norm", { ord = ord })
  local away = op.complex(random({ 2, 3 }, 0.4, 1), random({ 2, 3 }, -1, -0.4))
  check("norm", { away }, { ord = ord })
  check("norm", { away:T() }, { ord = ord, axis = 0 })
end
for _, name in ipairs { "argmin", "argmax", "any", "all", "count_nonzero" } do
  local x = random { 2, 3 }
  assert(core.vjp(name, { x }, {}, { false }) == false)
end

-- Products with zeros, to the second order.
for _, t in ipairs { { 2, 0, 3 }, { 0, 2, 0 }, { 0, 0, 0, 2 }, { 0 } } do
  local x = core.tensor(t, { dtype = "f64" })
  check("prod", { x })
  check("prod", { op.stack { x, x + 1 } }, { axis = 1 })
  check("prod", { op.stack { x, x + 1 } })
end

local f64 = { dtype = "f64" }
local function at(name, x, options)
  x = core.tensor(x, f64)
  local g = core.vjp(name, { x }, options or {}, { core.tensor(1, f64) })
  return g and table.concat((g + 0):totable(), " ") or "none"
end
at("max", { 1, 3, 3, 2 }) --> 0 0.5 0.5 0
at("min", { 1, 1, 1, 2, 1 }) --> 0.25 0.25 0.25 0 0.25
at("std", { 1, 1 }) --> 0 0
at("norm", { 0, 0 }) --> 0 0
at("norm", { 0, 0 }, { ord = 1 }) --> 0 0
at("norm", { 0, 0 }, { ord = 0.5 }) --> 0 0
at("norm", { 0, 0 }, { ord = 3 }) --> 0 0
at("norm", { 0, 2, -2 }, { ord = 0.5 }) --> 0 2 -2
at("norm", { 0, 2, -2 }, { ord = -1 }) --> 0 0 0
at("norm", { 0, 2, -2 }, { ord = 1 / 0 }) --> 0 0.5 -0.5
at("norm", { 0, 2, -2 }, { ord = -1 / 0 }) --> 0 0 0
at("norm", { 0, 2, -2 }, { ord = 0 }) --> none
at("logsumexp", { 1000, -1 / 0, 0 }) --> 1 0 0
-- No place on the way from -inf: softmax has none there either. PyTorch and JAX give NaN as well.
at("logsumexp", { -1 / 0, -1 / 0 }) --> nan nan
at("prod", { 1e300, 1e-300, 1e300, 0 }) --> 0 0 0 1e+300

-- segment_reduce: segments out of order, empty ones, ties and zeros.
local ids = core.tensor({ 3, 0, 3, 1, 0, 3 }, { dtype = "i64" })
for _, mode in ipairs { "sum", "mean", "prod", "min", "max" } do
  local extreme = mode == "min" or mode == "max" -- infinite where a segment is empty
  local o = { segments = extreme and 4 or 5, mode = mode }
  local to = extreme and core.tensor({ 3, 0, 3, 1, 0, 2 }, { dtype = "i64" }) or ids
  check("segment_reduce", { distinct { 6, 2 }, to }, o)
  check("segment_reduce", { distinct { 6 }, to }, o)
  check("segment_reduce", { distinct { 2, 3, 6 }:permute { 2, 0, 1 }, to:cast "u8" }, o)
  check("segment_reduce", { distinct { 0, 2 }, core.tensor({}, { dtype = "i64" }) }, { segments = 0, mode = mode })
end
check("segment_reduce", { core.tensor({ 0, 2, 0, 3, 0, 2 }, f64), ids }, { segments = 4, mode = "prod" })
local ties = core.tensor({ 1, 2, 1, 0, 2, 5 }, f64)
local g = core.vjp("segment_reduce", { ties, ids }, { segments = 4, mode = "min" }, { op.ones({ 4 }, f64) })
g:totable() --> {0.5, 0.5, 0.5, 1, 0.5, 0}

-- Narrow types: the dtype of x, near the derivative in f64.
local function narrow_error(name, dtype, options)
  local x = op.linspace(0.4, 1.6, 40):reshape { 4, 10 }:cast(dtype)
  local y = core.run(name, { x }, options)
  local g = core.vjp(name, { x }, options, { op.ones_like(y) })
  local wide = x:cast "f64"
  local want = core.vjp(name, { wide }, options, { op.ones_like(y):cast "f64" })
  assert(g.dtype == dtype)
  return ((g:cast "f64" - want) / want:abs():max()):abs():max():item()
end
for _, name in ipairs { "sum", "mean", "prod", "min", "max", "var", "std", "norm", "logsumexp" } do
  for _, o in ipairs { { axis = 1 }, {} } do
    assert(narrow_error(name, "f32", o) < 1e-5, name)
    assert(narrow_error(name, "bf16", o) < 1e-2, name)
  end
end
