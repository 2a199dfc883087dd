-- Heat spreads on a periodic plate of 128 x 128, as in examples/heat.lua: 20 explicit steps.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local N, STEPS, RATE = 128, 20, 0.2

local function spread(u)
  for _ = 1, STEPS do u = u + op.laplacian(u) * RATE end
  return u
end

return {
  data = { rng.uniform({ N, N }, { dtype = "f64" }) },
  run = spread,
}
