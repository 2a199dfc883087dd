-- A small convolutional network reads digits that are drawn on the spot: turned, sheared,
-- shifted, faint and noisy.
--
--   tessera examples/cnn.lua [--steps N] [--train N] [--test N] [--seed N] [--target PERCENT]

local tessera = require "tessera"
local op, nn, optim, data, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph,
  tessera.rng

local options = tessera.arguments { steps = 1500, train = 16000, test = 2000, seed = 1, target = "97%" }
local SIZE, BATCH = 20, 64
assert(options.train >= BATCH, ("--train %d is less than a batch of %d"):format(options.train, BATCH))

-- ---- the pictures
local FONT = {
  ".###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.",
  "#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#",
  "#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#",
  "#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####",
  "##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#",
  "#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.",
  ".###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..",
}

-- [10, 9, 7]: a plane a digit, with a border of zeros.
local function draw_font()
  local planes = op.zeros { 10, 9, 7 }
  for row, line in ipairs(FONT) do
    for at in line:gmatch "()#" do
      planes[math.floor((at - 1) / 6)][row][(at - 1) % 6 + 1] = 1
    end
  end
  return planes
end
local font = draw_font():flatten()

-- n pictures [n, 1, SIZE, SIZE] and their digits [n]. Each pixel looks up the place in the
-- font that it shows, between four dots.
local function pictures(n)
  local function spread(low, high) return rng.uniform({ n, 1, 1 }, { low = low, high = high }) end
  local digit = rng.randint({ n, 1, 1 }, { low = 0, high = 10 })
  local angle, scale, shear = spread(-0.3, 0.3), spread(0.4, 0.6), spread(-0.2, 0.2)
  local c, s = angle:cos() * scale, angle:sin() * scale
  local at = op.arange(SIZE):cast "f32" - (SIZE - 1) / 2
  local x, y = at:unsqueeze(0) - spread(-3, 3), at:unsqueeze(1) - spread(-3, 3)
  local row, column = (c * y - s * x + 4):clamp(0, 7.99), (c * x + (s + shear) * y + 3):clamp(0, 5.99)
  local i, j = row:floor(), column:floor()
  local a, b = row - i, column - j
  local function dot(di, dj) return op.take(font, ((i + di) * 7 + j + dj):cast "i64" + digit * 63) end
  local ink = (dot(0, 0) * (1 - b) + dot(0, 1) * b) * (1 - a) + (dot(1, 0) * (1 - b) + dot(1, 1) * b) * a
  return (ink * spread(0.6, 1) + rng.normal({ n, SIZE, SIZE }, { std = 0.2 })):unsqueeze(1), digit:flatten()
end

rng.seed(options.seed)
local x, y = pictures(options.train)
local test_x, test_y = pictures(options.test)
for _, row in ipairs(test_x:narrow(0, 0, 4):permute(1, 2, 0, 3):reshape(SIZE, 4 * SIZE):totable()) do
  for k, v in ipairs(row) do
    local shade = 1 + math.floor(math.min(math.max(v, 0), 0.99) * 6)
    row[k] = (" .:+#@"):sub(shade, shade)
  end
  print(table.concat(row))
end

-- ---- the network
local model = nn.Sequential {
  nn.Conv2d(1, 8, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool(2),
  nn.Conv2d(8, 16, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool(2),
  nn.Flatten(), nn.Linear(16 * (SIZE / 4) ^ 2, 64), nn.ReLU(), nn.Linear(64, 10),
}
local optimizer = optim.AdamW(model:parameters())
local step = graph.training_step(model, function(m, px, py) return op.cross_entropy(m(px), py) end, optimizer, {
  schedule = optim.schedule.cosine { lr = 4e-3, warmup = 50, steps = math.max(1, options.steps) },
})

local function train()
  local bar = data.progress(options.steps, { label = "train", unit = "picture", scale = BATCH })
  while true do
    local epoch = { batch = BATCH, shuffle = true, drop_last = true, seed = optimizer.steps }
    for px, py in data.batches({ x, y }, epoch) do
      bar:update(optimizer.steps + 1, { loss = step(px, py) })
      if optimizer.steps >= options.steps then return bar:finish() end
    end
  end
end

print(("%d pictures to learn from, %d others to test on; %d parameters"):format(options.train, options.test,
  model:num_parameters()))
train()

local predict = graph.module("predict", function(images) return model(images):argmax { axis = -1 } end)
local seen = tessera.no_grad(predict, test_x)
local right = 100 * seen:eq(test_y):cast("f32"):mean():item()

-- Which are taken for which: rows are the true digits.
local confusion = op.scatter_add(op.zeros { 100 }, test_y * 10 + seen, op.ones { options.test }, { axis = 0 })
for digit, row in ipairs(confusion:reshape(10, 10):totable()) do
  for k, n in ipairs(row) do row[k] = n == 0 and "   ." or ("%4d"):format(n) end
  print(("%d |%s"):format(digit - 1, table.concat(row)))
end
print(("%.1f%% of the other pictures are read right"):format(right))
assert(right >= options.target, ("%.1f%% are right, and --target asks for %g%%; more steps would help"):format(right, options.target))
return model:state_dict()
