-- Derivatives where there is little to differentiate or nothing: empty tensors, rows that
-- see nothing, sizes at their limits.
local check = dofile "tests/grad/_check.lua"
local tessera = require "tessera"
local op, tensor = tessera.op, tessera.tensor

local function gradient(f, x, ...)
  x.requires_grad = true
  f(x, ...):sum():backward()
  return x.grad
end

-- A function whose values in between have no elements at all.
gradient(function(x) return x:cumprod(0) end, op.zeros { 3, 0 })              --> [] f32[3,0]
gradient(function(x) return op.max_pool(x, { window = { 2 } }) end, op.ones { 0, 1, 4 }) --> [] f32[0,1,4]
gradient(function(x) return op.linear_scan(x, x, 0) end, op.zeros { 2, 0 })   --> [] f32[2,0]

-- Queries and keys without elements: all keys count alike.
gradient(function(v) return op.attention(op.ones { 2, 0 }, op.ones { 4, 0 }, v) end, op.ones { 4, 1 }) --> [[0.5000]
-->  [0.5000]
-->  [0.5000]
-->  [0.5000]]
--> f32[4,1]

-- A row that sees neither a key nor its sink: zeros in every order.
local inf = 1 / 0
local q, k, v = check.random { 2, 2 }, check.random { 3, 2 }, check.random { 3, 2 }
local hidden = tensor({ { 0, 0, 0 }, { -inf, -inf, -inf } }, { dtype = "f64" })
local sink = tensor({ -inf }, { dtype = "f64" })
local second = tessera.graph.grad(function(q)
  local g = tessera.graph.grad(function(q) return op.attention(q, k, v, hidden, sink):square():sum() end)(q)
  return g:square():sum()
end)(q)
second:isnan():any():item()       --> false
second[1]:abs():max():item()      --> 0
second[0]:abs():max():gt(0):item() --> true

-- The source of masked_scatter, whose mask need not be known.
local mask = tensor({ false, true, true }, { dtype = "bool" })
local nowhere = tensor({ false, false }, { dtype = "bool" })
local weight = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
local function filled(s) return op.masked_scatter(op.zeros { 2, 3 }, mask, s) * weight end
local function unfilled(s) return op.masked_scatter(op.zeros { 2 } + s:sum(), nowhere, s) end
gradient(filled, tensor { 7, 8, 9, 10 }) --> [2. 3. 5. 6.]
--> f32[4]
gradient(unfilled, op.zeros { 0 })       --> [] f32[0]

-- The least of all shifts.
gradient(function(x) return x:roll(-2 ^ 63) * tensor { 1, 2, 3 } end, op.ones { 3 }) --> [2. 3. 1.]
--> f32[3]

-- A NaN passes relu and its derivative, in an epilogue as by itself.
local one, broken = op.ones { 1, 1 }, tensor { { 0 / 0 }, { -1 }, { 2 } }
local function fused(x) return op.matmul(x, one, nil, nil, { epilogue = "relu" }) end
local function apart(x) return op.relu(op.matmul(x, one)) end
gradient(fused, broken:clone()):reshape(-1) --> [1. 0. 1.]
--> f32[3]
gradient(apart, broken:clone()):reshape(-1) --> [1. 0. 1.]
--> f32[3]

-- Where the extreme is NaN those that are NaN share the gradient, and no others.
local gap = tensor { { 1, 0 / 0, 3 }, { 2, 2, 1 }, { 0 / 0, 0 / 0, 1 } }
gradient(function(x) return x:max { axis = 1 } end, gap:clone()) --> [[0.0000 1.0000 0.0000]
-->  [0.5000 0.5000 0.0000]
-->  [0.5000 0.5000 0.0000]]
--> f32[3,3]
gradient(function(x) return x:min() end, gap:clone())[0] --> [0.0000 0.3333 0.0000]
--> f32[3]
gradient(function(x) return x:norm { ord = 1 / 0 } * 0 + x[0][2] end, tensor { { 1, 2, 3 } }) --> [[0. 0. 1.]]
--> f32[1,3]
local rows = tensor({ 0, 0, 1 }, { dtype = "i64" })
gradient(function(x) return op.segment_reduce(x, rows, { segments = 2, mode = "max" }) end, tensor { 1, 0 / 0, 3 }) --> [0. 1. 1.]
--> f32[3]
gradient(function(x) return (x:cummax()) end, tensor { 1, 0 / 0, 3 }) --> [1. 2. 0.]
--> f32[3]
gradient(function(x) return op.max_pool(x:reshape { 1, 1, 4 }, { window = { 2 } }) end, tensor { 1, 0 / 0, 3, 2 }) --> [0. 1. 1. 0.]
--> f32[4]

-- Second derivatives of norms and softmaxes of bf16 are made in f32 and rounded once: beside f64.
local core = tessera.core
local function second(name, o, inputs)
  local function of(d)
    local x = {}
    for i, t in ipairs(inputs) do x[i] = t:cast(d) end
    local n = #x - 1
    local again = { unpack(x, 1, n) }
    return core.vjp(name, { unpack(x, 1, n) }, o, { x[n + 1] }, again)
  end
  local got, want = of "bf16":cast "f64", of "f64"
  return ((got - want):abs() / (want:abs():max() / 2 ^ 8)):max():item()
end
local function R(seed, ...) return op.normal({ ... }, { seed = seed, stream = 3, dtype = "bf16" }) end
for name, o in pairs { layernorm = {}, rmsnorm = {}, softmax = {}, log_softmax = {} } do
  local inputs = name:find "norm" and { R(1, 6, 40), R(2, 40), R(3, 6, 40) } or { R(1, 6, 40), R(3, 6, 40) }
  local off = second(name, o, inputs)
  if not (off < 4) then print(name, off) end
end

-- What does not count has neither value nor slope (PyTorch's kl_div and binary_cross_entropy have
-- these values; the slopes are those of the terms that are left).
local q, logp = tensor({ 0, 0.5, 0.5, 0 }, { dtype = "f64" }), tensor({ -1, -0.7, -0.8, -inf }, { dtype = "f64" })
q.requires_grad, logp.requires_grad = true, true
local each = op.kl_divergence(logp, q, { reduction = "none" })
each:detach() --> [0.0000 0.0034 0.0534 0.0000]
--> f64[4]
each:sum():backward()
q.grad --> [0.0000 1.0069 1.1069 0.0000]
--> f64[4]
logp.grad --> [ 0.0000 -0.5000 -0.5000  0.0000]
--> f64[4]
op.kl_divergence(tensor { -1, -2 }, tensor { 0, 0 / 0 }):isnan():item() --> true
local p, y = tensor({ 0, 0, 1, 1, 0.3 }, { dtype = "f64" }), tensor({ 0, 1, 0, 1, 0.4 }, { dtype = "f64" })
p.requires_grad, y.requires_grad = true, true
op.bce(p, y, { reduction = "sum" }):backward()
p.grad:add(0) --> [ 1.0000  0.0000  0.0000 -1.0000 -0.4762]
--> f64[5]
y.grad --> [ 100.0000  100.0000 -100.0000 -100.0000    0.8473]
--> f64[5]
op.bce(tensor { 0 / 0 }, tensor { 1 }):isnan():item() --> true
local captured = tessera.graph.grad(function(q) return op.kl_divergence(logp:detach(), q, { reduction = "sum" }) end)
captured(q:detach()) --> [0.0000 1.0069 1.1069 0.0000]
--> f64[4]
