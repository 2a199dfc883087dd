-- What is sent beside what is computed: no bit depends on it, whatever is cut, started early or sent in chunks; the plan says
-- where each is started and done; and what fails or is interrupted meanwhile loses nothing.
package.path = "tests/mesh/?.lua;" .. package.path
local tessera = require "tessera"
local core, dist, op, rng, graph, nn, optim = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
local small = require "_pipeline"
tessera.jit.later(false)

-- DEV=cuda, on a machine with two GPUs: these in the place of simulated ones.
local GPU = os.getenv "DEV" or ""
if GPU == "" then GPU = "sim" end

local EAGER = { bucket = 2000, ahead = 3000, chunks = 2 }

local function mesh_of(kind, shape, axes)
  local n, devices = 1, {}
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n do devices[i] = kind == "sim" and ("%s:%d"):format(GPU, (i - 1) % 2) or "cpu:0" end
  return dist.Mesh { axes = axes, shape = shape, devices = devices }
end

-- Losses and weights of a few steps.
local function train(how, kind, shape, axes, plan, steps)
  return dist.overlap(how, function()
    rng.seed(3)
    local mesh = type(kind) == "string" and mesh_of(kind, shape, axes) or kind
    local model = small.Model()
    for _, axis in ipairs(axes) do
      if axis == "tp" then small.split(mesh)(model) end
    end
    local step = graph.training_step(model, small.loss, optim.AdamW(model:parameters(), { lr = 1e-2 }), { mesh = mesh, plan = plan })
    local out = {}
    for i = 1, steps or 2 do out[i] = step(small.batch(i)):hash() end
    local text = step:plan(small.batch(1), select(2, small.batch(1)), "steps")
    return table.concat(out) .. small.hashes(model), text
  end)
end

local function count(text, word) return select(2, ("\n" .. text):gsub("\n  " .. word, "")) end

-- ---- the same bits
local cases = {
  { { 2 }, { "dp" }, {} },
  { { 2 }, { "dp" }, { zero = 1 } },
  { { 3 }, { "dp" }, { zero = 2 } },
  { { 2 }, { "dp" }, { zero = 3 } },
  { { 2 }, { "tp" }, {} },
  { { 2, 2 }, { "dp", "tp" }, { zero = 3 } },
  { { 2 }, { "dp" }, { micro = 2 } },
  { { 2 }, { "pp" }, { pp = { micro = 2 } } },
  { { 2, 2 }, { "dp", "pp" }, { zero = 1, pp = { micro = 2, schedule = "interleaved" } } },
}
dist.leaves(8)
for i, c in ipairs(cases) do
  local want, plain = train(false, "cpu", c[1], c[2], c[3])
  local got, text = train(EAGER, "cpu", c[1], c[2], c[3])
  assert(got == want, "case " .. i)
  assert(count(plain, "start ") == 0 and count(text, "start ") == count(text, "done "), i)
  assert(count(text, "start ") > 0, i)
  if i % 2 == 1 or i == 4 or i == 8 then assert(train(EAGER, "sim", c[1], c[2], c[3], 1) == train(false, "sim", c[1], c[2], c[3], 1), "simulated, case " .. i) end
end
dist.leaves(0)

-- A device for each part: what is started goes in sections beside its own work, also of several places of a pipeline at once.
-- Copies, sums by kernels that meet, and sections, of what f does.
local function ways(f)
  local most = 1e9
  local met, _, sections = core.meets()
  if GPU == "sim" then core.sim_fail("sim:1", "copy", most) end
  local got = f()
  local copies = GPU == "sim" and most - core.sim_fail("sim:1", "copy", 0) or 0
  local met_now, _, sections_now = core.meets()
  return got, copies, met_now - met, sections_now - sections
end
local function apart(how, shape, axes, plan)
  local n, devices = 1, {}
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n do devices[i] = GPU .. ":" .. i - 1 end
  return ways(function()
    return (train(how, dist.Mesh { axes = axes, shape = shape, devices = devices }, shape, axes, plan))
  end)
end
dist.leaves(8)
if GPU == "sim" then
  for _, c in ipairs { cases[1], cases[4], cases[6], cases[9], { { 2, 2 }, { "dp", "pp" }, { pp = { micro = 2 } } } } do
    local want = train(false, "cpu", c[1], c[2], c[3])
    local got, _, met, sections = apart(EAGER, c[1], c[2], c[3])
    assert(got == want and met > 0 and sections > 0)
    got, _, met, sections = apart(false, c[1], c[2], c[3])
    assert(got == want and met > 0 and sections == 0)
  end
end

