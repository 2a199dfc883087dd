-- Products of AMD's matrix units whose operands are copied past registers, read turned, and multiplied by
-- waves in turns; convolutions and grouped products by the unit. What code says of itself, and the bits of a
-- simulated GPU, which are the CPU's: copies come as late as waits allow there.
local tessera = require "tessera"
local core, op, graph, rng = tessera.core, tessera.op, tessera.graph, tessera.rng
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
ffi.C.setenv("TESSERA_GPU", "gfx950", 1)
core.jit_later(false)
rng.seed(7)

-- ---- what the code is
local function product(m, n, k, d, along)
  local function zeros(...) return op.cast(op.zeros { ... }, d) end
  local f = along and graph.module("p", function(x, y) return op.matmul(x, y:transpose(0, 1)) end)
    or graph.module("p", function(x, y) return op.matmul(x, y) end)
  f(zeros(m, k), along and zeros(n, k) or zeros(k, n))
  return f
end
local function has(text, want, no)
  for _, w in ipairs(want) do assert(text:find(w, 1, true), "no " .. w .. " in\n" .. text:sub(1, 6000)) end
  for _, w in ipairs(no or {}) do assert(not text:find(w, 1, true), w .. " in\n" .. text:sub(1, 6000)) end
end
local along, across, large = product(256, 256, 512, "bf16", true), product(256, 256, 512, "bf16"), product(4096, 4096, 512, "bf16")
-- A word of each lane at a time takes more instructions than 16 bytes by registers do.
for _, target in ipairs { "gfx90a", "gfx942", "gfx9-4-generic" } do
  has(along:ir("tile", { target = target }), {}, { "copy_async" })
  has(along:ir("asm", { target = target }), { "global_load_dwordx4", "ds_write_b128", "vgpr_spill_count: 0" }, { " lds" })
end
-- Rows that are no multiples of 16 bytes, where others are copied so.
local words = product(256, 256, 510, "bf16", true)
has(words:ir("tile", { target = "gfx950" }), { "copy_async", "bytes=4", "wait", "barrier" })
has(words:ir("asm", { target = "gfx950" }), { "buffer_load_dword v", "offen lds", "vgpr_spill_count: 0" }, { "ds_write" })
has(across:ir("schedule", { target = "gfx950" }), { "by mfma of bf16: 64x64 by 256 threads, 3 stages copied past registers, 16 bytes a lane" })
has(across:ir("asm", { target = "gfx950" }), { "buffer_load_dwordx4", "offen lds", "ds_read_b64_tr_b16", "vmcnt(2)", "vgpr_spill_count: 0" },
  { "ds_write", "s_setprio" })
has(large:ir("schedule", { target = "gfx950" }), { "256x256 by 512 threads", "waves in pairs take turns" })
has(large:ir("asm", { target = "gfx950" }), { "s_setprio 1", "s_setprio 0", "vmcnt(4)", "vgpr_spill_count: 0" }, { "ds_write" })
-- What reads more behind the product has no registers for that.
do
  local function zeros(...) return op.cast(op.zeros { ... }, "bf16") end
  local f = graph.module("p", function(x, y, b, r) return op.gelu(op.matmul(x, y) + b) + r end)
  f(zeros(4096, 512), zeros(512, 4096), zeros(4096), zeros(4096, 4096))
  has(f:ir("asm", { target = "gfx950" }), { "offen lds", "vgpr_spill_count: 0" }, { "s_setprio" })
end
-- In a turn stands nothing but products.
do
  local turn = large:ir("asm", { target = "gfx950" }):match "s_setprio 1\n(.-)s_setprio 0"
  local n = 0
  for word in turn:gmatch "\n?%s*([a-z][%w_]*)[^\n]*" do
    assert(word:find "^v_mfma" or word == "s_nop", word .. " in a turn")
    n = n + (word:find "^v_mfma" and 1 or 0)
  end
  assert(n == 32, n)
end
for _, target in ipairs { "gfx1100", "gfx1200", "gfx12-generic", "pvc" } do
  has(along:ir("tile", { target = target }), {}, { "copy_async", "turn" })
end
-- What is not copied: numbers that are cast on their way, rows at odd words, and the end of a chain of f32.
has(product(256, 256, 510, "fp8_e4m3", true):ir("tile", { target = "gfx942" }), {}, { "copy_async" })
has(product(256, 256, 511, "bf16", true):ir("tile", { target = "gfx950" }), {}, { "copy_async" })
has(product(256, 256, 20, "f32", true):ir("tile", { target = "gfx950" }), {}, { "copy_async" })

-- ---- bits
local function check(what, f, ...)
  local x, there = { ... }, {}
  for i, t in ipairs(x) do there[i] = t:to "sim" end
  local before, got, want = core.jit_device(), f(unpack(there)), f(unpack(x))
  local after = core.jit_device()
  assert(after.fallback == before.fallback and after.refused == before.refused, what .. ": no kernel ran")
  assert(got:hash() == want:hash(), what .. " differs")
