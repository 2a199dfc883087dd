-- `tessera scripts/bench/first_use.lua [device] [meanwhile] [large] [prepare]`: milliseconds of the first
-- call of each operator on small tensors, or of some on large ones, and how many kernels it asked for.
-- With "meanwhile" the CPU may run it while they are compiled; "prepare": only tessera.jit.prepare().
-- TESSERA_CACHE=off: without the disk; a second run in the same folder: from it. With
-- tests/devices/driver/fake_cuda.c as TESSERA_LIBCUDA: what this program takes, without the driver.

local ts = require "tessera"
local ffi = require "ffi"
local op, rng, core = ts.op, ts.rng, ts.core
local device = arg[1] or "cuda:0"
local option = {}
for i = 2, #arg do option[arg[i]] = true end
ts.jit.later(option.meanwhile or false)
if option.prepare then
  local r = ts.jit.prepare(device)
  return print(("%d kernels, %d from disk: %.0f ms"):format(r.kernels, r.from_disk, r.ms))
end

ffi.cdef [[
struct tessera_time { long s, ns; };
int clock_gettime(int, struct tessera_time *);
]]
local clock = ffi.new "struct tessera_time"
local function now()
  ffi.C.clock_gettime(1, clock)
  return tonumber(clock.s) * 1e3 + tonumber(clock.ns) * 1e-6
end

local function there(dtype, ...)
  return rng.normal({ ... }, { seed = 1, stream = 0 }):cast(dtype):to(device)
end
local x, y, v = there("f32", 64, 64), there("f32", 64, 64), there("f32", 64)
local h, q, hq = there("bf16", 64, 64), there("f32", 1, 2, 128, 64), there("bf16", 1, 2, 128, 64)
local image, window = there("f32", 2, 8, 16, 16), there("f32", 8, 8, 3, 3)
local image16, window16 = there("bf16", 2, 64, 16, 16), there("bf16", 64, 64, 3, 3)
local d, long, rows = there("f64", 64, 64), there("f32", 4, 4096), there("f32", 4, 64)
local index = ts.tensor({ 1, 5, 3, 7 }, { dtype = "i64" }):to(device)
ts.synchronize()

local calls = {
  { "add", function() return x + y end },
  { "multiply", function() return x * 2 end },
  { "exp", function() return op.exp(x) end },
  { "gelu", function() return op.gelu(x) end },
  { "sin", function() return op.sin(x) end },
  { "pow", function() return op.pow(op.abs(x), y) end },
  { "where", function() return op.where(op.gt(x, y), x, y) end },
  { "cast", function() return x:cast "bf16" end },
  { "softmax", function() return op.softmax(x) end },
  { "softmax bf16", function() return op.softmax(h) end },
  { "layernorm", function() return op.layernorm(x, v, v) end },
  { "sum", function() return x:sum() end },
  { "sum of columns", function() return x:sum { axis = 0 } end },
  { "argmax", function() return x:argmax { axis = 1 } end },
  { "cumsum", function() return x:cumsum { axis = 1 } end },
  { "matmul", function() return x:matmul(y) end },
  { "matmul bf16", function() return h:matmul(h) end },
  { "matmul f64", function() return d:matmul(d) end },
  { "attention", function() return op.attention(q, q, q) end },
  { "attention bf16", function() return op.attention(hq, hq, hq) end },
  { "conv2d", function() return op.conv2d(image, window) end },
  { "conv2d bf16", function() return op.conv2d(image16, window16) end },
  { "sort", function() return x:sort() end },
  { "topk", function() return x:topk(4) end },
  { "sort of 4096", function() return long:sort() end },
  { "fft", function() return op.fft(x) end },
  { "rfft", function() return op.rfft(x) end },
  { "index_select", function() return op.index_select(x, index, { axis = 0 }) end },
  { "index_add", function() return op.index_add(x, index, rows, { axis = 0 }) end },
  { "transpose", function() return x:T():contiguous() end },
  { "concat", function() return op.concat({ x, y }, { axis = 0 }) end },
  { "dropout", function() return op.dropout(x, { p = 0.5 }) end },
  { "uniform", function() return rng.uniform({ 64, 64 }, { device = device }) end },
  { "normal", function() return rng.normal({ 64, 64 }, { device = device }) end },
}

if option.large then
  local a, b = there("bf16", 512, 512), there("bf16", 4096, 4096)
  local f, w = there("f32", 4096, 4096), there("f32", 4096)
  local qkv, g = there("bf16", 4, 1024, 3, 12, 64), there("bf16", 4, 12, 1024, 64)
  local function part(i) return qkv["::, ::, " .. i]:transpose(1, 2) end
  local k = there("bf16", 4, 12, 1024, 64)
  local grad = ts.graph.grad(function(q, k, v) return (op.attention(q, k, v, { causal = true }) * g):sum() end, { 1, 2, 3 })
  local rows, projection = there("bf16", 4 * 1024, 12 * 64), there("bf16", 12 * 64, 12 * 64)
  local block = ts.graph.grad(function(q, k, v, w)
    local y = op.attention(q, k, v, { causal = true }):transpose(1, 2):reshape(4 * 1024, 12 * 64)
    return (y:matmul(w) * rows):sum()
  end, { 1, 2, 3, 4 })
  calls = {
    { "bf16 512", function() return a:matmul(a) end },
    { "bf16 4096", function() return b:matmul(b) end },
    { "bf16 4096 NT", function() return b:matmul(b:T()) end },
    { "f32 4096", function() return f:matmul(f) end },
    { "add", function() return f + f end },
    { "gelu", function() return op.gelu(f) end },
    { "softmax", function() return op.softmax(f) end },
    { "layernorm", function() return op.layernorm(f, w, w) end },
    { "attention", function() return op.attention(k, k, k, { causal = true }) end },
    { "attention qkv", function() return op.attention(part(0), part(1), part(2), { causal = true }) end },
    { "its gradients", function() return grad(part(0), part(1), part(2)) end },
    { "with product", function() return block(part(0), part(1), part(2), projection) end },
  }
  ts.synchronize()
end

local times = {}
for i, c in ipairs(calls) do
  local before, begun = core.jit_device(), now()
  c[2]()
  ts.synchronize()
  times[i] = now() - begun
  local after = core.jit_device()
  print(("%-16s %8.2f  %d"):format(c[1], times[i], after.kernels - before.kernels))
end
table.sort(times)
print(("%-16s %8.2f"):format("median", times[math.ceil(#times / 2)]))