-- Sums with more elements than so many blocks as run beside other kernels add up at a time: all of them are.
local function wide(how, mesh)
  return dist.overlap(how, function()
    local x = dist.replicate(op.normal({ 128, 8 }, { seed = 1 }), mesh)
    local a, b = dist.shard(op.normal({ 8, 8 }, { seed = 2 }), mesh, { nil, "tp" }), dist.shard(op.normal({ 8, 1024 }, { seed = 3 }), mesh, { "tp" })
    local f = graph.module("wide", function(t, u, v) return op.matmul(op.tanh(op.matmul(t, u)), v) end)
    return f(x, a, b):gather():hash()
  end)
end
if GPU == "sim" then
  local two = dist.Mesh { axes = { "tp" }, devices = { "sim:0", "sim:1" } }
  local want = wide(false, two)
  local got, _, met, sections = ways(function() return wide({ chunks = 2 }, two) end)
  assert(got == want and met > 0 and sections > 0, "wide: " .. met .. " " .. sections)
end

-- Copy engines bring summands, however few bytes these are: of two devices each adds all, of three a range of it.
for n = 2, GPU == "sim" and 3 or 2 do
  local engines = { bucket = 2000, ahead = 3000, chunks = 2, engines = 1 }
  for _, plan in ipairs { {}, { zero = 3 } } do
    local want = train(false, "cpu", { n }, { "dp" }, plan)
    local _, few, all = apart(EAGER, { n }, { "dp" }, plan)
    local got, copies, met = apart(engines, { n }, { "dp" }, plan)
    assert(got == want, "engines, " .. n)
    assert(GPU ~= "sim" or (plan.zero or (copies > few and met < all)), "no engine, " .. n)
  end
end
dist.leaves(0)
dist.overlap({ engines = 4096 }, dist.overlap).engines --> 4096

-- Experts.
local function experts(how, kind)
  return dist.overlap(how, function()
    rng.seed(5)
    local mesh = mesh_of(kind, { 2 }, { "ep" })
    local model = nn.MoE(16, 24, { experts = 4, k = 2, bias = false })
    local step = graph.training_step(model, function(m, x, y) return op.mse((m(x)), y) end, optim.SGD(model:parameters(), { lr = 0.1 }), { mesh = mesh })
    local x = rng.normal { 12, 16 }
    return step(x, x):hash() .. step(x, x):hash()
  end)
end
experts(EAGER, "cpu") == experts(false, "cpu") --> true

-- What the CPU makes of a part, as it does draws, is sent and computed with: here rows of uneven parts that gradients need whole.
local function drawn(how)
  return dist.leaves(8, dist.overlap, how, function()
    rng.seed(3)
    local model = nn.Linear(4, 5)
    local step = graph.training_step(model, function(m, x) return op.dropout(m(x), { p = 0.1 }):square():mean() end,
      optim.SGD(model:parameters(), { lr = 0.1 }), { mesh = mesh_of("sim", { 2 }, { "dp" }) })
    local x = rng.normal { 5, 2, 4 }
    return step(x):hash() .. step(x):hash() .. model.weight:hash()
  end)
end
drawn { bucket = 1 } == drawn(false) --> true

-- A mesh of several kinds of devices does all in its place.
local function starts(devices)
  local mesh = dist.Mesh { axes = { "dp" }, devices = devices }
  local model, x = nn.Linear(64, 64), rng.normal { 8, 64 }
  local step = graph.training_step(model, function(m, y) return op.tanh(m(op.tanh(m(y)))):mean() end, optim.SGD(model:parameters(), { lr = 0.1 }), { mesh = mesh })
  local text = dist.overlap({ bucket = 1 }, step.plan, step, x, "steps")
  return text:find "\n  start " ~= nil
end
starts { "sim:0", "sim:1" }, starts { "cpu:0", "sim:0" } --> true, false

-- ---- the plan
local Net = nn.Module:extend "Net"
function Net:init()
  self.layers = nn.List()
  for i = 1, 4 do self.layers[i] = nn.Linear(16, 16, { bias = false }) end
end
function Net:forward(x)
  for _, layer in ipairs(self.layers) do x = x + op.tanh(layer(x)) end
  return x
end
local function net(how, kind, plan)
  return dist.overlap(how, function()
    rng.seed(3)
    local model = Net()
    local mesh = mesh_of(kind, { 2 }, { "dp" })
    local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end, optim.AdamW(model:parameters(), { lr = 1e-2 }),
      { mesh = mesh, plan = plan })
    local x, y = rng.normal { 32, 16 }, rng.normal { 32, 16 }
    return model, step, x, y
  end)
