-- Whether a step fits, and what to change: each change is a plan that was made, and a step that is made so has no more bytes.
local tessera = require "tessera"
local dist, op, nn, optim, graph, rng = tessera.dist, tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng

local function mesh_of(axes, shape, first)
  local n, devices = 1, {}
  for _, k in ipairs(shape) do n = n * k end
  for i = 1, n do devices[i] = "cpu:0" end
  return dist.Mesh { axes = axes, shape = shape, devices = first and dist.range(first, first + n) or devices }
end

local Net = nn.Module:extend "Net"
function Net:init()
  self.layers = nn.List()
  for i = 1, 4 do self.layers[i] = nn.Linear(32, 32) end
end
function Net:forward(x)
  for _, layer in ipairs(self.layers) do x = x + op.tanh(layer(x)) end
  return x
end

local function step_of(mesh, plan, abstract)
  rng.seed(1)
  local model = abstract and dist.abstract(mesh, Net) or Net()
  return graph.training_step(model, function(m, x) return m(x):square():mean() end, optim.AdamW(model:parameters(), { lr = 1e-3 }),
    { mesh = mesh, plan = plan })
end
local function batch(mesh, abstract)
  if not abstract then return op.ones { 64, 32 } end
  return dist.tensor { shape = { 64, 32 }, mesh = mesh, layout = { "dp" }, abstract = true }
end
local function peak(step, x)
  local most = 0
  for n, unit in tostring(step:plan(x)):gmatch "has at most ([%d.]+) (%a+)" do
    most = math.max(most, tonumber(n) * ({ bytes = 1, KiB = 2 ^ 10, MiB = 2 ^ 20 })[unit])
  end
  return most
end

-- Every change that is named is made once more, on a mesh of its own, and fits.
local function check(axes, shape, plan, memory, abstract)
  local mesh = mesh_of(axes, shape, abstract and 1000)
  local step, x = step_of(mesh, plan, abstract), batch(mesh, abstract)
  local before = step:plan(x)
  local fit = step:fits(x, { memory = memory })
  assert(step:plan(x) == before, "a question changes nothing")
  for _, c in ipairs(fit.changes) do
    local other = c.mesh or mesh_of(axes, shape, abstract and 1000)
    local planned = abstract or c.mesh ~= nil
    local again, y = step_of(other, c.plan, planned), batch(other, planned)
    local need = peak(again, y)
    assert(need <= fit.memory * 1.005 and math.abs(need - c.peak) <= 0.005 * need, ("%s: %s instead of %s"):format(c.text, need, c.peak))
    if not planned then again(y) end
  end
  return fit
end

check({ "dp" }, { 4 }, {}, "1 MiB").fits --> true
print(check({ "dp" }, { 4 }, {}, "100 KiB")) --> it does not fit: dp=0 has at most 118 KiB of 100 KiB
-->   with zero = 1: at most 67.4 KiB
print(check({ "dp", "pp" }, { 2, 2 }, { pp = { micro = 2 } }, "62 KiB", true)) --> it does not fit: dp=0 pp=1 has at most 63.3 KiB of 62.0 KiB
-->   with zero = 1: at most 55.0 KiB
-->   with micro = 8: at most 61.8 KiB
print(check({ "dp", "pp" }, { 2, 2 }, { pp = { micro = 2 } }, 60e3, true)) --> it does not fit: dp=0 pp=1 has at most 63.3 KiB of 58.6 KiB
-->   with zero = 1: at most 55.0 KiB
-- What no plan can do on these devices, more devices may.
print(check({ "dp", "pp" }, { 2, 2 }, { pp = { micro = 2 } }, "35 KiB", true)) --> it does not fit: dp=0 pp=1 has at most 63.3 KiB of 35.0 KiB
-->   with zero = 3, a mesh of dp=8 pp=2: at most 33.6 KiB
print(check({ "dp" }, { 2 }, { zero = 3 }, "50 KiB")) --> it does not fit: dp=0 has at most 110 KiB of 50.0 KiB
-->   with a mesh of dp=16: at most 42.6 KiB
print((tostring(check({ "dp" }, { 2 }, {}, 1000)):gsub("%d+ other", "so many other"))) --> it does not fit: dp=0 has at most 120 KiB of 1000 bytes
-->   none of so many other plans that were tried fits; the least is 36.5 KiB, with zero = 3, a mesh of dp=64

local plain = graph.training_step(nn.Linear(2, 2), function(m, x) return m(x):mean() end, optim.SGD({ op.ones { 2 } }, { lr = 1 }))
plain:fits(op.ones { 2, 2 }, { memory = 1 }) --! step:fits: the step is on no mesh
local step = step_of(mesh_of({ "dp" }, { 2 }), {})
step:fits(batch(), { memory = "80 Gib" }) --! option 'memory' must be bytes, or a text as "80 GiB", not '80 Gib'
step:fits(batch(), { memorry = 3 }) --! did you mean 'memory'?
step:fits(batch()) --! it takes a batch and {memory = ..}
