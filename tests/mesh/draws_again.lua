-- What fails and has changed nothing has drawn nothing: done again it has the draws that it would have had. Captured functions,
-- steps of training of all kinds, runs on a mesh, and single calls.
local tessera = require "tessera"
local core, dist, op, rng, graph, nn, optim = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
tessera.jit.later(false)

local function stream() return (select(2, rng.state())) end

-- Memory runs out at the first, second, .. allocation (or each `every` of them), until it does not: each time nothing was drawn, and what it gives at
-- last is what it gives without. make() gives what is run, and what it is to give.
local function again(name, make, every)
  local run = make()
  run()
  local want = run():hash()
  local failed, last = 0, nil
  run = make()
  run()
  for n = 1, 1e5, every or 1 do
    local before, commits = stream(), core.commits()
    core.fail_after(n)
    local fine, got = pcall(run)
    local left = core.fail_after(0)
    if not fine then
      failed = failed + 1
      assert(tostring(got):find("memory", 1, true), got)
      assert(core.commits() ~= commits or stream() == before, ("%s, allocation %d: %d draws"):format(name, n, stream() - before))
      if core.commits() ~= commits then -- sums of gradients have changed: the next call does what is left
        run = make()
        run()
      end
    elseif left > 0 then
      last = got:hash()
      break
    else -- it was asked for once more
      run = make()
      run()
    end
  end
  assert(failed > 0, name)
  assert(last == want, ("%s: %s, not %s"):format(name, tostring(last), tostring(want)))
  return name
end

local mesh = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }
local function layer(spread)
  return function()
    rng.seed(4)
    local x = op.ones { 8, 32 }
    if spread then x = dist.shard(x, mesh, { "dp" }) end
    local f = graph.module("f", function(t) return op.dropout(t, { p = 0.5 }) + op.normal { 8, 32 } end)
    return function() return f(x) end
  end
end
again("captured", layer(false)) --> captured
again("captured, on a mesh", layer(true)) --> captured, on a mesh

local Net = nn.Module:extend "Net"
function Net:init() self.up, self.drop, self.down = nn.Linear(6, 12), nn.Dropout(0.3), nn.Linear(12, 2) end
function Net:forward(x) return self.down(self.drop(op.relu(self.up(x)))) end
local function step(options, kind, eager)
  return function()
    rng.seed(5)
    graph.eager = eager or false
    local model = Net()
    local opt = optim[kind or "SGD"](model:parameters(), { lr = 0.1 })
    local s = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end, opt, options)
    local x, y = rng.normal { 8, 6 }, rng.normal { 8, 2 }
    return function() return (s(x, y)) end
  end
end
again("step", step {}) --> step
again("accumulated", step { accumulate = 2 }) --> accumulated
again("searched", step({}, "LBFGS"), 211) --> searched
again("eager", step({}, nil, true)) --> eager
graph.eager = false
again("mesh", step { mesh = mesh, plan = { zero = 2 } }) --> mesh
dist.leaves(4, again, "micro-batches", step { mesh = mesh, plan = { micro = 2 } }) --> micro-batches

-- A device that fails in the middle.
local gpus = dist.Mesh { axes = { "dp" }, devices = { "sim:0", "sim:1" } }
local one, other = step { mesh = gpus }(), nil
one()
local want = one():hash()
other = step { mesh = gpus }()
other()
local failed = 0
for n = 1, 400 do
  local before = stream()
  core.sim_fail("sim:1", "launch", n)
  local fine, got = pcall(other)
  core.sim_fail("sim:1", "launch", 0)
  if fine then
    assert(got:hash() == want, n)
    break
  end
  failed = failed + 1
  assert(stream() == before, n)
end
failed > 3 --> true

-- Single calls, also of tensors that are made where they lie.
local before = stream()
for n = 1, 60 do
  core.fail_after(n)
  if pcall(rng.normal, { 64, 64 }) then before = before + 1 end
  core.fail_after(n)
  if pcall(dist.tensor, { shape = { 64, 64 }, mesh = mesh, layout = { "dp" }, init = "normal" }) then before = before + 1 end
  core.fail_after(0)
  assert(stream() == before, n)
end
