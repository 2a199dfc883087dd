-- Plans of pipelines: what is where, what is said of them before they run, what is wrong with them, what stops them.
local tessera = require "tessera"
local small = dofile "tests/mesh/_pipeline.lua"
local core, dist, op, optim, nn, graph, checkpoint = tessera.core, tessera.dist, tessera.op, tessera.optim, tessera.nn, tessera.graph, tessera.checkpoint
dist.leaves(8)

local pp2, grid = small.mesh({ 2 }, { "pp" }), small.mesh({ 2, 2 }, { "dp", "pp" })
local x, y = small.batch(1)

-- ---- before anything runs, and afterwards
local function step_of(mesh, plan, loss)
  tessera.rng.seed(3)
  local model = small.Model()
  local opt = optim.AdamW(model:parameters(), { lr = 0.01 })
  return graph.training_step(model, loss or small.loss, opt, { mesh = mesh, plan = plan }), model, opt
end
local function turns(plan) return (step_of(pp2, { pp = plan }):plan(x, y):gsub("tensors, [^\n]*", "tensors"):match "^(.-\n  pp=1[^\n]*)") end
turns { micro = 4 } --> pipeline of 2 chunks over pp=2, 1f1b, 4 micro-batches
-->   chunk 0 on pp=0: 75 tensors
-->   chunk 1 on pp=1: 78 tensors
-->   pp=0  F0 F1 B0 F2 B1 F3 B2 B3
-->   pp=1  F0 B0 F1 B1 F2 B2 F3 B3
turns { micro = 3, schedule = "gpipe", stages = { "h.0", "h.3" } } --> pipeline of 2 chunks over pp=2, gpipe, 3 micro-batches
-->   chunk 0 on pp=0: 111 tensors
-->   chunk 1 on pp=1: 42 tensors
-->   pp=0  F0 F1 F2 B0 B1 B2
-->   pp=1  F0 F1 F2 B0 B1 B2
turns { micro = 2, schedule = "interleaved" } --> pipeline of 4 chunks over pp=2, interleaved, 2 micro-batches
-->   chunk 0 on pp=0: 39 tensors
-->   chunk 1 on pp=1: 36 tensors
-->   chunk 2 on pp=0: 36 tensors
-->   chunk 3 on pp=1: 42 tensors
-->   pp=0  F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1
-->   pp=1  F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1

-- More micro-batches wait less, a forward pass that is done again takes less memory.
local function numbers(plan)
  local text = step_of(pp2, { pp = plan }):plan(x, y)
  return tonumber(text:match "wait (%d+)%%"), tonumber(text:match "pp=0 begins with %S+ KiB, has at most (%S+) KiB")
end
local few, many = numbers { micro = 2 }, numbers { micro = 8 }
few > many and many < 25 --> true
local _, kept = numbers { micro = 8, schedule = "gpipe" }
local _, again = numbers { micro = 8, schedule = "gpipe", rematerialise = true }
local _, soon = numbers { micro = 8 }
kept > soon and kept > again --> true

-- ---- where it is
local step, model, opt = step_of(grid, { zero = 1, pp = { micro = 2 } })
step(x, y)
tostring(dist.spec_of(model.embedding.weight)) --> {leaves = 8, at = {pp = 0}}
tostring(dist.spec_of(model.h[4].up.weight)) --> {leaves = 8, at = {pp = 1}}
model.h[4].up.weight:sharding_valid() --> true
local parts = model.h[4].up.weight:parts()
parts[1], parts[2].numel, parts[3], parts[4].numel --> false, 1200, false, 1200
local state = {}
for i, p in ipairs(opt.params) do
  if p == model.h[4].up.weight then state = opt.state[i] end
end
for _, t in pairs(state) do
  if core.is_tensor(t) and t.ndim == 2 then assert(tostring(dist.spec_of(t)) == '{"dp", leaves = 8, at = {pp = 1}}', tostring(dist.spec_of(t))) end
end
dist.inspect(model.h[4].down.bias) --> f32[24] pp=1 over dp=2 pp=2
-->     [0..23]
-->     cpu:0 cpu:0
--> 0 bytes to 96 bytes a device, 192 bytes in all for 96 bytes (2 copies)
-- The model can be used as it lies.
tessera.no_grad(small.loss, model, x, y):item() > 0 --> true

-- What was said to be sent is what is sent.
local said, sent = step:collectives(x, y), nil
local before = #said
step(x, y)
sent = dist.sent(before)
local same = true
for i = 1, before do same = same and said[i].kind == sent[i].kind and said[i].bytes == sent[i].bytes end
same and before > 4 --> true

-- Where no chunk reads another one's weights, one value goes forward and one gradient back between neighbours.
local Chain = nn.Module:extend "Chain"
function Chain:init()
  self.h = nn.List()
  for i = 1, 8 do self.h[i] = nn.Linear(16, 16) end
end
function Chain:forward(a)
  for _, layer in ipairs(self.h) do a = a + op.gelu(layer(a)) end
  return a
