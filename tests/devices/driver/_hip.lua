-- AMD's GPUs with all that is between an operator and the driver, by hip_program.c: code objects are made and loaded,
-- launches checked, and what they compute is the CPU's, bit by bit. Few and small: each launch is compiled anew for
-- the host.
package.path = "tests/devices/?.lua;" .. package.path
local ffi = require "ffi"
ffi.cdef [[
const char *fake_complaint(void);
long fake_count(const char *call);
long fake_blocks(void);
void fake_fail(const char *call, int after, int code);
]]
local fake = ffi.C
local tessera = require "tessera"
local op, core, rng, jit = tessera.op, tessera.core, tessera.rng, tessera.jit
if not jit.status() then return print "skipped: no code generator" end
jit.later(false)
local one, two = "hip:0", "hip:1"

local function well() return ffi.string(fake.fake_complaint()) end
local function launches() return tonumber(fake.fake_count "hipModuleLaunchKernel") end

-- f there and here, which the device ran: the same bits.
local function same(f, ...)
  local there = {}
  for i, x in ipairs { ... } do there[i] = x:to(one) end
  local before, launched = core.jit_device(), launches()
  local got, want = f(unpack(there)), f(...)
  local after = core.jit_device()
  if after.fallback ~= before.fallback or after.refused ~= before.refused then return "the CPU ran it" end
  if launches() == launched then return "nothing was launched" end
  if got.device ~= one then return "it is on " .. got.device end
  return got:hash() == want:hash()
end

#tessera.devices() --> 4
tessera.devices()[3].text:match "^[^;]*" --> Fake Instinct 0, gfx942, 304 compute units, 2.10 GHz, 0.2 GiB
tessera.devices().missing.hip --> nil

-- Families of kernels: maps, rows, reductions, products, scans, sorts, gathers, scatters, transforms, draws.
local x, y = rng.normal { 33, 70 }, rng.normal { 33, 70 }
local m, n = rng.normal { 40, 56 }, rng.normal { 56, 24 }
same(function(a, b) return op.gelu(a * b + 1) end, x, y) --> true
same(function(a) return op.softmax(a) end, x) --> true
same(function(a) return a:sum(0) end, x) --> true
same(function(a) return a:sum() end, rng.normal { 70000 }) --> true
same(function(a, b) return op.matmul(a, b) end, m, n) --> true
same(function(a, b) return op.matmul(a, b) end, m:cast "f64", n:cast "f64") --> true
same(function(a) return op.cumsum(a, { axis = 1 }) end, x) --> true
same(function(a) return op.sort(a) end, x) --> true
same(function(a) return a["1:30:3, ::-1"] * 2 end, x) --> true
same(function(a) return a:T() + 1 end, x) --> true
same(function(a) return (op.fft(a)) end, rng.normal { 3, 64 }) --> true
same(function(a) return a:cast "bf16" * 2 end, x) --> true
same(function(a) return a:div(3) end, op.arange(1000)) --> true
well() -->

-- A function that is captured, again and again: from the third run on its launches are one graph, whose arguments change.

local function chain(a, b)
  local c = a * b
  return op.softmax(c) + c:sum()
end
local replayed = tonumber(fake.fake_count "hipGraphLaunch")
local step = tessera.graph.module("chain", chain)
local right = true
for i = 1, 6 do
  local a, b = rng.normal { 33, 70 }, rng.normal { 33, 70 }
  right = right and step(a:to(one), b:to(one)):hash() == chain(a, b):hash()
end
right --> true
tonumber(fake.fake_count "hipGraphLaunch") > replayed --> true
well() -->

-- Two devices: bytes go from one to the other without the host.
local a = x:to(one) * 1
local copied = tonumber(fake.fake_count "hipMemcpyPeerAsync")
a:to(two):hash() == x:hash() --> true
tonumber(fake.fake_count "hipMemcpyPeerAsync") - copied --> 1
(a:to(two) * 2):hash() == (x * 2):hash() --> true
(pcall(function() return a + y:to(two) end)) --> false
well() -->

