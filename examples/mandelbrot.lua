-- The Mandelbrot set with complex tensors, as characters, and as a picture when a
-- name is given:  tessera examples/mandelbrot.lua out.pgm

local tessera = require "tessera"
local op = tessera.op

local function escape_times(width, height, limit)
  local re = op.linspace(-2.2, 0.8, width):unsqueeze(0):expand(height, width)
  local im = op.linspace(1.2, -1.2, height):unsqueeze(1):expand(height, width)
  local c = op.complex(re, im)
  local z, count = op.zeros_like(c), op.zeros { height, width }
  for _ = 1, limit do
    local inside = z:abs():lt(2)
    count = count + inside:cast("f32")
    z = op.where(inside, z * z + c, z)
  end
  return count
end

local LIMIT = 60
local ramp = " .:-=+*#%@"
for _, row in ipairs(escape_times(78, 32, LIMIT):totable()) do
  local line = {}
  for i, n in ipairs(row) do
    local level = 1 + math.floor(n / LIMIT * (#ramp - 1))
    line[i] = ramp:sub(level, level)
  end
  print(table.concat(line))
end

local path = arg and arg[1]
if path then
  local n = escape_times(600, 480, LIMIT) * (255 / LIMIT)
  tessera.core.write_file(path, { "P5 600 480 255\n", n:cast("u8") })
  print("wrote " .. path)
end
local area = escape_times(300, 240, 200):ge(200):cast("f32"):mean():item() * 3 * 2.4
print(("area of the set: about %.3f (the true value is near 1.506)"):format(area))
assert(math.abs(area - 1.506) < 0.05)
