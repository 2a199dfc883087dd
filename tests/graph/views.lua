-- Parts of tensors changed in place in captured functions: values and gradients beside PyTorch's, with the
-- bits of eager code, by the VM, by kernels, on the simulated device; tensors from outside and arguments too.
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local layers = dofile "tests/lua/_layers.lua"

local function change(name, f)
  layers.check("change_" .. name, nil, function(_, x)
    local y = x * 1.5
    local out = f(y)
    if out then return y, out end
    return y
  end)
end
change("row", function(y) return y[1]:add_(y[0] * y[1]) * 2 end)
change("rows", function(y) return y["1:"]:mul_(3):sum { axis = 0 } end)
change("narrow", function(y) return y:narrow(1, 1, 2):mul_(y:narrow(1, 0, 2):cos()) * 1 end)
change("set", function(y) y["0, 1:"] = y["1, 1:"] ^ 2 end)
change("number", function(y) y["..., 2"] = 7 end)
change("step", function(y) return y["::2, 1::2"]:copy_(y["1, 0"]) * 1 end)
change("transposed", function(y) return y:T()[0]:mul_(y:T()[1]) * 1 end)
change("diagonal", function(y) return y:diagonal():mul_(2):sin() end)
change("masked", function(y) return y[1]:masked_fill_(y[1]:gt(0), 0.5) * 1 end)
change("reshaped", function(y) return y:reshape(2, 6)[1]:clamp_(-0.5, 0.5) * 1 end)
change("squeezed", function(y) return y:squeeze(1)[0]:mul_(2) * 1 end)
change("permuted", function(y) return y:permute(2, 0, 1)[1]:sin_() * 1 end)
change("recur", function(y) for i = 1, 3 do y["..., " .. i] = y["..., " .. i - 1] * y["..., " .. i] end end)
change("both", function(y)
  local a, b = y["..., :3"], y["..., 1:"]
  a:mul_(b:sin())
  return b * 2
end)
change("looked", function(y)
  local row = y[1]
  y:mul_(y)
  row:add_(1)
  return row:exp()
end)
change("chain", function(y)
  y:T()["1:"]:reshape(3, 3):flip { 0 }[0]:mul_(y["0, 0"])
  return y:flatten()["3:"]
end)

-- Gradients of the graph are those of the tape.
local function f(x)
  local y = x * 1
  y["1:, 0"]:mul_(y["0, 1"])
  y:T()[2]:copy_(y["..., 1"] * y["..., 0"])
  return (y * y):sum()
end
local x = op.normal({ 3, 4 }, { seed = 3, stream = 1, dtype = "f64" })
local leaf = x:clone()
leaf.requires_grad = true
f(leaf):backward()
(graph.grad(f)(x) - leaf.grad):abs():max():item() < 1e-14 --> true

-- Arguments and tensors from outside are changed, as eagerly; by kernels, too.
local outside = op.zeros { 4 }
local step = graph.module("step", function(a, k)
  local row = a[0]
  outside["1:3"]:add_(row["1:3"])
  row:mul_(k)
  return row:sum() + outside:sum()
end)
local a, b, eager = op.ones { 2, 4 }, op.ones { 2, 4 }, op.zeros { 4 }
local wrong = {}
for run = 1, 5 do
  local row = b[0]
  eager["1:3"]:add_(row["1:3"])
  row:mul_(run)
  local want = (row:sum() + eager:sum()):item()
  local got = step(a, run * op.ones {}):item()
  if got ~= want or a:hash() ~= b:hash() or outside:hash() ~= eager:hash() then wrong[#wrong + 1] = run end
  if run == 2 then jit.pin(step) end
end
table.concat(wrong, " ") -->

-- Within loops of the graph: what a region made itself is its own to change.
local function rows(v)
  local y = v * 1
  y[0] = y[1] * 2
  return y
end
op.map(rows, x):hash() == op.stack { rows(x[0]), rows(x[1]), rows(x[2]) }:hash() --> true
graph.module("map", function(v) return op.map(rows, v) end)(x):hash() == op.map(rows, x):hash() --> true
-- What comes from outside of it is not.
local kept = graph.module("kept", function(v)
  local y = v * 1
  return op.map(function(row) y[0]:add_(row) return row end, v)
end)
kept(x) --! its function changes a tensor from outside in place
op.map(function(row) row[0] = 5 return row end, x) --! changes a tensor from outside in place

-- What has no words in a graph is refused.
graph.module("shown", function(v) v:detach()[0]:mul_(2) return v end)(x:clone()) --! a view is changed in place
graph.module("spread", function(v) v:expand(2, 3, 4)[1]:mul_(2) return v end)(x:clone()) --! a view is changed in place
-- Whether this changes v depends on how v lies, which is the caller's.
graph.module("shaped", function(v) v:reshape(12)[0]:mul_(2) return v end)(x:clone()) --! a view is changed in place
-- What is written into a view may be the whole that it is a view of.
local turned = function(v)
  local r = v:flip { 0 }
  r:copy_(v)
  return r
end
local p, q = x:clone(), x:clone()
turned(p):hash() == graph.module(turned)(q):hash() --> true
p:hash() == q:hash() --> true

-- Values at indices.
for _, name in ipairs { "rows", "one", "grid" } do
  layers.check("put_" .. name, nil, function(_, x, i, v)
    local y = x * 1.5
    y[i] = v
    return y
  end)
end
layers.check("put_number", nil, function(_, x, i)
  local y = x * 1.5
  y[i] = 7
  return y
end)
do
  local v = op.zeros { 3, 2 }
  v[tessera.tensor({ 2, 2 }, { dtype = "i64" })] = tessera.tensor { { 1, 2 }, { 3, 4 } }
  v --> [[0. 0.]
  -->  [0. 0.]
  -->  [3. 4.]]
  --> f32[3,2]
  v[tessera.tensor({ 3 }, { dtype = "i64" })] = 1 --! 3
  v[tessera.tensor { 1 }] = 1 --! scatter: the index must be integers, not f32
  v[tessera.tensor({ 1 }, { dtype = "i64" })] = op.ones { 3 } --! broadcast_to
end

-- A part of an argument whose elements overlap: one element has a place, a new value of the whole has none.
graph.module("overlap", function(x) x[1] = -2.5 end)(op.ones { 1 }:expand { 16 }) --! which cannot be captured
