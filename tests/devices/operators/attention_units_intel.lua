-- The same as attention_units.lua by the matrix unit of Intel's GPUs, on a simulated one.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("TESSERA_GPU", "pvc")
opencl.run(arg[-1] or "bin/tessera", "operators/attention_units")
