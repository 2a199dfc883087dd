-- A mesh of the GPUs of one machine, or of virtual CPUs: `tessera scripts/bench/mesh/ours.lua KIND N [SECTION..]`. A line a
-- row: its name, a number, its unit. Sections: bits, small, sums, moves, mlp, gpt, large, seven, oss, scale; bits:8 and small:8, over
-- eight devices alone, instead of 1, 2, 4 .. of them; sums:4096 and moves:4096 end at so many KiB. Times are medians of rounds of
-- repeated calls, between two waits for all devices. Virtual CPUs get small models, and rows say so.

local T = require "tessera"
local op, dist, graph, rng, nn, optim = T.op, T.dist, T.graph, T.rng, T.nn, T.optim
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } mesh_bench_time; int clock_gettime(int, mesh_bench_time *);"

local order = { "bits", "small", "sums", "moves", "mlp", "gpt", "large", "seven", "oss", "scale" }
local limited = { bits = true, small = true, sums = true, moves = true }

local function refuse(...)
  io.stderr:write(string.format(...), "\n")
  os.exit(2)
end

local kind, n = arg[1] or "cpu", tonumber(arg[2] or 2)
local large = kind ~= "cpu"
if not n or n < 1 or n % 1 ~= 0 then refuse("the number of devices is a whole one from 1, not '%s'", arg[2]) end
for _, number in ipairs { 0, large and n - 1 or 0 } do
  local ok, why = pcall(T.synchronize, ("%s:%d"):format(kind, number))
  if not ok then refuse("%s", tostring(why):gsub("^%S+:%d+: ", "")) end
end
local wanted, limit = {}, {}
for i = 3, #arg do
  local name, number = arg[i]:match "^(%a+):([1-9]%d*)$"
  name, number = name or arg[i], tonumber(number)
  local known = ("; there are %s, and killed of mesh.sh"):format(table.concat(order, ", "))
  local section = name:match "^[^:]*"
  local is = false
  for _, each in ipairs(order) do is = is or each == section end
  if not is then refuse("there is no section %s%s", name, known) end
  if name ~= section or (number and not limited[name]) then
    refuse("section %s: %s", arg[i], limited[section] and "behind the colon stands a whole number from 1" or "it takes no number")
  end
  if number and (name == "bits" or name == "small") and number > n then refuse("section %s: there are %d devices", arg[i], n) end
  wanted[name], limit[name] = true, number
end

local time = ffi.new "mesh_bench_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.n) * 1e-9
end

local devices = {}
for i = 1, n do devices[i] = ("%s:%d"):format(kind, large and i - 1 or 0) end
local function wait() for _, d in ipairs(devices) do T.synchronize(d) end end

