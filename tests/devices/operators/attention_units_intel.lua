-- The same as attention_units.lua by the matrix unit of Intel's GPUs, on a simulated one.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
ffi.C.setenv("TESSERA_GPU", "pvc", 1)
dofile "tests/devices/operators/attention_units.lua"
