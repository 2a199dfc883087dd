-- Products of devices/marks/sums.lua by warps that copy and multiply, as GPUs without a copy engine do it.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
ffi.C.setenv("TESSERA_GPU", "sm_80", 1)
dofile "tests/devices/marks/sums.lua"