-- Seconds of a call: rounds of `repeats` calls until four in a row were no faster than the best before by a hundredth (kernels are
-- made, and memory of results goes round, while it runs), or for MOST seconds; then the median of so many rounds.
local MOST = 40
local function median(f, repeats, rounds)
  local function round()
    local begin = now()
    for _ = 1, repeats do f() end
    wait()
    return (now() - begin) / repeats
  end
  wait()
  local best, since, stop = math.huge, 0, now() + MOST
  while since < (large and 4 or 1) and now() < stop do
    local t = round()
    since = t < 0.99 * best and 0 or since + 1
    best = math.min(best, t)
  end
  local all = {}
  for r = 1, rounds or 5 do all[r] = round() end
  table.sort(all)
  return all[math.ceil(#all / 2)]
end

local function row(name, value, unit) print(("%s\t%.6g\t%s"):format(name, value, unit)) io.stdout:flush() end
local function mesh_of(axes, shape) return dist.Mesh { axes = axes, shape = shape, devices = devices } end

-- As it is, and with what is sent in its place.
local function both(name, f)
  local as_it_is = f(name)
  if os.getenv "TESSERA_OVERLAP" ~= "off" then dist.overlap(false, f, name .. ", dist.overlap(false)") end
  return as_it_is
end

local sections = {}

-- ---- the same bits
local _, GPT = dofile "scripts/bench/gpt.lua"
local models = dofile "scripts/bench/mesh/models.lua"

local function loss_of(m, x, y) return op.cross_entropy(m(x), y) end

function sections.bits()
  dofile "scripts/bench/mesh/bits.lua"(devices, large, limit.bits, function(name, equal) row(name, equal, "of 1") end)
end

-- The same of models that take a second, on whatever devices there are.
function sections.small()
  dofile "scripts/bench/mesh/bits.lua"(devices, false, limit.small, function(name, equal) row("small, " .. name, equal, "of 1") end)
end

-- ---- collectives
local sizes = large and { 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576 } or { 16, 256, 4096 }
local function up_to(kib)
  local list = {}
  for _, size in ipairs(sizes) do
    if size <= (kib or math.huge) then list[#list + 1] = size end
  end
  return list
end
local function repeats_of(kib) return kib > 65536 and 5 or kib > 4096 and 20 or 100 end

-- A collective as devices do it: COUNT calls are queued behind a product of some milliseconds, which is time enough for the host, so that
-- what they add to the product's time is theirs alone (NCCL's are timed in a graph of twenty, where the host has no part either);
-- and as single calls, where the host takes its time.
local COUNT = large and 50 or 4
local GATE = large and 12288 or 64
local gate
local function collective(name, kib, x, send)
  local count = kib > 65536 and COUNT / 10 or COUNT
  local first = not gate
  gate = gate or dist.replicate(op.ones({ GATE, GATE }, { dtype = "bf16" }), dist.mesh_of(x))
  local function queue(k)
    collectgarbage()
    wait()
    local begin, out = now(), { op.matmul(gate, gate) }
    for i = 1, k do out[i + 1] = send(x) end
    local host = now() - begin
    wait()
    return now() - begin, host
  end
  for _ = 1, first and 20 or 3 do queue(count) end -- clocks rise first
  local all, late = {}, 0
  for r = 1, 9 do
    local alone = queue(0)
    local both, host = queue(count)
    all[r] = (both - alone) / count
    if host > alone then late = late + 1 end
  end
  table.sort(all)
  if large and late > 4 then print(("# %s %d KiB: the host took longer than what stands before"):format(name, kib)) end
  row(("%s %d KiB"):format(name, kib), all[5] * 1e6, "us")
  row(("%s %d KiB, single calls"):format(name, kib), median(function() send(x) end, repeats_of(kib), 5) * 1e6, "us")
end

-- Of tensors whose parts are summands, so that nothing else is computed.
function sections.sums()
  local mesh = mesh_of({ "dp" }, { n })
  for _, kib in ipairs(up_to(limit.sums)) do
    local x = dist.tensor { shape = { kib * 256 }, dtype = "f32", mesh = mesh, layout = { reduce = "sum", over = { "dp" } } }
    collective("all-reduce f32", kib, x, function(t) return t:reshard {} end)
    collective("reduce-scatter f32", kib, x, function(t) return t:reshard { "dp" } end)
  end
end

function sections.moves()
  local mesh = mesh_of({ "dp" }, { n })
  for _, kib in ipairs(up_to(limit.moves)) do
    local x = dist.shard(op.ones({ n, kib * 512 / n }, { dtype = "bf16" }), mesh, { "dp" })
    collective("all-gather bf16", kib, x, function(t) return t:reshard {} end)
    local y = dist.shard(op.ones({ n, kib * 512 }, { dtype = "bf16" }), mesh, { "dp" })
    collective("all-to-all bf16", kib, y, function(t) return t:reshard { nil, "dp" } end)
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
    local t = median(function() f(x, w1, w2) end, 20, 5)
    row(name, 4 * m * d * h / n / t * 1e-12, "TFLOP/s a GPU")
  end)
end

-- ---- training
-- o: name, model, loss, mesh, plan, batch, context, vocabulary, both: how many tokens a second; both: and without overlap.
local function tokens_a_second(o)
  local step = graph.training_step(o.model, function(...) return T.autocast("bf16", o.loss, ...) end,
    optim.AdamW(o.model:parameters(), { lr = 1e-4 }), o.mesh and { mesh = o.mesh, plan = o.plan } or nil)
  local ids = rng.randint({ o.batch, o.context }, { low = 0, high = o.vocabulary })
  if large then ids = ids:to(devices[1]) end
  local function measure(name)
    local rate = o.batch * o.context / median(function() step(ids, ids) end, o.repeats or 10, 3)
    row(name, rate, "tokens/s")
    return rate
  end
  return o.both and both(o.name, measure) or measure(o.name)
end

local MODEL = large and "GPT-2 124M" or "small GPT-2"
local GPT2 = large and { 12, 768, 12, 1024, 50304 } or { 2, 32, 2, 16, 97 }
local ROWS = large and 32 or 4 -- sequences a device

-- That model over the first k devices, b sequences in all.
local function gpt2(name, k, b, both)
  local own = {}
  for i = 1, k do own[i] = devices[i] end
  local model = GPT(unpack(GPT2))
  if k == 1 and large then model:to(devices[1]) end
  return tokens_a_second { name = name, model = model, loss = loss_of, batch = b, context = GPT2[4], vocabulary = GPT2[5],
    mesh = k > 1 and dist.Mesh { axes = { "dp" }, devices = own } or nil, plan = {}, both = both }
end

function sections.gpt()
  local name = ("%s, dp%d, %d x %d a device"):format(MODEL, n, ROWS, GPT2[4])
  gpt2(name, n, ROWS * n, true)
  dist.leaves(n, function() -- all sums are cut, also those that dp does not split
    gpt2(("%s, leaves(%d)"):format(name, n), n, ROWS * n)
  end)
end

-- As many sequences a device (weak), and as many in all (strong), on 1, 2, 4 .. devices: of the rate that so many times one would
-- have, which share is there.
function sections.scale()
  local one
  local k = 1
  while k <= n do
    local weak = gpt2(("%s, %d a device, dp%d"):format(MODEL, ROWS, k), k, ROWS * k)
    one = one or weak
    row(("weak scaling, dp%d"):format(k), weak / one / k, "of 1")
    if k > 1 then
      local strong = gpt2(("%s, %d in all, dp%d"):format(MODEL, ROWS, k), k, ROWS)
      row(("strong scaling, dp%d"):format(k), strong / one / k, "of 1")
    end
    k = k * 2
  end
end

function sections.large()
  if not large then return end
  local mesh = mesh_of({ "dp" }, { n })
  tokens_a_second { name = ("GPT 1.3B, ZeRO-3 over %d, 8 x 1024 a GPU"):format(n), model = GPT(24, 2048, 16, 1024, 50304), loss = loss_of,
    mesh = mesh, plan = { zero = 3 }, batch = 8 * n, context = 1024, vocabulary = 50304, both = true }
end

-- A decoder of 7 billion parameters: weights and states spread over dp, and split by tp. Its weights are drawn where they lie.
local SEVEN = large and { layers = 32, width = 4096, heads = 32, hidden = 11008, vocabulary = 32000 }
  or { layers = 2, width = 32, heads = 4, hidden = 64, vocabulary = 97 }

function sections.seven()
  if large and n < 4 then return end
  local context, batch = large and 2048 or 16, large and 4 or 2
  local list = { { ("ZeRO-3 over %d"):format(n), { "dp" }, { n }, { zero = 3 }, {}, batch * n }, { ("tp %d"):format(n), { "tp" }, { n }, {}, models.tp, batch } }
  if n % 2 == 0 and n > 2 then
    list[3] = { ("ZeRO-3 over %d, tp 2"):format(n / 2), { "dp", "tp" }, { n / 2, 2 }, { zero = 3 }, models.tp, batch * n / 2 }
  end
  for _, kind in ipairs(list) do
    local mesh = mesh_of(kind[2], kind[3])
    local model = models.Decoder(SEVEN)
    if next(kind[5]) then dist.shard_module(model, mesh, kind[5]) end
    tokens_a_second { name = ("%s, %s, %d x %d tokens"):format(large and "7B" or "small decoder", kind[1], kind[6], context), model = model, loss = models.loss,
      mesh = mesh, plan = kind[4], batch = kind[6], context = context, vocabulary = SEVEN.vocabulary, repeats = 3 }
    collectgarbage()
  end
end

-- The shape of gpt-oss-120b, without windows and sinks: what it makes of texts, with heads and rows of experts split by tp, or experts
-- spread over ep, or both. One device has no room for all layers in bf16, so tokens are compared of some, of sums with as many leaves as
-- devices.
local OSS = large and { layers = 36, some = 8, width = 2880, heads = 64, key_heads = 8, head = 64, hidden = 2880, experts = 128, k = 4, vocabulary = 201088 }
  or { layers = 3, some = 2, width = 32, heads = 8, key_heads = 4, head = 8, hidden = 32, experts = 8, k = 2, vocabulary = 97 }

function sections.oss()
  OSS.activation, OSS.dtype = "clamped_swiglu", "bf16"
  local context, batch = large and 2048 or 16, large and 4 or 2
  local function model_of(layers, how)
    rng.seed(1)
    local o = setmetatable({ layers = layers }, { __index = OSS })
    local mesh, specs = how and mesh_of(how[2], how[3]), how and how[4]
    if mesh then
      function o.spread(block)
        dist.shard_module(block, mesh, specs)
        collectgarbage()
      end
    end
    local model = T.device(devices[1], models.Decoder, o)
    if mesh then dist.shard_module(model, mesh, specs) end
    local f = graph.module("tokens", function(ids) return op.argmax((model(ids)), { axis = -1 }) end)
    local ids = rng.randint({ batch, context }, { low = 0, high = OSS.vocabulary })
    if mesh then ids = dist.replicate(ids, mesh) elseif large then ids = ids:to(devices[1]) end
    return function() return T.no_grad(f, ids) end
  end
  local function drop() -- models whose functions were compiled beside what ran are held until that is done
    T.jit.wait()
    collectgarbage()
    collectgarbage()
  end
  local function some(how)
    local tokens = dist.leaves(n, function() return model_of(OSS.some, how)():gather():hash() end)
    drop()
    return tokens
  end
  local want = some()
  local list = { { ("tp%d"):format(n), { "tp" }, { n }, models.tp_experts }, { ("ep%d"):format(n), { "ep" }, { n }, models.ep } }
  if n % 2 == 0 and n > 2 then
    list[3] = { ("tp%d ep2"):format(n / 2), { "tp", "ep" }, { n / 2, 2 }, models.together(models.tp_experts, models.ep) }
  end
  for _, how in ipairs(list) do
    row(("gpt-oss-120b shape, %d layers, tokens equal, %s"):format(OSS.some, how[1]), some(how) == want and 1 or 0, "of 1")
    local f = model_of(OSS.layers, how)
    row(("gpt-oss-120b shape, %d x %d tokens read, %s"):format(batch, context, how[1]), batch * context / median(f, 3, 3), "tokens/s")
    f = nil
    drop()
  end
end

for _, name in ipairs(order) do
  if not next(wanted) or wanted[name] then sections[name]() end
end
