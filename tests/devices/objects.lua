-- Every family of kernels for a maker's GPU that is not here (TESSERA_GPU, else gfx942): results are the CPU's, and
-- each launch is kept as an object with its memory before and behind it. With TESSERA_EMULATOR, the path of a
-- checkout of tinygrad, its emulator of such GPUs runs them (scripts/emulate_amd.py): minutes, so no test does;
-- KEEP names a folder that stays.
local tessera = require "tessera"
local core, op, graph, rng, nn = tessera.core, tessera.op, tessera.graph, tessera.rng, tessera.nn
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
local folder = os.getenv "KEEP" or os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p " .. folder) == 0)
ffi.C.setenv("TESSERA_SIM_OBJECTS", folder, 1)
ffi.C.setenv("TESSERA_GPU", "gfx942", 0)
core.jit_later(false)

local called = 0
local function random(shape, d) return op.cast(op.mul(rng.normal(shape), 3), d or "f32") end
-- Units of gfx11 and gfx12 add up 16 products before they come to the sum: another chain than the CPU's.
local target = os.getenv "TESSERA_GPU"
local chain = not target:find "^gfx1[12]"
local has_unit = not target:find "^gfx9%-g" and not target:find "^gfx10"
local function same(what, got, want)
  if got:hash() == want:hash() then return true end
  if not what:find "^unit" or (chain and not what:find "^unit attention") then return false end
  local x, y = op.cast(got:to "cpu", "f32"), op.cast(want, "f32")
  return op.max(op.abs(x - y)):item() <= op.max(op.abs(y)):item() / 128
end
local function check(what, f, ...)
  local x, there = { ... }, {}
  for i, t in ipairs(x) do there[i] = t:to "sim" end
  local before = core.jit_device()
  local got, want = { f(unpack(there)) }, { f(unpack(x)) }
  local after = core.jit_device()
  called = called + 1
  assert(after.fallback == before.fallback and after.refused == before.refused, what .. ": no kernel ran")
  for i, y in ipairs(want) do
    assert(got[i].device == "sim:0", what .. ": not on the device")
    assert(same(what, got[i], y), ("%s: output %d differs"):format(what, i))
  end
end

for _, d in ipairs { "f32", "bf16", "f16", "f64" } do
  local x, y = random({ 3, 70 }, d), random({ 3, 70 }, d)
  check("map", function(a, b) return op.gelu(a) * b + a, op.exp(a) / b, op.sqrt(op.abs(a)) end, x, y)
end
check("functions", function(a) return op.sin(a), op.tanh(a), op.log(op.abs(a)), op.erf(a), op.floor(a) end, random { 99 })
check("integers", function(a, b) return a * b + a, op.maximum(a, b), op.floordiv(a, b) end, random({ 99 }, "i32"),
  op.abs(random({ 99 }, "i32")) + 1)
for _, d in ipairs { "f32", "bf16" } do
  for _, n in ipairs { 40, 700, 5000 } do
    local x, w = random({ 3, n }, d), random({ n }, d)
    check("rows", function(a, b) return op.softmax(a), op.layernorm(a, b, b), op.rmsnorm(a, b), op.logsumexp(a, { axis = 1 }) end,
      x, w)
    check("reductions", function(a) return op.sum(a, { axis = 1 }), op.sum(a, { axis = 0 }), op.mean(a), op.max(a, { axis = 1 }),
      op.argmax(a, { axis = 1 }), op.var(a, { axis = 1 }) end, x)
  end
end
for _, d in ipairs { "f32", "f64" } do
  local a, b = random({ 20, 40 }, d), random({ 40, 36 }, d)
  check("product", function(x, y) return op.matmul(x, y) end, a, b)
  check("product with rows", function(x, y) return op.relu(op.matmul(x, y) + 1) end, a, b)
  check("conv", function(x, y) return op.conv2d(x, y) end, random({ 1, 2, 7, 8 }, d), random({ 3, 2, 3, 3 }, d))
  check("fft", function(x) return op.fft(x), op.irfft(op.rfft(x)) end, random({ 2, 32 }, d))
end
-- By the matrix unit, where there is one. Denormal f16 the emulator takes for zeros.
local function whole(shape, d)
  if d == "bf16" or d == "f32" or d == "f64" then return random(shape, d) end
  local x = op.round(rng.normal(shape) * 16)
  if d == "i8" then return op.cast(op.clamp(x * 3, -128, 127), d) end
  return op.cast(x / 16, d)
