-- What jit.prepare() leaves on disk: the first calls of another process compile nothing, whatever their
-- sizes. The driver is one that runs nothing (fake_cuda.c).
package.path = "tests/devices/?.lua;" .. package.path
local fake, dir = require "_fake"()
if not fake then return print "skipped: no C compiler" end
local begin = ([[
local ffi, tessera = require "ffi", require "tessera"
ffi.cdef "void fake_any(void); void fake_limit(long n); long fake_count(const char *call);"
local fake = ffi.load "DIR/fake.so"
fake.fake_any()
fake.fake_limit(2 ^ 35)
local op, nn, graph, jit = tessera.op, tessera.nn, tessera.graph, tessera.jit
local function launches() return tonumber(fake.fake_count "cuLaunchKernelEx") end
local function empty(dtype, ...) return op.empty({ ... }, { dtype = dtype, device = "cuda:0" }) end
local function compiled()
  local d = jit.device()
  return d.kernels - d.from_disk
end
]]):gsub("DIR", dir)

local function child(code)
  local path = dir .. "/child.lua"
  local file = io.open(path, "w")
  file:write(begin, code)
  file:close()
  local p = io.popen(("TESSERA_CACHE=%s/cache %s %s 2>&1"):format(dir, arg[-1] or "bin/tessera", path))
  local out = p:read "*a"
  p:close()
  return out
end

if not require("tessera.core").jit() then return print "skipped: no code generator" end
local out = child [[
local r = jit.prepare()
print(r.kernels > 100, r.from_disk < r.kernels / 2, r.ms > 0, launches())
local x = empty("f32", 8) + 1
jit.wait()
tessera.synchronize()
print(launches() > 0 or jit.device().meanwhile > 0)
]]
assert(out == "true\ttrue\ttrue\t0\ntrue\n", out)

out = child [[
local r = jit.prepare "cuda:0"
print(r.kernels > 100, r.kernels - r.from_disk)
]]
assert(out == "true\t0\n", out)

out = child [[
jit.later(false)
local function first(what, f, ...)
  local before = compiled()
  f(...)
  if compiled() > before then print(what, compiled() - before) end
end
for _, n in ipairs { 64, 300, 1024, 2048, 5000 } do
  local k = math.ceil(n / 8) * 8
  first("f32 product of " .. n, op.matmul, empty("f32", n, k), empty("f32", k, k))
  first("bf16 product of " .. n, op.matmul, empty("bf16", n, k), empty("bf16", k, k))
  first("bf16 product of " .. n .. ", turned", op.matmul, empty("bf16", n, k), empty("bf16", k, k):T())
  first("sum of " .. n, function(x) return x * 3 + x end, empty("bf16", n, k))
  first("gelu of " .. n, op.gelu, empty("f32", n, k))
end
for _, n in ipairs { 768, 4096 } do
  local v = empty("bf16", n)
  first("softmax of " .. n, op.softmax, empty("f32", 3000, n))
  first("layernorm of " .. n, op.layernorm, empty("bf16", 3000, n), v, v)
end
for _, s in ipairs { 200, 1024, 4096 } do
  local qkv = empty("bf16", 2, s, 3, 12, 64)
  local function part(i) return qkv["::, ::, " .. i]:transpose(1, 2) end
  first("attention of " .. s, op.attention, part(0), part(1), part(2), { causal = true })
  local w = empty("bf16", 12 * 64, 64)
  local function block(a, b, c)
    local y = op.attention(a, b, c, { causal = true })
    return y:transpose(1, 2):reshape(2 * s, 12 * 64):matmul(w):sum()
  end
  local before = compiled()
  graph.grad(block, { 1, 2, 3 })(part(0), part(1), part(2))
  if compiled() - before > 2 then print("gradients", compiled() - before) end -- copies have their sizes as constants
  local q = empty("bf16", 2, 12, s, 64)
  first("plain attention of " .. s, op.attention, q, q, q, { causal = true })
end
print "done"
]]
assert(out == "done\n", out)

out = child [[
print(pcall(jit.prepare, "cpu"))
print(pcall(jit.prepare, "null:0"))
jit.device(false)
print(pcall(jit.prepare, "cuda:0"))
]]
for _, device in ipairs { "cpu:0", "null:0", "cuda:0" } do
  assert(out:find(("jit.prepare: %s runs no kernels"):format(device), 1, true), out)
end
os.execute("rm -rf " .. dir)
