-- The same bytes in another dtype: shared, eagerly, in captured functions and on a device; what PyTorch
-- refuses is refused.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local x = op.arange(6):cast "f32":reshape(2, 3)
local y = x:bitcast "i32"
y["1, 2"] --> 1084227584 i32[]
y:add_(1)
x["1, 0"]:item() > 3 --> true
x:T():bitcast "i32":hash() == y:T():hash() --> true
op.arange(3):cast "f32":bitcast "u8".shape[1] --> 12
x:clone():bitcast "f16".shape[2] --> 6
op.arange(8):cast "u8":bitcast "i32" --> [ 50462976 117835012]
--> i32[2]
x["1:"]:bitcast "i16"["0, 0"]:copy_(7)
x:bitcast "i16"["1, 0"] --> 7 i16[]
-- Complex numbers are pairs.
op.complex(op.ones { 2 }, op.zeros { 2 }):bitcast "f32" --> [1. 0. 1. 0.]
--> f32[4]

x:bitcast "f64" --! bitcast: the last axis of f32[2,3] has 12 bytes, not a multiple of the 8 of an f64
-- What lies otherwise is copied, as reshape does.
x:T():bitcast "i16":hash() == x:T():clone():bitcast "i16":hash() --> true
op.ones { 4 }["1:3"]:bitcast "f64":hash() == op.ones { 2 }:bitcast "f64":hash() --> true
op.ones { 2, 3 }:narrow(1, 0, 2):bitcast "f64":hash() == op.ones { 2, 2 }:bitcast "f64":hash() --> true
tessera.tensor(1):bitcast "i16" --! bitcast: f32[] has no last axis
tessera.tensor(1):bitcast "i32" --> 1065353216 i32[]
op.bitcast(2, "i32") --! bitcast: of tensors, not of a bare number
x:bitcast "bool" --! hint: x:bitcast("u8"):ne(0)
x:view "i32" --! x:bitcast("i32")

-- What is stored in blocks as its bytes, of which rows and matrices can be taken, and back.
local w = op.normal({ 3, 4, 64 }, { seed = 1, stream = 2 })
local q = w:cast "q4_1"
local bytes = q:bitcast "u8"
bytes.shape[3] --> 40
bytes:bitcast("q4_1"):cast("f32"):hash() == q:cast("f32"):hash() --> true
bytes[1]:bitcast("q4_1"):cast("f32"):hash() == w[1]:cast("q4_1"):cast("f32"):hash() --> true
local rows = tessera.tensor({ 2, 0, 2 }, { dtype = "i64" })
op.embedding(bytes[2], rows):bitcast("q4_1"):cast("f32"):hash() == op.embedding(q:cast("f32")[2], rows):hash() --> true
local rows_of = graph.module(function(t, i) return op.embedding(t:bitcast "u8", i):bitcast("q4_1"):cast "f32" end)
rows_of(bytes[2]:bitcast "q4_1", rows):hash() == op.embedding(q:cast("f32")[2], rows):hash() --> true
op.zeros({ 4 }, { dtype = "u8" }):bitcast "q8_0" --! not a multiple of the 34 of an q8_0

-- Absolute values by their bits, and a change of bits in place.
local function f(x)
  local z = x * 1
  z:bitcast "i32"[0]:bitwise_and_(0x7fffffff)
  return z, x:bitcast "i32":bitwise_and(0x7fffffff):bitcast "f32"
end
local v = op.normal({ 3, 5 }, { seed = 1, stream = 1 })
local a, b = f(v)
b:hash() == v:abs():hash() --> true
local g = graph.module(f)
local wrong = {}
for run = 1, 4 do
  local c, d = g(v)
  if c:hash() ~= a:hash() or d:hash() ~= b:hash() then wrong[#wrong + 1] = run end
  if run == 2 then tessera.jit.pin(g) end
end
table.concat(wrong, " ") -->
local c, d = f(v:to "sim:0")
c:hash() == a:hash() and d:hash() == b:hash() and d.device == "sim:0" --> true
c, d = graph.module(f)(v:to "sim:0")
c:hash() == a:hash() and d:hash() == b:hash() --> true

-- No gradient goes through bits, as in PyTorch; beside them it does.
graph.grad(function(x) return (x:bitcast "i32":bitcast "f32" * x):sum() end)(v):hash() == v:hash() --> true
graph.grad(function(x) return x:bitcast "f16":sum() end)(v) --! bitcast has no derivative
local leaf = op.ones { 2 }
leaf.requires_grad = true
local z = leaf * 2
z:bitcast "i32":add_(1)
(z * 2):sum():backward() --! changed in place
