-- Small calls on a GPU run on the CPU until their kernels are compiled. The driver is one that
-- runs nothing (fake_cuda.c): what is right was computed by the CPU, what launches is not.
package.path = "tests/devices/?.lua;" .. package.path
local ffi = require "ffi"
local lib, dir = require "_fake"()
if not lib then return print "skipped: no C compiler" end
local tessera = require "tessera"
local core, op, rng, jit = tessera.core, tessera.op, tessera.rng, tessera.jit
if not jit.status() then return print "skipped: no code generator" end
ffi.C.setenv("TESSERA_CACHE", dir, 1)
lib.fake_any()
jit.later(true)

local gpu = "cuda:0"
local x = rng.normal({ 40, 64 }, { seed = 3, stream = 1 })
local k = rng.normal({ 64, 64 }, { seed = 3, stream = 2 })
local index = tessera.tensor({ 3, 0, 3, 7 }, { dtype = "i64" })
local there = { x:to(gpu), k:to(gpu), index:to(gpu) }

local function launches()
  return tonumber(lib.fake_count "cuLaunchKernelEx" + lib.fake_count "cuGraphLaunch")
end

local calls = {
  { "add", function(a, b) return a + 1 end },
  { "layernorm", function(a) return op.layernorm(a) end },
  { "sum of columns", function(a) return a:sum { axis = 0 } end },
  { "matmul", function(a, b) return a:matmul(b) end },
  { "bf16 rows", function(a) return op.softmax(a:cast "bf16") end },
  { "sort along columns", function(a) return (a:sort { axis = 0 }) end },
  { "fft", function(a) return op.fft(a) end },
  { "index_add", function(a, b, i) return op.index_add(a, i, b["0:4"], { axis = 0 }) end },
  { "dropout", function(a) core.seed(5) return op.dropout(a, { p = 0.5 }) end },
  { "in place", function(a) local y = op.clone(a) y:mul_(3) return y end },
  { "transposed copy", function(a) return a["0:32"]:T():contiguous() end },
}
for _, c in ipairs(calls) do
  local what, f = c[1], c[2]
  local before, meanwhile = launches(), core.jit_device().meanwhile
  lib.fake_hold(1)
  local y = f(unpack(there))
  assert(y.device == gpu, what)
  assert(launches() == before, what .. ": nothing is launched before it is compiled")
  assert(core.jit_device().meanwhile > meanwhile, what)
  assert(y:to "cpu":hash() == f(x, k, index):hash(), what .. ": other bits")
  lib.fake_hold(0)
  for _ = 1, 5 do -- kernels of several steps are found one after the other
    jit.wait()
    f(unpack(there)):to "cpu" -- reading launches what was put off
  end
  assert(launches() > before, what .. ": its kernel takes over")
end

-- Sums of a matrix unit are another chain, and large calls are no matter of a moment.
local function waits(what, f)
  local before, meanwhile = launches(), core.jit_device().meanwhile
  f():to "cpu"
  assert(launches() > before and core.jit_device().meanwhile == meanwhile, what)
end
local h = op.zeros({ 512, 512 }, { dtype = "bf16", device = gpu })
jit.wait()
waits("bf16", function() return h:matmul(h) end)
local query, pages = op.zeros({ 64, 32, 1, 64 }, { dtype = "f16", device = gpu }), op.zeros({ 1, 5, 32, 64 }, { dtype = "f16", device = gpu })
local lists, from = op.zeros({ 64, 128 }, { dtype = "i64", device = gpu }), op.zeros({ 64 }, { dtype = "i64", device = gpu })
jit.wait()
waits("pages of 16 bits", function() return op.paged_attention(query, pages, pages, lists, from) end)
local big = op.zeros({ 1024, 4096 }, { device = gpu })
waits("many bytes", function() return op.tanh(big) end)

