-- What a training step has beside products and pointwise operators, on a device against the CPU:
-- gradients of norms, sums down columns, rows read and added at indices, losses, draws, axes that
-- change places; each alone, and a small GPT-2's step, in which nothing runs on the CPU but what
-- is said here. A second time with the code of a GPU, emulated (TESSERA_SIM=emulate).
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, nn, optim, rng = tessera.core, tessera.op, tessera.graph, tessera.nn, tessera.optim, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local emulated = os.getenv "TESSERA_SIM" == "emulate"

local function hashes(list)
  local text = {}
  for i, y in ipairs(list) do text[i] = y.dtype .. y:hash() end
  return table.concat(text, " ")
end

local function check(what, f, ...)
  local here, there = { ... }, {}
  for i, x in ipairs(here) do there[i] = x:to(name) end
  local want, before = hashes { f(unpack(here)) }, core.jit_device().fallback
  if hashes { f(unpack(there)) } ~= want then error(what .. ": another answer") end
  if core.jit_device().fallback ~= before then error(what .. ": the CPU ran it") end
end

core.seed(11)
local function random(dtype, shape) return op.cast(op.normal(shape) * 8, dtype) end
local function indices(shape, n) return op.randint(shape, { low = -n, high = n, seed = 3 }) end

-- Rows of one lane, of all lanes, of leaves that are not full.
local rows = emulated and { { 3, 8 }, { 300, 40 } }
  or { { 2, 5, 8 }, { 64, 128 }, { 300, 96 }, { 2, 33, 40 }, { 4096, 24 }, { 5000, 16 } }
