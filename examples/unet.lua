-- A diffusion model: a U-Net learns to take noise out of pictures, and then makes pictures of noise.
--
--   tessera examples/unet.lua [--size small|full] [--steps N] [--batch N] [--width N] [--image N] [--samples N]
--                             [--denoise N] [--device cuda:0] [--dtype f32|bf16] [--lr RATE] [--ema DECAY] [--seed N]
--                             [--target SCORE] [--picture FILE.png] [--save FILE]
--
-- The pictures are discs, each of one colour on a dark ground, so what is made can be looked at by a program: how like it is to the
-- disc that has its place, area and colour. Noise as in Ho et al., "Denoising Diffusion Probabilistic Models", with the
-- cosine schedule of Nichol and Dhariwal, what the net gives as in Salimans and Ho, "Progressive Distillation"; sampling as in Song et al., "Denoising Diffusion Implicit Models", in --denoise steps, by
-- averages of the weights over training. `full` is their net for 32 x 32, 35.7 million parameters, on a GPU.

local here = debug.getinfo(1, "S").source:match "^@(.*)unet%.lua$" or "examples/"
package.path = here .. "shared/?.lua;" .. package.path

local tessera = require "tessera"
local op, nn, optim, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng
local learn = require "learn"

local usual = { size = "small", steps = false, batch = false, width = false, image = false, samples = 32, denoise = 40, device = "cpu",
  dtype = "f32", lr = false, ema = false, seed = 1, target = 0.75, picture = ">.png", save = ">.safetensors" }