end
local function crossing(places, micro)
  local chain = Chain()
  local s = graph.training_step(chain, function(m, a, b) return op.mse(m(a), b) end, optim.AdamW(chain:parameters(), { lr = 0.1 }),
    { mesh = small.mesh({ places }, { "pp" }), plan = { pp = { micro = micro } } })
  local kinds = {}
  for _, row in ipairs(s:collectives(op.ones { 8, 16 }, op.ones { 8, 16 })) do kinds[#kinds + 1] = row.kind .. " " .. row.bytes end
  return table.concat(kinds, ", ")
end
crossing(2, 4) --> permute 512, permute 512
crossing(4, 8) --> permute 512, permute 512, permute 512, permute 512, permute 512, permute 512

-- A training goes on from a checkpoint in another plan, or in none.
local dir = os.tmpname()
os.remove(dir)
checkpoint.save(dir, { model = model:state_dict(), opt = opt:state_dict() }, { step = 2 })
local function go_on(how)
  tessera.rng.seed(4)
  local m = small.Model()
  local o = optim.AdamW(m:parameters(), { lr = 0.01 })
  local s = graph.training_step(m, small.loss, o, how)
  local was = checkpoint.load(dir)
  m:load_state_dict(was.model)
  o:load_state_dict(was.opt)
  tessera.rng.seed(6)
  return s(small.batch(3)):hash() .. s(small.batch(4)):hash() .. small.hashes(m)
end
local alone = go_on {}
go_on { mesh = pp2, plan = { pp = { micro = 4 } } } == alone --> true
go_on { plan = { micro = 2 } } == alone --> true
os.execute("rm -rf " .. dir)

-- ---- Ctrl-C and memory that runs out leave the weights as they were
local function weights() return small.hashes(model) end
for _, stop in ipairs { function(n) core.interrupt_after(n, "looks") end, function(n) core.fail_after(10 * n) end } do
  local failed = 0
  for n = 1, 200, 19 do
    local was = weights()
    stop(n)
    local ok = pcall(function() return step(x, y):item() end)
    core.interrupt_after(0)
    core.fail_after(0)
    failed = failed + (ok and 0 or 1)
    assert(ok or weights() == was, n)
  end
  assert(failed > 3, failed)
end
step(x, y):item() > 0 --> true

-- ---- what is wrong
local function wrong(plan, mesh, loss)
  local s = step_of(mesh or pp2, plan, loss)
  return s(x, y)
end
wrong { pp = { schedule = "1f1" } } --! did you mean '1f1b'?
wrong { pp = { schedule = "1f1b", stages = 4 } } --! schedule "1f1b" has one stage a place, 2, not 4
wrong { pp = { schedule = "interleaved", stages = 2 } } --! several stages a place: 4, not 2
wrong { pp = { stages = 3 } } --! 3 stages on the 2 places of pp; a multiple of 2 fits
wrong { pp = { stages = 62 } } --! 62 stages, of 60 at most
wrong { pp = { stages = { "h.0", "h.7" } } } --! no parameters of the model are in 'h.7'
wrong { pp = { stages = { "h.0", "nrm" } } } --! did you mean 'norm'?
wrong { pp = { stages = { "h.2", "h.1" } } } --! 'h.1' comes before 'h.2'
wrong { pp = { stages = "equal" } } --! a number, 'balanced', or a list of names of modules
wrong { pp = { rematerialise = { "h.9" } } } --! no stage begins with 'h.9'
wrong { pp = { micro = 16 } } --! at most micro = 8, or dist.leaves(16)
wrong { micro = 4, pp = { micro = 2 } } --! plan.micro is 4, plan.pp.micro 2
wrong { mirco = 4 } --! did you mean 'micro'?
wrong({ pp = {} }, small.mesh({ 2 }, { "dp" })) --! plan.pp needs an axis "pp"
wrong({ micro = 2 }, small.mesh({ 2 }, { "dp" }), function(m, a, b) return graph.checkpoint(small.loss)(m, a, b) end) --! runs as a whole, not in micro-batches
graph.training_step(model, small.loss, opt, { plan = { pp = {} } }) --! a plan is for a mesh
graph.training_step(model, small.loss, opt, { mesh = { "cpu:0" } }) --! graph.training_step: mesh must be a dist.Mesh, not a table
graph.training_step(model, small.loss, opt):plan() --! training_step:plan: it has not run yet
local Tiny = nn.Module:extend "Tiny"
function Tiny:init() self.weight = op.ones { 4, 4 } end
function Tiny:forward(a) return op.matmul(a, self.weight) end
local tiny = Tiny()
graph.training_step(tiny, function(m, a) return m(a):sum() end, optim.SGD(tiny:parameters(), { lr = 1 }), { mesh = pp2, plan = { pp = {} } })(op.ones { 8, 4 }) --! 2 stages of a model that can be cut into 1
step:plan("turns") --! "steps" stands behind the arguments
