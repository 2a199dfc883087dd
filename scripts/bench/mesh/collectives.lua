-- Collectives of the GPUs of one process by kernels that meet, beside the same step by step: `tessera
-- scripts/bench/mesh/collectives.lua KIND N [KIB_MOST]`. First that both have the same bits, for dtypes, leaves, layouts and
-- sizes, odd ones as well; then a table (`alone`: of tensors whose parts are summands, so that nothing else is launched), microseconds a call: `meets` and `steps` in calls one behind the other, until all
-- devices are done; `host`, until the call returns; `between`, what devices took from when all had come until all
-- had it; the last column is bytes over one link by the first of them.

local T = require "tessera"
local core, op, dist, graph, rng = T.core, T.op, T.dist, T.graph, T.rng
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } mesh_bench_time; int clock_gettime(int, mesh_bench_time *);"

local kind, n, most = arg[1] or "sim", tonumber(arg[2] or 2), tonumber(arg[3] or (arg[1] == "cuda" and 262144 or 16))
local time = ffi.new "mesh_bench_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.n) * 1e-9
end

local devices = {}
for i = 1, n do devices[i] = ("%s:%d"):format(kind, i - 1) end
local mesh = dist.Mesh { axes = { "dp" }, devices = devices }
local function wait() for _, d in ipairs(devices) do T.synchronize(d) end end

-- ---- bits
local function hash(f)
  local y = f()
  return y:gather():hash()
end

