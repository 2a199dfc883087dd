-- Kernels that the compiler makes are clean under the debugger of kernels: products with roles and by warps, attention and
-- its gradients, rows, sorts, scans, transforms, chains and steps of training. The simulated device runs all of them by the
-- debugger, whose findings are errors.
package.path = "tests/devices/?.lua;" .. package.path
local ffi = require "ffi"
ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
ffi.C.setenv("TESSERA_SIM", "check", 1)
local tessera = require "tessera"
local core, op, rng, graph, nn, optim = tessera.core, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
local device = require "_device"
if device.kind ~= "sim" then return print "skipped: the simulated device alone runs kernels by the debugger" end
local name = device.name

local wrong = {}
local function clean(what, f)
  local ok, why = pcall(function()
    local y = f()
    if type(y) == "table" then y = y[1] end
    return y:hash()
  end)
  if not ok then wrong[#wrong + 1] = what .. ": " .. why end
end
local function x(dtype, ...) return rng.normal({ ... }):cast(dtype):to(name) end

local function all(unit)
  for _, d in ipairs { "f32", "bf16", "f16", "f64" } do
    clean(unit .. " matmul " .. d, function() return op.matmul(x(d, 136, 72), x(d, 72, 200)) end)
    clean(unit .. " transposed " .. d, function() return op.matmul(x(d, 72, 136):T(), x(d, 200, 72):T()) end)
    clean(unit .. " epilogue " .. d, function()
      return op.matmul(x(d, 72, 64), x(d, 64, 264), x(d, 264), { epilogue = "bias_gelu" })
    end)
  end
  for _, causal in ipairs { false, true } do
    clean(unit .. " attention", function()
      return op.attention(x("f16", 1, 2, 130, 64), x("f16", 1, 2, 130, 64), x("f16", 1, 2, 130, 64), { causal = causal })
    end)
    clean(unit .. " gradients of attention", function()
      local q, k, v = x("bf16", 1, 2, 130, 64), x("bf16", 1, 2, 130, 64), x("bf16", 1, 2, 130, 64)
      q.requires_grad = true
      op.attention(q, k, v, { causal = causal }):sum():backward()
      return q.grad
    end)
  end
end
all "wgmma"
ffi.C.setenv("TESSERA_GPU", "sm_80", 1)
all "mma"
ffi.C.setenv("TESSERA_GPU", "", 1)

clean("softmax", function() return op.softmax(x("f32", 5, 300)) end)
clean("layernorm", function() return op.layernorm(x("f32", 5, 300), x("f32", 300), x("f32", 300)) end)
clean("sum", function() return x("f32", 70, 300):sum { axis = 0 } end)
clean("sort", function() return op.sort(x("f32", 5, 300)) end)
clean("argsort", function() return op.argsort(x("f32", 5000)) end)
clean("cumsum", function() return op.cumsum(x("f32", 3, 5000), { axis = 1 }) end)
clean("fft", function() return op.fft(x("f32", 4, 240)) end)
clean("convolution", function() return op.conv2d(x("f32", 1, 4, 12, 12), x("f32", 8, 4, 3, 3)) end)

tessera.jit.eager(true)
local chain = graph.module("chain", function(a, b)
  local y = op.gelu(a * 2 + b)
  return op.softmax(y * y:sum { axis = 1, keepdims = true })
end)
for _ = 1, 2 do clean("chain", function() return chain(x("f32", 12, 40), x("f32", 40)) end) end
tessera.device(name, function()
  local model = nn.Sequential(nn.Linear(16, 32), op.relu, nn.Linear(32, 4))
  local step = graph.training_step(model, function(m, a, b) return op.mse(m(a), b) end,
    optim.AdamW(model:parameters(), { lr = 1e-2 }))
  for _ = 1, 3 do clean("a step of training", function() return step(x("f32", 8, 16), x("f32", 8, 4)) end) end
end)
tessera.jit.eager(false)
table.concat(wrong, "\n") -->
tessera.jit.device().kernels > 20 --> true
