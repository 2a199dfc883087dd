-- op.kernel on a device: kernels that a program wrote run there, with the CPU's bits, are counted, shown
-- and told; what a device cannot have, the CPU runs, and it is said.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, rng, jit = tessera.core, tessera.op, tessera.graph, tessera.rng, tessera.jit
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
rng.seed(1)

local kernels = {}
local function add(k, ...) kernels[#kernels + 1] = { k, ... } end

add(op.kernel("norm", { x = "f32[M,N]", w = "f32[N]" }, { y = "f32[M,N]", s = "f32[M]" },
  function(t, x, w, y, s)
    for r in t:rows(x) do
      local a = x[r]
      local mean = (a * a):mean()
      s[r] = mean
      y[r] = a * (1 / (mean + 1e-6):sqrt()) * w:load()
    end
  end), function(n, m) return rng.normal { n, m }, rng.normal { m } end)

add(op.kernel("cube", { x = "f64[N]" }, { y = "f64[N]" }, function(t, x, y)
  for i in t:parallel(0, t.N, 32) do
    local a = x:load({ i }, 32, { edge = true })
    y:store({ i }, a * a * a, { edge = true })
  end
end), function(n, m) return rng.normal({ n * m }, { dtype = "f64" }) end)

add(op.kernel("previous", { h = "bf16[T,C]" }, { y = "bf16[T,C]", n = "i64[T]" }, function(t, h, y, n)
  for r in t:rows(h) do
    for c in t:range(0, t.C, 64) do
      y:store({ r, c }, h:load({ r - 1, c }, 64, { edge = true }) * 2, { edge = true })
    end
    local sign = t:when((r % 2):eq(0), function() return t:full("i64[]", 1) end,
      function() return t:full("i64[]", -1) end)
    n[r] = t:fold({ 0, r + 1 }, { t:full("i64[]", 0) }, function(i, s) return s + i end) * sign
  end
end), function(n, m) return rng.normal({ n, m }, { dtype = "bf16" }) end)

add(op.kernel("product", { a = "f32[M,K]", b = "f32[K,N]" }, { y = "f32[M,N]" },
  function(t, a, b, y)
    local edge = { edge = true }
    for i in t:parallel(0, t.M, 16) do
      for j in t:range(0, t.N, 32) do
        y:store({ i, j }, t:fold({ 0, t.K, 32 }, { t:full("f32[16,32]") }, function(k, acc)
          return t:mma(a:load({ i, k }, { 16, 32 }, edge), b:load({ k, j }, { 32, 32 }, edge), acc)
        end), edge)
      end
    end
  end), function(n, m) return rng.normal { n, m }, rng.normal { m, n } end)

add(op.kernel("pick", { x = "f32[N]", at = "i64[K]" }, { y = "f32[K]" }, function(t, x, at, y)
  for i in t:parallel(0, t.K, 16) do
    y:store({ i }, x:gather(at:load({ i }, 16, { edge = true })), { edge = true })
  end
end), function(n, m) return rng.normal { n }, (rng.uniform { m } * (n - 1)):cast "i64" end)

add(op.kernel("turn", { x = "f32[M,N]" }, { y = "f32[N,M]", top = "f32[M]", at = "i64[M]" }, function(t, x, y, top, at)
  for i in t:parallel(0, t.M, 8) do
    for j in t:range(0, t.N, 8) do
      y:store({ j, i }, x:load({ i, j }, { 8, 8 }, { edge = true }):transpose { 1, 0 }, { edge = true })
    end
  end
  for r in t:rows(x) do
    top[r], at[r] = x[r]:max(), x[r]:argmax()
  end
end), function(n, m) return rng.normal { n, m } end)

local shapes = { { 3, 5 }, { 64, 96 }, { 1, 1 }, { 33, 300 } }
local ran = 0
for _, case in ipairs(kernels) do
  local k = case[1]
  for _, s in ipairs(shapes) do
    local x, moved = { case[2](s[1], s[2]) }, {}
    for i, t in ipairs(x) do moved[i] = t:to(name) end
    local want = { k(unpack(x)) }
    local before = jit.device()
    core.jit_watch(true)
    local have = { k(unpack(moved)) }
    local after, keys = jit.device(), core.jit_watch()
    local how, why, where = k:status()
    for i, t in ipairs(want) do
      assert(have[i].device == name and have[i]:hash() == t:hash(), ("%s %dx%d: result %d"):format(k.name, s[1], s[2], i))
    end
    if after.fallback > before.fallback then
      assert(where == nil and #keys == 0 and how ~= nil, k.name)
      print(("%s: the CPU runs it"):format(k.name), why)
    else
      assert(where == name and how ~= "interpreted" and after.calls > before.calls, k.name)
      -- What is shown is what ran.
      assert(#keys > 0 and k:ir "tiles" :find(keys[1], 1, true), k.name .. ": " .. k:ir "tiles")
      assert(jit.ir("tiles", k, unpack(moved)):find(keys[1], 1, true), k.name)
      ran = ran + 1
    end
  end
end
assert(ran >= 16, ran .. " ran there")

-- In captured functions, replayed, beside operators of the device.
local norm = kernels[1][1]
local f = graph.module("f", function(x, w) local y, s = norm(x * 2, w) return y + 1, s:sum() end)
local x, w = rng.normal { 9, 40 }, rng.normal { 40 }
local a, b = f(x, w)
for _ = 1, 6 do
  local c, d = f(x:to(name), w:to(name))
  assert(c:hash() == a:hash() and d:hash() == b:hash() and c.device == name)
end

-- Nothing to do, nothing to read.
norm(op.zeros { 0, 7 }:to(name), op.ones { 7 }:to(name)).shape[1] --> 0
-- Numbers follow the tensors; tensors of two devices do not meet.
local ramp = op.kernel("ramp", { x = "f32[N]", a = "f32[]" }, { y = "f32[N]" }, function(t, x, a, y)
  for i in t:rows(x) do y[i] = x[i] * a:load() end
end)
ramp(op.ones({ 3 }):to(name), 0.5):to "cpu" --> [0.5000 0.5000 0.5000]
--> f32[3]
norm(x:to(name), w) --! norm: argument 2 is on cpu:0, argument 1 on
norm(x:to(name), w) --! move one with x:to
-- Constants of a graph follow, as the ones that a gradient begins with.
local slope = op.kernel("slope", { x = "f32[N]", g = "f32[N]" }, { d = "f32[N]" }, function(t, x, g, d)
  for i in t:rows(x) do d[i] = x[i] * g[i] * 2 end
end)
local square = op.kernel("square", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
  for i in t:rows(x) do y[i] = x[i] * x[i] end
end, { adjoint = function(x, _, g) return slope(x, g) end })
local three = tessera.tensor { 1, 2, 3 }:to(name)
local function leaf(f)
  local a = three:clone():requires_grad_(true)
  f(a):backward()
  return a.grad
end
local function sum(a) return square(a):sum() end
local function branch(a) return op.cond(a:sum():gt(0), function() return sum(a) end, function() return a:sum() end) end
local summed = graph.module("summed", sum)
local clip = graph.custom_adjoint(function(a) return a * a end, function(a, _, g) return slope(a, g) end)
for how, d in pairs {
  grad = graph.grad(sum)(three), pair = select(2, graph.value_and_grad(sum)(three)), backward = leaf(sum),
  module = graph.grad(summed)(three), taped = leaf(summed), branch = graph.grad(branch)(three),
  captured = graph.module("captured", graph.grad(sum))(three),
  twice = graph.grad(function(a) return (square(a) * 2):sum() end)(three) / 2,
  mean = graph.grad(function(a) return square(a):mean() end)(three) * 3,
  custom = graph.grad(function(a) return clip(a):sum() end)(three),
  given = graph.module("given", function(a) return slope(a, op.arange(6):narrow(0, 5, 1):cast "f32" / op.full({ 3 }, 5)) end)(three),
} do
  assert(d.device == name and (d - tessera.tensor { 2, 4, 6 }):abs():max():item() < 1e-6, how)
end
-- A gradient from elsewhere goes to the device of its input, as one of another dtype becomes its dtype.
local host = op.custom("host", { forward = function(a) return a * 2 end,
  adjoint = function() return op.ones({ 3 }, { dtype = "f64" }) * 2 end })
for how, d in pairs { leaf(function(a) return host(a):sum() end), graph.grad(function(a) return host(a):sum() end)(three) } do
  assert(d.device == name and d.dtype == "f32" and d:sum():item() == 6, how)
end
graph.module("passed", function(a, b) return slope(a, b) end)(three, three:to "cpu") --! argument 2 is on cpu:0
norm:tune(x:to(name), w:to(name)) --! has no choices on
norm:ir("tile", { target = "sm_90a" }):find("target sm_90a", 1, true) ~= nil --> true
norm:ir("asm", { target = "sm_90" }) --! there is no target 'sm_90'; targets are
norm:ir("asm", { traget = "sm_90a" }) --! did you mean 'target'
jit.device(false)
norm(x:to(name), w:to(name)).device == name --> true
select("#", norm:status()) --> 2
jit.device(true)

-- Every allocation on the way may fail: an error, and the next call has its kernel and its bits.
if name == "sim:0" then
  local want, there, wide = norm(x, w):hash(), x:to(name), w:to(name)
  for n = 1, 400 do
    local fresh = op.kernel(norm:ir "tile":gsub(" target %S+", ""), {})
    core.fail_after(n)
    local fine, why = pcall(function() return fresh(there, wide):hash() end)
    local left = core.fail_after(0)
    assert(fine and why == want or not fine and tostring(why):find "memory", tostring(why))
    assert(fresh(there, wide):hash() == want and select(3, fresh:status()) == name, n)
    if fine and left and left > 0 then break end
  end
end
