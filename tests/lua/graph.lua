-- What captured functions show, and forward derivatives by some of the arguments.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local x, y = tessera.tensor({ 2 }, { dtype = "f64" }), tessera.tensor({ 3 }, { dtype = "f64" })

-- An argument whose direction is false stays; jets nest.
local function f(a, b) return a * a * a * b end
local function by_a(g)
  return function(a, b)
    local _, d = graph.jvp(g)(a, b, op.ones_like(a), false)
    return d
  end
end
graph.module(by_a(f))(x, y):item() --> 36
graph.module(by_a(by_a(f)))(x, y):item() --> 36
graph.module(by_a(by_a(by_a(f))))(x, y):item() --> 18
select(2, graph.jvp(f)(x, y, false, y)):item() --> 24
select(2, graph.jvp(f)(x, y, false, false)):item() --> 0

-- Levels, before and after rewriting; arguments keep their names in derivatives.
local g = graph.module("g", function(a) return -(-(a * 1)) end)
g(x)
g:ir("captured"):match("^(.-)%s*$") --> graph @g(%a: f64[1]) -> %2 {
-->   %0 = mul %a, 1 : f64[1]
-->   %1 = neg %0 : f64[1]
-->   %2 = neg %1 : f64[1]
--> }
g:ir("graph"):match("^(.-)%s*$") --> graph @g(%a: f64[1]) -> %0 {
-->   %0 = clone %a : f64[1]
--> }
g:ir("nonsense") --! there is no level 'nonsense'
local slope = graph.grad(function(a, b) return (a * b):sum() end)
slope(x, y)
slope:ir():match("%(.-%)") --> (%a: f64[1], %b: f64[1])
