-- Tensors on GPUs of a driver made of host memory (fake_cuda.c), which fails when told to.
package.path = "tests/devices/?.lua;" .. package.path
local fake, dir, another = require "_fake"()
if not fake then return print "skipped: no C compiler" end

-- Drivers that are of no use: a sentence, and everything else works.
local show = [[local t = require "tessera"; print(t.devices().missing.cuda, (t.op.ones(3) + 1):sum():item())]]
another("FAKE_INIT=100", show) --> no NVIDIA GPU: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected	6
another("FAKE_VERSION=11040", show) --> the NVIDIA driver is one for CUDA 11.4; 12.0 or newer is needed	6
another("TESSERA_LIBCUDA=libm.so.6", show) --> the NVIDIA driver has no cuInit	6

local tessera = require "tessera"
local op = tessera.op

-- Looking costs no memory.
fake.fake_blocks() --> 0LL
#tessera.devices() --> 4
tessera.devices()[3].name --> cuda:0
tessera.devices()[4].text --> Fake GPU 1, sm_90, 132 SMs, 1.98 GHz, 0.2 GiB; not used yet
tessera.devices().missing.cuda --> nil
fake.fake_blocks() --> 0LL

require "_cuda"("cuda:0", 2 ^ 25)
require "_cuda"("cuda:1", 2 ^ 22)

-- From GPU to GPU.
local x = op.arange(1000)
x:to "cuda:0":to "cuda:1":to "cpu":sum():item() --> 499500

-- Memory that is garbage is no reason to fail; memory in use is, and says so.
x = nil
tessera.core.trim()
fake.fake_limit(64 * 2 ^ 20)
local function fill()
  for i = 1, 20 do op.zeros({ 2 ^ 20 }):to "cuda:0" end
  return true
end
fill() --> true
local keep = {}
for i = 1, 15 do keep[i] = op.zeros({ 2 ^ 20 }):to "cuda:0" end
local function one_more() return op.zeros({ 2 ^ 21 }):to "cuda:0" end
one_more() --! out of memory: cuda:0 has no room for 8388608 bytes: 62914560 bytes live in 15 blocks
keep[3][0]:item() --> 0
keep = nil
one_more()[7]:item() --> 0

-- Results that are garbage make room as well, for results and for what kernels need themselves.
fake.fake_any()
keep = nil
local x = op.empty({ 2 ^ 20 }, { device = "cuda:0" })
local function results(n, hold)
  for i = 1, n do
    local y = x * 3
    if hold then hold[i] = y end
    x:sum()
  end
  return true
end
collectgarbage "stop"
results(60) --> true
local ok, why = pcall(results, 60, {})
local failed = not ok and why:find "cuda:0 has no room for" ~= nil
failed or tessera.jit.device().kernels == 0 --> true
results(3) --> true
collectgarbage "restart"
x = nil

-- Who does the same again and again, with blocks of many sizes, soon asks the driver no more.
local function step()
  local one, all = op.zeros({ 28 * 2 ^ 20 }):to "cuda:0", {}
  one = nil
  collectgarbage()
  for i = 1, 10 do all[i] = op.zeros({ (i + 20) * 2 ^ 17 }):to "cuda:0" end
  all = nil
  collectgarbage()
end
fake.fake_limit(512 * 2 ^ 20)
for i = 1, 30 do step() end
local asked = fake.fake_count "cuMemAlloc"
for i = 1, 5 do step() end
fake.fake_count "cuMemAlloc" - asked --> 0LL

-- Failures of the driver name call, code and text, and the tensor is as it was.
local y = op.arange(5)
fake.fake_fail("cuMemcpyHtoDAsync", 1, 700)
y:to "cuda:0" --! cuda:0: cuMemcpyHtoDAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered
y:sum():item() --> 10
y:to "cuda:0":to "cpu":sum():item() --> 10
fake.fake_fail("cuCtxSynchronize", 1, 700)
tessera.synchronize "cuda:0" --! cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS
os.execute("rm -rf " .. dir)
