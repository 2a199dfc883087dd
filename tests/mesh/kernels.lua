-- The kernels of a training step on a mesh of one device are those of the step without a mesh, but for the rows that it counts
-- and the losses that it adds up; on two devices what is sent is added to them.
local tessera = require "tessera"
local op, dist, rng, graph, nn, optim = tessera.op, tessera.dist, tessera.rng, tessera.graph, tessera.nn, tessera.optim
tessera.jit.later(false)

local Net = nn.Module:extend "Net"
function Net:init() self.up, self.norm, self.head = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 24, { bias = false }) end
function Net:forward(x) return self.head(self.norm(op.tanh(self.up(x)))) end

-- Launches by name, of one device.
local function kernels(n)
  rng.seed(1)
  local devices = {}
  for i = 1, n do devices[i] = ("sim:%d"):format(i - 1) end
  local mesh = n > 0 and dist.Mesh { axes = { "dp" }, devices = devices } or nil
  local model, b = Net(), 4 * math.max(n, 1)
  if not mesh then model:to "sim:0" end
  local step = graph.training_step(model, function(...)
    return tessera.autocast("bf16", function(m, x, y) return op.cross_entropy(m(x), y) end, ...)
  end, optim.AdamW(model:parameters(), { lr = 1e-3 }), mesh and { mesh = mesh } or nil)
  local x, y = rng.normal({ b, 8, 16 }):to "sim:0", rng.randint({ b, 8 }, { low = 0, high = 24 }):to "sim:0"
  for _ = 1, 5 do step(x, y) end
  local count = {}
  for _, k in ipairs(tessera.profile.measure(step, { args = { x, y } }).kernels) do
    local name = k.name:gsub(" at .*", "")
    if k.device == "sim:0" then count[name] = (count[name] or 0) + k.launches end
  end
  return count
end

local own = kernels(0)
own["cast cross_entropy cross_entropy_grad cast"] --> 1

-- What is there besides, or not as often.
local function more(n)
  local list, there = {}, kernels(n)
  for name, k in pairs(there) do
    if k ~= own[name] then list[#list + 1] = name end
  end
  for name in pairs(own) do
    if not there[name] then list[#list + 1] = "no " .. name end
  end
  table.sort(list)
  return table.concat(list, ", ")
end
more(1) --> cast, cast div, count_nonzero, indices, ne, sum div
more(2) --> add, cast, cast div, cast layernorm_grad cast mul cast sum, count_nonzero, div, indices, ne, no cast layernorm_grad cast mul sum, sum

-- Steps of an optimiser whose results leave are one piece of work, as those in place are.
local steps = graph.module("steps", function(p, q, g)
  local a, b, c = op.adam_step(p, g, g, g, { lr = 0.1, step = 1 })
  local d, e, h = op.adam_step(q, g, g, g, { lr = 0.1, step = 1 })
  return a, b, c, d, e, h
end)
local one, two = op.ones { 8 }, op.full({ 8 }, 2)
local a, _, _, d = steps(one, two, one)
steps:ir "bytecode":match "group of %d" --> group of 2
a:hash() == op.adam_step(one, one, one, one, { lr = 0.1, step = 1 }):hash() --> true
d:hash() == op.adam_step(two, one, one, one, { lr = 0.1, step = 1 }):hash() --> true
