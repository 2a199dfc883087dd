-- Compiled Lua code holds the models that it ran for. Where a device is full it is thrown away before an error says so.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
ffi.C.setenv("TESSERA_SIM_BYTES", "20000000", 1)
local tessera = require "tessera"
local op = tessera.op
local function model(n)
  local w = op.ones({ n }, { device = "sim:0" })
  local function f() return w end
  local sum = 0
  for i = 1, 300 do sum = sum + f().ndim end -- a trace of this loop
  return sum
end
for _ = 1, 8 do assert(model(2500000) == 300) end -- two do not fit
