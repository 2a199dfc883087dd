-- Collapsed jets: nested derivatives along directions, by the definition in the profile strict and as
-- jets in all others. Of every operator that is computed element by element, of products and of
-- what moves elements; which sums cost one product; what is left as it is.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, nn, op, numerics = tessera.graph, tessera.nn, tessera.op, tessera.numerics
local F64 = { dtype = "f64" }

local function along(f, letter)
  return function(x, y)
    local _, slope = graph.jvp(f)(x, y, letter == "x" and 1, letter == "y" and 1)
    return slope
  end
end
local function nested(f, letters)
  for letter in letters:gmatch "." do f = along(f, letter) end
  return f
end
local SETS = {
  { "xx", "yy" }, { "xy" }, { "xxx", "xyy" }, { "xxy", "x", "yy" }, { "xxxx", "xxyy", "yyxx", "yyyy" },
}
local function operator_on(f, set)
  return function(x, y)
    local sum = 0
    for _, letters in ipairs(set) do sum = sum + nested(f, letters)(x, y) end
    return sum
  end
end
local function strictly(f, ...)
  local args, n = { ... }, select("#", ...)
  return numerics.profile("strict", function() return graph.module("strictly", f)(unpack(args, 1, n)) end)
end
local function off(got, want) return (got - want):abs():max():item() / math.max(1, want:abs():max():item()) end

local x = op.uniform({ 5, 1 }, { low = -1, high = 1, dtype = "f64", seed = 9, stream = 1 })
local y = op.uniform({ 5, 1 }, { low = -1, high = 1, dtype = "f64", seed = 9, stream = 2 })
local function weights(shape, stream, scale)
  return op.uniform(shape, { low = -scale, high = scale, dtype = "f64", seed = 10, stream = stream })
end
local first, second, last = weights({ 2, 4 }, 1, 0.7), weights({ 4, 3 }, 2, 0.7), weights({ 3, 1 }, 3, 1)
local function hidden(x, y) return op.concat({ x, y }, { axis = 1 }):matmul(first):sin() end

