-- ResNet-18 learns to name shapes in coloured pictures, which are drawn on the spot, or the pictures of a file.
--
--   tessera examples/resnet18.lua [--size small|full] [--steps N] [--batch N] [--width N] [--image N] [--classes N]
--                                 [--train N] [--test N] [--data FILE] [--device cuda:0] [--dtype f32|bf16]
--                                 [--lr RATE] [--seed N] [--target PERCENT] [--picture FILE.png] [--save FILE]
--
-- `small` is made for a CPU: pictures of 32 x 32, a first layer that keeps their size, a fourth of the width. `full` is the net
-- as published, pictures of 224 x 224 and 1000 classes, on numbers drawn at random, for measuring.
-- FILE is .npz or .safetensors with train_images, train_labels, test_images and test_labels, as the package medmnist has them:
-- images u8 [N, H, W] or [N, H, W, 3], of one size; labels are whole numbers from 0 on.
--
-- One step is one captured function: pictures are moved, mirrored and lit at random, go forward and back, and the optimiser and the
-- running statistics of the norms move. Random numbers are a function of the seed and of how many were drawn before.

local here = debug.getinfo(1, "S").source:match "^@(.*)resnet18%.lua$" or "examples/"
package.path = here .. "shared/?.lua;" .. package.path

local tessera = require "tessera"
local op, nn, optim, data, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph, tessera.rng
local learn = require "learn"

local usual = { size = "small", steps = false, batch = false, width = false, image = false, classes = false, train = 6000, test = 1000,
  data = false, device = "cpu", dtype = "f32", lr = 3e-3, seed = 1, target = "90%", picture = ">.png", save = ">.safetensors" }

local sizes = {
  small = { steps = 300, batch = 32, width = 16, image = 32, classes = 10 },
  full = { steps = 50, batch = 128, width = 64, image = 224, classes = 1000 },
}
local options = tessera.arguments(usual, sizes)

-- ---- the net, with the names of torchvision's

local Block = nn.Module:extend "Block"

function Block:init(inputs, outputs, stride)
  self.conv1 = nn.Conv2d(inputs, outputs, 3, { stride = stride, padding = 1, bias = false })
  self.bn1 = nn.BatchNorm2d(outputs)
  self.conv2 = nn.Conv2d(outputs, outputs, 3, { padding = 1, bias = false })
  self.bn2 = nn.BatchNorm2d(outputs)
  if stride ~= 1 or inputs ~= outputs then
    self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, { stride = stride, bias = false }), nn.BatchNorm2d(outputs))
  end
end

function Block:forward(x)
  local y = self.bn1(self.conv1(x)):relu()
  y = self.bn2(self.conv2(y))
  return (y + (self.downsample and self.downsample(x) or x)):relu()
end

-- ResNet{width = 64, classes = 1000, image}: a smaller first layer where pictures are small.
local ResNet = nn.Module:extend "ResNet"

function ResNet:init(o)
  local width = o.width
  self.small = o.image <= 64
  self.conv1 = self.small and nn.Conv2d(3, width, 3, { padding = 1, bias = false }) or
    nn.Conv2d(3, width, 7, { stride = 2, padding = 3, bias = false })
  self.bn1, self.maxpool = nn.BatchNorm2d(width), nn.MaxPool2d(3, { stride = 2, padding = 1 })
  local inputs = width
  for i = 1, 4 do
    local outputs = width * 2 ^ (i - 1)
    self["layer" .. i] = nn.Sequential(Block(inputs, outputs, i > 1 and 2 or 1), Block(outputs, outputs, 1))
    inputs = outputs
  end
  self.fc = nn.Linear(inputs, o.classes)
  -- He's normal weights, by what comes out of a layer; a block begins as what goes around it.
  for _, p in ipairs(self:named_parameters()) do
    local name, w = p[1], p[2]
    if w.ndim == 4 then w:copy_(op.normal(w.shape, { std = math.sqrt(2 / (w.shape[1] * w.shape[3] * w.shape[4])) })) end
    if name:find "bn2%.weight$" then w:copy_(0) end
  end
