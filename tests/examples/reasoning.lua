-- The reasoning models beside PyTorch's (make_reasoning.py): losses of two segments, gradients of the first, weights behind both updates.
-- Their puzzles have one solution. Steps over meshes have the bits of one device.
local tessera = require "tessera"
local program = arg and arg[-1] or "bin/tessera"
package.path = "examples/reasoning/?.lua;" .. package.path
local supervision, sudoku = require "supervision", require "sudoku"
local op, graph = tessera.op, tessera.graph
local vectors = tessera.load "tests/examples/reasoning.safetensors"

-- How far x is from what PyTorch has, by the largest of it.
local function distance(x, expected)
  return ((x:cast "f32" - expected):abs():max() / op.maximum(expected:abs():max(), 1e-6)):item()
end

local function under(prefix)
  local list = {}
  for key, t in pairs(vectors) do
    if key:sub(1, #prefix) == prefix then list[key:sub(#prefix + 1)] = t end
  end
  return list
end

-- Gradients of one segment from where puzzles begin.
local function check_gradients(name, model)
  local puzzles, answers = vectors[name .. ".puzzles"], vectors[name .. ".answers"]
  local z = {}
  for i, first in ipairs(model:start()) do z[i] = first:broadcast_to { 6, 16, 16 } end
  local after, logits, q = tessera.no_grad(model.segment, model, z, puzzles)
  for key, x in pairs { logits = logits, q = q, z1 = after[1], z2 = after[2] } do
    assert(distance(x, vectors[name .. "." .. key]) < 1e-5, key)
  end
  local loss = supervision.segment_loss(model, z, puzzles, answers, op.zeros({ 6 }, { dtype = "bool" }))
  loss:backward()
  local n = 0
  for _, p in ipairs(model:named_parameters()) do
    local expected = vectors[name .. ".grad." .. p[1]]
    assert(distance(p[2].grad, expected) < 1e-5, p[1] .. ": " .. distance(p[2].grad, expected))
    p[2].grad = nil
    n = n + 1
  end
  return n
end

local function check(name, options)
  local real, result = supervision.trainer, {}
  function supervision.trainer(model, optimizer, o)
    tessera.no_grad(function() model:load_state_dict(under(name .. ".init.")) end)
    result.gradients = check_gradients(name, model)
    o.batch, o.segments, o.explore, o.schedule = 6, 2, 0, nil
    local train = real(model, optimizer, o)
    local p, a = vectors[name .. ".puzzles"], vectors[name .. ".answers"]
    result.losses = op.stack { train(p, a), train(p, a) }
    result.weights = {}
    for key, t in pairs(model:state_dict()) do result.weights[key] = t:clone() end
    return setmetatable({ told = train.told }, { __call = function() return result.losses[0] end })
  end
  local said, print_ = {}, print
  print = function(text) said[#said + 1] = text end
  arg = { "--size", "tiny", "--steps", "1", "--rate", "1e-2", "--decay", "1", "--test", "4", unpack(options) }
  dofile(("examples/%s.lua"):format(name))
  print, supervision.trainer = print_, real
  assert(distance(result.losses, vectors[name .. ".loss"]) < 1e-5, name .. ": losses " .. tostring(result.losses) .. " and " .. tostring(vectors[name .. ".loss"]))
  for key, expected in pairs(under(name .. ".after.")) do
    assert(distance(result.weights[key], expected) < 1e-3, key .. ": " .. distance(result.weights[key], expected))
  end
  return result.gradients
end
check("hrm", {}) --> 12
check("trm", { "--layers", "2", "--inner", "3", "--mixer", "1" }) --> 12
