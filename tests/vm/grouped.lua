-- Products of groups of rows: the bits of a matmul of each slice, whatever the sizes, the strides,
-- the threads and the profile are; captured, and in gradients, the bits of eager calls.
local tessera = require "tessera"
local core, op, rng, graph, numerics = tessera.core, tessera.op, tessera.rng, tessera.graph, tessera.numerics
local threads = core.threads()

local seed = 0
local function make(dtype, shape)
  seed = seed + 1
  if dtype == "complex64" then
    return op.complex(rng.normal(shape, { seed = seed }), rng.normal(shape, { seed = seed + 1000 }))
  elseif dtype:match "^[iu]%d" then
    return rng.randint(shape, { low = -9, high = 9, seed = seed }):cast(dtype)
  end
  return rng.normal(shape, { seed = seed }):cast(dtype)
end

local function ints(list, dtype) return core.tensor(list, { dtype = dtype or "i64" }) end

-- Random sizes that add up to something near `rows`: some are 0, some end behind the last row.
local function random_sizes(groups, rows)
  local list = {}
  for i = 1, groups do
    seed = seed + 1
    local r = rng.uniform({ 2 }, { seed = seed })
    local most = math.min(rows, math.ceil(2.2 * rows / groups))
    list[i] = r[0]:item() < 0.25 and 0 or math.floor(r[1]:item() * (most + 0.99))
  end
  return list
end

-- lo and n of each group, and the end of the last one.
local function places(list, rows)
  local at, out = 0, {}
  for i, n in ipairs(list) do
    n = math.min(n, rows - at)
    out[i], at = { at, n }, at + n
  end
  return out, at
end

local function same(what, got, want)
  assert(got.dtype == want.dtype and got:hash() == want:contiguous():hash(), what)
end

local function product(what, x, w, list, o)
  local y = op.grouped_matmul(x, w, ints(list), o)
  local at, last = places(list, x.shape[1])
  for i, p in ipairs(at) do
    if p[2] > 0 then
      same(what .. i, y:narrow(0, p[1], p[2]):contiguous(), op.matmul(x:narrow(0, p[1], p[2]), w[i - 1], nil, nil, o))
    end
  end
  local rest = y:narrow(0, last, x.shape[1] - last):contiguous()
  same(what .. "rest", rest, op.zeros_like(rest))
  return y
end

local function gradient(what, x, g, list, o)
  local y = op.grouped_matmul_weight_grad(x, g, ints(list), o)
  for i, p in ipairs(places(list, x.shape[1])) do
    same(what .. i, y[i - 1]:contiguous(), op.matmul(x:narrow(0, p[1], p[2]):T(), g:narrow(0, p[1], p[2]), nil, nil, o))
  end
  return y
end

