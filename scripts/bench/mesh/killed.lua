-- One of several processes that train together until one of them dies: scripts/bench/mesh/killed.sh starts them. Says into
-- FOLDER/rank.N "goes on PID" behind the first steps, and behind the error when it came and its words.
local T = require "tessera"
local op, dist, graph, rng, nn, optim = T.op, T.dist, T.graph, T.rng, T.nn, T.optim
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } killed_time; int clock_gettime(int, killed_time *); int getpid(void);"

local file = assert(io.open(("%s/rank.%d"):format(arg[1], dist.rank()), "w"))
local mesh = dist.Mesh { axes = { "dp" }, devices = dist.range(dist.world()) }
dist.leaves(8)
rng.seed(1)
local model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))
local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end, optim.AdamW(model:parameters(), { lr = 1e-3 }),
  { mesh = mesh, plan = { zero = 1 } })
local x = rng.normal { 64, 256 }
for _ = 1, 5 do step(x, x):item() end
file:write("goes on ", ffi.C.getpid(), "\n")
file:flush()
local ok, why = true, nil
while ok do ok, why = pcall(function() return step(x, x):item() end) end
local t = ffi.new "killed_time"
ffi.C.clock_gettime(0, t)
file:write(("%.3f %s\n"):format(tonumber(t.s) + tonumber(t.n) * 1e-9, (tostring(why):gsub("\n", " "))))
file:close()
