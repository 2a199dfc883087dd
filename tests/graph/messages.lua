-- What a user reads who captures or differentiates what cannot be.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local x = op.ones { 3 }
graph.grad(function(y) return y * 2 end)(x) --! graph.grad: the function must return one number as a tensor, not f32[3]
graph.grad(function(y) return y:sum() end, 2)(x) --! graph.grad: there is no argument 2
graph.grad(function(y) return y:sum() end, {argnums = 1}) --! graph.grad: the arguments to differentiate by are numbers from 1 on, not 'argnums'
graph.value_and_grad(function(y) return y:sum() end, "x") --! graph.value_and_grad: the arguments to differentiate by are numbers from 1 on, not x
graph.grad(function(y) return y:sum() end, {}) --! graph.grad: a list of arguments to differentiate by has none, or gaps
graph.module("f", function(y) if y:item() > 0 then return y end end)(op.ones { 1 }) --! op.where, op.cond or op.while_loop
graph.module("f", function(y) return op.masked_select(y, y:gt(0)) end)(x) --! depends on data
graph.module("f", function(y) return op.matmul(y, op.ones { 5, 2 }) end)(op.ones { 3, 4 }) --! inner sizes differ
graph.grad(function(p) return op.adam_step(p, p, p, p, { lr = 1, step = 1 }):sum() end)(x) --! adam_step has no derivative
graph.module(3) --! a function is needed
x:backward() --! give its gradient
x:sum():backward() --! does not depend on a tensor that requires gradients
graph.training_step(1, 2, 3) --! loss is a function, not a number
graph.training_step(1, op.relu, 3) --! an optimiser is needed
tessera.optim.AdamW({}) --! the list of parameters is empty
tessera.nn.Sequential(1) --! modules or functions are needed
graph.jvp(op.exp)(x) --! as many directions as arguments are needed
graph.module("f", op.exp):ir() --! has not run yet

-- Arguments of what a function gives, given to the function itself.
local function square(x) return (x * x):sum() end
graph.jvp(square, op.ones { 3 }, op.ones { 3 }) --! graph.jvp takes a function, and what it gives takes its arguments
graph.vjp(square, { op.ones { 3 } }) --! hint: graph.vjp(f)(x, u)
graph.hvp(square, op.ones { 3 }) --! hint: graph.hvp(f)(x, v)
graph.checkpoint(square, op.ones { 3 }) --! hint: graph.checkpoint(f)(x)
graph.grad(square, op.ones { 3 }) --! hint: graph.grad(f)(x)
graph.value_and_grad(square, { op.ones { 3 } }) --! hint: graph.value_and_grad(f)(x)