-- ---- types, sizes, threads
local cases = {}
for _, s in ipairs { { 37, 19, 23, 5 }, { 1, 8, 16, 3 }, { 64, 96, 80, 1 }, { 130, 33, 70, 40 }, { 300, 256, 200, 4 } } do
  for _, d in ipairs { "f32", "bf16", "f16", "f64", "i32", "u8", "complex64" } do
    cases[#cases + 1] = { d = d, t = s[1], k = s[2], n = s[3], g = s[4] }
  end
end

local function check_all(profile)
  numerics.profile(profile)
  for _, c in ipairs(cases) do
    local x, w, g = make(c.d, { c.t, c.k }), make(c.d, { c.g, c.k, c.n }), make(c.d, { c.t, c.n })
    local list = random_sizes(c.g, c.t)
    local what = ("%s %s %d x %d x %d, %s: "):format(profile, c.d, c.t, c.k, c.n, table.concat(list, " "))
    core.threads(1)
    local one, one_grad = product(what, x, w, list), gradient(what .. "gradient ", x, g, list)
    core.threads(2)
    same(what .. "two threads", product(what, x, w, list), one)
    same(what .. "gradient, two threads", gradient(what, x, g, list), one_grad)
    core.threads(threads)
    -- The same elements, lying otherwise.
    local across = x:T():contiguous():T()
    local turned = w:T():contiguous():T()
    local apart = op.concat(w, w, { axis = 2 }):narrow(2, c.n, c.n)
    local wide = op.concat(x, x, { axis = 1 }):narrow(1, c.k, c.k)
    for i, v in ipairs { { across, w }, { x, turned }, { wide, apart }, { across, turned } } do
      same(what .. "lying otherwise " .. i, op.grouped_matmul(v[1], v[2], ints(list)), one)
    end
    local g_across = g:T():contiguous():T()
    same(what .. "gradient across", op.grouped_matmul_weight_grad(across, g_across, ints(list)), one_grad)
    same(what .. "gradient of parts", op.grouped_matmul_weight_grad(wide, g, ints(list)), one_grad)
  end
end
check_all "deterministic"
check_all "fast"
check_all "strict"
numerics.profile "deterministic"

-- One group with enough to do for all threads among small ones, and many of a row or two.
for _, list in ipairs { { 1, 900, 0, 3, 90 }, { 6, 1000, 0, 0, 0 } } do
  local x, w, g = make("f32", { 1000, 256 }), make("f32", { 5, 256, 160 }), make("f32", { 1000, 160 })
  product("large ", x, w, list)
  gradient("large ", x, g, list)
end
do
  local list = {}
  for i = 1, 200 do list[i] = i % 3 end
  local x, w = make("bf16", { 220, 64 }), make("bf16", { 200, 64, 48 })
  product("small ", x, w, list)
  gradient("small ", x, make("bf16", { 220, 48 }), list)
end

-- ---- types of sizes, accumulate, mixed types
local x, w = make("f32", { 6, 3 }), make("f32", { 2, 3, 4 })
local y = product("i64 ", x, w, { 2, 3 })
for _, d in ipairs { "i32", "i16", "i8", "u8" } do same(d, op.grouped_matmul(x, w, ints({ 2, 3 }, d)), y) end
same("strided sizes", op.grouped_matmul(x, w, ints { { 2, 9 }, { 3, 9 } }:select(1, 0)), y)
product("wide ", x, w, { 2, 3 }, { accumulate = "f64" }).dtype --> f64
product("half in f32 ", x:cast "bf16", w:cast "bf16", { 2, 3 }, { accumulate = "f32" }).dtype --> f32
gradient("half in f32 ", x:cast "bf16", x:cast "bf16", { 2, 3 }, { accumulate = "f32" }).dtype --> f32
product("bytes in i64 ", make("i8", { 6, 3 }), make("i8", { 2, 3, 4 }), { 2, 3 }, { accumulate = "i64" }).dtype --> i64
product("complex ", make("complex64", { 6, 3 }), make("complex64", { 2, 3, 4 }), { 2, 3 }, { accumulate = "complex128" }).dtype --> complex128
product("mixed ", x:cast "bf16", w, { 2, 3 }).dtype --> f32
product("real by complex ", x, make("complex64", { 2, 3, 4 }), { 2, 3 }).dtype --> complex64
gradient("mixed ", x, x:cast "bf16", { 2, 3 }).dtype --> f32

-- One matrix for all groups, rows and matrices backwards, one row for all.
product("expanded ", x, w[0]:unsqueeze(0):broadcast_to { 2, 3, 4 }, { 2, 3 })
product("flipped ", x:flip { axis = { 0 } }, w:flip { axis = { 0, 1 } }, { 2, 3 })
gradient("flipped ", x:flip { axis = { 0, 1 } }, x:flip { axis = { 0 } }, { 2, 3 })
gradient("one row ", x[0]:unsqueeze(0):broadcast_to { 6, 3 }, x, { 2, 4 })

-- ---- nothing at all
op.grouped_matmul(op.zeros { 0, 3 }, w, ints { 0, 0 }) --> [] f32[0,4]
op.grouped_matmul(x, op.zeros { 0, 3, 4 }, ints {}):abs():sum():item() --> 0
op.grouped_matmul(op.zeros { 6, 0 }, op.zeros { 2, 0, 4 }, ints { 2, 3 }):sum():item() --> 0
op.grouped_matmul(x, op.zeros { 2, 3, 0 }, ints { 2, 3 }).shape --> {6, 0}
op.grouped_matmul_weight_grad(x, op.zeros { 6, 0 }, ints { 2, 3 }).shape --> {2, 3, 0}
op.grouped_matmul_weight_grad(op.zeros { 0, 3 }, op.zeros { 0, 2 }, ints { 0, 0 }):sum():item() --> 0
op.grouped_matmul_weight_grad(x, x, ints {}).shape --> {0, 3, 3}
-- NaN in rows outside of all groups meets nobody.
local bad = op.concat(x, op.full({ 1, 3 }, 0 / 0))
same("outside", op.grouped_matmul(bad, w, ints { 2, 3 }):narrow(0, 0, 6):contiguous(), y)
op.grouped_matmul_weight_grad(bad, bad, ints { 2, 4 }):isnan():any():item() --> false

-- ---- captured, and gradients
for _, d in ipairs { "f32", "bf16", "complex64" } do
  local x, w = make(d, { 24, 16 }), make(d, { 3, 16, 8 })
  local sizes = ints { 5, 0, 17 }
  local function loss(x, w, s)
    local y = op.grouped_matmul(x, w, s)
    return (y * y:conj()):real():cast("f32"):sum()
  end
  local f = graph.module("f", function(x, w, s) return op.grouped_matmul(x, w, s) + 1 end)
  local want = op.grouped_matmul(x, w, sizes) + 1
  for _ = 1, 4 do same("captured " .. d, f(x, w, sizes), want) end
  same("other sizes " .. d, f(x, w, ints { 9, 9, 9 }), op.grouped_matmul(x, w, ints { 9, 9, 9 }) + 1)
  local step = graph.grad(loss, { 1, 2 })
  local a, b = x:clone():requires_grad_(), w:clone():requires_grad_()
  loss(a, b, sizes):backward()
  local gx, gw = step(x, w, sizes)
  same("gradient of x " .. d, gx, a.grad)
  same("gradient of w " .. d, gw, b.grad)
end
-- Any number of rows, and loops that get hot: an error keeps its place.
local any = graph.module("any", function(x, w, s) return op.grouped_matmul(x * 2, w, s):relu() end)
for t = 8, 20, 3 do
  local x, w, s = make("f32", { t, 16 }), make("f32", { 3, 16, 8 }), ints { t - 5, 0, 4 }
  same("rows " .. t, any(x, w, s), op.grouped_matmul(x * 2, w, s):relu())
  local dx, dw = graph.grad(function(x, w) return op.grouped_matmul(x * 2, w, s):sin():sum() end, { 1, 2 })(x, w)
  assert(dx.shape[1] == t and dw.shape[1] == 3)
end
do
  local at, sum = nil, op.zeros { 6, 4 }
  for i = 1, 300 do
    local s = ints { i % 4, i == 250 and -1 or 2 }
    local ok, e = pcall(function() sum = sum * 0.5 + op.grouped_matmul(x + i, w, s) end)
    if not ok then at = ("%d: %s"):format(i, e:match "grouped_matmul: [^\n]*") end
  end
  print(at) --> 250: grouped_matmul: group 1 has -1 rows, x has 6
  local want = op.zeros { 6, 4 }
  tessera.jit.off()
  for i = 1, 300 do
    if i ~= 250 then want = want * 0.5 + op.grouped_matmul(x + i, w, ints { i % 4, 2 }) end
  end
  tessera.jit.on()
  same("hot", sum, want)
end
local f = graph.module("wrong", function(x, w, s) return op.grouped_matmul(x, w, s + 1) * 2 end)
f(x, w, ints { 2, 3 }).shape --> {6, 4}
f(x, w, ints { 6, 3 }) --! grouped_matmul: group 0 has 7 rows, x has 6
core.threads(threads)
