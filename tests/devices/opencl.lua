-- SPIR-V that is run: operators, rows, functions and gradients on OpenCL's CPU against the CPU's own
-- kernels, bit by bit, with the code for a CPU's driver, whose threads tell one another by shared
-- memory; and what is said of the device. A sixth of the cases; LONG=1: all of them, each half by a program
-- of its own, as the driver keeps what it compiled, the families of operators, and which the CPU runs.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("DEV", "opencl:0")
opencl.set("TESSERA_GPU", "spirv_cpu")
local all = os.getenv "LONG" and not os.getenv "SAMPLE"
if not os.getenv "SAMPLE" then opencl.set("SAMPLE", all and "2" or "6") end
local skipped = opencl.missing()
if skipped then return print(skipped) end
local tessera = require "tessera"
local op = tessera.op

-- It is on the list with a sentence once it was named, and gives all memory back.
local function of_device(i)
  for _, d in ipairs(tessera.devices()) do
    if d.name == "opencl:0" then return d[i] end
  end
end
of_device "text":match "code of spirv_cpu; [%d.]+ MiB in tensors" ~= nil --> true
collectgarbage()
local before = of_device "live"
local x = op.ones({ 1000, 100 }):to "opencl:0"
of_device "live" - before --> 400000
x:to "cpu":sum():item() --> 100000
x = nil
collectgarbage()
of_device "live" - before --> 0
op.ones({ 2 }):to "opencl:99" --! there is no device 'opencl:99'

-- What drivers say comes with the name of the call; a library that is none is a sentence.
local program = arg[-1] or "bin/tessera"
local p = io.popen(([[TESSERA_LIBOPENCL=/none %s -e 'require("tessera").op.ones{1}:to "opencl"' 2>&1]]):format(program))
local said = p:read "*a"
p:close()
said:match "no OpenCL: [^\n]* cannot be opened" --> no OpenCL: /none, which TESSERA_LIBOPENCL names, cannot be opened

-- What threads know before they meet is what they know behind it; the gradient of layernorm is compiled.
tessera.core.jit_later(false)
tessera.jit.eager(true)
do
  local function f(z, y)
    local t = op.sigmoid(y)
    return (op.softplus(z) - z * t):mean(), op.sigmoid(z) * 0.125 + t * -0.125
  end
  local m, z, y = tessera.graph.module("met", f), op.normal({ 2, 4 }, { seed = 1, stream = 1 }), op.normal({ 2, 4 }, { seed = 2, stream = 1 })
  local loss, g = m(z:to "opencl:0", y:to "opencl:0")
  local want, want_g = f(z, y)
  assert(m:ir "why":match "// tier 2 on (%S+):" == "opencl:0")
  assert(loss:hash() == want:hash() and g:hash() == want_g:hash(), "other numbers behind a meeting")
  for _, size in ipairs { { 3, 4 }, { 5, 771 } } do
    local n, w = op.normal(size, { seed = 3, stream = 1 }), op.normal({ size[2] }, { seed = 4, stream = 1 })
    local a, b = op.layernorm_grad(n:to "opencl:0", w:to "opencl:0", (n * 2):to "opencl:0")
    local c, d = op.layernorm_grad(n, w, n * 2)
    assert(a:hash() == c:hash() and b:hash() == d:hash(), "another gradient of layernorm")
  end
end
tessera.jit.eager(false)

dofile "tests/devices/agree.lua"
if all then
  opencl.set("SAMPLE_AT", "1")
  opencl.run(program, "agree")
  for _, name in ipairs { "join", "numbers", "operators/convolutions", "operators/draws", "operators/indices",
    "operators/scatters", "operators/slices", "operators/sorts", "operators/transforms", "operators/transposed",
    "operators/products", "operators/grouped", "census" } do
    opencl.run(program, name)
  end
end
opencl.set("SAMPLE_AT", "0")
if not all then opencl.set("SAMPLE", tostring(4 * tonumber(os.getenv "SAMPLE"))) end
opencl.run(program, "functions")
for _, name in ipairs { "numbers", "operators/indices", "operators/draws", "steady" } do
  opencl.run(program, name)
end
