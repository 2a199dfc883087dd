-- What a device runs a GPU can be given: the kernels of each operator have code of a real one. Every eighth
-- case; all of them with ALL=1.
package.path = "tests/agree/?.lua;tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core = tessera.core
local cases = require "_cases"
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if not core.jit() then return print "skipped: nothing is compiled here" end
local every = os.getenv "ALL" and 1 or 8

local number, wrong, shown = 0, {}, 0
for c in cases.each() do
  number = number + 1
  if number % every == 3 % every then
    local moved = {}
    for i, t in ipairs(cases.inputs(c) or {}) do moved[i] = t and t:to(name) end
    core.jit_show "asm"
    local ok, why = pcall(cases.call, c, moved)
    local text = core.jit_show()
    if not ok and tostring(why):find "jit:" then wrong[#wrong + 1] = cases.name(c) .. ": " .. tostring(why) end
    if #text > 0 then shown = shown + 1 end
  end
end
#wrong == 0 or table.concat(wrong, "\n") --> true
assert(shown > 100, shown)
