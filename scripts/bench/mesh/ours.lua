-- A mesh of the GPUs of one machine, or of virtual CPUs: `tessera scripts/bench/mesh/ours.lua KIND N [SECTION..]`. A line a
-- row: its name, a number, its unit. Sections: bits, sums, moves, mlp, gpt, large. Times are medians of rounds of repeated
-- calls, between two waits for all devices.

local T = require "tessera"
local op, dist, graph, rng, nn, optim = T.op, T.dist, T.graph, T.rng, T.nn, T.optim
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } mesh_bench_time; int clock_gettime(int, mesh_bench_time *);"

local kind, n = arg[1] or "cpu", tonumber(arg[2] or 2)
local large = kind ~= "cpu"
local wanted = {}
for i = 3, #arg do wanted[arg[i]] = true end

local time = ffi.new "mesh_bench_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.n) * 1e-9
end

local devices = {}
for i = 1, n do devices[i] = ("%s:%d"):format(kind, large and i - 1 or 0) end
local function wait() for _, d in ipairs(devices) do T.synchronize(d) end end

local function median(f, repeats, rounds)
  local all = {}
  for _ = 1, 3 do f() end
  wait()
  for r = 1, rounds or 5 do
    local begin = now()
    for _ = 1, repeats do f() end
    wait()
    all[r] = (now() - begin) / repeats
  end
  table.sort(all)
  return all[math.ceil(#all / 2)]
end

local function row(name, value, unit) print(("%s\t%.6g\t%s"):format(name, value, unit)) io.stdout:flush() end
local function mesh_of(axes, shape) return dist.Mesh { axes = axes, shape = shape, devices = devices } end

-- As it is, and with what is sent in its place.
local function both(name, f)
  f(name)
  if os.getenv "TESSERA_OVERLAP" == "off" then return end
  dist.overlap(false, f, name .. ", dist.overlap(false)")
end

local sections = {}

-- ---- the same bits
local _, GPT = dofile "scripts/bench/gpt.lua"

local function loss_of(m, x, y) return op.cross_entropy(m(x), y) end

local function train(mesh, plan, steps)
  rng.seed(1)
  local model = GPT(2, 64, 4, 32, 96)
  if not mesh and large then model:to(devices[1]) end
  local step = graph.training_step(model, loss_of,
    optim.AdamW(model:parameters(), { lr = 1e-3 }), mesh and { mesh = mesh, plan = plan } or nil)
  local losses = {}
  for i = 1, steps do
    local x = rng.randint({ 16, 32 }, { low = 0, high = 96 })
    if large then x = x:to(devices[1]) end
    losses[i] = step(x, x):hash()
  end
  local all = {}
  for i, p in ipairs(model:parameters()) do all[i] = tostring(p:hash()) end
  return tostring(losses[steps]) .. table.concat(all)
end

function sections.bits()
  dist.leaves(8, function()
    local want = train(nil, nil, 4)
    for zero = 0, 3 do
      row(("bits equal, dp%d ZeRO-%d"):format(n, zero), train(mesh_of({ "dp" }, { n }), { zero = zero }, 4) == want and 1 or 0, "of 1")
    end
  end)
end

-- ---- collectives
local sizes = large and { 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576 } or { 16, 256, 4096 }
local function repeats_of(kib) return kib > 65536 and 5 or kib > 4096 and 20 or 100 end

function sections.sums()
  local mesh = mesh_of({ "dp" }, { n })
  for _, kib in ipairs(sizes) do
    local x = dist.shard(op.ones({ n, kib * 256 }, { dtype = "f32" }), mesh, { "dp" })
    local f = graph.module("sum", function(t) return op.sum(t, { axis = 0 }) end)
    local g = graph.module("pieces", function(t) return op.sum(t, { axis = 0, out = { "dp" } }) end)
    row(("all-reduce f32 %d KiB"):format(kib), median(function() f(x) end, repeats_of(kib)) * 1e6, "us")
    row(("reduce-scatter f32 %d KiB"):format(kib), median(function() g(x) end, repeats_of(kib)) * 1e6, "us")
  end
end

function sections.moves()
  local mesh = mesh_of({ "dp" }, { n })
  for _, kib in ipairs(sizes) do
    local x = dist.shard(op.ones({ n, kib * 512 / n }, { dtype = "bf16" }), mesh, { "dp" })
    row(("all-gather bf16 %d KiB"):format(kib), median(function() x:reshard {} end, repeats_of(kib)) * 1e6, "us")
    local y = dist.shard(op.ones({ n, kib * 512 }, { dtype = "bf16" }), mesh, { "dp" })
    row(("all-to-all bf16 %d KiB"):format(kib), median(function() y:reshard { nil, "dp" } end, repeats_of(kib)) * 1e6, "us")
  end
end

-- ---- two products with an all-reduce behind them
function sections.mlp()
  local m, d, h = 8192, 4096, 16384
  if not large then m, d, h = 256, 128, 512 end
  local mesh = mesh_of({ "tp" }, { n })
  local x = dist.replicate(rng.normal({ m, d }):cast "bf16", mesh)
  local w1 = dist.shard((rng.normal { d, h } * 0.02):cast "bf16", mesh, { nil, "tp" })
  local w2 = dist.shard((rng.normal { h, d } * 0.02):cast "bf16", mesh, { "tp" })
  local f = graph.module("mlp", function(t, a, b) return op.matmul(op.gelu_tanh(op.matmul(t, a)), b) end)
  both(("tensor-parallel MLP %dx%dx%d"):format(m, d, h), function(name)
    for _ = 1, large and 120 or 12 do f(x, w1, w2) end -- until memory of results goes round
    local t = median(function() f(x, w1, w2) end, 20)
    row(name, 4 * m * d * h / n / t * 1e-12, "TFLOP/s a GPU")
  end)
end

-- ---- training
local function tokens_a_second(name, model, mesh, plan, batch, context, vocabulary)
  local step = graph.training_step(model, function(...) return T.autocast("bf16", loss_of, ...) end,
    optim.AdamW(model:parameters(), { lr = 1e-4 }), { mesh = mesh, plan = plan })
  local ids = rng.randint({ batch, context }, { low = 0, high = vocabulary })
  if large then ids = ids:to(devices[1]) end
  both(name, function(name)
    for _ = 1, 10 do step(ids, ids) end
    row(name, batch * context / median(function() step(ids, ids) end, 10, 3), "tokens/s")
  end)
end

function sections.gpt()
  if not large then return end
  local mesh = mesh_of({ "dp" }, { n })
  local name = ("GPT-2 124M, dp%d, 32 x 1024 a GPU"):format(n)
  tokens_a_second(name, GPT(12, 768, 12, 1024, 50304), mesh, {}, 32 * n, 1024, 50304)
  dist.leaves(n, function() -- all sums are cut, also those that dp does not split
    tokens_a_second(("%s, leaves(%d)"):format(name, n), GPT(12, 768, 12, 1024, 50304), mesh, {}, 32 * n, 1024, 50304)
  end)
end

function sections.large()
  if not large then return end
  local mesh = mesh_of({ "dp" }, { n })
  tokens_a_second(("GPT 1.3B, ZeRO-3 over %d, 8 x 1024 a GPU"):format(n), GPT(24, 2048, 16, 1024, 50304), mesh, { zero = 3 }, 8 * n,
    1024, 50304)
end

for _, name in ipairs { "bits", "sums", "moves", "mlp", "gpt", "large" } do
  if not next(wanted) or wanted[name] then sections[name]() end
end
