-- L-BFGS over a mesh: the same bits on one device and on several, also where a parameter moves nothing and where
-- a gradient is made of constants alone; what a spread function makes of constants lies on each device.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph
dist.leaves(8)

local function along(f) return function(x) return (select(2, graph.jvp(f)(x, 1))) end end
local losses = {
  value = function(m, x) return (m(x) - x:sum { axis = 1, keepdims = true }):square():mean() end,
  slope = function(m, x) return (along(m)(x) - 1):square():mean() end,
  bend = function(m, x) return (along(along(m))(x) + m(x)):square():mean() end,
}
local function devices_of(kind, n)
  local list = {}
  for i = 1, n do list[i] = kind == "sim" and "sim:" .. i - 1 or "cpu:0" end
  return list
end
local function trained(loss, devices)
  rng.seed(4)
  local model = nn.Sequential { nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1) }
  local mesh = devices and dist.Mesh { axes = { "dp" }, shape = { #devices }, devices = devices }
  local step = graph.training_step(model, loss, optim.LBFGS(model:parameters(), { iterations = 4 }), { mesh = mesh })
  local x, out = rng.normal { 16, 3 }, {}
  for i = 1, 3 do out[i] = step(x):item() end
  for _, p in ipairs(model:parameters()) do out[#out + 1] = p:hash() end
  assert(out[3] < out[1], "it learns nothing")
  return table.concat(out, " ")
end
for name, loss in pairs(losses) do
  local want = trained(loss)
  for _, n in ipairs { 1, 2, 4 } do assert(trained(loss, devices_of("cpu", n)) == want, name .. " on " .. n) end
  assert(trained(loss, devices_of("sim", 2)) == want, name .. " on devices with memories of their own")
end

local mesh = dist.Mesh { axes = { "dp" }, shape = { 2 }, devices = devices_of("sim", 2) }
local w = nn.Linear(4, 4)
local step = graph.training_step(w, function(m, x) return m(x):mean(), op.ones { 3, 4 } * 2 end, optim.SGD(w:parameters(), { lr = 0.1 }), { mesh = mesh })
local _, constant = step(rng.normal { 8, 4 })
constant:parts()[2].device --> sim:1
dist.leaves(0)
