-- One of several processes, each with GPUs of its own, or one process with all: bits, and what sums over devices take.
--   tessera tests/net/_gpus.lua devices
local tessera = require "tessera"
local op, rng, dist, graph, nn, optim = tessera.op, tessera.rng, tessera.dist, tessera.graph, tessera.nn, tessera.optim
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } moment_; int clock_gettime(int, moment_ *);"
local n = tonumber(arg[1])
local mesh = dist.Mesh { axes = { "dp" }, devices = dist.range(n) }
local function say(...) if dist.rank() == 0 then print(...) end end
io.stderr:write(dist.transport(), "  ", tostring(mesh), "\n")
dist.leaves(8)
rng.seed(1)

-- Bits: sums of odd sizes, moves, a step of training.
local x = dist.shard(rng.normal { 4 * n, 1003 }, mesh, { "dp" })
say("sum", x:sum(0):hash(), x:sum():item())
say("move", x:reshard { nil, "dp" }:hash(), op.matmul(x:T(), x):hash())
local half = dist.shard(rng.normal { 4 * n, 77 }:to "bf16" or x, mesh, { "dp" })
say("bf16", half:sum(0):hash())
local model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
local opt = optim.AdamW(model:parameters(), { lr = 1e-2 })
local step = graph.training_step(model, function(m, a, b) return op.mse(m(a), b) end, opt, { mesh = mesh, plan = { zero = 1 } })
local a, b = rng.normal { 8 * n, 32 }, rng.normal { 8 * n, 8 }
for i = 1, 5 do say("step", i, step(a, b):hash()) end
for _, p in ipairs(model:parameters()) do say("weight", p:hash()) end

-- Times: each sum waits for the one before.
local t = ffi.new "moment_"
local function now()
  ffi.C.clock_gettime(1, t)
  return tonumber(t.s) + tonumber(t.n) * 1e-9
end
for _, size in ipairs { 4096, 65536, 1048576, 16777216 } do
  local y = dist.shard(op.ones { n, size }, mesh, { "dp" })
  for _ = 1, 5 do y:sum(0) end
  y:max():item() -- devices have come here
  local since, count = now(), 20
  local z
  for _ = 1, count do z = y:sum(0) end
  z:max():item()
  io.stderr:write(("rank %d: all_reduce of %d bytes: %.0f us\n"):format(dist.rank(), size * 4, (now() - since) / count * 1e6))
end
