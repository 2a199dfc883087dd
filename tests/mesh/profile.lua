-- Profiles of what runs on a mesh: each collective with its operator, axis, bytes, time, bandwidth, overlap, and who waited for
-- whom; in the text, as a table, in files, and in those of whole programs.
local tessera = require "tessera"
local core, dist, op, rng, graph, nn, optim = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
local profile, program = tessera.profile, arg[-1] or "bin/tessera"
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
local waits = {}
for i, each in ipairs(c.waits) do
  waits[i] = each.device
  assert(each.waits_for ~= each.device and (each.waits_for or each.waits_for_reason), each.device)
end
table.concat(waits, " ") --> cpu:0 sim:0 sim:1
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

-- What is recorded while a program is, is a part of that: rows, times of each, and what is missing. All times lie in the order of
-- what happened.
core.activity_start()
f(x, w)
profile.measure(f, { args = { x, w }, runs = 3, warm = 0 })
f(x, w)
local _, _, _, times = core.activity_stop()
local calls, sum, at, ordered = 0, 0, -1, true
for _, row in ipairs(times.rows) do calls = calls + row.count end
for _, s in ipairs(times.sent) do
  for _, d in ipairs(s.devices) do ordered = ordered and d.there >= at and d.stop >= d.there end
  at, sum = s.devices[1].stop, sum + s.bytes
end
calls >= 5, #times.sent == calls, sum == calls * 32768, ordered --> true, true, true, true
times.lost, times.more, times.more_work --> 0, 0, 0

-- What fails in the middle of a collective by hand has ended: what comes then stands for itself.
local pair = dist.Mesh { axes = { "tp" }, devices = { "sim:0", "sim:1" } }
local by_hand = dist.map(pair, { { "tp" } }, { {} }, function(part) return dist.all_reduce(part, "tp") end)
local rows_of = dist.shard(op.ones { 4, 3 }, pair, { "tp" })
by_hand(rows_of)
core.activity_start()
local failed = 0
for n = 12, 1, -1 do
  core.sim_fail("sim:1", "launch", n)
  failed = failed + (pcall(by_hand, rows_of) and 0 or 1)
  core.sim_fail("sim:1", "launch", 0)
end
rows_of:gather()
rows_of:reshard { nil, "tp" }
local _, _, _, times = core.activity_stop()
local kinds = {}
for i = #times.sent - 1, #times.sent do kinds[#kinds + 1] = times.sent[i].kind .. " " .. times.sent[i].at_once end
failed > 1, table.concat(kinds, ", ") --> true, gather 1, all_to_all 1

-- More is computed than a batch of marks has room for, while a part of a program goes on that is one of what is computed: all of it
-- is in the list, that part as well.
local g = graph.module("g", function(t) return t * 2 end)
local own, other = dist.shard(op.ones { 2, 2 }, pair, { "tp" }), dist.Mesh { axes = { "tp" }, devices = { "cpu:0", "sim:0" } }
g(own)
core.activity_start()
dist.map(other, { { "tp" } }, { { "tp" } }, function(part)
  for _ = 1, dist.place "tp" == 0 and 1100 or 0 do g(own) end
  return part + 1
end)(dist.shard(op.ones { 2, 2 }, other, { "tp" }))
own:gather()
local _, _, _, times = core.activity_stop()
local count, longest = {}, nil
for _, one in ipairs(times.work) do
  count[one.device] = (count[one.device] or 0) + 1
  if one.device == "cpu:0" then longest = one end
end
local inside = 0
for _, one in ipairs(times.work) do
  if one.device == "sim:1" and one.start >= longest.start and one.stop <= longest.stop then inside = inside + 1 end
end
count["cpu:0"], count["sim:0"], count["sim:1"], inside, times.lost --> 1, 1101, 1100, 1100, 0

-- Who waits: a part that came while another one was at work for 5 ms more waits as long at least, and the last one for nobody.
local script = assert(io.open(folder .. "/late.lua", "w"))
script:write [[
local tessera = require "tessera"
local dist, op, core = tessera.dist, tessera.op, tessera.core
local mesh = dist.Mesh { axes = { "tp" }, devices = dist.range(2) }
local late
local f = dist.map(mesh, { { "tp" } }, { {} }, function(part)
  local from = core.now()
  while dist.place "tp" == 1 and core.now() - from < 5e-3 do end
  if dist.place "tp" == 1 then late = core.now() - from end
  return dist.all_reduce(part, "tp")
end)
local x = dist.shard(op.ones { 4, 3 }, mesh, { "tp" })
f(x)
local r = tessera.profile.measure(f, { args = { x }, runs = 1, warm = 0 })
local a, b = unpack(r.collectives[1].waits)
print(a.device, a.waits_for, a.time_ns >= late * 1e9, b.device, b.waits_for, b.time_ns)
]]
script:close()
local p = io.popen(("%s --devices=cpu:2 %s/late.lua 2>&1"):format(program, folder))
(p:read "*a":gsub("%s+", " ")):match "^(.*) $" --> cpu:0 cpu:1 true cpu:1 nil 0
p:close()

-- tessera -p of a program.
local script = assert(io.open(folder .. "/p.lua", "w"))
script:write [[
local dist, op = require("tessera").dist, require("tessera").op
local mesh = dist.Mesh { axes = { "tp" }, devices = dist.range(3) }
local x = dist.shard(op.ones { 30, 4 }, mesh, { "tp" })
for _ = 1, 5 do x:sum { axis = 0 } end
]]
script:close()
os.execute(("%s -p --profile-to %s/p.json --devices=cpu:3 %s/p.lua 2> %s/p.txt"):format(program, folder, folder, folder))
local text = read "p.txt"
text:match "all_reduce of sum over tp at [^\n]*p.lua:4\n    waited: " ~= nil or text --> true
text:match "sent between devices" --> sent between devices
read "p.json":find('"name":"all_reduce of sum over tp"', 1, true) ~= nil --> true
os.execute("rm -r " .. folder)
