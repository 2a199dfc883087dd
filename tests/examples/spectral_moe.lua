-- Both networks over frequencies have the loss and the gradients that PyTorch has in f64 (make_spectral_moe.py), and what the
-- mixture learns is the same over meshes, with all its choices and with a capacity that drops some.
local tessera = require "tessera"
local graph = tessera.graph
local expected = tessera.load "tests/examples/spectral_moe.safetensors"

local training_step, print_ = graph.training_step, print
local found = {}
graph.training_step = function(model, loss, ...)
  found[#found + 1] = { model = model, loss = loss }
  return training_step(model, loss, ...)
end
print = function() end
arg = { [-1] = arg and arg[-1], "--steps", "0", "--n", "16", "--width", "4", "--hidden", "8", "--batch", "2", "--bands", "2" }
dofile "examples/spectral_moe.lua"
print, graph.training_step = print_, training_step
#found --> 2

local function near(x, y) return (x - y):abs():max():item() <= 1e-5 * y:abs():max():item() end
for i, name in ipairs { "mixture", "dense" } do
  local model, loss, state = found[i].model, found[i].loss, {}
  for key in pairs(model:state_dict()) do state[key] = expected[("%s.weight.%s"):format(name, key)] or error(key) end
  model:load_state_dict(state)
  local whole, plain = loss(model, expected.x, expected.y)
  whole:backward()
  assert(near(plain, expected[name .. ".loss"]) and near(whole, expected[name .. ".whole"]), name)
  for key, p in model:named_parameters() do
    assert(near(p.grad, expected[("%s.grad.%s"):format(name, key)]), ("%s: gradient of %s"):format(name, key))
  end
end

local program = arg[-1] or "bin/tessera"
local function told(options, only)
  local p = io.popen(("%s --hash examples/spectral_moe.lua --steps 6 --only %s %s 2>/dev/null"):format(program, only or "mixture", options))
  local out = p:read "*a"
  p:close()
  assert(out:find((only or "mixture") .. ".place f32%[129,64%] %x+\n"), out)
  return (out:gsub("@%a+", ""))
end
for _, capacity in ipairs { "", "--capacity 1" } do
  local alone = told("--ep 1 " .. capacity)
  for _, mesh in ipairs { "--ep 2", "--ep 4", "--dp 2 --ep 2" } do assert(told(mesh .. " " .. capacity) == alone, mesh) end
  assert((alone:match "(%d+) choices dropped" or "0") ~= "0" == (capacity ~= ""))
end
assert(told("--ep 2", "dense") == told("--ep 1", "dense"))