-- widths: channels of each size, by which each halves; attention where pictures are not larger than `attend`.
local sizes = {
  small = { steps = 500, batch = 32, image = 16, width = 24, times = { 1, 2, 2 }, blocks = 1, attend = 4, groups = 8, dropout = 0, lr = 2e-3, ema = 0.99 },
  full = { steps = 50, batch = 128, image = 32, width = 128, times = { 1, 2, 2, 2 }, blocks = 2, attend = 16, groups = 32, dropout = 0.1, lr = 2e-4, ema = 0.9999 },
}
local options = tessera.arguments(usual, sizes)
local size = sizes[options.size]
for name in pairs(size) do size[name] = options[name] or size[name] end
assert(size.width % size.groups == 0, ("--width must be a multiple of %d, the groups of its norms"):format(size.groups))
assert(size.image % 2 ^ (#size.times - 1) == 0, ("--image must be a multiple of %d: it is halved %d times"):format(2 ^ (#size.times - 1), #size.times - 1))

-- ---- the net

-- What tells a net how much noise there is: sines and cosines of many lengths, [N, width].
local function time_embedding(t, width, dtype)
  local half = width / 2
  local rate = (op.arange(half):cast(dtype) * (-math.log(10000) / half)):exp():to(t.device)
  local angle = t:cast(dtype):unsqueeze(1) * rate
  return op.concat({ angle:sin(), angle:cos() }, { axis = 1 })
end

local Residual, Attention, UNet = nn.Module:extend "Residual", nn.Module:extend "Attention", nn.Module:extend "UNet"

function Residual:init(inputs, outputs, time, o)
  self.norm1, self.conv1 = nn.GroupNorm(o.groups, inputs), nn.Conv2d(inputs, outputs, 3, { padding = 1 })
  self.time = nn.Linear(time, outputs)
  self.norm2, self.conv2 = nn.GroupNorm(o.groups, outputs), nn.Conv2d(outputs, outputs, 3, { padding = 1 })
  self.dropout = nn.Dropout(o.dropout)
  if inputs ~= outputs then self.skip = nn.Conv2d(inputs, outputs, 1) end
end

function Residual:forward(x, t)
  local y = self.conv1(self.norm1(x):silu()) + self.time(t):unsqueeze(2):unsqueeze(3)
  y = self.conv2(self.dropout(self.norm2(y):silu()))
  return y + (self.skip and self.skip(x) or x)
end

-- Each place of a picture looks at all others.
function Attention:init(width, o)
  self.norm, self.qkv, self.out = nn.GroupNorm(o.groups, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)
end

function Attention:forward(x)
  local n, channels, height, width = unpack(x.shape)
  local all = self.qkv(self.norm(x)):reshape(n, 3, 1, channels, height * width):permute(1, 0, 2, 4, 3)
  local y = op.attention(all:select(0, 0), all:select(0, 1), all:select(0, 2))
  return x + self.out(y:squeeze(1):permute(0, 2, 1):reshape(n, channels, height, width))
end

function UNet:init(o)
  local width, time = o.width, 4 * o.width
  local inputs, side, skips = width, o.image, { width }
  local function stage(outputs, from)
    local m = nn.Module()
    m.residual = Residual(from, outputs, time, o)
    if side <= o.attend then m.attention = Attention(outputs, o) end
    return m
  end
  self.width = width
  self.time1, self.time2 = nn.Linear(width, time), nn.Linear(time, time)
  self.first = nn.Conv2d(3, width, 3, { padding = 1 })
  self.down, self.up = nn.List(), nn.List()
  for level, times in ipairs(o.times) do
    for _ = 1, o.blocks do
      self.down[#self.down + 1] = stage(width * times, inputs)
      inputs = width * times
      skips[#skips + 1] = inputs
    end
    if level < #o.times then
      local half = nn.Module()
      half.shrink = nn.Conv2d(inputs, inputs, 3, { stride = 2, padding = 1 })
      self.down[#self.down + 1], skips[#skips + 1], side = half, inputs, side / 2
    end
  end
  self.middle1, self.attention, self.middle2 = Residual(inputs, inputs, time, o), Attention(inputs, o), Residual(inputs, inputs, time, o)
  for level = #o.times, 1, -1 do
    for _ = 1, o.blocks + 1 do
      self.up[#self.up + 1] = stage(width * o.times[level], inputs + table.remove(skips))
      inputs = width * o.times[level]
    end
    if level > 1 then
      local twice = nn.Module()
      twice.grow = nn.Conv2d(inputs, inputs, 3, { padding = 1 })
      self.up[#self.up + 1], side = twice, side * 2
    end
  end
  self.norm, self.last = nn.GroupNorm(o.groups, inputs), nn.Conv2d(inputs, 3, 3, { padding = 1 })
  -- What is added begins as nothing, so the net begins as one that passes things on.
  self:apply(function(m)
    for _, layer in ipairs { m.conv2 or false, m.out or false, m.last or false } do
      if layer then layer.weight:copy_(0) end
    end
  end)
end

-- signal e - noise x0 of pictures x_t [N, 3, S, S] at times t [N], from which both the noise e and the picture x0 follow.
function UNet:forward(x, t)
  t = self.time2(self.time1(time_embedding(t, self.width, self.time1.weight.dtype)):silu()):silu()
  local function through(m, y)
    y = m.residual(y, t)
    return m.attention and m.attention(y) or y
  end
  x = self.first(x)
  local skips = { x }
  for _, m in ipairs(self.down) do
    x = m.shrink and m.shrink(x) or through(m, x)
    skips[#skips + 1] = x
  end
  x = self.middle2(self.attention(self.middle1(x, t)), t)
  for _, m in ipairs(self.up) do
    if m.grow then x = m.grow(x:interpolate { scale = { 2, 2 } }) else x = through(m, op.concat({ x, table.remove(skips) }, { axis = 1 })) end
  end
  return self.last(self.norm(x):silu())
end

-- ---- noise: x_t = signal[t] x + noise[t] e, for t = 0 .. TIMES - 1

local TIMES = 1000

local function schedule()
  local function level(t) return math.cos((t / TIMES + 0.008) / 1.008 * math.pi / 2) ^ 2 end
  local signal, noise, share = {}, {}, 1
  for t = 1, TIMES do
    share = share * math.max(level(t) / level(t - 1), 0.001)
    signal[t], noise[t] = math.sqrt(share), math.sqrt(1 - share)
  end
  return tessera.tensor(signal, { dtype = "f32" }):to(options.device), tessera.tensor(noise, { dtype = "f32" }):to(options.device)
end
local signal, noise = schedule()

local function at(list, t) return list:take(t):reshape { t.shape[1], 1, 1, 1 } end

-- How far what the net gives is from what it should give for pictures x with noise e.
local function loss_of(m, x, t, e)
  local a, b = at(signal, t), at(noise, t)
  return op.mse(m(a * x + b * e, t), a * e - b * x)
end

local function noisy_loss(m, x)
  local t = op.randint({ x.shape[1] }, { low = 0, high = TIMES, device = x.device })
  return loss_of(m, x, t, op.normal(x.shape, { device = x.device }))
end

-- Pictures x at times now with the noise of an earlier time: what the net takes for the picture, and of the noise that it sees less.
local function denoise(m, x, now, earlier)
  local v, a, b = m(x, now), at(signal, now), at(noise, now)
  local picture = (a * x - b * v):clamp(-1, 1)
  return at(signal, earlier) * picture + at(noise, earlier) * (x - a * picture) / b
end

-- n pictures of noise alone, in `count` steps.
local function sample(m, n, count)
  local step = graph.module("denoise", function(x, now, earlier) return denoise(m, x, now, earlier) end)
  local x = rng.normal({ n, 3, size.image, size.image }):to(options.device)
  local function time(i) return op.full({ n }, math.floor((TIMES - 1) * i / count + 0.5), { dtype = "i64" }):to(options.device) end
  for i = count, 1, -1 do x = step(x, time(i), time(i - 1)) end
  return x
end

-- ---- pictures: discs, f32 [n, 3, side, side] in [-1, 1]

local function ink(column, row, radius, side)
  local x, y = op.arange(side):cast "f32":reshape(1, 1, 1, side) - column, op.arange(side):cast "f32":reshape(1, 1, side, 1) - row
  return (radius + 0.5 - (x * x + y * y):sqrt()):clamp(0, 1)
end

local function discs(n, side)
  local function spread(low, high, channels) return rng.uniform({ n, channels or 1, 1, 1 }, { low = low, high = high }) end
  local radius = spread(side * 0.15, side * 0.3)
  local far = side - 1 - 2 * radius
  local colour = op.one_hot(rng.randint({ n, 1, 1 }, { low = 0, high = 3 }), 3):reshape(n, 3, 1, 1):cast "f32" * 0.7 + spread(0.3, 0.6, 3) * 0.5
  return ink(radius + spread(0, 1) * far, radius + spread(0, 1) * far, radius, side) * colour:clamp(0, 1) * 2 - 1
end

-- Of each picture how like it is to the disc of its place, area and colour: 1 - what is left of its variance; 1 for discs.
local function likeness(x)
  local light = ((x + 1) / 2):clamp(0, 1)
  local side, all = x.shape[4], { axis = { 1, 2, 3 }, keepdims = true }
  local gray = light:max { axis = 1, keepdims = true }
  local most = gray:max(all)
  gray = (gray / most - 0.25):clamp(0, 0.75) / 0.75
  local places, area = op.arange(side):cast "f32", gray:sum(all)
  local column = (gray * places:reshape(1, 1, 1, side)):sum(all) / area
  local row = (gray * places:reshape(1, 1, side, 1)):sum(all) / area
  local disc = ink(column, row, (area / math.pi):sqrt(), side)
  local colour = (light * disc):sum { axis = { 2, 3 }, keepdims = true } / (disc * disc):sum(all)
  local left = light - disc * colour
  local spread = light - light:mean(all)
  return 1 - (left * left):sum { axis = { 1, 2, 3 } } / (spread * spread):sum { axis = { 1, 2, 3 } }
end

-- ---- training

rng.seed(options.seed)
local x = discs(math.max(512, 2 * size.batch), size.image)
print(("discs as they are have a likeness of %.3f, noise has %.3f"):format(likeness(x):median():item(), likeness(rng.normal(x.shape)):median():item()))

local model = tessera.no_grad(UNet, size)
model:to(options.device)
local optimizer = optim.Adam(model:parameters(), { lr = size.lr, clip = 1 })
local ema = optim.EMA(model:parameters(), size.ema)
local step = graph.training_step(model, noisy_loss, optimizer, { ema = ema, autocast = options.dtype == "bf16" and "bf16" or nil,
  schedule = optim.schedule.cosine { lr = size.lr, final = size.lr / 20, warmup = math.floor(size.steps / 20), steps = math.max(1, size.steps) } })

print(("%d parameters, %d steps of %d pictures of %d x %d, %s"):format(model:num_parameters(), size.steps, size.batch, size.image, size.image, options.dtype))
local images = x:to(options.device)
local recent
local loss = learn(step, optimizer, images, { steps = size.steps, batch = size.batch, unit = "picture", each = function(loss)
  if optimizer.steps % 10 == 0 then recent = recent and recent * 0.9 + loss:item() * 0.1 or loss:item() end
end })

-- ---- what it has learned

model:eval()
local score
if options.save then tessera.save(options.save, { model = model:state_dict(), ema = ema:state_dict() }) end
if options.samples > 0 then
  local made = ema:with(function() return tessera.no_grad(sample, model, options.samples, options.denoise) end):to "cpu"
  score = likeness(made):median():item()
  print(("%d pictures made of noise have a likeness of %.3f (median)"):format(options.samples, score))
  if options.picture then
    local across = math.min(8, options.samples)
    local down = math.floor(options.samples / across)
    local grid = (made:narrow(0, 0, across * down) + 1):reshape(down, across, 3, size.image, size.image):permute(0, 3, 1, 4, 2) / 2
    require("tessera.image").save(options.picture, grid:reshape(down * size.image, across * size.image, 3))
  end
  assert(score >= options.target, ("a likeness of %.3f, and --target asks for %g; more steps would help"):format(score, options.target))
end
return { state = model:state_dict(), loss = loss, model = model, UNet = UNet, loss_of = loss_of, step = step, batch = { images } }