end

function ResNet:forward(x)
  x = self.bn1(self.conv1(x)):relu()
  if not self.small then x = self.maxpool(x) end
  x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
  return self.fc(x:mean { axis = { 2, 3 } })
end

-- ---- pictures

local SHAPES = { "disc", "ring", "square", "frame", "triangle", "plus", "half", "crescent", "star", "bars" }

-- How far a place u, v is from the inside of each shape, negative within.
local function distances(u, v)
  local r, a, b = (u * u + v * v):sqrt(), u:abs(), v:abs()
  local most, least = op.maximum(a, b), op.minimum(a, b)
  return {
    r - 1,
    (r - 0.75):abs() - 0.25,
    most - 0.8,
    (most - 0.65):abs() - 0.2,
    op.maximum(v, a * 0.866 - v * 0.5) - 0.55,
    op.maximum(least - 0.28, most - 1),
    op.maximum(r - 1, -v),
    op.maximum(r - 1, 0.75 - ((u - 0.55) * (u - 0.55) + v * v):sqrt()),
    r - 0.65 - 0.35 * (op.atan2(v, u) * 5):cos(),
    op.maximum(most - 0.9, (u * 8):cos() * 0.3),
  }
end

-- n pictures f32 [n, 3, side, side] in [0, 1], and which shape each shows.
local function pictures(n, side)
  local function spread(low, high, channels) return rng.uniform({ n, channels or 1, 1, 1 }, { low = low, high = high }) end
  local kind, angle, scale = rng.randint({ n }, { low = 0, high = #SHAPES }), spread(-0.6, 0.6), 1 / spread(0.5, 0.85)
  local at = (op.arange(side):cast "f32" + 0.5) * (2 / side) - 1
  local x, y = at:unsqueeze(0) - spread(-0.3, 0.3), at:unsqueeze(1) - spread(-0.3, 0.3)
  local c, s = angle:cos() * scale, angle:sin() * scale
  local u, v = c * x - s * y, s * x + c * y
  local chosen = op.one_hot(kind, #SHAPES, { dtype = "bool" })
  local d = op.zeros { n, 1, side, side }
  for i, each in ipairs(distances(u, v)) do d = op.where(chosen:select(1, i - 1):reshape { n, 1, 1, 1 }, each, d) end
  local ink = (0.5 - d * (side / 4)):clamp(0, 1)
  local back, front = spread(0, 0.4, 3), spread(0.3, 1, 3) + spread(0, 0.3)
  local light = 1 + spread(-0.3, 0.3) * x + spread(-0.3, 0.3) * y
  local image = (front * ink + back * (1 - ink)) * light + rng.normal({ n, 3, side, side }, { std = 0.08 })
  return image:clamp(0, 1), kind
end

-- Those of a file, as pictures() gives them; classes is counted.
local function read(path)
  local all = tessera.load(path)
  local function part(name)
    local images = all[name .. "_images"] or error(path .. " has no " .. name .. "_images", 0)
    local labels = all[name .. "_labels"] or error(path .. " has no " .. name .. "_labels", 0)
    if images.ndim == 3 then images = images:unsqueeze(3):broadcast_to { images.shape[1], images.shape[2], images.shape[3], 3 } end
    return images:permute(0, 3, 1, 2):cast "f32" / 255, labels:flatten():cast "i64"
  end
  local x, y = part "train"
  local test_x, test_y = part "test"
  options.image, options.classes = x.shape[4], math.max(y:max():item(), test_y:max():item()) + 1
  return x, y, test_x, test_y
end

-- A step's pictures: moved by up to an eighth, mirrored, darker or brighter.
local function augment(x)
  local n, channels, height, width = unpack(x.shape)
  local by = math.floor(width / 8)
  local function draw(most) return op.randint({ n, 1, 1, 1 }, { low = 0, high = most, device = x.device }) end
  local function along(n_, axis) return op.arange(n_):reshape(axis == 2 and { 1, 1, n_, 1 } or { 1, 1, 1, n_ }):to(x.device) end
  local rows, columns = along(height, 2) + draw(2 * by + 1), along(width, 3)
  columns = op.where(draw(2):eq(1), width - 1 - columns, columns) + draw(2 * by + 1)
  x = x:pad { pads = { by, by, by, by } }
  x = x:gather(rows:broadcast_to { n, channels, height, width + 2 * by }, { axis = 2 })
  x = x:gather(columns:broadcast_to { n, channels, height, width }, { axis = 3 })
  return x * op.uniform({ n, 1, 1, 1 }, { low = 0.8, high = 1.2, device = x.device })
end

-- ---- training

local function loss_of(m, x, y) return op.cross_entropy(m(x), y) end
local function augmented_loss(m, x, y) return loss_of(m, augment(x), y) end

rng.seed(options.seed)
local x, y, test_x, test_y
if options.data then
  x, y, test_x, test_y = read(options.data)
elseif options.size == "small" then
  x, y = pictures(options.train, options.image)
  test_x, test_y = pictures(options.test, options.image)
else
  x = rng.normal { 2 * options.batch, 3, options.image, options.image }
  y = rng.randint({ 2 * options.batch }, { low = 0, high = options.classes })
end
-- What the pictures of training have in common, by colour.
local mean, deviation = x:mean { axis = { 0, 2, 3 }, keepdims = true }, x:std { axis = { 0, 2, 3 }, keepdims = true }
local function normalised(images) return ((images - mean) / deviation):to(options.device) end

local model = tessera.no_grad(ResNet, options)
model:to(options.device)
local optimizer = optim.AdamW(model:parameters(), { weight_decay = 0.02 })
local step = graph.training_step(model, augmented_loss, optimizer, { autocast = options.dtype == "bf16" and "bf16" or nil,
  schedule = optim.schedule.cosine { lr = options.lr, warmup = math.floor(options.steps / 10), steps = math.max(1, options.steps) } })

print(("%d pictures of %d x %d, %d classes; %d parameters, %d steps of %d, %s"):format(x.shape[1], options.image, options.image, options.classes,
  model:num_parameters(), options.steps, options.batch, options.dtype))
local images, labels = normalised(x), y:to(options.device)
local last = learn(step, optimizer, { images, labels }, { steps = options.steps, batch = options.batch, unit = "picture" })

-- ---- inference: norms by their running statistics

model:eval()
local predict = graph.module("predict", function(px) return model(px):argmax { axis = -1 } end)

local function share_right(px, py)
  local right = 0
  for bx, by in data.batches({ px, py }, { batch = options.batch }) do
    right = right + tessera.no_grad(predict, bx):eq(by):cast("i64"):sum():item()
  end
  return 100 * right / px.shape[1]
end

if options.save then tessera.save(options.save, model:state_dict()) end
if test_x then
  local share = share_right(normalised(test_x), test_y:to(options.device))
  print(("%.1f%% of %d other pictures are named right"):format(share, test_x.shape[1]))
  if options.picture then
    local n = math.min(4, math.floor(test_x.shape[1] / 8))
    local grid = test_x:narrow(0, 0, n * 8):reshape(n, 8, 3, options.image, options.image):permute(0, 3, 1, 4, 2)
    require("tessera.image").save(options.picture, grid:reshape(n * options.image, 8 * options.image, 3))
    local seen = tessera.no_grad(predict, normalised(test_x:narrow(0, 0, n * 8))):totable()
    for i = 1, n * 8, 8 do
      local names = {}
      for k = i, i + 7 do names[#names + 1] = not options.data and SHAPES[seen[k] + 1] or tostring(seen[k]) end
      print(table.concat(names, " "))
    end
  end
  assert(share >= options.target, ("%.1f%% are right, and --target asks for %g%%; more steps would help"):format(share, options.target))
end
return { state = model:state_dict(), loss = last, model = model, ResNet = ResNet, loss_of = loss_of, step = step, batch = { images, labels } }