-- Every one of the sets: how far the jets are from the definition, and whether they are jets.
local function check(name, f, sets)
  for _, set in ipairs(sets or SETS) do
    local jets = graph.module("jets", operator_on(f, set))
    local got, want = jets(x, y), strictly(operator_on(f, set), x, y)
    assert(want:isfinite():all():item(), name .. ": the test looks at no number")
    local error_of = off(got, want)
    assert(error_of < 1e-9, ("%s %s: %.2e apart"):format(name, table.concat(set, "+"), error_of))
    assert(got.dtype == want.dtype and #got.shape == #want.shape, name)
  end
end

-- ---- element by element: f(W z) with its values in the interval, behind another function
local one = {
  neg = { -1, 1 }, square = { -1, 1 }, abs = { 0.1, 1 }, reciprocal = { 0.5, 2 }, sqrt = { 0.5, 2 }, rsqrt = { 0.5, 2 },
  exp = { -1, 1 }, exp2 = { -1, 1 }, expm1 = { -1, 1 }, log = { 0.5, 2 }, log2 = { 0.5, 2 }, log10 = { 0.5, 2 },
  log1p = { -0.4, 1 }, sin = { -2, 2 }, cos = { -2, 2 }, tan = { -1, 1 }, asin = { -0.7, 0.7 }, acos = { -0.7, 0.7 },
  atan = { -2, 2 }, sinh = { -1, 1 }, cosh = { -1, 1 }, tanh = { -2, 2 }, asinh = { -1, 1 }, acosh = { 1.5, 3 },
  atanh = { -0.7, 0.7 }, sigmoid = { -2, 2 }, erf = { -2, 2 }, erfc = { -2, 2 }, floor = { 0.1, 0.9 }, sign = { 0.1, 1 },
  frac = { 0.1, 0.9 }, clamp = { -0.4, 0.4 }, relu = { 0.1, 1 }, leaky_relu = { 0.1, 1 }, elu = { -1, -0.1 },
  gelu_erf = { -1, 1 }, gelu_tanh = { -1, 1 }, silu = { -1, 1 }, softplus = { -1, 1 }, mish = { -1, 1 },
  hardswish = { -1, 1 },
}
local few = { { "xx", "yy" }, { "xxy", "x", "yy" }, { "xxxx", "xxyy", "yyxx", "yyyy" } }
for name, range in pairs(one) do
  local mid, half = (range[1] + range[2]) / 2, (range[2] - range[1]) / 2
  check(name, function(x, y) return core.run(name, { hidden(x, y):matmul(second) * (half / 3) + mid }, {}):matmul(last) end, few)
end
local two = {
  add = { 0, 0 }, sub = { 0, 0 }, mul = { 0, 0 }, div = { 0, 2 }, pow = { 2, 0 }, atan2 = { 2, 0 }, hypot = { 2, 1 },
  minimum = { -3, 3 }, maximum = { -3, 3 }, logaddexp = { 0, 0 }, copysign = { 2, 2 }, fmod = { 2.5, 9 }, mod = { 2.5, 9 },
}
local other = weights({ 4, 3 }, 4, 0.3)
for name, at in pairs(two) do
  local function both(x, y)
    local h = hidden(x, y)
    return core.run(name, { h:matmul(second) * 0.2 + at[1], h:matmul(other) * 0.2 + at[2] }, {}):matmul(last)
  end
  check(name, both, few)
  -- One of them alone moves, and is broadcast.
  check(name, function(x, y) return core.run(name, { hidden(x, y):sum { axis = 1, keepdims = true } * 0.1 + at[1], other[0] * 0.2 + at[2] }, {}) end, few)
  check(name, function(x, y) return core.run(name, { other[0] * 0.2 + at[1], hidden(x, y):matmul(second) * 0.1 + at[2] }, {}) end, few)
end
check("fma", function(x, y) local h = hidden(x, y) return core.run("fma", { h, h:cos(), h }, {}) end, few)
check("where", function(x, y) return op.where(x:gt(0), hidden(x, y):exp(), x * y * x) end, few)
check("where of one", function(x, y) return op.where(y:gt(0), x:square() * y:square(), 0) end, few)

-- ---- products, sums and moves
local square = weights({ 5, 5 }, 5, 0.5)
local functions = {
  product_of_both = function(x, y) local h = hidden(x, y) return h:matmul(h:T():cos()) end,
  from_the_left = function(x, y) return square:matmul(hidden(x, y)):tanh() end,
  batches = function(x, y) return hidden(x, y):reshape(5, 2, 2):matmul(hidden(x, y):reshape(5, 2, 2):permute(0, 2, 1)) end,
  vector = function(x, y) return hidden(x, y):matmul(second["0:4, 0"]):exp() end,
  linear = function(x, y) return op.linear(hidden(x, y), second:T(), last:reshape(3)):tanh():matmul(last) end,
  epilogue = function(x, y) return op.matmul(hidden(x, y), second, last:reshape(3), { epilogue = "bias_silu" }) end,
  sums = function(x, y) return hidden(x, y):sum { axis = 0 } * hidden(x, y):mean() end,
  moves = function(x, y)
    local h = hidden(x, y):T():flip { axis = { 0 } }:roll(1, { axis = { 1 } })
    return op.concat({ h["1:, ::2"], h["0:3, 0:3"] * h["0:3, 1:4"] }, { axis = 1 }):pad { pads = { 1, 1 } }:unsqueeze(0)
  end,
  halves = function(x, y)
    local a, b = hidden(x, y):split(2, { axis = 1 })
    return a * b / (b:square() + 1)
  end,
  gather = function(x, y) return hidden(x, y):index_select(tessera.tensor({ 3, 0, 3 }, { dtype = "i64" }), { axis = 1 }):square() end,
  softmax = function(x, y) return op.softmax(hidden(x, y):matmul(second), { axis = -1 }) end,
  layernorm = function(x, y) return op.layernorm(hidden(x, y)) * x end,
  cumsum = function(x, y) return hidden(x, y):cumsum { axis = 1 }:tanh():cumprod { axis = 1 } end,
  logsumexp = function(x, y) return op.logsumexp(hidden(x, y), { axis = 1 }) end,
  norm = function(x, y) return (hidden(x, y) + 2):norm { axis = 1 } end,
  one_twice = function(x) return (x * x + x):exp() * x end,
  itself = function(x, y) return x:cos() * y end,
  constant = function(x, y) return x:detach():exp() * y * y end,
}
for name, f in pairs(functions) do check(name, f) end

-- ---- what it costs: products with the second layer's weights
local function count(f, ...)
  f(...)
  local n = 0
  for _ in f:ir("graph"):gmatch "= matmul [^\n]*f64%[5,7%]" do n = n + 1 end
  return n
end
local net = nn.Sequential { nn.Linear(2, 4, F64), nn.Tanh(), nn.Linear(4, 7, F64), nn.Tanh(), nn.Linear(7, 1, F64) }
local function psi(x, y) return net(op.concat({ x, y }, { axis = 1 })) end
local function of(...) return graph.module("operator", operator_on(psi, { ... })) end
-- The value, two first derivatives, the Laplacian.
count(of("xx", "yy"), x, y) --> 4
-- The value, 2 first and 3 second derivatives, those of the Laplacian, the biharmonic: 9, and not 13.
count(of("xxxx", "xxyy", "yyxx", "yyyy"), x, y) --> 9
-- Order of writing does not matter: the same bits.
of("xxy", "yyy")(x, y):hash() == of("yxx", "yyy")(x, y):hash() --> true
-- Two sums, of which one is a derivative of the other.
local momentum = graph.module("momentum", function(x, y)
  local lap = operator_on(psi, { "xx", "yy" })
  return lap(x, y), along(lap, "x")(x, y), along(lap, "y")(x, y)
end)
count(momentum, x, y) --> 8
-- Differences and factors are sums too; what cancels costs nothing.
count(graph.module("wave", function(x, y) return nested(psi, "xx")(x, y) - nested(psi, "yy")(x, y) * 4 end), x, y) --> 4
graph.module("none", function(x, y) return nested(psi, "xy")(x, y) - nested(psi, "yx")(x, y) end)(x, y):abs():max():item() --> 0
-- A derivative that is read by itself is not in a sum as well.
local read = graph.module("read", function(x, y)
  local xx, yy = nested(psi, "xx")(x, y), nested(psi, "yy")(x, y)
  return xx + yy + psi(x, y) * xx * yy
end)
count(read, x, y) --> 5
local lap = of("xx", "yy")
lap(x, y)
lap:rewrites():match "collapsed_jets at [^:]*:%d+: (.*) %(rounding%)" --> 2 derivatives in 1 sum, jets along 2 directions instead of nested derivatives

-- ---- one reverse pass over it
local function loss(m, x, y)
  local function psi(x, y) return m(op.concat({ x, y }, { axis = 1 })) end
  local lap = operator_on(psi, { "xx", "yy" })
  local u = along(psi, "y")(x, y)
  return (lap(x, y) + u * along(lap, "x")(x, y) - psi(x, y)):square():mean()
end
local function slope_of(profile)
  return numerics.profile(profile, function()
    local step = graph.value_and_grad(function(m) return loss(m, x, y) end)
    local value, by = step(net)
    return value, by
  end)
end
local value, by = slope_of "deterministic"
local strict, want = slope_of "strict"
off(value, strict) < 1e-12 --> true
for path, g in pairs(want) do assert(off(by[path], g) < 1e-10, path) end
-- By what moves as well.
local function number(x) return operator_on(psi, { "xx", "yy" })(x, y):square():sum() end
off(graph.grad(number)(x), strictly(graph.grad(number).body, x)) < 1e-10 --> true

-- ---- directions that are tensors; several arguments at once; f32
local v = weights({ 5, 1 }, 6, 1)
local function second_along(f, v, w)
  local function once(f) return function(x, y) return (select(2, graph.jvp(f)(x, y, v, w))) end end
  return once(once(f))
end
local function towards(x, y) return second_along(psi, v, v * 2)(x, y) + second_along(psi, v, 0)(x, y) end
off(graph.module(towards)(x, y), strictly(towards, x, y)) < 1e-12 --> true
local small = nn.Sequential { nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1) }
local function single(x, y) return small(op.concat({ x, y }, { axis = 1 })) end
local a, b = x:cast "f32", y:cast "f32"
local in_f32 = graph.module("f32", operator_on(single, { "xx", "yy" }))(a, b)
in_f32.dtype --> f32
off(in_f32, strictly(operator_on(single, { "xx", "yy" }), a, b)) < 1e-5 --> true

