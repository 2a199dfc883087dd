local tessera = require "tessera"
local op, image = tessera.op, tessera.image

local name = os.tmpname()
os.remove(name)
local function written(ending, picture)
  local path = name .. "." .. ending
  image.save(path, picture)
  local text = tessera.data.text(path)
  os.remove(path)
  return text
end
local function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

-- Floats from 0 to 1 are clamped and rounded, a NaN is black, bools are black and white.
local ramp = tessera.tensor { { 0, 0.5, 1 }, { -1, 2, 0 / 0 } }
hex(written("pgm", ramp)) --> 503520332032203235350a0080ff00ff00
hex(written("ppm", tessera.tensor({ { { 1, 2, 3 } } }, { dtype = "u8" }))) --> 503620312031203235350a010203
hex(written("pgm", ramp:gt(0))) --> 503520332032203235350a00ffff00ff00

-- Beside the bytes of zlib (Python): two chunks' checksums, and a stream of stored blocks.
local png = written("png", ramp)
hex(png:sub(1, 41)) --> 89504e470d0a1a0a0000000d4948445200000003000000020800000000b81f39c60000001349444154
hex(png:sub(42)) --> 7801010800f7ff000080ff0000ff000a01027f066d04210000000049454e44ae426082
-- More than one block of 65535 bytes.
local large = written("png", op.ones { 300, 301, 3 })
#large --> 271288

image.save(name .. ".jpg", ramp) --! must end in .png, .ppm or .pgm
image.save(name .. ".png", op.ones { 3 }) --! f32[3] is no picture
image.save(name .. ".ppm", op.ones { 3, 3, 4 }) --! no alpha channel
image.save(name .. ".png", "x") --! the picture must be a tensor, not 'x'

-- Numbers as colours; what is no number is as 0.
(image.diverging(tessera.tensor { -1, 0, 1, 0 / 0 }, 1) * 100):round():cast("u8") --> [[ 2 19 38]
-->  [97 97 97]
-->  [40  0 12]
-->  [97 97 97]]
--> u8[4,3]
(image.sequential(tessera.tensor { 3, 5 })[1] * 100):round():cast("u8") --> [99 91 14]
--> u8[3]
