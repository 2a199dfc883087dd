-- Where bytes are: what a device makes and reads has none on the host, what the CPU reads is
-- fetched once, what one writes is stale on the other; nothing is left behind.
package.path = "tests/devices/?.lua;" .. package.path
local ffi = require "ffi"
ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
ffi.C.setenv("TESSERA_SIM_BYTES", "50000000", 1)
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local sim = name == "sim:0"

local function where(x) return x.device == name and "there" or x.device end

local function there()
  for _, d in ipairs(tessera.devices()) do
    if d.name == name then return d.live end
  end
end
local function here() return tessera.memory().held end
local MB = 1e6
local function about(bytes) return math.floor(bytes / MB + 0.5) end

collectgarbage()
local h, t, live = here(), there(), tessera.memory().live

-- Made there, used there: nothing here.
local x = op.ones({ 1000, 1000 }, { device = name })
local y = x * 2 + x:T()
collectgarbage()
about(there() - t) --> 8
about(here() - h) --> 0
about(tessera.memory().live - live) --> 8
where(y) --> there

-- Read here: fetched once, both are valid; written there: the host's goes.
y:sum():item() --> 3000000
y[5][7]:item() --> 3
about(here() - h) --> 4
y:add_(1)
about(here() - h) --> 0
y[5][7]:item() --> 4

-- Written here: the device has it again when it reads.
local p = ffi.cast("float *", y:data_ptr())
p[0] = 100
(y * 1)[0][0]:item() --> 100

-- Views show what is written through others.
local z = op.zeros({ 4, 6 }, { device = name })
z["1:3, ::2"] = 5
z:T()["2"]:add_(1)
collectgarbage()
z:sum():item() --> 34
z:to "cpu":sum():item() --> 34
z:hash() == z:to "cpu":hash() --> true
z:copy_(op.ones { 4, 6 })
z:sum():item() --> 24

-- Numbers and scalars mix, tensors of the CPU follow, two GPUs do not.
where((z + 1)) --> there
where((1 - z)) --> there
where((op.ones {} * z)) --> there
where((z * op.ones { 6 })) --> there
(op.ones { 6 } * z:sum()).device --> cpu:0
if sim then
  z + op.ones({ 4, 6 }, { device = "sim:1" }) --! add: inputs on sim:0 and sim:1
  z:to "sim:1":to "cpu":sum():item() --> 24
else
  print("skipped: two simulated devices on one machine")
end

-- All of it is the device's, whoever computes.
where(op.matmul(z, z:T())) --> there
where(z:sort()) --> there
where(op.concat { z, z }) --> there
where(z:gt(0.5):nonzero()) --> there

-- The device of new tensors.
tessera.device() --> auto
tessera.device(name, function() return where(op.zeros { 2 }), where(rng.normal { 2 }), where(tessera.tensor { 1, 2 }) end) --> there, there, there
tessera.device() --> auto
pcall(tessera.device, name, function() error("x", 0) end) --> false, x
tessera.device() --> auto
tessera.device(name) --> auto
where(op.arange(3)) --> there
tessera.tensor({ 1, 2 }, { device = "cpu" }).device --> cpu:0
tessera.device "auto" == name --> true
tessera.device "tpu" --! there is no device 'tpu'

-- What a script saves and loads.
local path = os.tmpname() .. ".safetensors"
tessera.save(path, { z = z })
tessera.load(path).z:hash() == z:hash() --> true
os.remove(path)

-- A full device: garbage is no reason to fail, memory in use is, and says so.
local function fill()
  collectgarbage "stop"
  for _ = 1, 40 do op.ones({ 1000000 }, { device = name }) end
  collectgarbage "restart"
  local keep = {}
  local ok, why = pcall(function()
    for i = 1, 40 do keep[i] = op.ones({ 1000000 }, { device = name }) end
  end)
  return ok, why:match "out of memory: sim:0 has no room for %d+ bytes"
end
if sim then
  fill() --> false, out of memory: sim:0 has no room for 4000000 bytes
else
  print("skipped: a device that is full")
end
op.ones({ 1000000 }, { device = name }):sum():item() --> 1000000

x, y, z, p = nil, nil, nil, nil
collectgarbage()
there() - t --> 0
tessera.memory().live - live < 100000 --> true
