-- A step on a mesh gives parameters and states their new elements without copying them, and all of them or none: whatever fails,
-- and whoever looks at them.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph, core = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph, tessera.core

local function mesh(...) return dist.Mesh { axes = { "dp" }, devices = { ... } } end
local function model_of(layers)
  rng.seed(1)
  local list = {}
  for i = 1, layers do list[i] = nn.Linear(12, 12) end
  return nn.Sequential(unpack(list))
end
local function step_of(model, m, zero)
  return graph.training_step(model, function(f, x) return f(x):square():mean() end,
    optim.AdamW(model:parameters(), { lr = 1e-2 }), { mesh = m, plan = zero and { zero = zero } })
end

-- ---- nothing is copied: what a step copies does not grow with the number of parameters
local function assigned(layers, m, zero)
  local step, x = step_of(model_of(layers), m, zero), op.normal({ 8, 12 }, { seed = 4 })
  step(x)
  local copied, given = core.assignments()
  step(x)
  local copied2, given2 = core.assignments()
  return copied2 - copied, given2 - given
end
for _, devices in ipairs { { "cpu:0", "cpu:0" }, { "sim:0", "sim:1" } } do
  local few, given = assigned(2, mesh(unpack(devices)))
  assert(given == 2 * 2 * 3 * 2, given) -- layers, weight and bias, with two moments, on two devices
  local many, more = assigned(5, mesh(unpack(devices)))
  assert(more == 5 * 2 * 3 * 2 and many == few, ("%d copies, %d with more layers"):format(few, many))
  for zero = 1, 3 do
    local _, all = assigned(2, mesh(unpack(devices)), zero)
    assert(all == given, ("zero %d: %d are given"):format(zero, all))
  end
end

-- ---- who looks at a parameter sees its new elements
local function seen(device)
  local model = model_of(1)
  local step, x = step_of(model, mesh(device, device), 1), op.normal({ 8, 12 }, { seed = 4 })
  step(x)
  local w = model:parameters()[1]
  local row, part = w:detach():narrow(0, 1, 2), w:parts()[2]
  local turned = part:detach():T()
  local before = w:hash()
  step(x)
  local now = w:detach():gather()
  return before ~= w:hash() and row:hash() == now:narrow(0, 1, 2):hash() and
    turned:hash() == part:detach():T():contiguous():hash() and part:hash() ~= before
end
seen "cpu:0" --> true
seen "sim:0" --> true

-- ---- a new value that is handed out as well, or goes to two, is everybody's own
local function twice(x, y)
  local f = graph.module("twice", function(a, b)
    local v = a * 2 + 1
    a:copy_(v)
    b:copy_(v)
    return v
  end)
  local v = f(x, y)
  x:add_(1)
  return ("%g %g %g"):format(x:max():item(), y:max():item(), v:max():item())
end
for _, device in ipairs { "cpu:0", "sim:0" } do
  local m = mesh(device, device)
  assert(twice(dist.shard(op.ones { 4, 3 }, m, { "dp" }), dist.shard(op.zeros { 4, 3 }, m, { "dp" })) == "4 3 3")
  assert(twice(dist.replicate(op.ones { 4, 3 }, m), dist.replicate(op.zeros { 4, 3 }, m)) == "4 3 3")
end

-- ---- all or none of a step's tensors, wherever memory runs out or Ctrl-C comes
local function state(model, opt)
  local out = {}
  for _, p in ipairs(model:parameters()) do out[#out + 1] = p:hash() end
  local saved = opt:state_dict()
  for _, s in pairs(saved.state or {}) do
    for _, t in pairs(s) do if type(t) ~= "number" then out[#out + 1] = t:hash() end end
  end
  return table.concat(out, " ")
end
local function walk(devices, set, left, why, zero)
  local function new()
    local model = model_of(2)
    local opt = optim.AdamW(model:parameters(), { lr = 1e-2 })
    return model, opt, graph.training_step(model, function(f, x) return f(x):square():mean() end, opt,
      { mesh = mesh(unpack(devices)), plan = { zero = zero } })
  end
  local model, opt, step = new()
  local model2, opt2, step2 = new() -- one step ahead
  local x, failed = op.normal({ 8, 12 }, { seed = 4 }), 0
  for _ = 1, 3 do step(x) end
  for _ = 1, 4 do step2(x) end
  local before, behind = state(model, opt), state(model2, opt2)
  for n = 1, 4000, 3 do
    local came = true -- Ctrl-C may come behind the step
    set(n)
    local done, said = pcall(function()
      step(x)
      came = left()
    end)
    left()
    local now = state(model, opt)
    if not done and not tostring(said):find(why, 1, true) then return tostring(said) end
    if now ~= behind and (done or now ~= before) then return ("half of it is written: %d"):format(n) end
    failed = failed + (done and 0 or 1)
    if not came then return failed > 5 and "all or none" or failed end
    if now == behind then
      step2(x)
      before, behind = behind, state(model2, opt2)
    end
  end
end
for zero = 0, 3, 3 do
  for _, devices in ipairs { { "cpu:0", "cpu:0" }, { "sim:0", "sim:1" } } do
    local said = walk(devices, function(n) core.fail_after(n, "on") end, function() return core.fail_after(0) < 0 end, "out of memory", zero)
    assert(said == "all or none", ("%s, zero %d: %s"):format(devices[2], zero, said))
    said = walk(devices, function(n) core.interrupt_after(n, "looks") end, function() return core.interrupt_after(0, "looks") <= 0 end, "interrupted", zero)
    assert(said == "all or none", ("%s, zero %d: %s"):format(devices[2], zero, said))
  end
end

-- ---- the same of what a program assigns at once
local function together(devices)
  local m = mesh(unpack(devices))
  for n = 1, 2000 do
    local a, b = dist.shard(op.zeros { 6, 4 }, m, { "dp" }), dist.replicate(op.zeros { 5 }, m)
    local c = op.zeros { 3 }
    local from = { dist.shard(op.ones { 6, 4 }, m, { nil, "dp" }), op.ones({ 5 }, { dtype = "f64" }), op.ones { 1 } }
    core.fail_after(n, "on")
    local done, why = pcall(core.assign_all, { a, b, c }, from)
    local failed = core.fail_after(0) < 0
    local sum = a:sum():item() + b:sum():item() + c:sum():item()
    if not done and not tostring(why):find("out of memory", 1, true) then return tostring(why) end
    if sum ~= (done and 32 or 0) then return ("half of it is written: allocation %d"):format(n) end
    if done and not failed then return n > 5 and "all or none" end
  end
end
together { "cpu:0", "cpu:0", "cpu:0" } --> all or none
together { "cpu:0", "sim:0", "sim:1" } --> all or none
