-- Clusters of points in the plane by Lloyd's algorithm: distances by a product, means
-- by segments.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local K, N = 5, 2000
rng.seed(6)
local truth = rng.uniform({ K, 2 }, { low = -4, high = 4 })
local label = rng.randint({ N }, { low = 0, high = K })
local points = op.index_select(truth, label) + rng.normal({ N, 2 }, { std = 0.3 })

-- Farthest-first start: each centre is the point farthest from those before.
local centres = points["0:1"]
local function distances(c)
  return points:square():sum { axis = 1, keepdims = true } - op.matmul(points, c:T()) * 2 + c:square():sum(1)
end
for _ = 2, K do
  local far = distances(centres):min { axis = 1 }:argmax()
  centres = op.concat { centres, op.index_select(points, far:reshape(1)) }
end

for step = 1, 50 do
  local nearest = distances(centres):argmin { axis = 1 }
  local moved = op.segment_reduce(points, nearest, { segments = K, mode = "mean" })
  local shift = (moved - centres):abs():max():item()
  centres = moved
  if shift == 0 then
    print("settled after " .. step .. " steps")
    break
  end
end

local error_ = op.sqrt((truth:unsqueeze(1) - centres:unsqueeze(0)):square():sum(2)):min { axis = 1 }:max():item()
print("centres found:", centres)
print(("farthest true centre from a found one: %.3f"):format(error_))
assert(error_ < 0.1)
return { centres }
