-- Cooperative matrices of SPIR-V: products of 16 bits use them in the profile "fast" alone, as a driver adds up as it likes,
-- those of i8, which are exact, in all; and OpenCL's devices are given code with them that list the extension. No driver
-- here has them: the simulated device interprets such kernels (and tests/jit/gpu/spirv_test.c reads their code).
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("TESSERA_GPU", "cooperative")
local tessera = require "tessera"
local op, graph, jit, rng = tessera.op, tessera.graph, tessera.jit, tessera.rng
if not jit.status() then return print "skipped: nothing is compiled here" end
tessera.core.jit_later(false)

local function numbers(d, ...)
  if d == "i8" then return op.cast(rng.randint({ ... }, { low = -128, high = 128 }), "i8") end
  return rng.normal { ... }:cast(d)
end
local function product(a, b) return op.matmul(a, b) end
local input, want = {}, {}
for _, d in ipairs { "bf16", "f16", "i8" } do
  input[d] = { numbers(d, 70, 80), numbers(d, 80, 112) }
  want[d] = product(unpack(input[d])):hash()
end
local has_spirv = true
for _, profile in ipairs { "strict", "deterministic", "fast" } do
  tessera.numerics.profile(profile)
  for _, d in ipairs { "bf16", "f16", "i8" } do
    local a, b = unpack(input[d])
    local f = graph.module("product", product)
    f(a, b)
    local tile, code = f:ir("tile", { target = "cooperative" }), f:ir("llvm", { target = "cooperative" })
    local uses = d == "i8" or profile == "fast"
    local where = ("%s in %s: "):format(d, profile)
    assert((tile:find('unit="cooperative"', 1, true) ~= nil) == uses, where .. tile)
    if code:find "has no SPIR%-V" then has_spirv = false
    else assert((code:find "CooperativeMatrixMulAddKHR" ~= nil) == uses, where .. code) end
    -- The interpreter's order is that of the CPU.
    local before = tessera.core.jit_device()
    local got = product(a:to "sim:0", b:to "sim:0")
    assert(tessera.core.jit_device().fallback == before.fallback, where .. "the CPU ran it")
    assert(got:hash() == want[d], where .. "other bits")
  end
end
tessera.numerics.profile "deterministic"

-- A driver that says more of itself than it has: the functions of the one that is here.
if not has_spirv then return print "skipped: this LLVM has no SPIR-V" end
local source = [[
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const list[] = {"SPV_KHR_cooperative_matrix", "SPV_KHR_bfloat16"};
static const unsigned capability[] = {4, 5118, 6022};

static int give(const void *what, size_t n, size_t room, void *value, size_t *size) {
  if (size) *size = n;
  if (value) memcpy(value, what, n < room ? n : room);
  return 0;
}

int clGetDeviceInfo(void *d, unsigned what, size_t room, void *value, size_t *size) {
  static int (*real)(void *, unsigned, size_t, void *, size_t *);
  const uint64_t gpu = 4, none = 0, rounded = 0xbf, size_of[] = {16, 32};
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clGetDeviceInfo");
  const char *lists = getenv("LISTS");
  switch (what) {
  case 0x1000: return give(&gpu, 8, room, value, size);
  case 0x1032: return give(&none, 8, room, value, size);
  case 0x101B: return give(&rounded, 8, room, value, size);
  case 0x4108: return give(size_of, sizeof size_of, room, value, size);
  case 0x12BA: return give(list, *lists > '0' ? sizeof list : 8, room, value, size);
  case 0x12BB: return give(capability, *lists > '1' ? sizeof capability : 8, room, value, size);
  default: return real(d, what, room, value, size);
  }
}
]]
local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir " .. dir)
local f = assert(io.open(dir .. "/cl.c", "w"))
f:write(source)
f:close()
local built = os.execute(("cc -shared -fPIC -o %s/cl.so %s/cl.c -Wl,--no-as-needed -l:libOpenCL.so.1 -ldl 2> /dev/null"):format(dir, dir))
local child = [[
local t = require "tessera"
if not pcall(function() t.op.ones { 1 }:to "opencl:0" end) then return print(t.devices().missing.opencl) end
t.core.jit_later(false)
local a, b = t.rng.normal({ 70, 80 }):cast "bf16", t.rng.normal({ 80, 112 }):cast "bf16"
local want = t.op.matmul(a, b):hash()
for _, profile in ipairs { "deterministic", "fast" } do
  t.numerics.profile(profile)
  print(profile, t.op.matmul(a:to "opencl:0", b:to "opencl:0"):hash() == want, t.core.jit_device().fallback)
end
for _, d in ipairs(t.devices()) do
  if d.name == "opencl:0" then print(d.text) end
end
]]
f = assert(io.open(dir .. "/child.lua", "w"))
f:write(child)
f:close()
local function code_of(lists)
  local p = io.popen(("env -u TESSERA_GPU LISTS=%s TESSERA_LIBOPENCL=%s/cl.so %s %s/child.lua 2>&1"):format(lists, dir, arg[-1] or "bin/tessera", dir))
  local said = p:read "*a"
  p:close()
  return said:match "code of ([%w_]+)" or said, said
end
local none = built == 0 and code_of "0"
if not none then print "skipped: no C compiler, or no OpenCL"
elseif none:find "^nil" or none:find "no OpenCL" or none:find "OpenCL has no" then print("skipped: " .. none)
else
  assert(none == "dg2", none)
  assert(code_of "1" == "dg2", code_of "1") -- the extension without what it is for
  -- Its compiler has no such matrices after all, which is found out before: all is the code of one without them.
  local code, said = code_of "2"
  assert(code == "dg2" and said:find "deterministic\ttrue\t0\nfast\ttrue\t0\n", said)
end
os.execute("rm -rf " .. dir)
