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

-- Random puzzles have one solution, of which they are a part; varied ones too.
math.randomseed(1)
for _, box in ipairs { 2, 3 } do
  local game = sudoku.new(box)
  local puzzles, answers = {}, {}
  for i = 1, 4 do puzzles[i], answers[i] = game:puzzle { clues = 4 } end
  local list = { puzzles, answers }
  local p, a = game:vary(tessera.tensor(puzzles, { dtype = "i64" }), tessera.tensor(answers, { dtype = "i64" }))
  for k, both in ipairs { list, { p:totable(), a:totable() } } do
    for i, puzzle in ipairs(both[1]) do
      assert(game:solutions(puzzle) == 1 and game:is_solved(both[2][i]) and not game:is_solved(puzzle))
      for c = 1, game.cells do assert(puzzle[c] == 0 or puzzle[c] == both[2][i][c]) end
      assert(k == 1 or table.concat(puzzle) ~= table.concat(puzzles[i]))
    end
  end
end
sudoku.new(2):solutions { 1, 2, 3, 0, 0, 0, 0, 4, unpack { 0, 0, 0, 0, 0, 0, 0, 0 } } --> 0
sudoku.new(2):solutions { 1, 2, 3, 4, unpack { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } } --> 2

-- Over meshes.
for _, name in ipairs { "hrm", "trm" } do
  local said
  for _, n in ipairs { 1, 2, 4 } do
    local p = io.popen(("%s --devices=cpu:4 --hash examples/%s.lua --size tiny --steps 3 --every 3 --dp %d 2>/dev/null; echo \"exit $?\""):format(program, name, n))
    local text = p:read "*a"
    p:close()
    assert(text:match "exit 0%s*$", text)
    said = said or text
    assert(text == said, name .. " over " .. n)
  end
end

-- Solving is one function whose loop runs functions, which become kernels.
local real, solve = supervision.solver, nil
function supervision.solver(...)
  solve = solve or real(...)
  return solve
end
local print_ = print
print, arg = function() end, { "--size", "tiny", "--steps", "1" }
dofile "examples/hrm.lua"
print, supervision.solver = print_, real
tostring(solve:why()):find "while_loop at [^\n]*it runs functions" ~= nil --> true
if tessera.jit.status() then
  local x = tessera.rng.randint({ 64, 16 }, { low = 0, high = 5 })
  for _ = 1, 40 do tessera.no_grad(solve, x) end
  tessera.jit.wait()
  tessera.no_grad(solve, x)
  assert(tostring(solve:tiles()):find "rmsnorm")
end
