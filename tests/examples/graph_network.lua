-- The graph network and the one without edges have the loss and the gradients that PyTorch has in f64 (make_graph_network.py),
-- captured and at once.
local tessera = require "tessera"
local graph = tessera.graph
local expected = tessera.load "tests/examples/graph_network.safetensors"

local training_step, print_ = graph.training_step, print
local found = {}
graph.training_step = function(model, loss, ...)
  found[#found + 1] = { model = model, loss = loss }
  return training_step(model, loss, ...)
end
print = function() end
arg = { "--steps", "0", "--nodes", "40", "--degree", "4", "--features", "8", "--width", "6", "--groups", "3", "--told", "5" }
local made = dofile "examples/graph_network.lua"
print, graph.training_step = print_, training_step
#found --> 2

local index = tessera.op.arange(15)
local target = tessera.op.take(made.group, index)
local function near(x, y) return (x - y):abs():max():item() <= 1e-5 * y:abs():max():item() end
for i, name in ipairs { "edges", "alone" } do
  local model, loss, state = found[i].model, found[i].loss, {}
  for key in pairs(model:state_dict()) do state[key] = expected[("%s.weight.%s"):format(name, key)] or error(key) end
  model:load_state_dict(state)
  local function check(value, of)
    assert(near(value, expected[name .. ".loss"]), name)
    for key, p in model:named_parameters() do
      assert(near(of(p), expected[("%s.grad.%s"):format(name, key)]), ("%s: gradient of %s"):format(name, key))
    end
  end
  local value = loss(model, made.features, index, target)
  value:backward()
  check(value, function(p) return p.grad end)
  local before = {}
  for _, p in model:named_parameters() do before[p] = p:detach():clone() end
  model:zero_grad()
  value = training_step(model, loss, tessera.optim.SGD(model:parameters(), { lr = 1 }))(made.features, index, target)
  check(value, function(p) return before[p] - p end)
end
