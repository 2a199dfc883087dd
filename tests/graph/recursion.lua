-- op.recursive: eager = captured bits; gradients, second derivatives and forward mode beside
-- those of the unrolled calls; where it is unrolled; depth, random calls, messages.
local tessera = require "tessera"
local core = require "tessera.core"
package.path = "tests/graph/?.lua;" .. package.path
local check = require "_same"
local graph, op = tessera.graph, tessera.op
local R, same, off, gradients = check.R, check.same, check.off, check.gradients
local function I(n) return tessera.tensor(n, { dtype = "i64" }) end
local function is_node(f, ...)
  local g = graph.module(f)
  g(...)
  return g:ir():find "= recursive " ~= nil
end

local x, w = R { 3 }, R { 3 }
local n2, n5 = I(2), I(5)

-- ---- one call, in a function that is not linear, with a value from outside
local function line(v, b, n)
  return op.recursive(function(self, u, m)
    return op.cond(m:le(0), function(t) return t * 0 + 1 end,
      function(t, k) return (t * self((t * 1.1):sin(), k - 1)):tanh() + b:sin() end, u, m)
  end)(v, n)
end
local function line_plain(v, b, m)
  if m == 0 then return v * 0 + 1 end
  return (v * line_plain((v * 1.1):sin(), b, m - 1)):tanh() + b:sin()
end
is_node(line, x, w, n5) --> true
same(line, x, w, n5) --> true
same(line, x, w, I(0)) --> true
gradients(function(a, b) return line(a, b, n5):square():sum() end, function(a, b) return line_plain(a, b, 5):square():sum() end, x, w) --> true

-- ---- two calls, beside each other and in each other
local function twice(v, b, n)
  return op.recursive(function(self, u, m)
    return op.cond(m:le(1), function(t) return t:sin() * b end,
      function(t, k) return self(t * 0.9, k - 1) * self(self(t + b, k - 3), k - 2) + t:square() end, u, m)
  end)(v, n)
end
local function twice_plain(v, b, m)
  if m <= 1 then return v:sin() * b end
  return twice_plain(v * 0.9, b, m - 1) * twice_plain(twice_plain(v + b, b, m - 3), b, m - 2) + v:square()
end
same(twice, x, w, n5) --> true
gradients(function(a, b) return twice(a, b, n5):square():sum() end, function(a, b) return twice_plain(a, b, 5):square():sum() end, x, w) --> true

-- ---- several arguments and results, in tables; of results one is used alone
local function tables(v, b, n)
  local s, t = op.recursive(function(self, u, o, m)
    return op.cond(m:le(0), function(p, q) return p, { q = q.b * p } end, function(p, q, k)
      local y, z = self(p * q.b, { b = q.b:sin() }, k - 1)
      return z.q + p, { q = y * q.b }
    end, u, o, m)
  end)(v, { b = b }, n)
  return s, t.q
end
local function tables_plain(v, b, m)
  if m <= 0 then return v, b * v end
  local y, z = tables_plain(v * b, b:sin(), m - 1)
  return z + v, y * b
end
same(tables, x, w, n5) --> true
local function product(f, n)
  return function(a, b)
    local s, t = f(a, b, n)
    return (s * t):sum()
  end
end
gradients(product(tables, n5), product(tables_plain, 5), x, w) --> true
gradients(function(a, b) return (tables(a, b, n5)):sum() end, function(a, b) return (tables_plain(a, b, 5)):sum() end, x, w) --> true

-- ---- through loops: a call in each round, a recursion in each round
local function forest(v, b, n)
  return op.recursive(function(self, u, m)
    return op.cond(m:le(0), function(t) return t * b end, function(t, k)
      return (op.scan(function(c, e) return c + self(t * e, k - 1):sin() end, t, b))
    end, u, m)
  end)(v, n)
end
local function forest_plain(v, b, m)
  if m <= 0 then return v * b end
  local c = v
  for i = 0, 2 do c = c + forest_plain(v * b:select(0, i), b, m - 1):sin() end
  return c