-- ---- what is left as it is
-- A direction that moves with the argument: Euler's operator is no constant one.
local function euler(f) return function(x, y) return (select(2, graph.jvp(f)(x, y, x, y))) end end
local twice = function(x, y) return euler(euler(psi))(x, y) + euler(psi)(x, y) end
off(graph.module(twice)(x, y), strictly(twice, x, y)) < 1e-12 --> true
-- Derivatives by a value in between.
local function between(x, y)
  local function g(h) return h:tanh():square() end
  local h = x * y
  local function outer(x, y) return (select(2, graph.jvp(g)(x * y, 1))) end
  return along(along(outer, "x"), "y")(x, y) + nested(function(x, y) return g(h) * x end, "xx")(x, y)
end
off(graph.module(between)(x, y), strictly(between, x, y)) < 1e-12 --> true
-- Loops and branches inside.
local function looped(x, y)
  return (op.scan(function(c, t) return (c * x + t):tanh() end, y, op.stack({ x, y, x * y })))
end
check("scan", looped, few)
check("cond", function(x, y) return op.cond(square:sum():gt(0), function(t) return t:exp() end, function(t) return t:sin() end, x * y) end, few)
-- Of order 7 there are no jets.
local high = nested(function(x, y) return (x * y):sin() end, "xxxxxxx")
off(graph.module(high)(x, y), strictly(high, x, y)) < 1e-9 --> true

