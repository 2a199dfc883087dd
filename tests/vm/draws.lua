-- The distributions of composed draws: mean and variance of many, and how many are below the median.
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local n = 40000

local function near(x, mean, variance, median)
  x = x:cast "f64"
  local far = math.abs(x:mean():item() - mean) / math.sqrt(variance / n)
  local share = x:lt(median):cast("f64"):mean():item()
  local spread = math.abs(x:var():item() / variance - 1)
  return far < 5 and math.abs(share - 0.5) < 2.5 / math.sqrt(n) and spread < 0.15
end

near(op.exponential({ n }, { rate = 2, seed = 1 }), 1 / 2, 1 / 4, math.log(2) / 2) --> true
-- Medians by SciPy.
near(op.gamma(op.full({ n }, 0.5), { seed = 2 }), 0.5, 0.5, 0.22746821155978637) --> true
near(op.gamma(op.full({ n }, 3, { dtype = "f64" }), { rate = 2, seed = 3 }), 1.5, 0.75, 1.337030156861905) --> true
near(op.gamma(op.full({ n }, 50), { seed = 4 }), 50, 50, 49.6670619) --> true
near(op.beta(op.full({ n }, 2), op.full({ n }, 5), { seed = 5 }), 2 / 7, 10 / (49 * 8), 0.26444998329566) --> true

-- Without replacement: each place once, in proportion to the weights at first.
local w = tessera.tensor { 1, 0, 3, 6 }:broadcast_to { n, 4 }
local drawn = op.multinomial(w, 3, { seed = 6 })
local first = drawn:select(1, 0)
math.abs(first:eq(3):cast("f64"):mean():item() - 0.6) < 0.012 --> true
math.abs(first:eq(0):cast("f64"):mean():item() - 0.1) < 0.0075 --> true
drawn:eq(1):any():item() --> false
drawn:sort(1):ne(tessera.tensor({ 0, 2, 3 }, { dtype = "i64" })):any():item() --> false

-- The next call draws others; a captured function too, and a seed repeats.
local f = tessera.graph.module("draws", function(a) return op.gamma(a), op.exponential { 3 } end)
local a = op.ones { 3 }
local x, y = f(a)
local z, u = f(a)
x:hash() ~= z:hash() and y:hash() ~= u:hash() --> true
rng.gamma(a, { seed = 3 }):hash() == rng.gamma(a, { seed = 3 }):hash() --> true
a.requires_grad = true
op.gamma(a):sum():backward() --! does not depend on a tensor that requires gradients
op.gamma(a, { rate = -1 }) --! rate = -1
