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
