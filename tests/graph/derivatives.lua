-- Derivatives of captured functions against each other: gradients, vjp, jvp, hvp, gradients
-- of gradients; complex functions; arguments of all kinds; messages.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, nn, op = tessera.graph, tessera.nn, tessera.op

local stream = 0
local function R(shape, low)
  stream = stream + 1
  return op.uniform(shape, { low = low or -1, high = 1, dtype = "f64", seed = 31, stream = stream })
end
local function C(shape) return op.complex(R(shape), R(shape)) end
local function dot(a, b)
  if a.dtype:match "complex" then return (a:real() * b:real() + a:imag() * b:imag()):sum() end
  return (a * b):sum()
end
local function off(a, b) return (a - b):abs():max():item() / math.max(1, b:abs():max():item()) end

-- For a function of one tensor: u . jvp(v) = vjp(u) . v; jvp against differences; for the
-- number dot(f(x), u): hvp against the gradient of dot(grad, v), symmetric.
local function consistent(f, x, v, second)
  local y, dy = graph.jvp(f)(x, v)
  local u = y.dtype:match "complex" and C(y.shape) or R(y.shape)
  if off(y, f(x)) > 1e-13 then return "the value of jvp is off" end
  local back = graph.vjp(f)(x, u)
  local a, b = dot(u, dy), dot(back, v)
  if off(a, b) > 1e-12 then return ("u.jvp(v) is %g, vjp(u).v %g"):format(a:item(), b:item()) end
  local h = 1e-3
  local numeric = (8 * (f(x + v * h) - f(x - v * h)) - (f(x + v * 2 * h) - f(x - v * 2 * h))) / (12 * h)
  if off(dy, numeric) > 1e-7 then return ("jvp is off by %g"):format(off(dy, numeric)) end
  if second == false then return true end
  local function number(t) return dot(f(t), u) end
  local w = x.dtype:match "complex" and C(x.shape) or R(x.shape)
  local hv, hw = graph.hvp(number)(x, v), graph.hvp(number)(x, w)
  if off(dot(hv, w), dot(hw, v)) > 1e-11 then return "the Hessian is not symmetric" end
  local again = graph.grad(function(t) return dot(graph.grad(number).body(t), v) end)(x)
  if off(hv, again) > 1e-11 then return ("hvp and the gradient of the gradient differ by %g"):format(off(hv, again)) end
  local slope = graph.grad(number)
  local second_numeric = (8 * (slope(x + v * h) - slope(x - v * h)) - (slope(x + v * 2 * h) - slope(x - v * 2 * h))) / (12 * h)
  if off(hv, second_numeric) > 1e-6 then return ("hvp is off by %g"):format(off(hv, second_numeric)) end
  return true
end