end
local units = not (os.getenv "TESSERA_GPU" or ""):find "^gfx9%-g" and not (os.getenv "TESSERA_GPU" or ""):find "^gfx10"
for _, d in ipairs { "bf16", "f16", "f32", "f64", "i8", "fp8_e4m3", "fp8_e5m2" } do
  local eight = d:find "^fp8"
  -- without a unit for them these are the CPU's
  local runs = has_unit or not (eight or d == "i8")
  -- Words at odd addresses, which GPUs load and the emulator does not, come of odd sizes of bytes.
  for _, n in ipairs { { (eight or d == "i8") and 8 or 5, 40, 64 }, { 70, 96, 80 } } do
    local a, b, c = whole({ n[1], n[2] }, d), whole({ n[2], n[3] }, d), whole({ n[3] }, eight and "f32" or d)
    local function product(x, y) return op.matmul(x, y, nil, nil, { accumulate = eight and "f32" or d == "i8" and "i32" or nil }) end
    if runs then
      check("unit", product, a, b)
      check("unit transposed", function(x, y) return product(x, y:transpose(0, 1)) end, a, whole({ n[3], n[2] }, d))
      check("unit of columns", function(x, y) return product(x:transpose(0, 1), y) end, whole({ n[2], n[1] }, d), b)
    end
    if runs and (d == "bf16" or d == "f16") and n[1] == 70 then
      check("unit conv", function(x, y) return op.conv2d(x, y, nil, { padding = 1 }) end, whole({ 2, 6, 8, 11 }, d), whole({ 20, 6, 3, 3 }, d))
      check("unit conv", function(x, y) return op.conv_weight_grad(x, y, { 3, 3 }, { padding = 1 }) end, whole({ 2, 4, 10, 8 }, d),
        whole({ 2, 18, 10, 8 }, d))
    end
    if runs and units and (d == "bf16" or d == "f16") and n[1] == 70 then
      local sizes = tessera.tensor({ 3, 0, 50, 10, 1 }, { dtype = "i64" })
      check("unit of groups", op.grouped_matmul, whole({ 70, 40 }, d), whole({ 5, 40, 72 }, d), sizes)
      check("unit of groups", op.grouped_matmul_weight_grad, whole({ 70, 40 }, d), whole({ 70, 72 }, d), sizes)
    end
    if d == "i8" and runs then check("unit that wraps", function(x, y) return op.matmul(x, y) end, a, b) end
    if d == "bf16" or d == "f16" then
      check("unit with rows", function(x, y, z) return op.gelu(product(x, y) + z) end, a, b, c)
      check("unit of a batch", product, whole({ 3, n[1], n[2] }, d), whole({ 3, n[2], n[3] }, d))
    end
  end
end
check("fft of a prime", function(x) return op.fft(x) end, random { 2, 31 })
for _, d in ipairs { "f32", "i32", "bf16" } do
  for axis = 0, 1 do
    check("scan", function(x) return op.cumsum(x, { axis = axis }), op.cummax(x, { axis = axis }) end, random({ 9, 70 }, d))
    check("sort", function(x) return op.sort(x, { axis = axis }), op.argsort(x, { axis = axis }) end, random({ 9, 70 }, d))
  end
  check("topk", function(x) return op.topk(x, 5) end, random({ 4, 90 }, d))
end
local at = op.cast(op.floor(op.mul(rng.uniform { 60 }, 7)), "i64")
check("scatter", function(x, i, y) return op.index_add(x, i, y, { axis = 0 }), op.gather(y, i:reshape(60, 1), { axis = 0 }) end,
  random { 7, 9 }, at, random { 60, 9 })
check("transpose", function(x) return op.clone(x:permute { 1, 0 }) end, random { 40, 33 })
for _, causal in ipairs { false, true } do
  local q, k = random { 1, 2, 20, 16 }, random { 1, 1, 33, 16 }
  check("attention", function(x, y, z) return op.attention(x, y, z, nil, nil, { causal = causal }) end, q, k, k)
  for _, d in ipairs { "f32", "bf16" } do -- of blocks of 32 rows and 128 keys
    local x, y = op.cast(rng.normal { 1, 2, 32, 16 }, d), op.cast(rng.normal { 1, 1, 128, 16 }, d)
    local o = op.attention(x, y, y, nil, nil, { causal = causal })
    check("attention_grad", function(a, b, c, e) return op.attention_grad(a, b, b, nil, nil, c, e, { causal = causal }) end,
      x, y, o, x)
  end
