-- Bits never depend on a choice: random ones for kernels of each family, on each instruction set. On the simulated GPU:
-- tests/devices/choose.lua.
local jit = require("tessera").jit
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
local function run(isa)
  local p = io.popen(("TESSERA_ISA=%s %s tests/jit/tune/_choices.lua 2>&1"):format(isa, arg[-1] or "bin/tessera"))
  local text = p:read "*a"
  p:close()
  return (text:gsub("\n$", ""))
end
run "" --> map rows columns matmul attention conv
run "avx2" --> map rows columns matmul attention conv
-- Without fused multiply-adds products are the VM's.
run "base" --> map rows columns
