-- Control operators, eager and captured: the same bits of values; gradients of captured
-- ones against those of the unrolled loop; nested; with random calls; second derivatives.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, op = tessera.graph, tessera.op

package.path = "tests/graph/?.lua;" .. package.path
local check, ok = require "_same", nil
local R, same, off, gradients = check.R, check.same, check.off, check.gradients

local x, w, h0 = R { 5, 3 }, R { 3, 3 }, R { 3 }

-- ---- cond
local function choose(p, a) return op.cond(p, function(t) return t:exp() end, function(t) return t:square() + w["0"] end, a) end
same(choose, tessera.tensor(true), h0) --> true
same(choose, tessera.tensor(false), h0) --> true
local function chosen(a, b)
  return op.cond(a:sum():gt(0), function(t, u) return t:sin() * u end, function(t, u) return u:cos() end, a, b):sum()
end
gradients(chosen, function(a, b) return (a:sin() * b):sum() end, R({ 4 }, 0.1), R { 4 }) --> true
gradients(chosen, function(a, b) return (b:cos() + 0 * a):sum() end, -R({ 4 }, 0.1), R { 4 }) --> true
-- Two results, one of them an operand; a table; a number as a branch's result.
ok = same(function(p, a) return op.cond(p, function(t) return t, { s = t:sum() } end, function(t) return t * 2, { s = t:mean() } end, a) end,
  tessera.tensor(true), h0)
ok --> true
graph.module(function(p, a) return op.cond(p, function(t) return t end, function() return 3 end, a) end)(tessera.tensor(false), tessera.tensor(1)) --> 3. f32[]
-- Numbers of both, which are not one when the function is captured; what is no tensor.
local function numbers(m, n) return graph.module(function(p) return op.cond(p, function() return m end, function() return n end) end) end
numbers(1, 2)(tessera.tensor(true)), numbers(1, 2)(tessera.tensor(false)) --> 1 i64[], 2 i64[]
numbers(1, 2.5)(tessera.tensor(true)), numbers(1, 2.5)(tessera.tensor(false)) --> 1. f32[], 2.5000 f32[]
numbers(1, h0:sum():cast "f64")(tessera.tensor(true)) --> 1. f64[]
numbers("a", "b")(tessera.tensor(true)) --! the functions' results have different forms
numbers({ a = h0 }, { b = h0 })(tessera.tensor(true)) --! the functions' results have different forms
op.cond(h0, 1, 2) --! op.cond: a function is needed, not a number
graph.module(function(a) return op.cond(a, function() return a end, function() return a end) end)(h0) --! the condition must be one bool
graph.module(function(p, a) return op.cond(p, function() return a end, function() return a:sum() end) end)(tessera.tensor(true), h0) --! it should be f64[3]
graph.module(function(p, a) return op.cond(p, function() return a, a end, function() return a end) end)(tessera.tensor(true), h0) --! the second function returns 1 values, not 2

-- ---- while_loop
local function halve(a, limit)
  return op.while_loop(function(t) return t:abs():sum():gt(0.1) end, function(t, n) return t * 0.5, n + 1 end, a,
    tessera.tensor(0, { dtype = "i64" }), limit)
end
same(halve, h0) --> true
same(function(a) return halve(a, { max = 2 }) end, h0) --> true
same(function(a) return halve(a, { max = 100 }) end, h0) --> true
same(function(a) return halve(a * 0) end, h0) --> true
graph.grad(function(a) return (halve(a)):sum() end)(h0) --! while_loop has no derivative
local far = R({ 3 }, 0.6)
local function grow(a, b)
  local t = op.while_loop(function(t) return t:sum():lt(20) end, function(t) return t * (1 + b:square()) + a:sin() end, a, { max = 9 })
  return t:square():sum()
end
local function grow_plain(a, b)
  local t = a
  for _ = 1, 9 do
    local more = t:sum():lt(20)
    t = op.where(more, t * (1 + b:square()) + a:sin(), t)
  end
  return t:square():sum()
end
same(grow, far, h0) --> true
gradients(grow, grow_plain, far, h0) --> true
-- Fewer rounds than the condition would allow.
ok = gradients(function(a) return (op.while_loop(function(t) return t:sum():lt(1e9) end, function(t) return t:exp() end, a, { max = 2 })):sum() end,
  function(a) return a:exp():exp():sum() end, h0)