-- Products of f64 have a second kernel, of the same bits, for the first few runs.
local wide = op.zeros({ 512, 512 }, { device = gpu, dtype = "f64" })
jit.wait()
local modules = lib.fake_count "cuLibraryLoadData"
waits("product", function() return wide:matmul(wide) end)
jit.wait()
assert(lib.fake_count "cuLibraryLoadData" == modules + 2, "two kernels")
waits("product", function() return wide:matmul(wide) end)
assert(lib.fake_count "cuLibraryLoadData" == modules + 2, "the other one took over")

-- Calls of several kernels are gone through once before, so that all are compiled side by side, and
-- launch what they always do.
local image = op.zeros({ 4, 64, 32, 32 }, { dtype = "bf16", device = gpu })
local window = op.zeros({ 64, 64, 3, 3 }, { dtype = "bf16", device = gpu })
jit.wait()
local function count(f)
  local before, known = launches(), lib.fake_count "cuLibraryLoadData"
  f():to "cpu"
  return launches() - before, lib.fake_count "cuLibraryLoadData" - known
end
local many = op.zeros({ 100000 }, { dtype = "i64", device = gpu })
local long = op.zeros({ 2 ^ 20 }, { device = gpu })
local added, corner = long["0:100000"], image["::, ::, 1::, 1::"]
jit.wait()
for what, f in pairs {
  conv2d = function() return op.conv2d(image, window, { padding = 1 }) end,
  ["conv2d of views"] = function() return op.conv2d(corner, window, { padding = 1 }) end,
  ["sort of a long row"] = function() return (long:sort()) end,
  ["sort of another axis"] = function() return (long:reshape(1024, 1024):sort { axis = 0 }) end,
  ["index_add in place"] = function()
    local y = op.clone(long)
    y:index_add_(many, added, { axis = 0 })
    return y
  end,
  index_add = function() return op.index_add(long, many, added, { axis = 0 }) end,
} do
  local first = count(f)
  local second, again = count(f)
  assert(first > 1, what .. ": it has several kernels")
  local more = first - second -- steps before the first that was not ready: by how fast compilers were
  assert(more >= 0 and more < second and again == 0, ("%s: %d launches, then %d"):format(what, first, second))
end

-- What is on the disk is loaded meanwhile, too.
jit.flush()
lib.fake_hold(1)
local before = core.jit_device()
assert((there[1] + 1):to "cpu":hash() == (x + 1):hash(), "from disk: other bits")
local after = core.jit_device()
assert(after.meanwhile == before.meanwhile + 1 and after.from_disk == before.from_disk + 1, "from disk")
lib.fake_hold(0)

-- Where each kernel is measured or wanted at once, it is waited for.
jit.eager(true)
waits("eager", function() return there[1] * there[1] end)
jit.eager(false)
local rows = jit.device_profile(function() return there[1] - there[1] end)
assert(#rows == 1, "profiled")

-- What is being compiled is waited for where it is needed.
lib.fake_hold(1)
local y = there[1] ^ 3
lib.fake_hold(0)
jit.later(false)
waits("no more meanwhile", function() return there[1] ^ 3 end)

-- A transform that is being compiled is waited for too, and may be forgotten meanwhile.
jit.later(true)
local row = op.zeros({ 3, 48 }, { device = gpu })
lib.fake_hold(1)
local z = op.rfft(row)
lib.fake_hold(0)
jit.later(false)
waits("a transform that is being compiled", function() return op.rfft(row) end)
jit.later(true)
z = op.irfft(z, { n = 40 })
jit.flush()
jit.wait()
jit.later(false)

-- What the disk keeps the driver has compiled: a later process takes it for quick.
local function kept()
  local p = io.popen(("find %s -type f | wc -l"):format(dir))
  return tonumber(p:read "*a"), p:close()
end
local files = kept()
lib.fake_fail("cuLibraryLoadData", 1, 218)
local _ = there[1]:cos()
assert(kept() == files, "code that the driver refused is on disk")
_ = there[1]:tan()
assert(kept() == files + 1, "code that it took is not")
os.execute("rm -r " .. dir)
