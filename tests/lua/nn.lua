local tessera = require "tessera"
local op, nn, rng = tessera.op, tessera.nn, tessera.rng

-- Modules: parameters by path, in order of construction.
local MLP = nn.Module:extend "Net"
function MLP:init(width)
  self.first = nn.Linear(width, 3)
  self.layers = nn.Sequential { nn.Linear(3, 3, { bias = false }), nn.ReLU() }
  self:buffer("steps", op.zeros {})
end
function MLP:forward(x) return self.layers(self.first(x)) end
rng.seed(1)
local m = MLP(2)
local names = {}
for i, pair in ipairs(m:named_parameters()) do names[i] = pair[1] end
table.concat(names, " ") --> first.weight first.bias layers.0.weight
m:num_parameters() --> 18
m.first.weight.requires_grad --> true
m.steps.requires_grad --> false
m(op.ones { 5, 2 }).shape --> {5, 3}
tostring(m):match("^Net%(%)\n  first: Linear%(inputs = 2, outputs = 3, bias = true%)") ~= nil --> true

-- nn.Module() holds what is put into it, without a class.
local pair = nn.Module()
pair.first = nn.Linear(2, 3)
pair.second = nn.Linear(3, 1)
#pair:parameters() --> 4
pair:state_dict()["second.weight"].shape --> {1, 3}
tostring(pair) --> Module()
-->   first: Linear(inputs = 2, outputs = 3, bias = true)
-->   second: Linear(inputs = 3, outputs = 1, bias = true)
pair(1) --! Module has no forward method

-- What is printed has every layer of a list: operators and functions by name, and where they are written.
function double(x) return x * 2 end
local here = debug.getinfo(double, "S").linedefined
local mixed = nn.Sequential(nn.Linear(2, 2), op.tanh, double, function(x) return x end, math.abs, nn.List { nn.ReLU() })
(tostring(mixed):gsub("%(tests/lua/nn.lua", "(nn.lua"):gsub(":" .. here .. "%)", ":A)"):gsub(":" .. here + 2 .. "%)", ":B)")) --> Sequential()
-->   0: Linear(inputs = 2, outputs = 2, bias = true)
-->   1: op.tanh
-->   2: function double (nn.lua:A)
-->   3: function (nn.lua:B)
-->   4: function math.abs
-->   5: List()
-->     0: ReLU()
tostring(nn.Sequential(tessera.graph.module("g", op.tanh))):match "0: graph.module g" --> 0: graph.module g

-- State dicts copy values and check names and shapes before they change anything.
local other = MLP(2)
other:load_state_dict(m:state_dict())
other(op.ones { 1, 2 }):hash() == m(op.ones { 1, 2 }):hash() --> true
local state = m:state_dict()
state["first.bias"] = nil
state["first.bia"] = op.zeros { 3 }
other:load_state_dict(state) --! missing first.bias; unknown first.bia
other:load_state_dict(state, { strict = false }).missing --> {first.bias}
state["first.weight"] = op.zeros { 2, 2 }
other:load_state_dict(state) --! first.weight has shape [3,2] here and [2,2] in the state

-- Tied weights count once.
local tied = nn.List { nn.Linear(4, 4), nn.Linear(4, 4) }
tied[2].weight = tied[1].weight
#tied:parameters() --> 3

m:to("f64")
m.first.weight.dtype --> f64
m.first.weight.requires_grad --> true
-- What was converted is a parameter of its own, to which gradients come; without need nothing is converted.
local weight = m.first.weight
rawequal(m:to("f64").first.weight, weight) --> true
m(op.ones({ 5, 2 }, { dtype = "f64" })):sum():backward()
weight.grad.shape --> {3, 2}

-- Training and evaluation.
local d = nn.Dropout(0.5)
d:eval()
d(op.ones { 4 }):totable() --> {1, 1, 1, 1}
local bn = nn.BatchNorm(2)
local y = bn(rng.normal({ 64, 2 }, { mean = 3, std = 2 }))
assert(y:mean():abs():item() < 1e-6 and math.abs(y:std():item() - 1) < 1e-2)
assert(math.abs(bn.running_mean:mean():item() - 0.3) < 0.1)
bn:eval()
bn(op.zeros { 1, 2 }).shape --> {1, 2}

-- Attention with a cache gives what the whole gives, to the bit.
local att = nn.MultiHeadAttention(16, 4, { causal = true, kv_heads = 2, rope = { theta = 100 } })
local x = rng.normal { 2, 7, 16 }
local whole = att(x)
local cache, parts = nn.KVCache(), {}
for i = 0, 6 do parts[i + 1] = att(x:narrow(1, i, 1), { cache = cache }) end
op.concat(parts, { axis = 1 }):hash() == whole:hash() --> true

nn.TransformerBlock(16, 4, { norm = "rmsnorm", causal = true })(x).shape --> {2, 7, 16}
nn.Conv2d(3, 8, 3, { padding = 1 })(op.ones { 1, 3, 5, 5 }).shape --> {1, 8, 5, 5}
nn.Embedding(10, 4)(tessera.tensor({ 1, 2 }, { dtype = "i64" })).shape --> {2, 4}
nn.Sequential { nn.Flatten(), nn.Linear(12, 2) }(op.ones { 3, 3, 4 }).shape --> {3, 2}
nn.GroupNorm(2, 4)(rng.normal { 2, 4, 3, 3 }).shape --> {2, 4, 3, 3}
nn.MultiHeadAttention(10, 3) --! heads * head_dim = 3 * 3 = 9, but width = 10
nn.MultiHeadAttention(12, 3, { kv_heads = 2 }) --! kv_heads = 2 does not divide heads = 3

-- Names and parameters in one loop, as often as one likes.
do
  local m, names = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), {}
  local list = m:named_parameters()
  for name in list do names[#names + 1] = name break end
  for name, w in list do names[#names + 1] = name .. w.ndim end
  print(table.concat(names, " "), #list, #m:parameters()) --> 0.weight 0.weight2 0.bias1 1.weight2 1.bias1	4	4
end