-- ---- sizes as symbols; chains too long to be walked down are left as they are
local sized = graph.module("sized", operator_on(psi, { "xx", "yy" }))
for _, n in ipairs { 5, 6, 9, 1 } do
  local a, b = weights({ n, 1 }, 20, 1), weights({ n, 1 }, 21, 1)
  assert(off(sized(a, b), strictly(operator_on(psi, { "xx", "yy" }), a, b)) < 1e-12, n)
end
sized:ir("graph"):match "%-> [^\n]*\n.*f64%[B,1%]" ~= nil --> true
local function chain(x)
  for _ = 1, 1000 do x = (x * 1.01):sin() + x * 0.1 end
  return x
end
local long = graph.module("long", operator_on(chain, { "xx", "xx" }))
off(long(x, y), strictly(operator_on(chain, { "xx", "xx" }), x, y)) --> 0

-- ---- derivatives of gradients: not jets, and it is said why; neither a gradient alone nor one of jets says so
local function total(x) return psi(x, y):sum() end
local function of_gradient(x) return graph.grad(function(x) return graph.grad(total)(x):sum() end)(x) end
for _, f in ipairs { graph.module("nested", of_gradient), graph.module("hvp", function(x) return graph.hvp(total)(x, op.ones_like(x)) end) } do
  assert(off(f(x), strictly(of_gradient, x)) < 1e-12)
  local line = f:rewrites():match "collapsed_jets at [^:]*jets.lua:%d+: ([^\n]*)"
  assert(line and line:find("not here: a derivative of a gradient stays nested", 1, true), f:rewrites())
end
local alone = graph.grad(total)
alone(x)
alone:rewrites():find "collapsed_jets" --> nil
local of_jets = graph.grad(number)
of_jets(x)
of_jets:rewrites():find("not here", 1, true) --> nil
