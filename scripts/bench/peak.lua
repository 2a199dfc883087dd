-- Peak resident memory of a loop whose garbage is 1 MiB tensors, beside MIB of
-- live ones: `tessera scripts/bench/peak.lua MIB` prints it in KiB.

local ts = require "tessera"
local MiB = 2 ^ 18 -- in elements of f32

local live = {}
for i = 1, tonumber(arg[1]) / 4 do live[i] = ts.rng.normal { 4 * MiB } end

local x = ts.rng.normal { MiB }
for _ = 1, 2000 do
  local y = x + 1
  y:data_ptr()
end

for line in io.lines("/proc/self/status") do
  local kib = line:match("^VmHWM:%s*(%d+)")
  if kib then print(kib) end
end
return live and nil