local w, m = R { 4, 4 }, R { 3, 4 }
local index = tessera.tensor({ 2, 0, 2, 1 }, { dtype = "i64" })
local k1 = R { 2, 4, 3 }
local functions = {
  softmax = function(x) return op.softmax(x:matmul(w), { axis = -1 }) end,
  attention = function(x) return op.attention(x:unsqueeze(0), (x * 2):unsqueeze(0), x:sin():unsqueeze(0), { causal = true }) end,
  layernorm = function(x) return op.layernorm(x) * x end,
  logsumexp = function(x) return op.logsumexp(x, { axis = 1 }) * x:sum { axis = 1 } end,
  cumsum = function(x) return x:cumsum { axis = 1 }:tanh():cumprod { axis = 0 } end,
  concat = function(x) return op.concat { x, x:flip { axis = { 1 } } * x, axis = 0 } end,
  gather = function(x) return x:index_select(index, { axis = 0 }):square() end,
  where = function(x) return op.where(m:gt(0), x:exp(), x:square() * x) end,
  solve = function(x) return op.solve(x:T():matmul(x) + op.eye(4, { dtype = "f64" }) * 2, x:T()) end,
  conv = function(x) return op.conv1d(x:reshape(1, 4, 3), k1, { padding = 1 }):tanh() end,
  norms = function(x) return x:norm { axis = 1 } * x:var { axis = 1 } + x:std { axis = 1 } end,
  fft = function(x) return op.rfft(x, { axis = 1 }):abs():square() end,
  sort = function(x) return (op.sort(x, { axis = 1 })) * m end,
  scan = function(x) return (op.scan(function(c, t) return (c:matmul(w) + t):tanh() end, x["0"], x)) end,
  views = function(x) return x:T():reshape(2, 6)["1:, ::2"]:broadcast_to(3, 1, 3) * x["0, 1:"] end,
  mixed = function(x) return x:cast("f64"):unsqueeze(0):squeeze(0):roll(1):pad { pads = { 1, 1 } } * 2 end,
  nested = function(x) return op.map(function(r) return op.cond(r:sum():gt(0), function(t) return t:exp() end, function(t) return t:sin() end, r) end, x) end,
}
local failed = {}
for name, f in pairs(functions) do
  local ok, why = pcall(consistent, f, R { 3, 4 }, R { 3, 4 })
  if why ~= true then failed[#failed + 1] = name .. ": " .. tostring(why) end
end

-- Complex functions: the real pairing re re + im im, as for rows.
local cw = C { 4, 4 }
local complex_functions = {
  square = function(z) return z * z end,
  modulus = function(z) return z:abs():square() end,
  conjugate = function(z) return z:conj() * z * cw["0"] end,
  product = function(z) return z:matmul(cw):exp() end,
  fft = function(z) return op.ifft(op.fft(z, { axis = 1 }) * cw["1"], { axis = 1 }) end,
  parts = function(z) return op.complex(z:imag():sin(), z:real() * z:imag()) end,
  angle = function(z) return (z + 3):angle() end,
}
for name, f in pairs(complex_functions) do
  local ok, why = pcall(consistent, f, C { 3, 4 }, C { 3, 4 })
  if why ~= true then failed[#failed + 1] = "complex " .. name .. ": " .. tostring(why) end
end
table.sort(failed)
table.concat(failed, "\n") -->

-- ---- arguments: several, by position, tables and modules
local f = function(a, t, c) return (a * t.x + t.y:sin()):sum() * c end
local a, t = R { 3 }, { x = R { 3 }, y = R { 3 } }
local da, dt = graph.grad(f, { 1, 2 })(a, t, 2)
off(da, t.x * 2) == 0 --> true
off(dt.x, a * 2) == 0 and off(dt.y, t.y:cos() * 2) < 1e-15 --> true
local y, d2 = graph.value_and_grad(f, 2)(a, t, 2)
off(y, f(a, t, 2)) == 0 and off(d2.x, dt.x) == 0 --> true
local model = nn.Linear(3, 2):to "f64"
local dm = graph.grad(function(l, x) return l(x):sum() end)(model, a)
off(dm.weight, a:unsqueeze(0):broadcast_to(2, 3)) == 0 and off(dm.bias, op.ones({ 2 }, { dtype = "f64" })) == 0 --> true
-- Nothing depends on it: zeros.
graph.grad(function(x, z) return z:sum() end)(a, a):abs():max():item() --> 0
graph.grad(function(x) return x["0"]:stop_gradient() * x["1"] end)(a)["0"]:item() --> 0
-- A captured function inside; a derivative inside a function.
local inner = graph.module("inner", function(x) return x:square() * x end)
off(graph.grad(function(x) return inner(x):sum() end)(a), 3 * a:square()) < 1e-15 --> true
local third = graph.grad(function(x) return graph.grad(function(z) return graph.grad(function(q) return (q:square() * q * q):sum() end)(z):sum() end)(x):sum() end)
off(third(a), 24 * a) < 1e-13 --> true
-- The pullback of a function with several arguments.
local gx, gw = graph.vjp(function(p, q) return p:matmul(q) end)(m, w, op.ones({ 3, 4 }, { dtype = "f64" }))
off(gx, op.ones({ 3, 4 }, { dtype = "f64" }):matmul(w:T())) < 1e-14 and off(gw, m:T():matmul(op.ones({ 3, 4 }, { dtype = "f64" }))) < 1e-14 --> true
-- Two arguments move.
local yv, dv = graph.jvp(function(p, q) return p * q end)(a, t.x, t.y, a)
off(dv, t.y * t.x + a * a) < 1e-15 --> true

graph.grad(function(x) return x end)(a) --! the function must return one number as a tensor
graph.grad(function(x) return 3 end)(a) --! the function must return one number as a tensor
graph.grad(function(x) return x:sum() end, 2)(a) --! there is no argument 2
-- Integers do not move.
graph.grad(function(x) return (x * 1.5):sum() end)(index) --! graph.grad: argument 1 is i64[4]; only floats and complex numbers have derivatives
graph.grad(function(x, i) return x[i]:sum() end, { 1, 2 })(a, index) --! cast it first, x:cast("f32")
graph.jvp(function(x) return x * 1.5 end)(index, index) --! graph.jvp: argument 1 is i64[4]
op.ones({ 2 }, { dtype = "bool" }).requires_grad = true --! requires_grad: bool[2]; only floats and complex numbers have derivatives
graph.jvp(function(x) return x end)(a, a, a) --! as many directions as arguments
graph.grad(function(x) return (op.sgd_step(x, x, x, { lr = 1 })):sum() end)(w) --! derivative

-- ---- a number as a direction stands for all elements
off(select(2, graph.jvp(function(p, q) return p * q end)(a, t.x, 2, false)), 2 * t.x) < 1e-15 --> true

-- ---- backward() through several derivatives adds up in the order of one captured function, since
-- equal calls are one in both: derivatives with common beginnings, by their letters.
local numerics = require "tessera.numerics"
local function jet(f, axis)
  return function(x, y)
    local _, slope = graph.jvp(f)(x, y, axis == "x" and 1, axis == "y" and 1)
    return slope
  end
end
local function order_of(sets)
  local params = { R { 2, 8 }, R { 8 }, R { 8, 8 }, R { 8, 2 } }
  local x, y = R { 16, 1 }, R { 16, 1 }
  local function loss(w1, b, w2, w3, x, y)
    local sum = 0
    for letters in sets:gmatch "%S+" do
      local which = letters:match "^p" and 1 or 0
      local function f(x, y)
        local hidden = (op.concat({ x * 2 - 1, y * 2 - 1 }, { axis = 1 }):matmul(w1) + b):tanh()
        return hidden:matmul(w2):tanh():matmul(w3):narrow(1, which, 1)
      end
      for axis in letters:gmatch "[xy]" do f = jet(f, axis) end
      sum = sum + f(x, y):square():mean()
    end
    return sum
  end
  local captured = { graph.grad(loss, { 1, 2, 3, 4 })(params[1], params[2], params[3], params[4], x, y) }
  for _, p in ipairs(params) do p.requires_grad = true end
  graph.eager = true
  loss(params[1], params[2], params[3], params[4], x, y):backward()
  graph.eager = false
  for i, p in ipairs(params) do
    if not p.grad or p.grad:hash() ~= captured[i]:hash() then return sets .. ": other bits of " .. i end
  end
end
numerics.profile("strict", function()
  for _, sets in ipairs { "xy yy", "x xy", "xx xy", "px x", "xxy yyy", "y px xy xyy xxx" } do
    assert(not order_of(sets), sets)
  end
end)

-- Of nothing: rules that compare sizes come to an end.
local of_nothing = graph.module("nothing", graph.grad(function(v)
  local total = 0
  for _, y in ipairs { op.svd(v) } do total = total + (y * y):sum() end
  return total
end, 1))
of_nothing(op.zeros { 0, 0 }).shape[1] --> 0