for _, dtype in ipairs(emulated and { "bf16" } or { "f32", "bf16", "f64" }) do
  for _, s in ipairs(rows) do
    local what = dtype .. " " .. table.concat(s, "x")
    local x, g, w = random(dtype, s), random(dtype, s), random(dtype, { s[#s] })
    check("layernorm_grad " .. what, function(x, w, g) return op.layernorm_grad(x, w, g, { bias = true }) end, x, w, g)
    check("layernorm_grad, x alone " .. what, function(x, g) return (op.layernorm_grad(x, nil, g)) end, x, g)
    check("rmsnorm_grad " .. what, function(x, w, g) return op.rmsnorm_grad(x, w, g) end, x, w, g)
  end
end
for _, s in ipairs(emulated and { { 4096, 40 } } or { { 2500, 40 }, { 4096, 1100 }, { 9000, 24 } }) do
  check("columns", function(x) return op.sum(x, { 0 }), op.mean(x, { 0 }) end, random("f32", s))
end

for _, dtype in ipairs(emulated and { "f32" } or { "f32", "bf16", "i64", "bool" }) do
  local w, v = random(dtype, { 37, 96 }), random(dtype, { 5, 11, 3 })
  check("embedding", op.embedding, w, indices({ 4, 9 }, 37))
  check("embedding, i32", op.embedding, w, indices({ 40 }, 37):cast "i32")
  check("index_select", function(x, i) return op.index_select(x, i, { axis = 1 }) end, v, indices({ 2, 7 }, 11))
  check("take", op.take, v, indices({ 1300 }, 100))
end
for _, dtype in ipairs { "f32", "f64", "i32" } do
  local x, src = random(dtype, { 37, 96 }), random(dtype, { 300, 96 })
  check("index_add", op.index_add, x, indices({ 300 }, 37), src)
  if not emulated then
    x, src = random(dtype, { 3, 2000, 5 }), random(dtype, { 3, 5000, 5 })
    check("index_add, axis 1", function(x, i, s) return op.index_add(x, i, s, { axis = 1 }) end, x, indices({ 5000 }, 50),
      src)
  end
end

for _, s in ipairs { { 2, 48, 3, 16 }, { 3, 5, 7, 64 }, { 2, 100, 6, 40 } } do
  local x, b = random("bf16", s), random("bf16", { s[4] })
  check("permute", function(x) return x:permute(0, 2, 1, 3):contiguous() end, x)
  check("permute and bias", function(x, b) return x:permute(0, 2, 1, 3) * 2 + b end, x, b)
end

-- Indices out of range are the operator's own error, eagerly and in a function.
local function wrong(where)
  local w, i = random("f32", { 4, 8 }):to(where), tessera.tensor({ 1, 9 }):cast("i64"):to(where)
  local f = graph.module("lookup", function(w, i) return op.embedding(w, i) * 2 end)
  local out = {}
  tessera.jit.eager(true)
  for _, g in ipairs { op.embedding, f, f } do
    local ok, why = pcall(g, w, i)
    out[#out + 1] = tostring(ok) .. " " .. why:gsub("^[^ ]*: ", "")
  end
  tessera.jit.eager(false)
  return table.concat(out, "\n")
end
wrong(name) == wrong "cpu" --> true
wrong(name):match "embedding: index 9 is out of range for axis 0 of f32%[4,8%], of size 4" --> embedding: index 9 is out of range for axis 0 of f32[4,8], of size 4

-- A step of a small GPT-2 with dropout: everything in kernels, but attention's gradient, if that.
local heads, width, vocabulary = 2, 32, 48
local function train(where)
  core.seed(3)
  return tessera.device(where, function()
    local wte, wpe, norm = nn.Embedding(vocabulary, width), nn.Embedding(64, width), nn.LayerNorm(width)
    local qkv, mlp = nn.Linear(width, 3 * width), nn.Linear(width, width)
    local model = nn.Module:extend "GPT"
    function model:init() self.wte, self.wpe, self.norm, self.qkv, self.mlp = wte, wpe, norm, qkv, mlp end
    function model:forward(ids)
      local b, t = unpack(ids.shape)
      local x = op.dropout(self.wte(ids) + self.wpe(op.arange(t)), { p = 0.1 })
      local q, k, v = self.qkv(self.norm(x)):reshape(b, t, 3, heads, width / heads):permute(2, 0, 3, 1, 4):split { size = 1 }
      local y = op.attention(q:squeeze(0), k:squeeze(0), v:squeeze(0), { causal = true })
      x = x + self.mlp(op.gelu(y:permute(0, 2, 1, 3):reshape(b, t, width)))
      return op.matmul(x, self.wte.weight:transpose(0, 1))
    end
    local net = model()
    local step = graph.training_step(net, function(m, x, y)
      return op.cross_entropy(m(x):reshape(-1, vocabulary), y:reshape(-1))
    end, optim.AdamW(net:parameters(), { lr = 1e-2 }))
    local losses = {}
    for i = 1, emulated and 2 or 6 do
      local ids = op.randint({ 2, 65 }, { low = 0, high = vocabulary, seed = 5, stream = i })
      losses[i] = step(ids:narrow(1, 0, 64):contiguous(), ids:narrow(1, 1, 64):contiguous())
    end
    for _, p in ipairs(net:parameters()) do losses[#losses + 1] = p end
    return hashes(losses), step
  end)
end
tessera.jit.eager(true)
local want = train "cpu"
local got, step = train(name)
tessera.jit.eager(false)
got == want --> true
for line in step:ir("why"):gmatch "[^\n]+" do
  if line:match "indices are looked at" or line:match "drawn by the CPU" then error(line) end
end

-- Where the time goes.
local x = random("f32", { 64, 64 }):to(name)
local table_of = tessera.jit.device_profile(function() return (x + 1):exp() end)
#table_of --> 2
table_of[1].count --> 1
tostring(table_of):match "GFLOP/s  kernel" --> GFLOP/s  kernel

if device.kind == "sim" and not emulated then
  local p = io.popen(("TESSERA_SIM=emulate %s scripts/run_test.lua tests/devices/training.lua 2>&1 && echo fine"):format(arg[-1] or "bin/tessera"))
  local text = p:read "*a"
  p:close()
  if not text:match "fine\n$" then error(text) end
end