end
same(forest, x, w, n2) --> true
gradients(function(a, b) return forest(a, b, n2):square():sum() end, function(a, b) return forest_plain(a, b, 2):square():sum() end, x, w) --> true
local function rounds(a, b)
  return op.recursive(function(self, v, m)
    return op.cond(m:le(0), function(u) return u end, function(u, k)
      return (op.while_loop(function(t) return t:sum():lt(1e9) end, function(t) return self(t * b, k - 1):sin() + t end, u, { max = 2 }))
    end, v, m)
  end)(a, n2):sum()
end
local function rounds_plain(a, b)
  local function at(v, m)
    for _ = 1, m > 0 and 2 or 0 do v = at(v * b, m - 1):sin() + v end
    return v
  end
  return at(a, 2):sum()
end
gradients(rounds, rounds_plain, x, w) --> true
local function settling(a, b)
  return op.recursive(function(self, v, m)
    return op.cond(m:le(0), function(u) return u * 0.5 end, function(u, k)
      return op.fixed_point(function(t) return self(t * 0.3, k - 1):sin() * 0.5 + b * u end, u, { tol = 1e-14, max = 200 })
    end, v, m)
  end)(a, n2):sum()
end
local function settling_plain(a, b)
  local function at(v, m)
    if m == 0 then return v * 0.5 end
    local t = v
    for _ = 1, 40 do t = at(t * 0.3, m - 1):sin() * 0.5 + b * v end
    return t
  end
  return at(a, 2):sum()
end
gradients(settling, settling_plain, x, w) --> true
local function in_rounds(a, b)
  return (op.while_loop(function(t) return t:sum():lt(5) end, function(t)
    return op.recursive(function(self, v, m)
      return op.cond(m:le(0), function(u) return u + 1 end, function(u, k) return self(u * 1.1, k - 1) + b end, v, m)
    end)(t, n2)
  end, a, { max = 6 })):square():sum()
end
local function in_rounds_plain(a, b)
  local t = a
  for _ = 1, 6 do t = op.where(t:sum():lt(5), t * 1.1 * 1.1 + 1 + b + b, t) end
  return t:square():sum()
end
gradients(in_rounds, in_rounds_plain, x, w) --> true

-- ---- a recursion in a recursion
local function nested(v, b, n)
  return op.recursive(function(self, u, m)
    local inner = op.recursive(function(me, t, k)
      return op.cond(k:le(0), function(s) return s:sin() end, function(s, j) return me(s * b, j - 1) * u end, t, k)
    end)
    return op.cond(m:le(0), function(t, k) return inner(t, k + 2) end, function(t, k) return self(inner(t, k), k - 1) + b end, u, m)
  end)(v, n)
end
local function nested_plain(v, b, m)
  local function inner(t, k)
    if k <= 0 then return t:sin() end
    return inner(t * b, k - 1) * v
  end
  if m <= 0 then return inner(v, m + 2) end
  return nested_plain(inner(v, m), b, m - 1) + b
end
same(nested, x, w, n2) --> true
gradients(function(a, b) return nested(a, b, n2):sum() end, function(a, b) return nested_plain(a, b, 2):sum() end, x, w) --> true

-- ---- third derivatives, a Hessian's product, backward() through a captured function
local function weighted(f, u)
  local d = graph.grad(f)
  return function(a) return (d.body(a) * u):sum() end
end
local function sum3(a) return line(a, w, I(3)):sum() end
local function sum3_plain(a) return line_plain(a, w, 3):sum() end
local function third(f) return graph.grad(weighted(weighted(f, x), w))(x) end
off(third(sum3), third(sum3_plain)) < 1e-13 --> true
off(graph.hvp(sum3)(x, w), graph.hvp(sum3_plain)(x, w)) < 1e-13 --> true
local leaf = x:clone():requires_grad_()
graph.module("sum3", sum3)(leaf):backward()
off(leaf.grad, graph.grad(sum3_plain)(x)) < 1e-13 --> true
-- By differences as well.
local function at(e) return sum3(x + e * w) end
off((graph.grad(sum3)(x) * w):sum(), (at(1e-5) - at(-1e-5)) / 2e-5) < 1e-9 --> true
-- What no level reads is no operand: here the gradient needs the count alone.
local function linear(v, n)
  return op.recursive(function(self, u, m) return op.cond(m:le(0), function(t) return t end, function(t, k) return self(t * 3, k - 1) end, u, m) end)(v, n)
