-- Functions and hot loops that move to a device by themselves: the same bits, bytes that stay
-- where they are used, results that belong to the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, nn, optim, rng, jit = tessera.core, tessera.op, tessera.graph, tessera.nn, tessera.optim, tessera.rng, tessera.jit
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local function train(n)
  core.seed(3)
  local model = nn.Sequential(nn.Linear(2, 32), op.tanh, nn.LayerNorm(32), nn.Linear(32, 1))
  local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end,
    optim.AdamW(model:parameters(), { lr = 1e-2 }))
  local loss
  for _ = 1, n do loss = step(rng.normal { 64, 2 }, rng.normal { 64, 1 }) end
  local list = { loss:hash() }
  for _, p in ipairs(model:parameters()) do list[#list + 1] = p:hash() end
  return table.concat(list, " ")
end
local want = train(25)

-- Eager code: a loop that becomes a trace.
local function loop(n)
  local x = op.arange(60000):cast "f32" * 0.001
  local m = x * 0
  for _ = 1, n do
    local g = (x * 2 - 1):tanh()
    m = m * 0.9 + g * 0.1
    x = x - m * 0.01
  end
  return x:hash() .. m:hash()
end
jit.off()
local steps = loop(60)
jit.on()

core.jit_move(name)
jit.eager(true)
jit.traces(true)
train(25) == want --> true
loop(60) == steps --> true
jit.eager(false)
train(25) == want --> true
loop(60) == steps --> true
core.jit_move(nil)

-- A kernel of the program's own has arguments beside what was computed there.
local scaled = op.kernel("scaled", { x = "f32[N]", s = "f32[N]" }, { y = "f32[N]" }, function(t, x, s, y)
  for i in t:rows(x) do y[i] = x[i] * s[i] end
end)
local function by(x)
  local _, v = op.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, scaled(x, v:sin()) end,
    op.full({}, 0, { dtype = "i64" }), x)
  return scaled(x, x:exp() * 2) + scaled(v, op.ones { 40 }):cos()
end
local moved, given = graph.module("moved", by), op.arange(40):cast "f32" / 40
local bits = by(given):hash()
core.jit_move(name)
jit.eager(true)
local ran = jit.device().calls
for i = 1, 6 do
  local y = moved(given)
  assert(y:hash() == bits and y.device == "cpu:0", i)
end
jit.device().calls > ran --> true
jit.eager(false)
core.jit_move(nil)

-- What stays: parameters that are updated are fetched when somebody looks, not before.
local w = op.ones { 1000 }
local f = graph.module("f", function(x) w:add_(x * 0.5) return (w * w):sum() end)
core.jit_move(name)
jit.eager(true)
local y
for _ = 1, 20 do y = f(op.ones { 1000 }) end
y.device --> cpu:0
w.device --> cpu:0
w[3]:item() --> 11
y:item() --> 121000
local live = tessera.memory().live
w:add_(1)
f(op.ones { 1000 }):item() --> 156250
jit.eager(false)
core.jit_move(nil)
f(op.ones { 1000 }):item() --> 169000
