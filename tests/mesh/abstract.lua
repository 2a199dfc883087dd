-- Models that are planned with, for devices that are not there: their plan is that of devices that are.
local tessera = require "tessera"
local op, optim, graph, dist = tessera.op, tessera.optim, tessera.graph, tessera.dist
local _, GPT = dofile "scripts/bench/gpt.lua"

local function plan(devices, abstract, how)
  local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 4, 2 }, devices = devices }
  local new = abstract and function(...) return dist.abstract(mesh, GPT, ...) end or GPT
  local model = new(2, 32, 4, 16, 64)
  local step = graph.training_step(model, function(m, x, y) return op.cross_entropy(m(x), y) end,
    optim.AdamW(model:parameters(), { lr = 1e-3 }), { mesh = mesh, plan = how })
  local x = abstract and dist.tensor { shape = { 8, 16 }, dtype = "i64", mesh = mesh, layout = { "dp" }, abstract = true }
    or op.zeros({ 8, 16 }, { dtype = "i64" })
  return tostring(step:plan(x, x))
end

local here = {}
for i = 1, 8 do here[i] = "cpu:0" end
for _, how in ipairs { {}, { zero = 1 }, { zero = 3 }, { micro = 2 }, { zero = 2, micro = 2 } } do
  for _, overlap in ipairs { false, true } do -- devices that are not there are as GPUs, which send beside what they compute
    local want, got = dist.overlap(overlap, plan, here, false, how), dist.overlap(overlap, plan, dist.range(1000, 1008), true, how)
    assert(want == got, want .. got)
    assert(want:find "dp=3 tp=1 begins with", want)
  end
end

-- Many devices, and a model that no machine has room for.
local far = dist.Mesh { axes = { "dp", "tp" }, shape = { 64, 8 }, devices = dist.range(1000, 1512) }
local large = dist.abstract(far, GPT, 3, 16384, 128, 4096, 50304)
assert(large:num_parameters() > 1e10)
local step = graph.training_step(large, function(m, x, y) return op.cross_entropy(m(x), y) end,
  optim.AdamW(large:parameters(), { lr = 1e-3 }), { mesh = far, plan = { zero = 3 } })
local ids = dist.tensor { shape = { 64, 4096 }, dtype = "i64", mesh = far, layout = { "dp" }, abstract = true }
tostring(step:plan(ids, ids)):match "and so have the next %d+" --> and so have the next 511
dist.abstract(far, function() return op.normal { 1e6, 1e6 } end) --> planned f32[1000000,1000000] on dp=64 tp=8
dist.abstract(3, print) --! dist.abstract: mesh must be a dist.Mesh, not a number
dist.abstract(far, 5) --! dist.abstract: a function is needed, not a number
op.zeros({ 2 }):sum():item() --> 0

-- Weights that are split by tp are by ZeRO-3 split by dp as well: a device begins with its piece of them and of their states.
local function held(zero, devices)
  local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 4, 2 }, devices = devices }
  local w = dist.tensor { shape = { 64, 32 }, mesh = mesh, layout = { nil, "tp" }, init = "normal", abstract = devices[1] ~= "cpu:0" }
  w.requires_grad = true
  local two = graph.training_step(w, function(m, x) return op.matmul(x, m):square():mean() end, optim.SGD({ w }, { lr = 1, momentum = 0.9 }),
    { mesh = mesh, plan = { zero = zero } })
  local x = dist.tensor { shape = { 8, 64 }, mesh = mesh, layout = { "dp" }, init = "ones", abstract = devices[1] ~= "cpu:0" }
  local text = tostring(two:plan(x))
  if devices[1] == "cpu:0" then two(x) end
  return text:match "dp=3 tp=1 begins with ([^,]*)"
end
for _, devices in ipairs { here, dist.range(1000, 1008) } do
  for zero, want in pairs { [0] = "8.52 KiB", "5.52 KiB", "5.52 KiB", "2.52 KiB" } do
    assert(held(zero, devices) == want, ("zero %d: %s"):format(zero, held(zero, devices)))
  end
end

-- What was made so often that it is put off is planned all the same.
for _ = 1, 200 do op.normal({ 16, 16 }):mul(2):add(1) end
local often = dist.abstract(far, function() return op.normal({ 16, 16 }):mul(2):add(1) end)
print(often) --> planned f32[16,16] on dp=64 tp=8