end
-- By the unit: p is rounded to the type of the values.
for _, d in ipairs { "bf16", "f16" } do
  for _, size in ipairs { 32, 64, 96, 128 } do
    local q, k, v = whole({ 1, 2, 70, size }, d), whole({ 1, 1, 200, size }, d), whole({ 1, 1, 200, size }, d)
    check("unit attention", function(x, y, z) return op.attention(x, y, z, nil, nil, { causal = size > 32 }) end, q, k, v)
  end
end
-- Their gradients by the unit: p and dt are. Where there is none the CPU has them, of these sizes.
for _, case in ipairs {
  { "bf16", 64, { 2, 70 }, { 1, 200 }, { causal = true } }, { "f16", 128, { 2, 70 }, { 1, 130 } },
  { "bf16", 32, { 4, 33 }, { 2, 50 }, { causal = true, window = 20 } }, { "bf16", 128, { 1, 64 }, { 1, 128 }, { causal = true } },
  { "f16", 96, { 1, 96 }, { 1, 96 } }, { "bf16", 64, { 2, 70 }, { 1, 100 }, { causal = true }, "bool", true },
  { "f16", 32, { 2, 40 }, { 2, 50 }, { scores = true }, "added" }, { "bf16", 128, { 2, 64 }, { 1, 128 }, {}, "added", true },
} do
  local d, size, q, k, o, kind, sunk = unpack(case, 1, 7)
  if has_unit then
    local x, y = op.cast(rng.normal { 1, q[1], q[2], size }, d), op.cast(rng.normal { 1, k[1], k[2], size }, d)
    local mask, sink = kind and rng.normal { 1, 1, q[2], k[2] }, rng.normal { q[1] }
    mask = kind == "bool" and op.gt(mask, -0.5) or mask and op.cast(mask, d) or nil
    local g, f = op.cast(rng.normal { 1, q[1], q[2], size }, d), { causal = o and o.causal, window = o and o.window }
    local r = op.attention(x, y, y, mask, sunk and sink, f)
    check("unit attention_grad", function(a, b, c, e, s, m)
      return op.attention_grad(a, b, b, m, sunk and s or nil, c, e, o)
    end, x, y, r, g, sink, mask)
  end
end
check("decode", function(x, y, z) return op.attention(x, y, z) end, random { 2, 4, 1, 16 }, random { 2, 2, 50, 16 },
  random { 2, 2, 50, 16 })
check("draws", function(x) rng.seed(7) return op.dropout(x, { p = 0.3 }) + rng.normal { 70 }:to(x.device) end, random { 70 })

-- The optimiser's step and gradients, as a captured step of training.
local function train(device)
  rng.seed(5)
  return tessera.device(device, function()
    local model = nn.Sequential(nn.Linear(12, 16), op.gelu, nn.LayerNorm(16), nn.Linear(16, 8))
    local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end,
      tessera.optim.AdamW(model:parameters(), { lr = 1e-3 }))
    local loss
    for _ = 1, 3 do loss = step(rng.normal { 8, 12 }, rng.normal { 8, 8 }) end
    return loss:to "cpu":hash()
  end)
end
assert(train "sim:0" == train "cpu", "a step of training differs")

-- With profile marks: what they compute stays, and warps write down when they turned to which stage.
do
  local x, a, b = random { 3, 700 }, random({ 20, 40 }, "bf16"), random({ 40, 48 }, "bf16")
  core.jit_marks "stages"
  check("marked rows", function(t) return op.softmax(t), op.sum(t, { axis = 0 }), op.cumsum(t, { axis = 1 }) end, x)
  check("unit, marked", function(t, u) return op.matmul(t, u) end, a, b)
  check("marked product", function(t, u) return op.matmul(t, u) end, random { 20, 40 }, random { 40, 36 })
  assert(#core.jit_marks(nil) >= 5, "launches with marks are missing")
end

local files = 0
for _ in io.popen("ls " .. folder):lines() do files = files + 1 end
print(("%d launches of %d calls are kept"):format(files, called))
assert(files > 60, "launches are missing")
local emulator, failed = os.getenv "TESSERA_EMULATOR", 0
if emulator then failed = os.execute(("python3 scripts/emulate_amd.py %s %s"):format(emulator, folder)) end
if not os.getenv "KEEP" then os.execute("rm -r " .. folder) end
assert(failed == 0, "the emulator says otherwise")
