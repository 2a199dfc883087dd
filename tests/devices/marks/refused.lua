-- Where code cannot read a clock, the device says which capability is missing, for a profile to say: Intel's own driver of Level
-- Zero in its simulation mode, whose events have no times, so that no profile is made.
local program = arg[-1] or "bin/tessera"
local root = io.popen("pwd"):read "*l"
if not program:match "^/" then program = root .. "/" .. program end
local dir = os.tmpname()
os.remove(dir)
assert(os.execute("mkdir " .. dir) == 0)
local function run(code)
  local f = assert(io.open(dir .. "/code.lua", "w"))
  f:write('local tessera = require "tessera"\nlocal op = tessera.op\ntessera.core.jit_later(false)\n', code)
  f:close()
  local p = io.popen(("cd %s && NEOReadDebugKeys=1 SetCommandStreamReceiver=1 ProductFamilyOverride=pvc HardwareInfoOverride=1x4x8 TESSERA_CACHE=off %s code.lua 2>&1")
    :format(dir, program))
  local out = p:read "*a"
  p:close()
  return (out:gsub("\n$", ""))
end
local there = run [[print(not tessera.jit.status() and "nothing is compiled here" or tessera.devices().missing.level_zero or "there")]]
local said = there == "there" and run [[
for _, d in ipairs(tessera.devices()) do
  if d.name == "level_zero:0" then print(d.no_clock) end
end
]]
os.execute("rm -rf " .. dir)
if there ~= "there" then return print("skipped: " .. there:gsub("\n.*", "")) end
assert(said == "Level Zero does not say whether code may have ShaderClockKHR of SPIR-V", said)