end
local linear_d = graph.grad(function(v, n) return linear(v, n):sum() end)
linear_d(R { 2 }, I(3)) --> [27. 27.]
--> f64[2]
linear_d:ir():match "recursive ([^{]*) do" --> %n, %1

-- ---- inner results are kept for the gradient: its forward work is linear in the depth
local ran = 0
local counted = op.custom("counted", {
  forward = function(t)
    ran = ran + 1
    return t:sin()
  end,
  adjoint = function(t, _, d) return t:cos() * d end,
})
local function deep(v, n)
  return op.recursive(function(self, u, m)
    return op.cond(m:le(0), function(t) return t end, function(t, k) return self(t * 1.01, k - 1):tanh() * counted(t) end, u, m)
  end)(v, n):sum()
end
local deep_slope = graph.grad(deep)(x, I(50))
ran <= 150 --> true
local function deep_plain(v)
  local function at(t, m) return m == 0 and t or at(t * 1.01, m - 1):tanh() * t:sin() end
  return at(v, 50):sum()
end
off(deep_slope, graph.grad(deep_plain)(x)) < 1e-13 --> true

-- ---- random calls: each call of each level draws its own, and the gradient the same again
local function noisy(a, n)
  return op.recursive(function(self, v, m)
    return op.cond(m:le(0), function(t) return t end, function(t, k)
      return op.dropout(self(t * 1.5, k - 1), { p = 0.5 }) + op.dropout(self(t, k - 1), { p = 0.5 })
    end, v, m)
  end)(a, n)
end
local function from(seed, f, ...)
  core.seed(seed)
  return f(...)
end
local many = R { 512 }
local noisy_f = graph.module("noisy", noisy)
local total = from(9, noisy_f, many, n2)
total:hash() == from(9, noisy_f, many, n2):hash() --> true
total:hash() == from(8, noisy_f, many, n2):hash() --> false
local slope = from(9, graph.grad(function(a, n) return noisy(a, n):sum() end), many, n2)
off((slope * many):sum(), total:sum()) < 1e-13 --> true
local y, dy = from(9, graph.jvp(function(a) return noisy(a, n2) end), many, many)
off(dy, y) < 1e-13 --> true
local draws = graph.module("draws", function(n)
  return op.recursive(function(self, m)
    return op.cond(m:le(0), function() return op.zeros { 1 } end, function(k) return op.concat({ op.uniform { 1 }, self(k - 1) * 0 + op.uniform { 1 } })["0:1"] + self(k - 1) * 2 end, m)
  end)(n)
end)
draws(I(1)):hash() == draws(I(2)):hash() --> false

-- ---- sizes as symbols
local sized = graph.module("sized", function(a)
  return op.recursive(function(self, v)
    return op.cond(v:max():gt(9), function(t) return t end, function(t) return self(t * 2) + t:sum() end, v)
  end)(a)
end)
for _, size in ipairs { 3, 4, 7, 5 } do
  local a = R({ size }, 0.1)
  assert(sized(a):hash() == sized.body(a):hash())
end
sized:ir():match "recursive %%a do %(%%0: f64%[(%a)%]%)" --> B

-- ---- unrolled: a Lua number counts; shapes change; no branch ends it; the outer one is called
local function power(t, n)
  return op.recursive(function(self, v, m) return m == 0 and v * 0 + 1 or v * self(v, m - 1) end)(t, n)
end
same(function(t) return power(t, 5) end, x) --> true
is_node(function(t) return power(t, 5) end, x) --> false
off(graph.grad(function(t) return power(t, 5):sum() end)(x), 5 * x:square():square()) < 1e-13 --> true
local function halves(t)
  return op.recursive(function(self, v)
    if v.numel == 1 then return v end
    return self(v["::2"]) + self(v["1::2"])
  end)(t)
end
same(halves, R { 8 }) --> true
local function outer(v, b)
  return op.recursive(function(self, u, m)
    if m == 0 then return u end
    return op.recursive(function(me, t, k)
      return op.cond(k:le(0), function(s) return self(s, m - 1) end, function(s, j) return me(s * b, j - 1) end, t, k)
    end, { max = 4 })(u, n2)
  end)(v, 2)
