-- What is more than others have: words of long layouts, calls of many operands, more layouts than there can be.
local tessera = require "tessera"
local dist, op = tessera.dist, tessera.op
local function type_of(x) return tostring(dist.inspect(x)):match "[^\n]*" end

-- ---- a layout whose word is as long as words get: six axes of the mesh with long names, and blocks
local names = {}
for i = 1, 6 do names[i] = "mesh_axis_num_" .. i end
local long = dist.Mesh { axes = names, shape = { 1, 1, 1, 1, 1, 2 }, devices = { "cpu:0", "cpu:0" } }
local spec = { names[1], names[2], names[3], names[4], names[5], names[6], block = 1000000000 }
local x = dist.shard(op.normal({ 2, 2, 2, 2, 2, 4 }, { seed = 1 }), long, spec)
x.requires_grad = true
local y = x:reshard {}
type_of(y) == type_of(x) --> false
;(y * y):sum():backward()
type_of(x.grad) == type_of(x:detach()) --> true

-- ---- a call of more operands than are counted on: the heaviest way wins, wherever it stands
local pair = dist.Mesh { axes = { "a" }, shape = { 2 }, devices = { "cpu:0", "cpu:0" } }
local parts = {}
for i = 1, 200 do parts[i] = dist.shard(op.ones { 1, 4, 4 }, pair, { nil, "a" }) end
for i = 201, 204 do parts[i] = dist.shard(op.ones { 200, 4, 4 }, pair, { nil, nil, "a" }) end
type_of(op.concat(parts, { axis = 0 })) --> f32[1000,4,4@a] over a=2

-- ---- layouts are kept: each of another block is another one
local function make(block) return dist.tensor { shape = { 4 }, mesh = pair, layout = { "a", block = block } } end
local made, why = 0, nil
for block = 1, 40000 do
  local ok, said = pcall(make, block)
  if not ok then
    why = said
    break
  end
  made = made + 1
end
made > 32000 and made < 32768 --> true
why:match "there are %d+ layouts, and a process has no more of them\n  hint: each that was ever made is kept" ~= nil --> true
make(40000) --! and a process has no more of them
type_of(make(7)) --> f32[4@a/7] over a=2
type_of(parts[1] + parts[2]) --> f32[1,4@a,4] over a=2

-- Numbers of devices and of micro-batches that nobody has.
dist.range(0, 1e9) --! dist.range: 1000000000 devices are more than the 16777216 of a list
dist.Mesh { axes = { "a" }, devices = dist.range(1000, 1000 + 1e5) } --! a mesh has at most 4096 devices
local two = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }
local model = tessera.nn.Linear(4, 4)
local opt = tessera.optim.SGD(model:parameters(), { lr = 1 })
local function step(plan) return tessera.graph.training_step(model, function(m, x) return m(x):mean() end, opt, { mesh = two, plan = plan }) end
step { micro = 1e9 } --! plan: option 'micro' must be a whole number in [1, 4096], not 1000000000
