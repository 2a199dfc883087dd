-- A device that fails in the middle of a step: the error names it, what it was to do and where, weights stay as they were, and
-- the next step goes as if there had been none; a device that is lost says so from then on.
local tessera = require "tessera"
local core, dist, op, rng, graph, nn, optim = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
tessera.jit.later(false)

local function made(mesh)
  rng.seed(3)
  local model = nn.Linear(16, 8)
  local step = graph.training_step(model, function(m, x, y)
    return op.mse(m(x), y)
  end, optim.AdamW(model:parameters(), { lr = 1e-2 }), { mesh = mesh })
  local x, y = rng.normal { 32, 16 }, rng.normal { 32, 8 }
  local function state()
    local list = {}
    for i, p in ipairs(model:parameters()) do list[i] = p:hash() end
    return table.concat(list, " ")
  end
  return step, x, y, state
end

local gpus = dist.Mesh { axes = { "dp" }, devices = { "sim:0", "sim:1" } }
local step, x, y, state = made(gpus)
step(x, y)
step(x, y)
local want = state() -- of two steps

-- Each launch of a step, in turn.
local step, x, y, state = made(gpus)
step(x, y)
local before, failed, said = state(), 0, ""
for n = 1, 400 do
  core.sim_fail("sim:1", "launch", n)
  local fine, why = pcall(step, x, y)
  core.sim_fail("sim:1", "launch", 0)
  if fine then break end
  failed, said = failed + 1, said .. tostring(why) .. "\n"
  assert(state() == before, "mixed behind launch " .. n)
end
failed > 5 --> true
state() == want --> true
said:match "sim:1: launch failed: as a test wants it: at [%w_]+[^\n]*, f32%[[%d,]*%], a piece of training_step on mesh dp=2 %(in training_step, tests/mesh/failures.lua:11%)" ~= nil --> true
said:match "sim:1: launch failed: as a test wants it: at all_reduce of [^\n]* %-> [^\n]*, sent by the plan of training_step on mesh dp=2 %(in training_step" ~= nil --> true

-- Eager: the row, the part, its layout and bytes.
local xs = dist.shard(rng.normal { 32, 16 }, gpus, { "dp" })
core.sim_fail("sim:1", "launch", 1)
op.mul(xs, 2) --! sim:1: launch failed: as a test wants it: in part 1 of mul on sim:1: f32[32@dp,16] over dp=2, of which sim:1 has 1024 bytes
core.sim_fail("sim:1", "launch", 0)
op.mul(xs, 2):gather().shape --> {32, 16}

-- Bytes that go through the host.
local other = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "sim:1" } }
core.sim_fail("sim:1", "upload", 1)
dist.shard(rng.normal { 32, 16 }, other, { "dp" }) --! sim:1: upload failed: as a test wants it: moving f32[32,16] to f32[32@dp,16] over dp=2, 1024 bytes a device
core.sim_fail("sim:1", "upload", 0)

-- Lost: each call says so, what others have is there, and weights that lie on all of them are read from one that lives.
core.sim_fail("sim:1", "launch", 3, "lost")
step(x, y) --! sim:1: launch failed
step(x, y) --! sim:1 is lost: a call before has failed on it
state() == want --> true
core.sim_fail("sim:1", "launch", 0)
step(x, y)
state() == want --> false

-- Memory that runs out at any point of a step over CPUs: the same.
local cpus = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0", "cpu:0" } }
dist.leaves(6)
local step, x, y, state = made(cpus)
step(x, y)
step(x, y)
local want = state()
local step, x, y, state = made(cpus)
step(x, y)
local before, said, n, left, whole = state(), "", 0, 0, true
while left == 0 or n < 30 do
  n = n + 11
  core.fail_after(n)
  local fine, why = pcall(step, x, y)
  left = math.max(core.fail_after(0), 0)
  if fine then -- it was asked for once more, or nobody had to ask
    whole = whole and state() == want
    step, x, y, state = made(cpus)
    step(x, y)
  else
    said = said .. tostring(why) .. "\n"
    assert(tostring(why):find "memory" and state() == before, why)
  end
end
whole --> true
said:match "out of memory[^\n]* a piece of training_step on mesh dp=3[^\n]*; of the plan cpu:0 holds [^\n]* in %d+ tensors: parameter [^\n]*" ~= nil --> true
said:match "hint: the plan needs [^\n]* there; [^\n]*more devices make parts smaller" ~= nil --> true
dist.leaves(0)

-- What of the plan a device holds is memory: views of it, and what stands in several slots, count once.
local two = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }
local tall = dist.shard(rng.normal { 1024, 16 }, two, { "dp" })
local f = graph.module("f", function(t)
  local turned = t:T()
  return op.matmul(op.matmul(turned, t), turned):sum()
end)
f(tall)
local held, last = {}, 0
for n = 1, 1000 do
  core.fail_after(n)
  local fine, why = pcall(f, tall)
  local left = core.fail_after(0)
  local kib, tensors = tostring(why):match "of the plan cpu:0 holds (%d+) KiB in (%d+) tensors?: "
  if kib then held[#held + 1] = kib .. " " .. tensors end
  last = n
  if fine and left > 0 then break end
end
held = " " .. table.concat(held, " ") .. " "
last < 1000, held:find(" 65 3 ", 1, true) ~= nil, held:find(" 64 1 ", 1, true) ~= nil --> true, true, true
held:find(" 97 ", 1, true) or held:find(" 128 ", 1, true) --> nil