end
same(outer, x, w) --> true
-- Numbers as results of the last level.
local function levels(v)
  return op.recursive(function(self, u) return op.cond(u:sum():gt(9), function() return 1 end, function(t) return self(t + 1) + 1 end, u) end)(v)
end
graph.module("levels", levels)(op.zeros { 2 }) --> 6 i64[]
is_node(levels, op.zeros { 2 }) --> true

-- ---- depth: no C stack for calls, some for loops
local function count(v, n, max)
  return op.recursive(function(self, u, m)
    return op.cond(m:le(0), function(t) return t end, function(t, k) return self(t + 1, k - 1) * 1 end, u, m)
  end, { max = max })(v, n)
end
local counter = graph.module("counter", count)
local o = op.zeros { 1 }
count(o, I(9999)):item() --> 9999
counter(o, I(9999)):item() --> 9999
count(o, I(10000)) --! recursion deeper than 10000 calls
local lowest = graph.module("lowest", function(v)
  return op.recursive(function(self, u)
    local y = self(u + 1)
    return op.cond(u:sum():gt(0), function() return y end, function(t) return t end, u)
  end)(v)
end)
counter(o, I(10000)) --! recursive: recursion deeper than 10000 calls (in else, tests/graph/recursion.lua:276)
counter(o, I(3)):item() --> 3
graph.module("less", function(v, n) return count(v, n, 4) end)(o, I(3)):item() --> 3
graph.module("less", function(v, n) return count(v, n, 4) end)(o, I(4)) --! recursion deeper than 4 calls
count(o, I(4), 4) --! tests/graph/recursion.lua:276: op.recursive: recursion deeper than 4 calls
lowest(o) --! recursion deeper than 64 calls (unrolled: no branch ends it)
local through = graph.module("through", function(v, n)
  return op.recursive(function(self, u, m)
    return op.cond(m:le(0), function(t) return t end, function(t, k)
      return (op.scan(function(c) return self(c, k - 1) + 1 end, t, nil, { length = 1 }))
    end, u, m)
  end)(v, n)
end)
through(o, I(900)):item() --> 900
through(o, I(1100)) --! recursion through loops or functions from outside: more than 1000 deep
through(o, I(900)):item() --> 900

-- ---- the NaN trap names the line in the deepest call
local function logarithm(t)
  local y = op.log(t)
  return y
end
local function trapped(v)
  return op.recursive(function(self, u)
    return op.cond(u:sum():lt(0), logarithm, function(t) return self(t - 1) * 2 end, u)
  end)(v)
end
tessera.numerics.trap(true)
graph.module("trapped", trapped)(o) --! log gives NaN at [0] of its result f32[1] in the forward pass (in if, tests/graph/recursion.lua:309)
tessera.numerics.trap(false)

-- ---- messages
op.recursive(1) --! op.recursive: a function is needed, not a number
op.recursive(function(self, v) return self(v) end, { max = 3 })(x) --! deeper than 3
graph.module(function(a) return op.recursive(function(self, v) return op.cond(v:sum():gt(0), function(t) return t:sum() end, function(t) return self(t["1:"]) end, v) end)(a) end)(-R({ 3 }, 0.5)) --! (unrolled: argument 1 is f64[3], then f64[2])
graph.module(function(a) return op.recursive(function(self, v) return op.cond(v:sum():gt(0), function(t) return self(t):cast "f32" end, function(t) return t end, v) end)(a) end)(x) --! cond: the second function's result 1 is f64[3], it should be f32[3]
graph.module(function(a) return op.recursive(function(self, v) return op.cond(v:sum():gt(0), function(t) return t end, function(t) return graph.checkpoint(function(s) return self(s + 1) end)(t) end, v) end)(a) end)(x) --! the inner call stands in another function
graph.module(function(a) return op.recursive(function(self, v) return op.cond(v:sum():gt(0), function(t) return t end, function(t) return graph.grad(function(u) return self(u):sum() end).body(t) end, v) end)(a) end)(x) --! an inner call is differentiated inside its own function
local kept
local function escaped(a)
  op.recursive(function(self, v)
    kept = self
    return op.cond(v:sum():gt(0), function(t) return t end, function(t) return self(t + 1) end, v)
  end)(a)
  return kept(a)
end
graph.module(escaped)(x) --! the inner call stands outside of its function
