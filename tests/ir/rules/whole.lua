-- What the pass does beside single rules: equal values once, dead ones not at all, regions,
-- graphs that are large, and that every rule has a test.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local rules = dofile "tests/ir/rules/_rules.lua"
local ops = rules.ops
local x = op.normal({ 4, 6 }, { seed = 6, stream = 1 })

-- ---- common subexpressions and dead code
ops(function(x) return op.exp(x) + 1, op.exp(x) * 2 end, x) --> exp add mul
ops(function(x) local unused = op.tanh(x) return op.exp(x) end, x) --> exp
-- Equal only after rewriting.
ops(function(x) return op.exp(x * 1) + op.exp(-(-x)) end, x) --> exp add
-- Random calls are never the same.
ops(function(x) return x + op.normal { 4, 6 }, x + op.normal { 4, 6 } end, x) --> normal add normal add
-- A rule may leave something dead behind.
ops(function(x) local m = op.max(x, { axis = -1, keepdims = true }) return op.softmax(x - m) end, x) --> softmax

-- ---- regions are rewritten as well, and what died in them is gone
local function loop(x)
  return (op.scan(function(s, t)
    local unused = op.exp(s)
    local y = (s * 1 + t) * 2 * 3
    return y, y
  end, x[0], x))
end
local g = graph.module("g", loop)
local y = g(x)
select(2, g:ir("graph"):gsub("mul", "")) --> 1
g:ir("graph"):find "exp" --> nil
g:rewrites():match "mul_mul" --> mul_mul
local function choose(x)
  return op.cond(x:sum():gt(0), function(x) return -(-x) end, function(x) return x * 2 * 2 end, x)
end
ops(choose, x):match "neg" --> nil
rules.inaccurate(choose, x) --> nil

-- ---- the reason and the place of each rule that fired
local f = graph.module("f", function(x) return x * 1, x ^ 2 end)
local square = f(x)
local lines = f:rewrites():gsub(" at %S+:%d+:", " at line:")
lines:match "^[^\n]+" --> mul_one at line: x * 1 is x
lines:match "\n([^\n]+)\n$" --> pow_two at line: x^2 without a logarithm (rounding)

-- ---- large graphs: chains as long as they are wide, in linear time (not timed here)
local function chain(n)
  return function(x)
    local y = x
    for i = 1, n do
      y = op.tanh(y * 1 + x) * 0.5 * 2
      if i % 8 == 0 then y = y:T():T():reshape(24):reshape(4, 6) end
    end
    return y
  end
end
local long = graph.module("long", chain(2000))
local z = long(x)
long:stats().nodes --> 4001
rules.inaccurate(chain(50), x) --> nil
local function wide(n)
  return function(x)
    local s = 0
    for i = 1, n do s = s + op.exp(x * i) end
    return s
  end
end
select(2, ops(wide(500), x):gsub("exp", "")) --> 500

-- ---- every rule has a test
local text = ""
for _, name in ipairs { "numbers", "rows", "attention", "move", "spectral" } do
  local file = assert(io.open("tests/ir/rules/" .. name .. ".lua"))
  text = text .. file:read "*a"
  file:close()
end
local untested = {}
for _, name in ipairs(rules.names) do
  if not text:find("check[_view]*%(\"" .. name .. "\"") then untested[#untested + 1] = name end
end
table.concat(untested, " ") -->
#rules.names > 90 --> true
