-- Sums of gradients, where what fails is the call that would update: the calls behind it give the bits of a run in
-- which nothing failed, with that call's batch or, if it failed before it was added, without it.
local tessera = require "tessera"
local core = require "tessera.core"
local op, nn, optim, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng
local x = rng.normal({ 8, 16, 3 }, { seed = 1, stream = 1 })
local y = x:sum { axis = 2, keepdims = true }
local batches = {}
for i = 0, 7 do batches[i] = { x[i], y[i] } end
local function loss(m, x, y) return op.mse(m(x), y) end

-- upset(call): the fourth call, with something that goes wrong.
local function run(upset)
  core.seed(4)
  local model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
  local opt = optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 })
  local ema = optim.EMA(model:parameters(), 0.5)
  local step = graph.training_step(model, loss, opt, { accumulate = 2, ema = ema,
    scale = { scale = 4, interval = 2 }, schedule = function(s) return 0.1 / (s + 1) end })
  for i = 0, 2 do step(unpack(batches[i])) end
  upset(function() step(unpack(batches[3])) end)
  for i = 4, 7 do step(unpack(batches[i])) end
  local parts = { tostring(opt.steps), tostring(step.scaler.scale) }
  for _, list in ipairs { model:parameters(), ema.average } do
    for _, t in ipairs(list) do parts[#parts + 1] = t:hash() end
  end
  return table.concat(parts, " ")
end

local kinds = {
  memory = { function(n) core.fail_after(n) end, function() return core.fail_after(0) < 0 end },
  instruction = { function(n) core.interrupt_after(n, "instructions") end,
    function() core.interrupt_after(0) return false end },
  change = { function(n) core.interrupt_after(n) end, function() return core.interrupt_after(0) < 0 end },
}
local function walk(name)
  local set, clear = unpack(kinds[name])
  local whole, without = run(function(call) call() end), run(function() end)
  local n, came, later = 1, true, 0
  while came and n < 4000 do
    local got = run(function(call)
      local ok = pcall(function()
        set(n)
        call()
        came = clear()
      end)
      if not ok then came = clear() or true end
    end)
    if got ~= whole and got ~= without then return ("%s %d: neither with the batch nor without it"):format(name, n) end
    if came and got == whole then later = later + 1 end
    n = n < 12 and n + 1 or math.floor(n * 1.15)
  end
  return later > 0 and "all is well" or name .. ": nothing failed behind the sums"
end

core.profile "strict"
graph.eager = true
walk "memory" --> all is well
walk "instruction" --> all is well
walk "change" --> all is well
graph.eager = false
walk "memory" --> all is well
walk "instruction" --> all is well
walk "change" --> all is well