-- Training on both, and on the CPU: the same losses.
local function trainer(where)
  return tessera.device(where, function()
    rng.seed(5)
    local model = tessera.nn.Sequential(tessera.nn.Linear(16, 24), op.gelu, tessera.nn.Linear(24, 10))
    return tessera.graph.training_step(model, function(net, data, target) return op.cross_entropy(net(data), target) end,
      tessera.optim.AdamW(model:parameters(), { lr = 1e-2 }))
  end)
end
local steps = { trainer(one), trainer(two), trainer "cpu" }
for i = 1, 5 do
  local data, target = rng.normal { 8, 16 }, rng.randint({ 8 }, { low = 0, high = 10 })
  local loss = {}
  for k = 1, 3 do loss[k] = steps[k](data, target):item() end
  assert(loss[1] == loss[2] and loss[1] == loss[3], ("step %d: %.9g %.9g %.9g"):format(i, unpack(loss)))
end
well() -->

-- Small calls that repeat are launched together.
local z = op.ones({ 16 }, { device = one })
replayed = tonumber(fake.fake_count "hipGraphLaunch")
for _ = 1, 700 do z = z + 1 end
z[3]:item() --> 701
tonumber(fake.fake_count "hipGraphLaunch") > replayed --> true
well() -->

-- Where a device's time goes: by its events.
local rows = jit.device_profile(function() return op.softmax(a * 2) end)
#rows > 0 and rows[1].us > 0 --> true
well() -->

-- Whatever fails is an error that names call, code and text, or was done in another way; and behind it all goes on.
local calls = {
  "hipMalloc", "hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync", "hipStreamSynchronize", "hipEventRecord",
  "hipStreamWaitEvent", "hipEventSynchronize", "hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel",
}
local large = rng.normal { 40000 }
local function scenario(k)
  local z = large:to(one)
  return ((z + k):to(one)["::2"] * 2)[7]:item()
end
local function wrong_behind(call)
  for at = 1, 3 do
    local k = at + 10 * #call
    jit.flush()
    core.trim()
    fake.fake_fail(call, at, 1)
    local ok, got = pcall(scenario, k)
    fake.fake_fail("", 0, 0)
    local want = ((large[14]:item() + k) * 2)
    if not ok and not (tostring(got):find(call .. ": hipErrorInvalidValue (1): invalid argument", 1, true)) then return got end
    if ok and math.abs(got - want) > 1e-3 * math.abs(want) then return ("%g, not %g"):format(got, want) end
    local again = scenario(k)
    if math.abs(again - want) > 1e-3 * math.abs(want) then return ("%g behind it, not %g"):format(again, want) end
  end
end
for _, call in ipairs(calls) do
  local why = wrong_behind(call)
  assert(not why, call .. ": " .. tostring(why))
end
well() -->

-- Profile marks: records come with each launch's arguments, in ticks whose length the host finds out.
do
  local kernels = require "tessera.kernel.profile"
  local z = rng.normal { 64, 300 }:to(one)
  local plain = op.softmax(z):hash()
  local list = kernels.run(op.softmax, z)
  assert(#list == 1, #list .. " launches")
  local k = list[1]
  assert(k.launch.tick_nsec > 0 and k.clock > 0, "ticks without a length")
  local part, all = {}, 0
  for _, s in ipairs(k.roles[1].stages) do part[s.stage], all = s.part, all + s.part end
  assert(math.abs(all - 1) < 1e-9 and math.abs(part.between - 2 / 3) < 1e-9, "stages of " .. k.kernel)
  assert(k.occupancy and k.registers == 32 and next(k.processors) and k.usec > 0, "facts")
  core.jit_marks "stages"
  local marked = op.softmax(z):hash()
  core.jit_marks(nil)
  core.jit_profile(false)
  assert(marked == plain and op.softmax(z):hash() == plain, "other bits")
end
well() -->
