-- Tensors on GPUs of AMD's driver made of host memory (fake_hip.c): what is said of drivers that are of no use, bytes, memory,
-- failures. Kernels run in tests/devices/driver/_hip.lua.
package.path = "tests/devices/?.lua;" .. package.path
local fake, dir, another = require "_fake" "hip"
if not fake then return print "skipped: no C compiler" end

local show = [[local t = require "tessera"; print(t.devices().missing.hip, (t.op.ones(3) + 1):sum():item())]]
another("FAKE_INIT=100", show) --> no AMD GPU: hipInit: hipErrorNoDevice (100): no ROCm-capable device is detected	6
another("TESSERA_LIBHIP=libm.so.6", show) --> the AMD driver has no hipInit	6
another("TESSERA_LIBHIP=/nowhere", show) --> no AMD driver: /nowhere, which TESSERA_LIBHIP names, cannot be opened	6

-- A processor that there is no code for: tensors are kept there, and the CPU computes.
local old = [[local t = require "tessera"; local x = t.op.arange(10):to "hip:0"; print(t.devices()[3].text, (x + 1):sum():item())]]
another("FAKE_HIP_CODE=gfx908", old):match "no kernels.*" --> no kernels: there is no code for it	55

local tessera = require "tessera"
local op = tessera.op
#tessera.devices() --> 4
tessera.devices()[4].text --> Fake Instinct 1, gfx942, 304 compute units, 2.10 GHz, 0.2 GiB; not used yet
fake.fake_blocks() --> 0LL

require "_cuda"("hip:0", 2 ^ 24)
op.arange(1000):to "hip:0":to "hip:1":to "cpu":sum():item() --> 499500

tessera.core.trim()
fake.fake_limit(64 * 2 ^ 20)
local keep = {}
for i = 1, 15 do keep[i] = op.zeros({ 2 ^ 20 }):to "hip:0" end
local function one_more() return op.zeros({ 2 ^ 21 }):to "hip:0" end
one_more() --! out of memory: hip:0 has no room for 8388608 bytes: 629
keep = nil
one_more()[7]:item() --> 0

local y = op.arange(5)
fake.fake_fail("hipMemcpyHtoDAsync", 1, 700)
y:to "hip:0" --! hip:0: hipMemcpyHtoDAsync: hipErrorIllegalAddress (700): an illegal memory access was encountered
y:to "hip:0":to "cpu":sum():item() --> 10
fake.fake_fail("hipDeviceSynchronize", 1, 700)
tessera.synchronize "hip:0" --! hipDeviceSynchronize: hipErrorIllegalAddress
os.execute("rm -rf " .. dir)