ok --> true

-- Operands of which one is computed from another: each gets its own part of the gradient.
local function chained(a, b)
  local start = a * b
  return (op.while_loop(function(t) return t:sum():lt(1e9) end, function(t) return t * start:sin() + a end, start:cos(), { max = 3 })):sum()
end
local function chained_plain(a, b)
  local start = a * b
  local t = start:cos()
  for _ = 1, 3 do t = t * start:sin() + a end
  return t:sum()
end
gradients(chained, chained_plain, h0, far) --> true

-- ---- scan
local function rnn(weights, xs, start, o)
  local last, ys = op.scan(function(c, v)
    local n = op.tanh(c:matmul(weights) + v)
    return n, n * 2
  end, start, xs, o)
  return last, ys
end
same(rnn, w, x, h0) --> true
same(function(...) return rnn(..., x, h0, { reverse = true }) end, w) --> true
local function rnn_loss(o)
  return function(...)
    local last, ys = rnn(...)
    return (last * R({ 3 })):sum() + ys:square():sum()
  end
end
local function rnn_unrolled(from, to, step, k)
  return function(weights, xs, start)
    local c, sum = start, 0
    for i = from, to, step do
      c = op.tanh(c:matmul(weights) + xs:select(0, i))
      sum = sum + (c * 2):square():sum()
    end
    return (c * k):sum() + sum
  end
end
local k = R { 3 }
local function rnn_with(o)
  return function(weights, xs, start)
    local last, ys = rnn(weights, xs, start, o)
    return (last * k):sum() + ys:square():sum()
  end
end
gradients(rnn_with(), rnn_unrolled(0, 4, 1, k), w, x, h0) --> true
gradients(rnn_with { reverse = true }, rnn_unrolled(4, 0, -1, k), w, x, h0) --> true
-- Only the stacked results, only the carry, an x that is not used, an integer carry.
ok = gradients(function(a, b) local _, ys = op.scan(function(c, v) return c + v, c * v end, b, a) return ys:sum() end,
  function(a, b)
    local c, sum = b, 0
    for i = 0, 4 do sum, c = sum + (c * a:select(0, i)):sum(), c + a:select(0, i) end
    return sum
  end, x, h0)
ok --> true
ok = gradients(function(a, b) return (op.scan(function(c, v) return { n = c.n + 1, t = c.t * 0.9 + b:sin() } end,
    { n = tessera.tensor(0, { dtype = "i64" }), t = b }, a)).t:square():sum() end,
  function(a, b)
    local t = b
    for _ = 1, 5 do t = t * 0.9 + b:sin() end
    return t:square():sum() + 0 * a:sum()
  end, x, h0)
ok --> true
-- Tables as carries, xs and results; without xs; length zero.
ok = same(function(a)
  return op.scan(function(c, v) return { m = c.m:maximum(v.p), s = c.s + v.q[1] }, { v.p - c.m, { c.s } } end,
    { m = a["0"], s = a["1"] }, { p = a, q = { a * 2 } })
end, x)
ok --> true
same(function(a) return op.scan(function(c) return c * 1.5, c:sum() end, a, nil, { length = 4 }) end, h0) --> true
same(function(a) return op.scan(function(c) return c * 1.5 end, a, nil, { length = 4, reverse = true }) end, h0) --> true
same(function(a) return (op.scan(function(c, v) return c + v end, a, op.zeros({ 0, 3 }, { dtype = "f64" }))) end, h0) --> true
ok = gradients(function(a) return (op.scan(function(c) return c:sin() * 2 end, a, nil, { length = 3 })):sum() end,
  function(a) return (((a:sin() * 2):sin() * 2):sin() * 2):sum() end, h0)
ok --> true
graph.module(function(a) return op.scan(function(c) return c:sum() end, a, nil, { length = 2 }) end)(h0) --! the carry 1 is f64[], it should be f64[3]
op.scan(function(c) return c end, h0) --! xs or {length = n} is needed
graph.module(function(a, b) return op.scan(function(c) return c end, h0, { a, b }) end)(x, h0) --! xs have lengths 5 and 3

