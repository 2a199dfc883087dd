-- Products on a device, eagerly and in functions, through kernels with roles where operands lie
-- as these want them: layouts, batches, epilogues, addresses that no copy engine takes, ragged
-- sizes; again and again, so that launches are replayed. The device is simulated, or that of
-- `make check DEV=cuda`.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, rng = tessera.core, tessera.op, tessera.graph, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local passed, failed = 0, 0
local function check(what, got, want)
  local good = got.device == name and device.same(got, want)
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print("FAILED " .. what .. " on " .. got.device) end
end

local function numbers(d, shape, turned)
  if not turned then return op.cast(rng.normal(shape), d) end
  return op.cast(rng.normal { shape[2], shape[1] }, d):permute { 1, 0 }
end

local function there(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x and x:to(name) end
  return out
end

core.seed(5)
local types = { "f32", "f64", "bf16", "f16" }
local sizes = { { 72, 48, 40 }, { 8, 264, 16 }, { 136, 8, 72 }, { 129, 16, 8 } }
for _, d in ipairs(types) do
  for i, s in ipairs(sizes) do
    for layout = 0, 3 do
      local a = numbers(d, { s[1], s[3] }, layout % 2 == 1)
      local b = numbers(d, { s[3], s[2] }, layout > 1)
      local what = ("%s %dx%dx%d layout %d"):format(d, s[1], s[2], s[3], layout)
      check(what, op.matmul(a:to(name), b:to(name)), op.matmul(a, b))
    end
  end
end

-- A batch of A is one tall matrix; a row further on an address may be odd.
for _, d in ipairs(types) do
  local a, b = numbers(d, { 3, 24, 16 }), numbers(d, { 16, 32 })
  local x = { a, b, numbers(d, { 32 }), numbers(d, { 3, 24, 32 }) }
  local y = there(x)
  check(d .. " batch", op.matmul(y[1], y[2]), op.matmul(a, b))
  for _, words in ipairs { "bias", "bias_relu", "bias_silu_residual", "silu", "relu_bias", "bias_gelu",
    "gelu_residual" } do
    local opt, named = { epilogue = words }, function(w) return words:find(w) and true or false end
    local function call(t)
      return op.matmul(t[1], t[2], named "bias" and t[3] or nil, named "residual" and t[4] or nil, opt)
    end
    check(d .. " " .. words, call(y), call(x))
  end
  local long = numbers(d, { 24 * 16 + 1 })
  local function odd(t, w) return op.matmul(t["1:385"]:reshape { 24, 16 }, w) end
  check(d .. " odd address", odd(long:to(name), y[2]), odd(long, b))
end

-- Parts of wider rows; batches of both, along one or two axes, of matrices that lie in any order,
-- of which one may serve many.
for _, d in ipairs(types) do
  local wide = numbers(d, { 24, 96 })
  local function part(w, i) return w[(":, %d:%d"):format(32 * i, 32 * i + 32)] end
  local function parts(w) return op.matmul(part(w, 0), part(w, 1):T()) end
  local function turned_parts(w) return op.matmul(part(w, 2):T(), part(w, 1)) end
  check(d .. " parts", parts(wide:to(name)), parts(wide))
  check(d .. " parts turned", turned_parts(wide:to(name)), turned_parts(wide))
  local heads = op.cast(rng.normal { 2, 40, 3, 3, 16 }, d)
  local function scores(h)
    local t = h:permute(2, 0, 3, 1, 4)
    return op.matmul(t[0], t[1]:transpose(-1, -2))
  end
  check(d .. " heads", scores(heads:to(name)), scores(heads))
  local function values(h)
    local t = h:permute(2, 0, 3, 1, 4)
    return op.matmul(op.matmul(t[0], t[1]:transpose(-1, -2)), t[2])
  end
  check(d .. " heads twice", values(heads:to(name)), values(heads))
  local before = core.jit_device().fallback
  for _, s in ipairs { { { 33, 35 }, { 35, 37 } }, { { 2, 3 }, { 3, 4 } }, { { 3, 9, 70 }, { 3, 70, 5 } },
    { { 1, 515 }, { 515, 65 } }, { { 17, 1 }, { 1, 3 } }, { { 5, 600 }, { 600, 1 } }, { { 4, 1, 15 }, { 4, 15, 23 } },
    { { 4, 33, 15 }, { 4, 15, 1 } }, { { 2, 1, 3, 5 }, { 4, 5, 1 } }, { { 1, 15 }, { 15, 1 } },
    { { 40, 24 }, { 24 } }, { { 24 }, { 24, 40 } }, { { 3, 9, 7 }, { 7 } }, { { 7 }, { 3, 7, 9 } }, { { 40 }, { 40 } } } do
    local a, b = op.cast(rng.normal(s[1]), d), op.cast(rng.normal(s[2]), d)
    check(("%s any sizes, %s"):format(d, table.concat(s[1], "x")), op.matmul(a:to(name), b:to(name)), op.matmul(a, b))
  end
  local v = op.cast(rng.normal { 21 }, d)
  local moved = v:to(name)
  check(d .. " a vector by itself", op.matmul(moved, moved), op.matmul(v, v))
  local on_cpu = device.unit and core.jit_device().fallback - before or 0
  passed, failed = passed + (on_cpu == 0 and 1 or 0), failed + (on_cpu > 0 and 1 or 0)
  if on_cpu > 0 then print("FAILED " .. on_cpu .. " of any sizes by the CPU") end
  for _, s in ipairs { { { 3, 24, 16 }, { 3, 16, 32 } }, { { 3, 2, 24, 16 }, { 2, 16, 32 } },
    { { 3, 1, 8, 16 }, { 1, 2, 16, 40 } }, { { 24, 16 }, { 5, 16, 8 } }, { { 4, 1, 16 }, { 4, 16, 24 } } } do
    local a, b = op.cast(rng.normal(s[1]), d), op.cast(rng.normal(s[2]), d)
    local what = ("%s batch %dx%d"):format(d, #s[1], #s[2])
    check(what, op.matmul(a:to(name), b:to(name)), op.matmul(a, b))
    local c = b:transpose(-1, -2):contiguous():transpose(-1, -2)
    check(what .. " turned", op.matmul(a:to(name), c:to(name)), op.matmul(a, c))
  end
end

-- Tiles that are a few more than a GPU's processors, and stores beside the next tile's products.
-- Sizes are too large for a device that is simulated, or that adds up without a unit on a CPU.
if device.kind ~= "sim" and device.unit then
  local a, b = numbers("bf16", { 768, 2048 }, true), numbers("bf16", { 2048, 3072 })
  check("a round of tiles and a bit", op.matmul(a:to(name), b:to(name)), op.matmul(a, b))
  local x, w = numbers("bf16", { 1024, 768 }), numbers("bf16", { 768, 512 })
  check("late stores", op.matmul(x:to(name), w:to(name)), op.matmul(x, w))
end

-- In functions: products alone, what follows them in kernels of its own; replayed.
for _, d in ipairs(types) do
  local w1, w2 = numbers(d, { 32, 48 }), numbers(d, { 48, 32 })
  local v1, v2 = w1:to(name), w2:to(name)
  local function body(x, p, q)
    local h = op.silu(op.matmul(x, p))
    return op.matmul(h, q) * 0.5 + x
  end
  local f = graph.module("products", body)
  for i = 1, 8 do
    local x = numbers(d, { 40, 32 })
    check(d .. " function, run " .. i, f(x:to(name), v1, v2), body(x, w1, w2))
  end
end
-- Rows behind products, in one kernel: what follows, and in which order, is the CPU's. The second
-- result is what a backward pass needs.
local function mlp(x, w, b, r)
  local h = op.linear(x, w, b)
  return op.gelu(h) * 0.5 + r, h
end
local function gated(x, w, b, r) return op.relu(op.linear(x, w) * r) - b, op.silu(op.linear(x, w, b)) end
local function other(x, w, b, r) return op.gelu(op.linear(x, w, b), { approximate = "tanh" }) - r, r * 2 end
local function both(got, want, what)
  for i = 1, 2 do check(("%s, result %d"):format(what, i), got[i], want[i]) end
end
for _, d in ipairs { "bf16", "f16" } do
  for i, s in ipairs { { 40, 48, 32 }, { 136, 72, 520 } } do
    local x, w = numbers(d, { s[1], s[3] }) * 0.2, numbers(d, { s[2], s[3] })
    local b, r = numbers(d, { s[2] }), numbers(d, { s[1], s[2] })
    local at = there { x, w, b, r }
    for k, body in ipairs { mlp, gated, other } do
      local f = graph.module("rows", body)
      for round = 1, 6 do
        local got = { f(at[1], at[2], at[3], at[4]) }
        if round == 6 then both(got, { body(x, w, b, r) }, ("%s rows %d.%d"):format(d, i, k)) end
      end
    end
  end
end

-- Eight bits, with scales behind the sums.
do
  local a, w = op.cast(rng.normal { 72, 272 }, "fp8_e4m3"), op.cast(rng.normal { 48, 272 }, "fp8_e4m3")
  local s = tessera.tensor({ 0.25 }):to(name)
  local function scaled(a, w, s)
    local sums = op.matmul(a, w:permute { 1, 0 }, nil, nil, { accumulate = "f32" })
    return op.cast(sums * s, "bf16")
  end
  local f, at = graph.module("scaled", scaled), there { a, w }
  for i = 1, 6 do
    check("fp8, run " .. i, f(at[1], at[2], s), scaled(a, w, s:to "cpu"))
  end
end

-- Attention: heads in groups, positions that are hidden, rows of half a tile. Its chain is not
-- the CPU's on any device.
local function close(what, got, want)
  local x, y = op.cast(got:to "cpu", "f32"), op.cast(want, "f32")
  local off, most = op.max(op.abs(x - y)):item(), op.max(op.abs(y)):item()
  local good = got.device == name and off <= 2 ^ -6 * most
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print(("FAILED %s: off by %g of %g"):format(what, off, most)) end
end
for _, d in ipairs { "bf16", "f16" } do
  for _, width in ipairs { 64, 128 } do
    for _, o in ipairs { {}, { causal = true }, { causal = true, window = 20 } } do
      local q = numbers(d, { 1, 2, 40, width })
      local k, v = numbers(d, { 1, 1, 72, width }), numbers(d, { 1, 1, 72, width })
      local sink = o.window and numbers("f32", { 2 }) or nil
      local function call(q, k, v, s) return op.attention(q, k, v, nil, s, o) end
      local what = ("%s attention of %d"):format(d, width)
      local want = call(q, k, v, sink)
      local at = there { q, k, v }
      local s = sink and sink:to(name)
      local before = core.jit_device()
      close(what, call(at[1], at[2], at[3], s), want)
      local after = core.jit_device()
      assert(not device.unit or after.fallback == before.fallback, what .. " ran on the device")
      if not sink then
        local f = graph.module("attention", function(q, k, v) return call(q, k, v) * 0.5 end)
        close(what .. " in a function", f(at[1], at[2], at[3]), want * 0.5)
      end
    end
  end
end

local fallback = core.jit_device().fallback
-- Whole numbers are exact; rows of 4 bytes, which no copy engine takes; the unit's 10 bits of f32.
for i, s in ipairs { { 72, 48, 64 }, { 40, 70, 132 }, { 130, 72, 272 } } do
  local a = op.cast(rng.uniform({ s[1], s[3] }) * 255 - 128, "i8")
  local w = op.cast(rng.uniform({ s[2], s[3] }) * 255 - 128, "i8")
  local function whole(a, w) return op.matmul(a, w:permute { 1, 0 }, nil, nil, { accumulate = "i32" }) end
  check("i8 " .. i, whole(a:to(name), w:to(name)), whole(a, w))
  local b = op.cast(rng.uniform({ s[3], s[2] }) * 255 - 128, "i8")
  local function across(a, b) return op.matmul(a, b, nil, nil, { accumulate = "i32" }) end
  check("i8 across " .. i, across(a:to(name), b:to(name)), across(a, b))
end
for _, d in ipairs(types) do
  for layout = 0, 3, 3 do
    local a, b = numbers(d, { 70, 34 }, layout % 2 == 1), numbers(d, { 34, 90 }, layout > 1)
    check(("%s rows of 4 bytes, layout %d"):format(d, layout), op.matmul(a:to(name), b:to(name)), op.matmul(a, b))
  end
end
core.profile "fast"
for layout = 0, 3 do
  local a, b = numbers("f32", { 72, 40 }, layout % 2 == 1), numbers("f32", { 40, 136 }, layout > 1)
  close("fast f32, layout " .. layout, op.matmul(a:to(name), b:to(name)), op.matmul(a, b))
end
assert(not device.unit or core.jit_device().fallback == fallback, "products ran on the CPU")

-- In the strict profile nothing takes another chain than the CPU's.
core.profile "strict"
for _, d in ipairs { "bf16", "f16" } do
  for i, s in ipairs { { 24, 32, 40 }, { 136, 264, 70 }, { 129, 16, 8 }, { 40, 300, 2050 } } do
    for layout = d == "f16" and 2 or 0, d == "f16" and 2 or 3 do
      local a, b = numbers(d, { s[1], s[3] }, layout % 2 == 1), numbers(d, { s[3], s[2] }, layout > 1)
      local got, want = op.matmul(a:to(name), b:to(name)), op.matmul(a, b)
      local good = got.device == name and got:to("cpu"):hash() == want:hash()
      passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
      if not good then print(("FAILED strict %s %d layout %d"):format(d, i, layout)) end
    end
  end
  local x, w, b, r = numbers(d, { 40, 64 }), numbers(d, { 48, 64 }), numbers(d, { 48 }), numbers(d, { 40, 48 })
  local at, f = there { x, w, b, r }, graph.module("strict", mlp)
  for round = 1, 6 do
    local got, more = f(at[1], at[2], at[3], at[4])
    local want, and_more = mlp(x, w, b, r)
    local good = got:to("cpu"):hash() == want:hash() and more:to("cpu"):hash() == and_more:hash()
    passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
    if not good then print(("FAILED strict %s function, run %d"):format(d, round)) end
  end
end
do
  local a, b = numbers("bf16", { 24, 40 }), numbers("bf16", { 40, 32 })
  local q, k = numbers("bf16", { 1, 2, 40, 64 }), numbers("bf16", { 1, 2, 72, 64 })
  local at = there { a, b, q, k }
  local product, attended = op.matmul(at[1], at[2]), op.attention(at[3], at[4], at[4])
  for what, pair in pairs { product = { product, op.matmul(a, b) }, attention = { attended, op.attention(q, k, k) } } do
    local good = pair[1]:to("cpu"):hash() == pair[2]:hash()
    passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
    if not good then print("FAILED strict " .. what) end
  end
end
core.profile "deterministic"
do -- words that nobody can read, also where nothing is computed
  local x, w, b = unpack(there { op.ones { 0, 4 }, op.ones { 3, 4 }, op.ones { 3 } })
  local read, why = pcall(op.linear, x, w, b, { epilogue = "bias_reul" })
  passed, failed = passed + (read and 0 or 1), failed + (read and 1 or 0)
  assert(tostring(why):find "cannot read the epilogue", why)
end
print(("%d passed, %d failed"):format(passed, failed))
assert(failed == 0, failed .. " failed")