end
local function random(shape, d) return op.cast(rng.normal(shape), d) end
for _, d in ipairs { "bf16", "f16" } do
  for _, s in ipairs { { 70, 80, 96 }, { 33, 200, 72 }, { 5, 64, 8 } } do
    local m, n, k = unpack(s)
    check("along k", function(x, y) return op.matmul(x, y:transpose(0, 1)) end, random({ m, k }, d), random({ n, k }, d))
    check("across", op.matmul, random({ m, k }, d), random({ k, n }, d))
    check("columns", function(x, y) return op.matmul(x:transpose(0, 1), y) end, random({ k, m + m % 2 }, d), random({ k, n }, d))
    check("a batch", function(x, y) return op.matmul(x, y:transpose(1, 2)) end, random({ 2, m, k }, d), random({ 2, n, k }, d))
  end
  check("convolution", function(x, w) return op.conv2d(x, w, nil, { padding = 1 }) end, random({ 2, 5, 9, 11 }, d), random({ 20, 5, 3, 3 }, d))
  check("in groups", function(x, w, b) return op.relu(op.conv2d(x, w, b, { groups = 2, stride = 2 })) end, random({ 1, 16, 9, 11 }, d),
    random({ 80, 8, 3, 3 }, d), random({ 80 }, d))
  check("turned", function(x, w) return op.conv_transpose(x, w, nil, { padding = 1 }) end, random({ 1, 6, 8, 8 }, d), random({ 6, 17, 3, 3 }, d))
  check("gradient of weights", function(x, g) return op.conv_weight_grad(x, g, { 3, 3 }, { padding = 1 }) end, random({ 2, 3, 9, 7 }, d),
    random({ 2, 18, 9, 7 }, d))
end
local conv = graph.module("conv", function(x, w) return op.conv2d(x, w) end)
conv(random({ 1, 32, 8, 8 }, "bf16"), random({ 32, 32, 3, 3 }, "bf16"))
for _, target in ipairs { "gfx942", "gfx1200" } do
  has(conv:ir("asm", { target = target }), { target == "gfx942" and "v_mfma_f32_16x16x16_bf16" or "v_wmma_f32_16x16x16_bf16", "vgpr_spill_count: 0" })
end
for _, d in ipairs { "bf16", "f16", "f32", "f64" } do
  local sizes = tessera.tensor({ 3, 0, 70, 20, 1 }, { dtype = "i64" }) -- and six rows of no group
  check("groups", op.grouped_matmul, random({ 100, 40 }, d), random({ 5, 40, 72 }, d), sizes)
  check("groups along k", function(x, w, n) return op.grouped_matmul(x, w:transpose(1, 2), n) end, random({ 100, 64 }, d),
    random({ 5, 72, 64 }, d), sizes)
  check("gradients of matrices", op.grouped_matmul_weight_grad, random({ 100, 40 }, d), random({ 100, 72 }, d), sizes)
end

-- ---- a ring whose halves take turns, as a kernel of the program's
local paired = [[
tile @paired(%a: bf16[300,96], %b: bf16[96,264]) -> (%y: bf16[300,264]) target gfx950 tile 256x256 stages 3 threads 512 {
  for %i in 0..300 step 256 parallel {
    for %j in 0..264 step 256 parallel {
      %sa = alloc : bf16[3,256,32] @shared
      %sb = alloc : bf16[3,32,256] @shared
      copy_async %sa[0, 0, 0], %a[%i, 0] {bytes=16 shape=[256,32]}
      copy_async %sb[0, 0, 0], %b[0, %j] {bytes=16 shape=[32,256]}
      commit
      copy_async %sa[1, 0, 0], %a[%i, 32] {bytes=16 shape=[256,32]}
      copy_async %sb[1, 0, 0], %b[32, %j] {bytes=16 shape=[32,256]}
      commit
      wait {pending=1}
      barrier
      %z = const : f32[256,256]
      %zero = const : i64[]
      %two = const {value=2} : i64[]
      %s, %u, %v = for %k in 0..96 step 32 carry %acc = %z, %now = %zero, %to = %two : f32[256,256], i64[], i64[] {
        %n = add %k, 64 : i64[]
        %m = minimum %n, 64 : i64[]
        copy_async %sa[%to, 0, 0], %a[%i, %m] {bytes=16 shape=[256,32]}
        copy_async %sb[%to, 0, 0], %b[%m, %j] {bytes=16 shape=[32,256]}
        commit
        %p = load %sa[%now, 0, 0] : bf16[256,32]
        %q = load %sb[%now, 0, 0] : bf16[32,256]
        wait {pending=1}
        turn
        %c = mma %p, %q, %acc {unit="mfma"} : f32[256,256]
        turn {end=true}
        %n1 = add %now, 1 : i64[]
        %n2 = mod %n1, 3 : i64[]
        %t1 = add %to, 1 : i64[]
        %t2 = mod %t1, 3 : i64[]
        yield %c, %n2, %t2
      }
      wait
      %r = cast %s : bf16[256,256]
      store %y[%i, %j] = %r {edge=true}
    }
  }
}
]]
local a, b = random({ 300, 96 }, "bf16"), random({ 96, 264 }, "bf16")
local want = op.matmul(a, b):hash()
local k = op.kernel(paired)
assert(k(a:to "sim", b:to "sim"):hash() == want, "turns differ")
-- By the interpreter, one that waits for too little reads what has not come; one that says it is inside has to be.
if os.getenv "TESSERA_SIM" ~= "emulate" then
  local early = op.kernel((paired:gsub("pending=1", "pending=2"):gsub("@paired", "@early")))
  assert(early(a:to "sim", b:to "sim"):hash() ~= want, "nobody waited")
  local outside = op.kernel((paired:gsub("shape=%[256,32%]", "%0 inside=true"):gsub("@paired", "@outside")))
  local ok, why = pcall(function() return outside(a:to "sim", b:to "sim"):hash() end)
  assert(not ok and tostring(why):find("position 511 is outside of axis 0, which has 300", 1, true), why)
end
