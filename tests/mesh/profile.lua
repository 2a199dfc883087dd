-- Profiles of what runs on a mesh: each collective with its operator, axis, bytes, time, bandwidth, overlap, and who waited for
-- whom; in the text, as a table, in files, and in those of whole programs.
local tessera = require "tessera"
local core, dist, op, rng, graph, nn, optim = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
local profile = tessera.profile
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)
local function read(name)
  local f = assert(io.open(folder .. "/" .. name))
  local text = f:read "*a"
  f:close()
  return text
end

local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { "cpu:0", "sim:0", "cpu:0", "sim:1" } }
local x, w = dist.shard(rng.normal { 64, 32 }, mesh, { "dp", "tp" }), dist.shard(rng.normal { 32, 64 }, mesh, { "tp" })
local f = graph.module("f", function(x, w) return op.softmax(op.matmul(x, w)) * 2 end)
local at = "tests/mesh/profile.lua:18"
local r = profile.measure(f, { args = { x, w }, runs = 3, marks = false, trace = folder .. "/f.json", csv = folder .. "/f.csv", html = folder .. "/f.html" })
#r.collectives --> 1
local c = r.collectives[1]
c.kind, c.operator, c.axes[1], c.bytes, c.calls, c.where == at --> all_reduce, matmul, tp, 32768, 1, true
c.time_ns > 0, c.overlap --> true, 0
math.abs(c.bus_bandwidth * c.time_ns / 1e9 - 32768 / 4) < 1e-3 --> true
-- Whoever came last waited for nobody; all others for it.
local last, waits = 0, {}
for i, each in ipairs(c.waits) do
  waits[i] = each.device
  if each.time_ns == 0 then last = last + 1 end
  assert(each.waits_for ~= each.device and (each.waits_for or each.waits_for_reason), each.device)
end
table.concat(waits, " "), last <= 1 --> cpu:0 sim:0 sim:1, true
tostring(r):match "bus GB/s  overlap     bytes  sent\n[^\n]*  all_reduce of matmul over tp at tests/mesh/profile.lua:18\n    waited: " ~= nil --> true
read "f.collectives.csv":match "^collective,operator,axes,place,at_once,calls,us,bytes,bus_gb_per_s,overlap,device,waited_us,waits_for,reason\nall_reduce,\"matmul\",\"tp\"," ~= nil --> true
local json = read "f.json"
json:find('"name":"devices of the mesh"', 1, true) ~= nil, json:find('"name":"all_reduce of matmul over tp"', 1, true) ~= nil --> true, true
json:find('"name":"waits for ', 1, true) ~= nil, json:find('"name":"computes"', 1, true) ~= nil --> true, true
read "f.html":find("What devices sent each other", 1, true) ~= nil --> true

-- Calls at once, by hand, gathered: what dist.sent() says, in its order, with the same bytes.
local function eager()
  local y = op.matmul(x, w, { out = { "dp", "tp" } })
  y:reshard { nil, "tp" }:gather()
  dist.map(mesh, { { "dp" } }, { {} }, function(part) return dist.all_reduce(part:sum { axis = 0 }, "dp") end)(dist.shard(op.ones { 4, 3 }, mesh, { "dp" }))
end
eager()
local before = core.mesh_sent()
eager()
local _, sent = core.mesh_sent(before)
local want, got = {}, {}
for i, s in ipairs(sent) do want[i] = ("%s %s %d"):format(s.kind, s.operator, s.bytes) end
local told = profile.measure(eager, { runs = 2, warm = 1 })
for i, s in ipairs(told.collectives) do
  got[i] = ("%s %s %d"):format(s.kind, s.operator, s.bytes)
  assert(s.calls == 1, s.kind)
end
table.concat(got, "\n") == table.concat(want, "\n") or table.concat(got, "\n") .. "\n--\n" .. table.concat(want, "\n") --> true

-- A pipeline: each micro-batch sends its part of what all send.
local Net = nn.Module:extend "Net"
function Net:init() self.layers = nn.List { nn.Linear(8, 8), nn.Linear(8, 8) } end
function Net:forward(x)
  for _, layer in ipairs(self.layers) do x = op.tanh(layer(x)) end
  return x
end
dist.leaves(4)
local line = dist.Mesh { axes = { "pp" }, devices = { "sim:0", "sim:1" } }
local model = Net()
local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end, optim.SGD(model:parameters(), { lr = 0.1 }),
  { mesh = line, plan = { pp = { micro = 2 } } })
local a, b = rng.normal { 16, 8 }, rng.normal { 16, 8 }
step(a, b)
local function sums(list, calls)
  local by = {}
  for _, s in ipairs(list) do by[s.kind .. " " .. (s.operator or "")] = (by[s.kind .. " " .. (s.operator or "")] or 0) + s.bytes * calls(s) end
  return by
end
local planned = sums(step:collectives(a, b), function() return 1 end)
local ran = sums(profile.measure(function() step(a, b) end, { runs = 2, warm = 0 }).collectives, function(s) return s.calls end)
planned["permute pipeline"] == ran["permute pipeline"] or planned["permute pipeline"] .. " " .. ran["permute pipeline"] --> true
dist.leaves(0)

-- tessera -p of a program.
local script = assert(io.open(folder .. "/p.lua", "w"))
script:write [[
local dist, op = require("tessera").dist, require("tessera").op
local mesh = dist.Mesh { axes = { "tp" }, devices = dist.range(3) }
local x = dist.shard(op.ones { 30, 4 }, mesh, { "tp" })
for _ = 1, 5 do x:sum { axis = 0 } end
]]
script:close()
os.execute(("bin/tessera -p --profile-to %s/p.json --devices=cpu:3 %s/p.lua 2> %s/p.txt"):format(folder, folder, folder))
local text = read "p.txt"
text:match "all_reduce of sum over tp at [^\n]*p.lua:4\n    waited: " ~= nil or text --> true
text:match "sent between devices" --> sent between devices
read "p.json":find('"name":"all_reduce of sum over tp"', 1, true) ~= nil --> true
os.execute("rm -r " .. folder)
