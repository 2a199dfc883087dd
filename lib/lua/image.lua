-- Pictures as files: .png and, without any coding, .ppm and .pgm.
--
--   image.save("flow.png", image.diverging(vorticity)) -- [height, width, 3]
--
-- The first row is on top. Floats count from 0 (black) to 1; u8 from 0 to 255. A file appears
-- whole or not at all.

local core = require "tessera.core"
local bit = require "bit"
local options = require "tessera.options"
local op = core.op
local image = {}

local bxor, band, rshift = bit.bxor, bit.band, bit.rshift

-- u8 [height, width, channels] of what may lie between.
local function pixels(picture)
  options.argument("image.save", "the picture", options.tensor, picture)
  local p = picture:detach()
  if p.ndim == 2 then p = p:unsqueeze(2) end
  local channels = p.ndim == 3 and p.shape[3] or 0
  if p.numel == 0 or channels < 1 or channels > 4 then
    core.fail(("image.save: %s is no picture: [height, width] or [height, width, 1 to 4] is needed"):format(
      core.type_text(picture)))
  end
  if p.dtype == "bool" then p = p:cast("u8") * 255 end
  if p.dtype ~= "u8" then
    -- A NaN becomes black.
    p = op.where(p:eq(p), p:cast("f32"):clamp(0, 1) * 255, 0):round():cast("u8")
  end
  return p:contiguous(), p.shape[1], p.shape[2], channels
end

-- ---- PNG (ISO/IEC 15948): chunks with a CRC around a zlib stream of rows

local crc_table
local function crc32(...)
  if not crc_table then
    crc_table = {}
    for i = 0, 255 do
      local c = i
      for _ = 1, 8 do c = band(c, 1) == 1 and bxor(0xedb88320, rshift(c, 1)) or rshift(c, 1) end
      crc_table[i] = c
    end
  end
  local c = -1
  for _, s in ipairs { ... } do
    for i = 1, #s do c = bxor(crc_table[band(bxor(c, s:byte(i)), 255)], rshift(c, 8)) end
  end
  return bit.bnot(c)
end

local function adler32(s)
  local a, b = 1, 0
  for from = 1, #s, 2048 do -- sums stay small between two remainders
    for i = from, math.min(from + 2047, #s) do
      a = a + s:byte(i)
      b = b + a
    end
    a, b = a % 65521, b % 65521
  end
  return b * 65536 + a
end

local function big_endian(v)
  return string.char(band(rshift(v, 24), 255), band(rshift(v, 16), 255), band(rshift(v, 8), 255), band(v, 255))
end

local function chunk(name, body) return big_endian(#body) .. name .. body .. big_endian(crc32(name, body)) end

-- A zlib stream of stored blocks: nothing is compressed, any reader takes it.
local function stored(s)
  local out = { "\120\1" }
  for from = 1, #s, 65535 do
    local n = math.min(65535, #s - from + 1)
    local low, high = n % 256, math.floor(n / 256)
    out[#out + 1] = string.char(from + n > #s and 1 or 0, low, high, 255 - low, 255 - high)
    out[#out + 1] = s:sub(from, from + n - 1)
  end
  out[#out + 1] = big_endian(bit.tobit(adler32(s)))
  return table.concat(out)
end

local COLOUR = { 0, 4, 2, 6 } -- grey, grey with alpha, RGB, RGB with alpha

local function png(bytes, height, width, channels)
  -- Before each row stands its filter: none.
  local rows = op.concat({ op.zeros({ height, 1 }, { dtype = "u8" }), bytes:reshape(height, width * channels) },
    { axis = 1 })
  local head = big_endian(width) .. big_endian(height) .. string.char(8, COLOUR[channels], 0, 0, 0)
  return { "\137PNG\r\n\26\n", chunk("IHDR", head), chunk("IDAT", stored(rows:bytes())), chunk("IEND", "") }
end

local function pnm(bytes, height, width, channels)
  if channels == 2 or channels == 4 then core.fail "image.save: .ppm and .pgm have no alpha channel" end
  return { ("P%d %d %d 255\n"):format(channels == 1 and 5 or 6, width, height), bytes }
end

--- Writes a tensor [height, width] or [height, width, channels] by the name's ending.
--   image.save("x.png", rng.uniform{64, 64})
function image.save(path, picture)
  options.argument("image.save", "the path", options.text, path)
  local write = ({ png = png, ppm = pnm, pgm = pnm })[path:match "%.(%w+)$" or ""]
  if not write then core.fail(core.shown(path) .. ": the name must end in .png, .ppm or .pgm") end
  core.write_file(path, write(pixels(picture)))
end

-- ---- colours for numbers

-- Colours [count, 3] between which x, from 0 to 1, is interpolated.
local function interpolate(x, colours)
  x = op.where(x:eq(x), x, 0.5)
  local stops = core.tensor(colours, { dtype = "f32" })
  local at = x:clamp(0, 1) * (#colours - 1)
  local i = at:floor():clamp { max = #colours - 2 }
  local part, index = (at - i):unsqueeze(-1), i:cast("i64")
  return op.embedding(stops, index) * (1 - part) + op.embedding(stops, index + 1) * part
end

--- Blue below 0, white at 0, red above; limit is the size of the strongest colour.
--   image.save("v.png", image.diverging(x))
function image.diverging(x, limit)
  options.argument("image.diverging", "x", options.tensor, x)
  if limit ~= nil then options.argument("image.diverging", "limit", options.number { above = 0 }, limit) end
  limit = limit or math.max(x:abs():max():item(), 1e-30)
  return interpolate((x / limit + 1) * 0.5, { { 0.02, 0.19, 0.38 }, { 0.26, 0.58, 0.76 }, { 0.97, 0.97, 0.97 },
    { 0.84, 0.38, 0.30 }, { 0.40, 0, 0.12 } })
end

--- Dark to bright from low to high, by default the smallest and largest element.
--   image.save("x.png", image.sequential(x))
function image.sequential(x, low, high)
  options.argument("image.sequential", "x", options.tensor, x)
  if low ~= nil then options.argument("image.sequential", "low", options.number(), low) end
  if high ~= nil then options.argument("image.sequential", "high", options.number(), high) end
  low, high = low or x:min():item(), high or x:max():item()
  return interpolate((x - low) / math.max(high - low, 1e-30), { { 0.27, 0, 0.33 }, { 0.23, 0.32, 0.55 },
    { 0.13, 0.57, 0.55 }, { 0.37, 0.79, 0.38 }, { 0.99, 0.91, 0.14 } })
end

return require("tessera.named")("tessera.image", image)
