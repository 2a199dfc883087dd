-- A two-layer network whose last layer is solved instead of trained: two spirals
-- are told apart by ridge regression on random tanh features.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local N, FEATURES, RIDGE = 1000, 400, 1e-3
rng.seed(4)

-- Two arms of a spiral with noise: points [2N, 2], labels -1 and 1.
local function spirals(n)
  local t = rng.uniform({ n }) * 3 * math.pi
  local r = t / (3 * math.pi)
  local x = op.stack({ t:cos() * r, t:sin() * r }, { axis = 1 })
  local points = op.concat { x, -x } + rng.normal({ 2 * n, 2 }, { std = 0.02 })
  return points, op.concat { op.ones { n }, -op.ones { n } }
end

local W, b = rng.normal({ 2, FEATURES }, { std = 8 }), rng.uniform({ FEATURES }, { low = -4, high = 4 })
local function features(x) return op.tanh(op.matmul(x, W, { bias = b })) end

local x, y = spirals(N)
local F = features(x):cast("f64")
local A = op.matmul(F:T(), F) + op.eye(FEATURES, { dtype = "f64" }) * RIDGE
local w = op.solve(A, op.matmul(F:T(), y:cast("f64"))):cast("f32")

local tx, ty = spirals(N)
local right = (op.matmul(features(tx), w) * ty):gt(0):mean():item()
print(("%d random features, %d points: %.1f%% of new points are told apart"):format(FEATURES, 2 * N, 100 * right))

-- The plane as the network sees it.
local grid = op.linspace(-1, 1, 48)
local rows = op.linspace(1, -1, 24)
local plane = op.stack({ grid:unsqueeze(0):expand(24, 48), rows:unsqueeze(1):expand(24, 48) }, { axis = -1 })
local side = op.matmul(features(plane:reshape(-1, 2)), w):reshape(24, 48):gt(0):totable()
for _, row in ipairs(side) do
  local line = {}
  for i, v in ipairs(row) do line[i] = v and "#" or "." end
  print(table.concat(line))
end
assert(right > 0.95)
return { w }
