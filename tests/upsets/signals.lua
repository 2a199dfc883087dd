-- Real signals at random points, 30 of them, or FUZZ_COUNT.
package.path = "tests/upsets/?.lua;" .. package.path
local core = require "tessera.core"
local scenarios, upset = require "_scenarios", require "_upset"
local COUNT = tonumber(os.getenv "FUZZ_COUNT") or 30

local file = io.open "/proc/self/stat"
local pid = file:read "*n"
file:close()

local kind = upset.kinds.signal(pid)
local wrong = {}
for i = 1, COUNT do
  local s = scenarios[(i * 7) % #scenarios + 1]
  local why = upset.once(s, kind, i)
  if why then wrong[#wrong + 1] = s.name .. ": " .. why end
end
#wrong == 0 or table.concat(wrong, "\n") --> true
