-- Whatever can be called may stand where a function is asked for, and nothing else.
local tessera = require "tessera"
local op, graph, numerics, nn, jit = tessera.op, tessera.graph, tessera.numerics, tessera.nn, tessera.jit
local x = op.ones { 2 }
local double = graph.module("double", function(x) return x * 2 end)
local slope = graph.grad(function(x) return x:sqrt():sum() end)
local object = setmetatable({}, { __call = function(_, x) return x + 1 end })

-- The trap runs them, and is as it was.
numerics.trap(double, x) --> [2. 2.]
--> f32[2]
numerics.trap() --> false
numerics.trap(graph.module("logs", function(x) return x:log() end), -x) --! log gives NaN
numerics.trap() --> false
numerics.trap(slope, x * 0) --! gives infinity
numerics.trap(object, x) --> [2. 2.]
--> f32[2]
numerics.trap "yes" --! numerics.trap: a function is needed, not a string
numerics.trap(x) --! numerics.trap: a function is needed, not a tensor
numerics.trap() --> false
numerics.trap(true) --> false
numerics.trap(false) --> true

-- Their arguments go on.
numerics.profile("strict", double, x) --> [2. 2.]
--> f32[2]
numerics.profile("strict", function(a, b) return numerics.profile() .. a .. b end, 1, 2) --> strict12
numerics.profile() --> deterministic
numerics.profile("strict", 5) --! numerics.profile: a function is needed, not a number
tessera.device("cpu", object, x) --> [2. 2.]
--> f32[2]
tessera.device("cpu", 5) --! tessera.device: a function is needed, not a number
tessera.no_grad(object, x) --> [2. 2.]
--> f32[2]
tessera.no_grad(5) --! no_grad: a function is needed, not a number

-- Layers and stages.
nn.Sequential(double, object)(x) --> [3. 3.]
--> f32[2]
nn.Sequential { object, double }(x) --> [4. 4.]
--> f32[2]
op.pipeline { double, object }(x) --> [3. 3.]
--> f32[2]

-- What captures and differentiates.
graph.module(object)(x) --> [2. 2.]
--> f32[2]
graph.module() --! graph.module: a function is needed, not nothing
graph.grad() --! graph.grad: a function is needed, not nothing
graph.grad(x) --! graph.grad: a function is needed, not a tensor
graph.vjp(5) --! graph.vjp: a function is needed
graph.jvp {} --! graph.jvp: a function is needed, not a table
graph.checkpoint(5) --! graph.checkpoint: a function is needed
graph.custom_adjoint(double, function(x, y, dy) return dy * 2 end)(x) --> [2. 2.]
--> f32[2]
op.map(double, op.ones { 2, 2 }) --> [[2. 2.]
-->  [2. 2.]]
--> f32[2,2]
op.map(5, x) --! op.map: a function is needed, not a number
op.map(double, 5) --! op.map: a tensor, or tensors in a table, are needed
op.cond(true, object, double, x) --> [2. 2.]
--> f32[2]
op.custom("plus", { forward = object })(x) --> [2. 2.]
--> f32[2]
jit.device_profile(5) --! jit.device_profile: a function is needed
numerics.hash(3) --! numerics.hash: a tensor is needed, not a number
