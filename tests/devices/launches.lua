-- What calls on a GPU cost beside their kernels, by a driver that counts: a call that is known is
-- one launch, and nothing else asks the driver.
package.path = "tests/devices/?.lua;" .. package.path
local fake, dir = require "_fake"()
if not fake then return print "skipped: no C compiler" end
local tessera = require "tessera"
local op, core = tessera.op, tessera.core
fake.fake_any()
fake.fake_limit(2 ^ 35)

local device = "cuda:0"
local function make(shape, dtype) return op.empty(shape, { dtype = dtype or "f32", device = device }) end

make({ 16 }):add_(1)
if tessera.jit.device().kernels == 0 then return print "skipped: no kernels" end

-- Calls of the driver in a round of n, and of them launches, once memory is there. Rounds are
-- too short to be launched together.
local function count(n, f)
  for _ = 1, 8 do
    for _ = 1, n do f() end
    tessera.synchronize()
    collectgarbage()
  end
  local calls, launches = fake.fake_calls(), fake.fake_count "cuLaunchKernelEx"
  for _ = 1, n do f() end
  return ("%d calls, %d launches"):format(tonumber(fake.fake_calls() - calls),
    tonumber(fake.fake_count "cuLaunchKernelEx" - launches))
end

local x, y, m = make { 16 }, make { 16 }, make { 8, 16 }
count(100, function() return x + y end) --> 100 calls, 100 launches
count(100, function() return x * 2 end) --> 100 calls, 100 launches
count(100, function() return op.softmax(m) end) --> 100 calls, 100 launches
count(100, function() return m[1] + y end) --> 100 calls, 100 launches
count(100, function() return x:sum() end) --> 100 calls, 100 launches

-- In place, without a result beside it.
count(100, function() return x:add_(y) end) --> 100 calls, 100 launches
count(100, function() return x:mul_(2) end) --> 100 calls, 100 launches
count(100, function() return m:sub_(y) end) --> 100 calls, 100 launches
count(100, function() return m[3]:add_(1) end) --> 100 calls, 100 launches

-- Small calls that repeat are launched together, with the addresses that changed.
local function together(rounds, f)
  for _ = 1, 1000 do f() end
  local before, launched = fake.fake_calls(), fake.fake_count "cuGraphLaunch"
  for _ = 1, rounds do f() end
  local patched = fake.fake_count "cuGraphExecKernelNodeSetParams"
  return tonumber(fake.fake_count "cuGraphLaunch" - launched), tonumber(fake.fake_calls() - before) <= rounds * 5
end
local z = x
together(640, function() z = z + y end) --> 10, true
local records, few = together(640, function()
  local d = (z - y) * 0.5
  z = z + d:exp()
end)
records, few --> 40, true
together(640, function() return op.matmul(make { 4, 4 }, make { 4, 4 }) end) --> 0, true
together(640, function() return (x + y)[0]:item() end) --> 0, true

-- Products: views for the copy engine are encoded once for the same addresses, and memory of
-- results that are garbage comes back without the driver.
local a, b = make({ 1024, 1024 }, "bf16"), make({ 1024, 1024 }, "bf16")
count(30, function() return op.matmul(a, b) end) --> 30 calls, 30 launches

-- What follows a product is of its launch, in every type.
local function behind(dtype)
  local p, q = make({ 6, 10 }, dtype), make({ 10, 8 }, dtype)
  local fallback = core.jit_device().fallback
  for _, words in ipairs { "relu", "silu", "gelu" } do op.matmul(p, q, { epilogue = words }) end
  for _, words in ipairs { "residual", "silu_residual", "gelu_residual" } do
    op.matmul(p, q, nil, make({ 6, 8 }, dtype), { epilogue = words })
  end
  local last = count(10, function() return op.matmul(p, q, { epilogue = "silu" }) end)
  return core.jit_device().fallback - fallback, last
end
behind "bf16" --> 0, 10 calls, 10 launches
behind "f32" --> 0, 10 calls, 10 launches
behind "f64" --> 0, 10 calls, 10 launches

-- A number is fetched by a copy and a wait, and comes by a copy.
local function item() return (x + y)[0]:item() end
item()
local calls = fake.fake_calls()
item()
tonumber(fake.fake_calls() - calls) --> 3
local number = op.ones {}
calls = fake.fake_calls()
number:to(device)
tonumber(fake.fake_calls() - calls) --> 1

-- Many blocks of a size are garbage at a time.
local function garbage()
  local keep = {}
  for i = 1, 600 do keep[i] = make { 2 ^ 17 } end
end
garbage()
collectgarbage()
local asked, given = fake.fake_count "cuMemAlloc", fake.fake_count "cuMemFree"
garbage()
tonumber(fake.fake_count "cuMemAlloc" - asked) --> 0
tonumber(fake.fake_count "cuMemFree" - given) --> 0
-- Launches of a function: one behind the other, or behind those alone whose results they need.
local w = make({ 128, 128 }, "bf16")
local function order(on)
  tessera.jit.overlap(on)
  local f = tessera.graph.module("two", function(x, y)
    for _ = 1, 3 do x, y = op.matmul(x, w), op.matmul(y, w) end
    return op.matmul(x, y)
  end)
  tessera.jit.eager(true)
  for _ = 1, 8 do f(make({ 128, 128 }, "bf16"), w) end
  tessera.jit.eager(false)
  tessera.jit.overlap(false)
  return tonumber(fake.fake_roots()), tonumber(fake.fake_edges())
end
order(false) --> 1, 6
order(true) --> 2, 6

-- Kernels that take memory meanwhile have areas of the records': as many run side by side.
local function sums(on)
  tessera.jit.overlap(on)
  local x, y = {}, {}
  for i = 1, 6 do x[i] = make { 16384, 64 } end
  local f = tessera.graph.module("sums", function(...)
    for i, v in ipairs { ... } do y[i] = v:sum { axis = 0 } end
    return unpack(y)
  end)
  tessera.jit.eager(true)
  for _ = 1, 8 do f(unpack(x)) end
  tessera.jit.eager(false)
  tessera.jit.overlap(false)
  return tonumber(fake.fake_roots()), tonumber(fake.fake_edges())
end
sums(false) --> 1, 11
sums(true) --> 4, 8

-- Products of f32 with words behind them are for kernels that the copy engine feeds, as bare ones are.
local function maps(words, bias)
  local before = tonumber(fake.fake_count "cuTensorMapEncodeTiled")
  op.matmul(make { 256, 256 }, make { 256, 256 }, bias, { epilogue = words })
  return tonumber(fake.fake_count "cuTensorMapEncodeTiled") > before
end
maps "none" --> true
maps("bias_relu", make { 256 }) --> true
maps("bias_gelu", make { 256 }) --> true
os.execute("rm -rf " .. dir)
