-- The NaN trap: which operator made the first NaN or infinity, where, in which pass.
local tessera = require "tessera"
local op, graph, numerics, nn = tessera.op, tessera.graph, tessera.numerics, tessera.nn
local T = tessera.tensor
local x = T { { 1, 4 }, { 0, 2 } }
local inf = math.huge

numerics.trap() --> false
op.log(x):numel() --! 'numel'
numerics.trap(true) --> false
numerics.trap() --> true

-- ---- forward
op.log(x) --! log gives infinity at [1,0] of its result f32[2,2] in the forward pass
op.log(-x) --! log gives NaN at [0,0]
op.sqrt(-x:cast "f64") --! sqrt gives NaN at [0,0] of its result f64[2,2]
x / 0 --! div gives NaN at [1,0]
T { 1 } / 0 --! div gives infinity at [0]
(x * 1e30):cast "f16" --! cast gives infinity at [0,0] of its result f16[2,2]
op.exp(T { 1, 1000 }) --! exp gives infinity at [1]
op.exp(x * 1000):T() --! exp gives infinity at [0,0]
op.log(op.complex(T { 1, 0 }, T { 0, 0 })) --! log gives infinity at [1] of its result complex64[2]
op.complex(x, x) / 0 --! div gives NaN at [1,0] of its result complex64[2,2]
x:matmul(x * 3e38) --! infinity at

-- ---- what comes in may go on
local masked = op.where(x:eq(0), -inf, x)
masked:softmax() --> [[0.0474 0.9526]
-->  [0.0000 1.0000]]
--> f32[2,2]
(x:masked_fill(x:eq(0), -inf) + 1):max():item() --> 5
op.full({ 2 }, -inf):exp() --> [0. 0.]
--> f32[2]
op.pad(x, { 0, 1 }, { value = -inf }):max():item() --> 4
T { 0 / 0, 1 } + 1 --> [nan  2.]
--> f32[2]
T { inf } - T { inf } --! sub gives NaN at [0]
op.full({ 1, 2 }, -inf):softmax() --! gives NaN
op.attention(x, x, x, { causal = true }):ndim() --! 'ndim'
nn.Linear(2, 2)(x):sum():backward()

-- ---- captured, with the line of the operator
local function f(x)
  local y = x * 2
  y = op.log(y)
  return y:sum()
end
graph.module("f", f)(x) --! log gives infinity at [1,0] of its result f32[2,2] in the forward pass (in f, tests/vm/trap.lua:45)
local function g(x)
  local y = x * 2
  y = op.sqrt(y)
  return y:sum()
end
graph.module("g", g)(x):item() --> 6.2426409721375
graph.grad(g)(x) --! in the backward pass (in grad, tests/vm/trap.lua:51)
graph.grad(g)(x) --! gives infinity at [1,0]
local p = T { 1, 0 }
p.requires_grad = true
local q = op.sqrt(p)
local loss = q:sum()
loss:backward() --! in the backward pass (in backward, tests/vm/trap.lua:59)
-- what the backward pass computes again is forward
graph.module("twice", function(x) local c = graph.checkpoint(f)(x + 1) return c + op.log(x):sum() end)(x) --! in the forward pass
-- in loops
local function body(c)
  c = op.log(c)
  return c
end
graph.module("loop", function(x) return (op.scan(body, x, nil, { length = 3 })) end)(x) --! log gives infinity at [1,0] of its result f32[2,2] in the forward pass (in scan, tests/vm/trap.lua:66)
-- constants of a captured function
local function constant(x)
  local y = op.log(op.zeros { 2 })
  return x + y
end
graph.module("constant", constant)(x) --! (in constant, tests/vm/trap.lua:72)
-- a step that writes in place
local w = tessera.nn.Module and nn.Linear(2, 1)
local sgd = tessera.optim.SGD(w:parameters(), { lr = 1e38 })
local step = graph.training_step(w, function(m, x) return ((m(x) * 1e4) ^ 2):sum() end, sgd)
step(x) --! gives infinity
-- functions from outside
local bad = op.custom("bad", { forward = function(x) return op.full_like(x, 0 / 0) end,
  adjoint = function(_, _, dy) return op.log(dy - 1) end })
bad(x) --! bad gives NaN at [0,0]
local fine = op.custom("fine", { forward = function(x) return x end, adjoint = function(_, _, dy) return op.log(dy - 1) end })
local function through(x)
  local y = fine(x)
  return y:sum()
end
graph.grad(through)(x) --! log gives infinity at [0,0] of its result f32[2,2] in the backward pass (in grad, tests/vm/trap.lua:87)
op.foreign("m", "log", "f64 (each f64 x)")(x:cast "f64") --! log gives infinity at [1,0]

-- ---- scopes
numerics.trap(false) --> true
op.log(x):min():item() --> -inf
numerics.trap(function() return op.log(x) end) --! log gives infinity
numerics.trap(function(a, b) return a + b, numerics.trap() end, 1, 2) --> 3, true
numerics.trap() --> false
