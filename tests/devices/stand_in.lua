-- Calls with bits of the matrix unit's own, before their kernels are compiled: the interpreter runs the
-- kernels with that unit's arithmetic. Expected are the bits that an H200 gave. With DEV=cuda the kernels
-- run as well; without, the driver is one that runs nothing (fake_cuda.c), so calls that ask the GPU for
-- functions are left out.
package.path = "tests/devices/?.lua;" .. package.path
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
ffi.C.setenv("TESSERA_CACHE", "off", 1)
if os.getenv "TESSERA_GPU" then return print "skipped: kernels of older GPUs sum in other orders" end
local real = (os.getenv "DEV" or ""):match "^cuda"
local gpu, lib, dir = "cuda:0"
if real then
  local device = require "_device"
  if not device.name then return print(device.skipped) end
  gpu = device.name
else
  lib, dir = require "_fake"()
  if not lib then return print "skipped: no C compiler" end
  lib.fake_any()
end
local tessera = require "tessera"
local core, op, rng, jit = tessera.core, tessera.op, tessera.rng, tessera.jit
if not jit.status() then return print "skipped: no code generator" end

local stream = 0
local function there(d, ...)
  stream = stream + 1
  return op.cast(rng.normal({ ... }, { seed = 11, stream = stream }), d):to(gpu)
end
-- Numbers of all sizes, so that sums are cut in many ways, infinite ones and NaN among them.
local function wild(d, ...)
  stream = stream + 1
  local x = rng.normal({ ... }, { seed = 12, stream = stream })
  local size = rng.normal({ ... }, { seed = 13, stream = stream })
  return op.cast(x * op.exp(size * (d == "f16" and 3 or 12)), d):to(gpu)
end

jit.later(false)
local a, b = there("bf16", 64, 64), there("bf16", 64, 64)
local c, d = there("f16", 100, 72), there("f16", 72, 136)
local e, f = wild("bf16", 96, 80), wild("bf16", 80, 104)
local g, h = wild("f16", 96, 80), wild("f16", 80, 104)
local batch, turned = there("bf16", 3, 40, 64), there("bf16", 3, 56, 64)
local bias, rest = there("bf16", 64), there("bf16", 64, 64)
local image, window = there("bf16", 2, 32, 12, 12), there("bf16", 32, 32, 3, 3)
local gradient = there("bf16", 2, 32, 10, 10)
local rows, matrices = there("bf16", 48, 64), there("bf16", 3, 64, 32)
local sizes = tessera.tensor({ 20, 0, 28 }, { dtype = "i64" }):to(gpu)
local q, k = there("bf16", 1, 2, 96, 64), there("bf16", 1, 1, 96, 64)
local wide = there("f16", 1, 1, 80, 128)
local there_g, one = there("bf16", 48, 32), there("bf16", 1, 2, 1, 64)
local out, slope = there("bf16", 1, 2, 96, 64), there("bf16", 1, 2, 96, 64)

local calls = {
  { "bf16", "9d00dba75055f23a", function() return a:matmul(b) end },
  { "f16", "fea00bcd13d08e90", function() return c:matmul(d) end },
  { "bf16 of all sizes", "55fc6d58eafcacef", function() return e:matmul(f) end },
  { "f16 of all sizes", "1ed9d360cb128bb0", function() return g:matmul(h) end },
  { "batches, turned", "b71996172f696c7c", function() return batch:matmul(turned:transpose { axis0 = 1, axis1 = 2 }) end },
  { "bias, relu, residual", "caffef0e2251fce4", function()
    return op.matmul(a, b, bias, rest, { epilogue = "bias_relu_residual" })
  end },
  { "convolution", "3f6fc7370616e7d7", function() return op.conv2d(image, window) end },
  { "groups", "5b2c8f0ff64fd99a", function() return op.grouped_matmul(rows, matrices, sizes) end },
  { "gelu", "de9555ced69d45bc", function() return op.matmul(b, a, bias, nil, { epilogue = "bias_gelu" }) end, "device" },
  { "attention", "81e2ea0d2515cb00", function() return op.attention(q, k, k) end, "device" },
  { "causal attention", "d9987050bcc3becb", function() return op.attention(q, k, k, { causal = true }) end, "device" },
  { "attention of f16, D 128", "b829205541b4b97a", function() return op.attention(wide, wide, wide) end, "device" },
}
local function first(f) return function() return (f()) end end
local function third(f) return function() return (select(3, f())) end end
for _, x in ipairs {
  { "gradient of an image", "ed234eb4e7344ae1", function() return op.conv_transpose(gradient, window) end },
  { "gradient of a window", "44481dff51bf3b51", function() return op.conv_weight_grad(image, gradient, { window = { 3, 3 } }) end },
  { "gradient of matrices", "22368841b5a70e28", function() return op.grouped_matmul_weight_grad(rows, there_g, sizes) end },
  { "decoding", "5825bfc88fbaef75", function() return op.attention(one, k, k) end, "device" },
  { "gradient of queries", "fa4ee55d8bb3732f", first(function() return op.attention_grad(q, k, k, nil, nil, out, slope) end), "device" },
  { "gradient of values", "759bcecde82b6a27", third(function()
    return op.attention_grad(q, k, k, nil, nil, out, slope, { causal = true })
  end), "device" },
} do calls[#calls + 1] = x end
local print_hashes = os.getenv "TESSERA_TEST_PRINT"
for _, x in ipairs(calls) do
  local what, want, run, asks = unpack(x)
  if real or not asks then
    jit.wait()
    jit.flush() -- kernels are of many sizes
    jit.later(true)
    if lib then lib.fake_hold(1) end
    local meanwhile = core.jit_device().meanwhile
    local got = run():to "cpu":hash()
    local stood = core.jit_device().meanwhile > meanwhile
    if lib then lib.fake_hold(0) end
    jit.later(false)
    local code = real and run():to "cpu":hash()
    if print_hashes then
      print(what, got, code, stood)
    else -- GPUs of other kinds have other bits, and wait
      assert(stood or real, what .. ": its kernel was waited for")
      assert(got == want or not stood, what .. ": other bits than the GPU's")
      assert(not code or code == got, what .. ": other bits than the kernel's")
    end
  end
end
if lib then os.execute("rm -rf " .. dir) end
