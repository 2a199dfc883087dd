-- Kernels with profile marks on a device: the bits of those without, records of every warp, stages that
-- add up to their time, names of roles and of the program's own stages; and nothing of it when off.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, rng, graph = tessera.core, tessera.op, tessera.rng, tessera.graph
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if os.getenv "TESSERA_SIM" == "emulate" then return print "skipped: the emulator has no marks" end
local kernels = require "tessera.kernel.profile"
rng.seed(1)
local function N(shape, dtype) return rng.normal(shape):cast(dtype or "f32"):to(name) end

local function check(title, f, ...)
  local args = { ... }
  local plain = f(unpack(args))
  local list = kernels.run(f, ...)
  assert(#list > 0, title .. ": no launch")
  for _, k in ipairs(list) do
    assert(#k.roles > 0 and k.turns > 0, title)
    local parts = 0
    for _, role in ipairs(k.roles) do
      local sum = 0
      for _, s in ipairs(role.stages) do
        assert(s.count > 0 and s.median <= s.p95 and s.name ~= "", title .. ": " .. s.name)
        sum = sum + s.part
      end
      assert(#role.stages == 0 or math.abs(sum - 1) < 1e-9, title .. ": parts add up to " .. sum)
      parts = parts + sum
    end
    assert(parts > 0, title .. ": no stage of " .. k.kernel)
    assert(kernels.limit(k):find "%a+:", title)
  end
  assert(f(unpack(args)):hash() == plain:hash(), title .. ": other bits afterwards")
  local again
  core.jit_marks "stages"
  again = f(unpack(args))
  core.jit_marks(nil)
  core.jit_profile(false)
  assert(again:hash() == plain:hash(), title .. ": other bits with marks")
  assert(#kernels.text(list, 80) > 100)
  return list
end

local function stages_of(list)
  local names = {}
  for _, k in ipairs(list) do
    for _, role in ipairs(k.roles) do
      for _, s in ipairs(role.stages) do names[s.name] = role.name end
    end
  end
  return names
end

local x = N { 40, 256 }
check("exp", op.exp, x)
local rows = stages_of(check("softmax", op.softmax, x))
assert(rows.load and rows.store and rows.reduce)
check("layernorm", op.layernorm, x)
check("sum", function(a) return a:sum() end, x)
check("fft", op.fft, N { 4, 256 })
check("sort", function(a) return (op.sort(a)) end, N { 2000 })
check("matmul f32", op.matmul, N { 64, 48 }, N { 48, 64 })
check("matmul f64", op.matmul, N({ 32, 32 }, "f64"), N({ 32, 32 }, "f64"))
local roles = stages_of(check("matmul bf16", op.matmul, N({ 256, 128 }, "bf16"), N({ 128, 256 }, "bf16")))
assert(roles.mma)
local q, k = N({ 1, 2, 128, 64 }, "bf16"), N({ 1, 2, 1, 64 }, "bf16")
local attention = stages_of(check("attention", function(a) return op.attention(a, a, a, { causal = true }) end, q))
assert(attention.mma and attention.softmax and attention.epilogue)
check("decode", function(a, b) return op.attention(a, b, b) end, k, q)
check("conv", function(a, w) return op.conv2d(a, w, { padding = 1 }) end, N({ 1, 32, 8, 8 }, "bf16"), N({ 32, 32, 3, 3 }, "bf16"))
check("gather", function(a, i) return op.take(a, i) end, x, rng.randint({ 300 }, { low = 0, high = 100 }):to(name))
check("a captured function", graph.module("f", function(a) return op.softmax(a * 2 + 1) end), x)
check("its gradient", graph.module("g", function(a)
  return graph.grad(function(b) return op.attention(b, b, b, { causal = true }):cast("f32"):square():sum() end)(a)
end), q)

-- The program's own stages keep their words, and no others are put beside them.
local own = op.kernel("own", { x = "f32[M,N]" }, { y = "f32[M,N]" }, function(t, x, y)
  for r in t:rows(x) do
    local v = t:stage("load", "the row", function() return x[r] end)
    t:stage("other", "centre and scale", function() y[r] = (v - v:mean()) * 2 end)
  end
end)
local words = stages_of(check("own stages", own, x))
assert(words["load the row"] and words["centre and scale"] and not words.reduce and not words.store)

-- Off: the code that runs is the one from before, and nothing is collected.
core.jit_marks(nil)
core.jit_watch(true)
op.softmax(x)
local before = core.jit_watch()
kernels.run(op.softmax, x)
core.jit_watch(true)
op.softmax(x)
local after = core.jit_watch()
core.jit_watch(false)
#core.jit_marks(nil) --> 0
#after == #before and #after > 0 --> true

-- Without marks a report has whole kernels, and no stages.
local report = tessera.profile.measure(op.softmax, { args = { x }, runs = 1, marks = false })
#report.kernels, report.kernels[1].roles and #report.kernels[1].roles or 0, tostring(report):find "with marks" --> 1, 0, nil
