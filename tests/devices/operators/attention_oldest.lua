-- The same as attention.lua, all of it by warps that copy and multiply, as GPUs without a
-- copy engine do it. The device is simulated, or that of `make check DEV=cuda`, where code for the
-- oldest GPU runs as well.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
ffi.C.setenv("TESSERA_GPU", "sm_80", 1)
package.path = "tests/devices/?.lua;" .. package.path
local device = require "_device"
if device.name and device.target ~= "sm_80" then return print("skipped: " .. device.name .. " runs no code of sm_80") end
dofile "tests/devices/operators/attention.lua"