end
-- Steps in short: pieces of part 0, and what is sent.
local function short(how, plan)
  return dist.overlap(how, function()
    local _, step, x, y = net(how, "cpu", plan)
    local out, text = {}, step:plan(x, y, "steps")
    for line in text:gmatch "[^\n]+" do
      local n = line:match "^stage (%d+) part 0"
      local does, to = line:match "^  (%l+ ?%l*) %%%d+ %S+ %-> %%%d+ (%S+)"
      out[#out + 1] = n and "stage " .. n or does and not line:find(" = ", 1, true) and does .. " " .. to or nil
    end
    return table.concat(out, "\n")
  end)
end
short({ bucket = 2048 }, {}) --> stage 0
--> start sum f32[16,16]
--> start sum f32[16,16]
--> stage 1
--> start sum f32[16,16]
--> start sum f32[16,16]
--> done sum f32[16,16]
--> done sum f32[16,16]
--> stage 2
--> sum f32[]
--> done sum f32[16,16]
--> done sum f32[16,16]
--> stage 3
short(false, {}) --> stage 0
--> sum f32[]
--> sum f32[16,16]
--> sum f32[16,16]
--> sum f32[16,16]
--> sum f32[16,16]
--> stage 1

-- ---- chunks of a product
local function mlp(how, kind)
  return dist.overlap(how, function()
    local mesh = mesh_of(kind, { 2 }, { "tp" })
    local x = dist.replicate(op.normal({ 64, 16 }, { seed = 1 }), mesh)
    local a, b = dist.shard(op.normal({ 16, 32 }, { seed = 2 }), mesh, { nil, "tp" }), dist.shard(op.normal({ 32, 16 }, { seed = 3 }), mesh, { "tp" })
    local f = graph.module("mlp", function(t, u, v) return op.matmul(op.gelu_tanh(op.matmul(t, u)), v) end)
    local y = f(x, a, b)
    return y:gather():hash(), #dist.sent(4), f:why().remarks, f(x, a, b):gather():hash()
  end)
end
local want = mlp(false, "cpu")
for _, kind in ipairs { "cpu", "sim" } do
  for _, n in ipairs { 1, 2, 4, 8 } do
    local got, _, _, again = mlp({ chunks = n }, kind)
    assert(got == want and again == want, n)
  end
end
local _, _, remarks = mlp({ chunks = 4 }, "cpu")
remarks[#remarks]:match "^matmul at tests/mesh/overlap.lua:%d+: its sum is sent in 4 chunks of rows, each behind its rows of 1 product: about %S+ us by costs, %S+ as one$" ~= nil --> true
local _, _, remarks = mlp(true, "cpu")
remarks[#remarks]:match "^matmul at tests/mesh/overlap.lua:%d+: its sum is sent as one: about %S+ us by costs, %S+ in 2 chunks$" ~= nil --> true

-- ---- what fails meanwhile
local function state(model)
  local list = {}
  for i, p in ipairs(model:parameters()) do list[i] = p:hash() end
  return table.concat(list, " ")
end
local function held() collectgarbage() collectgarbage() return tessera.memory().live end
dist.overlap(EAGER)
for _, plan in ipairs { {}, { zero = 3 } } do
  local model, step, x, y = net(EAGER, "sim", plan)
  step(x, y)
  step(x, y)
  local before, live, failed = state(model), held(), 0
  for n = 1, GPU == "sim" and 400 or 0, 3 do
    core.sim_fail("sim:1", "launch", n)
    local fine = pcall(step, x, y)
    core.sim_fail("sim:1", "launch", 0)
    if fine then break end
    failed = failed + 1
    assert(state(model) == before, "mixed behind launch " .. n)
  end
  assert(failed > 5 or GPU ~= "sim", failed)
  before = state(model)
  for n = 1, 400, 13 do
    core.fail_after(n)
    local fine = pcall(step, x, y)
    core.fail_after(0)
    if fine then before = state(model) end
    assert(state(model) == before, "mixed behind allocation " .. n)
    core.interrupt_after(n, "looks")
    fine = pcall(step, x, y)
    core.interrupt_after(0)
    if fine then before = state(model) end
    assert(state(model) == before, "mixed behind look " .. n)
  end
  step(x, y)
  assert(held() - live < 10000, held() - live)
end
dist.overlap "auto"

-- ---- what is said
dist.overlap() --> auto
dist.overlap(function() end) --! dist.overlap: it is true, false, "auto" or a table such as {bucket = 2^20}, not function
dist.overlap "on" --! {bucket = 2^20}, not 'on'
dist.overlap { buckets = 3 } --! dist.overlap: unknown option 'buckets'
dist.overlap { bucket = 0.5 } --! dist.overlap: option 'bucket' must be a whole number >= 1, not 0.5
dist.overlap { chunks = 9 } --! dist.overlap: option 'chunks' must be a whole number in [1, 8], not 9
dist.overlap({ bucket = 2 ^ 20 }, dist.overlap).bucket --> 1048576
dist.overlap() --> auto
