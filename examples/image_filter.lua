-- Convolution on a picture made on the spot: blur, edges, and half the size.
--
--   tessera examples/image_filter.lua [folder for .ppm files]

local tessera = require "tessera"
local op = tessera.op

local N = 96
local x = op.linspace(-1, 1, N)
local X, Y = x:unsqueeze(0):expand(N, N), x:unsqueeze(1):expand(N, N)
local r = op.hypot(X, Y)
-- Three channels: a disc, rings, a checkerboard. [1, 3, N, N]
local image = op.stack { r:lt(0.6):cast("f32"), op.sin(r * 20) * 0.5 + 0.5,
  ((X * 4):floor() + (Y * 4):floor()):mod(2) }:unsqueeze(0)

local function depthwise(kernel)
  local k = tessera.tensor(kernel):unsqueeze(0):unsqueeze(0):expand(3, 1, #kernel, #kernel):contiguous()
  return op.depthwise_conv2d(image, k, { padding = { (#kernel - 1) / 2 } })
end

local g = op.exp(op.linspace(-2, 2, 5):square() * -0.5)
local blur = depthwise((g:unsqueeze(0) * g:unsqueeze(1) / (g:sum() * g:sum())):totable())
local dx = depthwise { { -1, 0, 1 }, { -2, 0, 2 }, { -1, 0, 1 } }
local dy = depthwise { { -1, -2, -1 }, { 0, 0, 0 }, { 1, 2, 1 } }
local edges = op.hypot(dx, dy)
local half = op.avg_pool(image, { window = { 2, 2 } })

local function save(folder, name, picture)
  local c, h, w = unpack(picture.shape, 2)
  local bytes = (picture:squeeze(0):permute(1, 2, 0):clamp(0, 1) * 255):cast("u8")
  tessera.core.write_file(("%s/%s.ppm"):format(folder, name), { ("P6 %d %d 255\n"):format(w, h), bytes })
  return c
end

local folder = arg and arg[1]
if folder then
  for name, picture in pairs { image = image, blur = blur, edges = edges / 4, half = half } do
    save(folder, name, picture)
  end
  print("wrote image.ppm, blur.ppm, edges.ppm and half.ppm into " .. folder)
end

-- Blurring keeps the mean inside; the disc's edge has the length of its circle.
local ring = edges[0][0]:gt(2):cast("f32"):sum():item()
print(("mean %.4f, blurred %.4f; %d pixels on the edge of the disc"):format(image:mean():item(),
  blur:mean():item(), ring))
assert(math.abs(image:mean():item() - blur:mean():item()) < 0.02)
assert(ring > 100 and ring < 600)
return { blur = blur, edges = edges, half = half }
