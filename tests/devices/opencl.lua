-- SPIR-V that is run: operators, rows, functions and gradients on OpenCL's CPU against the CPU's own
-- kernels, bit by bit, with the code for any driver, whose threads tell one another by shared
-- memory; and what is said of the device. A sixth of the cases; LONG=1: all of them, each half by a program
-- of its own, as the driver keeps what it compiled, and the families of operators.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("DEV", "opencl:0")
opencl.set("TESSERA_GPU", "spirv")
opencl.set("TESSERA_OPENCL_OPTIONS", "-cl-opt-disable") -- its compiler takes ten times as long else
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
of_device "text":match "code of spirv; [%d.]+ MiB in tensors" ~= nil --> true
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

dofile "tests/devices/agree.lua"
if all then
  opencl.set("SAMPLE_AT", "1")
  opencl.run(program, "agree")
  for _, name in ipairs { "join", "numbers", "operators/convolutions", "operators/draws", "operators/indices",
    "operators/scatters", "operators/slices", "operators/sorts", "operators/transforms", "operators/transposed" } do
    opencl.run(program, name)
  end
end
for _, name in ipairs { "numbers", "operators/indices", "operators/draws", "steady" } do
  opencl.run(program, name)
end
