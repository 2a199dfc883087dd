-- Limits of whole numbers on a device: none on one side, and limits that no double tells from their neighbours.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op

for _, d in ipairs { "i64", "i32", "i16", "i8", "u8", "f32" } do
  local x = op.arange(50):cast(d)
  for _, o in ipairs { { max = 30 }, { min = 20 }, { min = 10, max = 30 }, {} } do
    on.check("clamp of " .. d, function(t) return op.clamp(t, o) end, x)
    on.check("clamp of twice " .. d, function(t) return op.clamp(t + t, o) end, x)
  end
end
for _, o in ipairs { { max = 2 ^ 60 }, { min = -2 ^ 60 }, { min = 2 ^ 62 }, { min = -2 ^ 63, max = 2 ^ 53 + 2 } } do
  on.check("clamp of i64", function(t) return op.clamp(t * 2 ^ 40, o) end, op.arange(50) * 2 ^ 20)
end
