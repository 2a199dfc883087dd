-- What tessera.no_grad gives is a constant of derivatives, eagerly and in captured functions: of tensors, several of them, in tables.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local function tensors(x)
  local a, b = tessera.no_grad(function(y) return y * 2, 7 end, x)
  return (x * a * b):sum()
end
local function tables(x)
  local t = tessera.no_grad(function() return { x * 2, name = "n", { x:exp() } } end)
  assert(t.name == "n")
  return (x * t[1] * t[2][1]):sum()
end
local function nothing(x)
  local n, none = tessera.no_grad(function() return 3, nil end)
  assert(n == 3 and none == nil and select("#", tessera.no_grad(function() end)) == 0)
  return (x * n):sum()
end
-- Derivatives inside are there, and are constants outside.
local function inner(x)
  return (x * tessera.no_grad(graph.grad(function(y) return (y * y * y):sum() end), x)):sum()
end

local x = tessera.tensor({ 1, 2, 3 }, { dtype = "f64" })
local expected = { x * 14, x * 2 * x:exp(), op.full_like(x, 3), x * x * 3 }
for i, f in ipairs { tensors, tables, nothing, inner } do
  assert(graph.grad(f)(x):hash() == expected[i]:hash(), "captured " .. i)
  local y = x:clone()
  y.requires_grad = true
  f(y):backward()
  assert(y.grad:hash() == expected[i]:hash(), "eager " .. i)
end
-- A training step learns nothing by it.
local w = op.ones { 3 }
w.requires_grad = true
local step = graph.training_step(nil, function() return (w * tessera.no_grad(function() return w * 2 end)):sum() end,
  tessera.optim.SGD({ w }, 0.25))
step()
w:detach() --> [0.5000 0.5000 0.5000]
--> f32[3]

-- What was there before is what it was: gradients flow through it, and a table that is given back is that table, with its metatable
-- and with itself in it.
local Class = { __index = { twice = function(t) return t.made * 2 end } }
local function same_table(x)
  local t = setmetatable({ x = x, [false] = x }, Class)
  t.me = t
  local given, again = tessera.no_grad(function()
    t.made = x * 2
    return t, { t }
  end)
  assert(rawequal(given, t) and rawequal(again[1], t) and rawequal(t.me, t) and rawequal(t[false], x))
  return (given.x * given:twice()):sum()
end
local function before(x)
  local y = x * 3
  return (tessera.no_grad(function() return y end) * x):sum()
end
for i, case in ipairs { { same_table, x * 4 }, { before, x * 6 } } do
  assert(graph.grad(case[1])(x):hash() == case[2]:hash(), "captured, of what was there " .. i)
  local y = x:clone()
  y.requires_grad = true
  case[1](y):backward()
  assert(y.grad:hash() == case[2]:hash(), "eager, of what was there " .. i)
end
