-- A multi-layer perceptron tells two spirals apart.
--
--   tessera examples/mlp.lua [--steps N] [--seed N] [--target PERCENT]
--
-- The whole step (forward, gradients, AdamW) is captured once and runs as one function of
-- bytecode.

local tessera = require "tessera"
local op, nn, optim, data, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph,
  tessera.rng

local options = tessera.arguments { steps = 1500, seed = 1, target = "98%" }

-- Two arms of two turns each, with noise: points [2n, 2] and classes 0 and 1.
local function spirals(n)
  local t = rng.uniform({ n }):sqrt() * (4 * math.pi)
  local r = t / (4 * math.pi)
  local arm = op.stack({ t:cos() * r, t:sin() * r }, { axis = 1 })
  local points = op.concat { arm, -arm } + rng.normal({ 2 * n, 2 }, { std = 0.015 })
  return points, op.arange(2 * n):ge(n):cast("i64")
end

rng.seed(options.seed)
local x, y = spirals(1000)
local test_x, test_y = spirals(1000)

local model = nn.Sequential {
  nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2),
}
local optimizer = optim.AdamW(model:parameters())
local step = graph.training_step(model, function(m, px, py) return op.cross_entropy(m(px), py) end, optimizer, {
  schedule = optim.schedule.cosine { lr = 1e-2, warmup = 50, steps = math.max(1, options.steps) },
})
local predict = graph.module("predict", function(points) return model(points):argmax { axis = -1 } end)
local function classes(points) return tessera.no_grad(predict, points) end
local function percent_right() return 100 * classes(test_x):eq(test_y):cast("f32"):mean():item() end

print(("%d points to learn from, %d others to test on; %d parameters; %.1f%% right before"):format(x.shape[1],
  test_x.shape[1], model:num_parameters(), percent_right()))
local bar = data.progress(options.steps, { label = "train", unit = "point", scale = 200 })
while optimizer.steps < options.steps do
  for px, py in data.batches({ x, y }, { batch = 200, shuffle = true, seed = optimizer.steps }) do
    bar:update(optimizer.steps + 1, { loss = step(px, py) })
  end
end
bar:finish()

-- The plane as the network sees it.
local across, down = op.linspace(-1.1, 1.1, 60), op.linspace(1.1, -1.1, 28)
local plane = op.stack({ across:unsqueeze(0):expand(28, 60), down:unsqueeze(1):expand(28, 60) }, { axis = -1 })
for _, row in ipairs(classes(plane:reshape(-1, 2)):reshape(28, 60):totable()) do
  for i, class in ipairs(row) do row[i] = class == 1 and "#" or "." end
  print(table.concat(row))
end

local right = percent_right()
print(("%.1f%% of the other points are told apart"):format(right))
assert(right >= options.target, ("%.1f%% are right, and --target asks for %g%%; more steps would help"):format(right, options.target))
return model:state_dict()