-- ---- map
same(function(a) return op.map(function(v) return v:softmax { axis = -1 }, v:sum() end, a) end, x) --> true
same(function(a) return op.map(function(v) return { v:max(), v.T and v * 2 } end, a) end, x) --> true
ok = gradients(function(a, b) return op.map(function(v) return (v * b):tanh():sum() end, a):square():sum() end,
  function(a, b) return (a * b):tanh():sum { axis = 1 }:square():sum() end, x, h0)
ok --> true

-- ---- fixed point: x = cos(a x)
local function root(a) return op.fixed_point(function(t) return (a * t):cos() end, op.ones({ 3 }, { dtype = "f64" }), { tol = 1e-15, max = 300 }) end
local a0 = R({ 3 }, 0.1) * 0.5
same(root, a0) --> true
local slope = graph.grad(function(a) return root(a):sum() end)(a0)
local r = root(a0)
local sine = (a0 * r):sin()
off(slope, -(sine * r) / (1 + sine * a0)) < 1e-12 --> true
local h = 1e-4
local curve = graph.grad(function(a) return (graph.grad(function(b) return root(b):sum() end).body(a) * k):sum() end)(a0)
local function first(a) return (graph.grad(function(b) return root(b):sum() end)(a) * k) end
off(curve, (first(a0 + h) - first(a0 - h)) / (2 * h)) < 1e-6 --> true
-- Parameters computed from each other, and the start among them.
local function settled(a, b)
  local p = a * b
  return op.fixed_point(function(t) return (p * t):cos() * 0.5 + a * 0.1 + b * 0.2 end, b, { tol = 1e-15, max = 300 })
end
local function settled_plain(a, b)
  local p, t = a * b, b
  for _ = 1, 80 do t = (p * t):cos() * 0.5 + a * 0.1 + b * 0.2 end
  return t
end
gradients(function(a, b) return settled(a, b):square():sum() end, function(a, b) return settled_plain(a, b):square():sum() end, a0, h0) --> true
graph.module(function(a) return op.fixed_point(function(t) return t + a end, a, { max = 5 }) end)(h0) --! not found in 5 rounds
op.fixed_point(function(t) return t + 1 end, h0, { max = 5 }) --! not found in 5 rounds

-- ---- nested: a loop in a choice in a loop, values from all levels outside
local function nested(a, b, xs)
  local out = op.scan(function(c, v)
    local next_c = op.cond(v:sum():gt(0), function(p)
      return (op.while_loop(function(t) return t:sum():lt(3) end, function(t) return t * 1.5 + b:square() end, p:square() + v:square(), { max = 4 }))
    end, function(p)
      return (op.scan(function(q) return q * 0.5 + v * a end, p, nil, { length = 2 }))
    end, c)
    return next_c
  end, a, xs)
  return out:square():sum()
end
local function nested_plain(a, b, xs)
  local c = a
  for i = 0, 4 do
    local v = xs:select(0, i)
    local t = c:square() + v:square()
    for _ = 1, 4 do t = op.where(t:sum():lt(3), t * 1.5 + b:square(), t) end
    local q = c
    for _ = 1, 2 do q = q * 0.5 + v * a end
    c = op.where(v:sum():gt(0), t, q)
  end
  return c:square():sum()
end
same(nested, h0, k, x) --> true
gradients(nested, nested_plain, h0, k, x) --> true

-- ---- random calls in rounds: streams of their own, the same forward and backward
local function noisy(a, xs)
  return (op.scan(function(c, v)
    return op.dropout(c + v, { p = 0.5 }) * 2
  end, a, xs))
end
local f = graph.module("noisy", noisy)
local function at(g, ...)
  core.seed(9)
  return g(...)