local same, tried, wrong = 0, 0, {}
local function compare(what, f)
  local before = core.meets(true)
  local met = hash(f)
  local again = hash(f)
  local went = core.meets(false) - before
  local steps = hash(f)
  core.meets(true)
  tried = tried + 1
  if met == steps and again == steps then same = same + 1 else wrong[#wrong + 1] = what end
  if went == 0 then wrong[#wrong + 1] = what .. ": no kernel met: " .. select(2, core.meets()) end
end

for _, dtype in ipairs { "f32", "bf16", "f16", "f64" } do
  for _, leaves in ipairs { 0, 8 } do
    dist.leaves(leaves, function()
      for _, size in ipairs { { 64, 256, 128 }, { 33, 130, 57 }, kind == "sim" and { 64, 64, 64 } or { 512, 1024, 2048 } } do
        local x, w = rng.normal { size[1], size[2] }:cast(dtype), rng.normal { size[2], size[3] }:cast(dtype)
        local xs, ws = dist.shard(x, mesh, { nil, "dp" }), dist.shard(w, mesh, { "dp" })
        local what = ("%s leaves %d %dx%d"):format(dtype, leaves, size[1], size[3])
        compare("all-reduce " .. what, function() return op.matmul(xs, ws) end)
        if size[1] % n == 0 then compare("reduce-scatter " .. what, function() return op.matmul(xs, ws, { out = { "dp" } }) end) end
      end
    end)
  end
end
for _, size in ipairs(kind == "sim" and { 1, 1000, 4096, 100003 } or { 1, 1000, 4096, 100003, 1048576, 3000000 }) do
  local x = dist.shard(rng.normal { n, size }, mesh, { "dp" })
  compare("sum of " .. size, function() return op.sum(x, { axis = 0 }) end)
end
for _, rows in ipairs { n, 64 * n, 1024 * n } do
  local x = rng.normal { rows, 256 * n }:cast "bf16"
  local by_rows, by_columns = dist.shard(x, mesh, { "dp" }), dist.shard(x, mesh, { nil, "dp" })
  compare("gather rows " .. rows, function() return by_rows:reshard {} end)
  compare("gather columns " .. rows, function() return by_columns:reshard {} end)
  compare("rows to columns " .. rows, function() return by_rows:reshard { nil, "dp" } end)
  compare("columns to rows " .. rows, function() return by_columns:reshard { "dp" } end)
end
print(("bits: %d of %d alike%s"):format(same, tried, #wrong > 0 and "; NOT: " .. table.concat(wrong, "; ") or ""))

-- Calls without a wait between them, over and over: each has its own elements.
local bad = 0
do
  local list, want = {}, {}
  for i = 1, 40 do list[i] = dist.shard(rng.normal { n, 977 * i }, mesh, { "dp" }) end
  core.meets(false)
  for i = 1, 40 do want[i] = op.sum(list[i], { axis = 0 }):gather():hash() end
  core.meets(true)
  for _ = 1, 10 do
    local got = {}
    for i = 1, 40 do got[i] = op.sum(list[i], { axis = 0 }) end
    for i = 1, 40 do bad = bad + (got[i]:gather():hash() == want[i] and 0 or 1) end
  end
end
print(("bits in a row: %d of 400 differ"):format(bad))

-- ---- times
local function median(f, repeats)
  local all, host = {}, {}
  for _ = 1, 5 do f() end
  wait()
  for r = 1, 7 do
    local begin = now()
    for _ = 1, repeats do f() end
    host[r] = (now() - begin) / repeats * 1e6
    wait()
    all[r] = (now() - begin) / repeats * 1e6
  end
  table.sort(all)
  table.sort(host)
  return all[4], host[1]
end

local function between(f)
  local fine, told = pcall(function() return T.profile.measure(f, { args = {}, runs = 20, marks = false }) end)
  local c = fine and told.collectives and told.collectives[1]
  return c and c.time_ns and c.time_ns / (c.count or 1) * 1e-3 or 0 / 0
end

local function line(what, kib, f, share)
  local repeats = kib > 65536 and 5 or kib > 4096 and 20 or 100
  core.meets(true)
  local meets, host = median(f, repeats)
  local device = between(f)
  core.meets(false)
  local steps = median(f, repeats)
  core.meets(true)
  print(("%-22s %8d KiB  meets %9.1f  steps %9.1f  host %6.1f  between %8.1f  %6.1f GB/s"):format(what, kib, meets, steps, host,
    device, kib * 1024 * share / meets * 1e-3))
  io.stdout:flush()
end

local kib = 16
while kib <= most do
  local x = dist.shard(op.ones({ n, kib * 256 }, { dtype = "f32" }), mesh, { "dp" })
  local f = graph.module("sum", function(t) return op.sum(t, { axis = 0 }) end)
  local g = graph.module("pieces", function(t) return op.sum(t, { axis = 0, out = { "dp" } }) end)
  local u = dist.tensor { shape = { kib * 256 }, dtype = "f32", mesh = mesh, layout = { reduce = "sum", over = { "dp" } }, init = "zeros" }
  line("all-reduce alone f32", kib, function() return u:reshard {} end, 2 * (n - 1) / n)
  line("all-reduce f32", kib, function() return f(x) end, 2 * (n - 1) / n)
  line("reduce-scatter f32", kib, function() return g(x) end, (n - 1) / n)
  local r = dist.shard(op.ones({ n, kib * 512 / n }, { dtype = "bf16" }), mesh, { "dp" })
  line("all-gather bf16", kib, function() return r:reshard {} end, (n - 1) / n)
  local y = dist.shard(op.ones({ n, kib * 512 }, { dtype = "bf16" }), mesh, { "dp" })
  line("all-to-all bf16", kib, function() return y:reshard { nil, "dp" } end, (n - 1) / n)
  kib = kib * 4
end

-- ---- in a captured function: ten sums with work between them
for _, size in ipairs { 4096, 262144, 4194304 } do
  if size * 4 <= most * 1024 then
    local x = dist.shard(rng.normal { n, size }, mesh, { "dp" })
    local loop = graph.module("loop", function(t)
      local y = op.sum(t, { axis = 0 })
      for _ = 2, 10 do y = op.sum(t * y, { axis = 0 }) * 0.5 end
      return y
    end)
    local want
    for _, on in ipairs { true, false } do
      core.meets(on)
      for _ = 1, 6 do loop(x) end
      local got = loop(x):gather():hash()
      want = want or got
      local before = core.jit_device()
      local all, host = median(function() return loop(x) end, 10)
      local after = core.jit_device()
      print(("ten sums, captured     %8d KiB  %s %9.1f a sum, host %6.1f, %d records of %d launches%s"):format(size / 256, on and "meets" or "steps",
        all / 10, host / 10, after.replays - before.replays, after.replayed - before.replayed, got == want and "" or "  OTHER BITS"))
    end
    core.meets(true)
  end
end
