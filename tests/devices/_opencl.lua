-- OpenCL for tests: the one for CPUs that scripts/python.sh sets up, where OCL_ICD_VENDORS says no
-- other (/etc/OpenCL/vendors: the machine's own). To be there before a device of it is named.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
local M = {}

function M.set(name, value) ffi.C.setenv(name, value, 1) end

local p = io.popen "pwd"
local own = p:read "*l" .. "/build/python/opencl"
p:close()
if not os.getenv "OCL_ICD_VENDORS" then
  local f = io.open(own .. "/cpu.icd")
  if f then
    f:close()
    M.set("OCL_ICD_VENDORS", own)
  end
end

-- Why there is none, or nil.
function M.missing()
  local tessera = require "tessera"
  if not tessera.jit.status() then return "skipped: nothing is compiled here" end
  local ok, why = pcall(function() return tessera.op.ones(1):to "opencl:0" end)
  local missing = tessera.devices().missing.opencl
  if missing then return "skipped: " .. missing end
  if not ok then error(why, 0) end
end

-- Another test of this folder, with the environment that was set.
function M.run(program, name)
  local r = io.popen(("%s scripts/run_test.lua tests/devices/%s.lua 2>&1; echo exit $?"):format(program, name))
  local out = r:read "*a"
  r:close()
  assert(out:match "exit 0\n$", name .. " on " .. (os.getenv "DEV" or os.getenv "TESSERA_GPU") .. ":\n" .. out)
end
return M