end
at(f, h0, x):hash() == at(f, h0, x):hash() --> true
at(f, h0, x):hash() == f(h0, x):hash() --> false
-- The function is linear, so its value is its derivative along the inputs, if the masks agree.
local ga, gx = at(graph.grad(function(a, xs) return noisy(a, xs):sum() end, { 1, 2 }), h0, x)
local total = at(graph.module("total", function(a, xs) return noisy(a, xs):sum() end), h0, x)
off((ga * h0):sum() + (gx * x):sum(), total) < 1e-13 --> true
local y, dy = at(graph.jvp(noisy), h0, x, h0, x)
off(dy, y) < 1e-13 --> true
-- Each round draws anew.
local _, masks = at(graph.module("masks", function(a) return op.scan(function(c) return c, op.uniform { 8 } end, a, nil, { length = 3 }) end), h0)
masks["0"]:hash() == masks["1"]:hash() --> false
masks["1"]:hash() == masks["2"]:hash() --> false
-- The same choices by the tape, through a captured function.
local leaf = h0:clone()
leaf.requires_grad = true
core.seed(9)
f(leaf, x):sum():backward()
off(leaf.grad, ga) < 1e-13 --> true

-- ---- checkpoint: computed again, the same derivatives; its random numbers too
local function piece(a, b) return (a:sin() * b):tanh() end
local function kept(a, b) return (piece(piece(a, b), b) * k):sum() end
local function again(a, b) return (graph.checkpoint(piece)(graph.checkpoint(piece)(a, b), b) * k):sum() end
gradients(again, kept, h0, far) --> true
local function wet(a) return op.dropout(a, { p = 0.5 }):square():sum() end
at(graph.grad(function(a) return graph.checkpoint(wet)(a) end), h0):hash() == at(graph.grad(wet), h0):hash() --> true

-- ---- the tape through functions with random calls: the masks of the run that was recorded
local wet_f = graph.module("wet", function(a) return op.dropout(a, { p = 0.5 }) * op.dropout(a, { p = 0.25 }) end)
local leaf2 = R { 64 }
leaf2.requires_grad = true
local y1, y2 = wet_f(leaf2), wet_f(leaf2)
op.normal { 3 }
;(y1:sum() + y2:sum() * 3):backward()
local expected = op.where(leaf2:eq(0), leaf2, (y1 + y2 * 3) * 2 / leaf2):detach()
off(leaf2.grad, expected) < 1e-12 --> true

-- ---- gradients may be changed in place: each leaf has its own
local la, lb = h0:clone():requires_grad_(), h0:clone():requires_grad_()
local seed = op.ones({ 3 }, { dtype = "f64" })
;(la + lb):backward(seed)
la.grad:mul_(2)
lb.grad:sum():item(), seed:sum():item() --> 3, 3
local lc = h0:clone():requires_grad_()
lc:sum():backward()
lc.grad["0"]:mul_(5)
lc.grad:sum():item() --> 7
-- A function that gives an argument back does not make it a result.
local through = graph.module("through", function(a) return a, a * 2 end)
local ld = h0:clone():requires_grad_()
local same_one, twice = through(ld)
;(same_one + twice):sum():backward()
ld.grad:sum():item() --> 9
-- What the function changes in place is as it was for backward().
local running = op.ones({ 3 }, { dtype = "f64" })
local tracked = graph.module("tracked", function(a)
  local y = a * running
  running:add_(1)
  return y
end)
local le = h0:clone():requires_grad_()
local first_y = tracked(le)
tracked(h0)
first_y:sum():backward()
le.grad:sum():item() --> 3
graph.module("wrong", function(a) a:add_(1) return a * 2 end)(le) --! changes a tensor that requires gradients in place

-- ---- a scan runs once, although the backward rounds need the carries of all its rounds; so does a
-- loop with a bound, as the scan that it is then
local function loops(f)
  local g = graph.value_and_grad(f)
  g(op.ones({ 3 }, { dtype = "f64" }))
  local text = g:ir "graph"
  return select(2, text:gsub("= scan", "")) .. " " .. select(2, text:gsub("= while_loop", ""))
end
ok = loops(function(h)
  local c, ys = op.scan(function(c, v) local y = (c * v):sin() return y, y * 2 end, h, op.ones({ 5, 3 }, { dtype = "f64" }))
  return c:sum() + ys:sum()
end)
ok --> 2 0
ok = loops(function(h)
  return op.while_loop(function(c) return c:sum():lt(100) end, function(c) return c * c + 1 end, h, { max = 6 }):sum()
end)
ok --> 2 0
