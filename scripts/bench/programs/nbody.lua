-- 256 bodies attract each other: ten steps, each of half a kick, a drift and half a kick.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local BODIES, STEPS, DT, SOFTENING = 256, 10, 0.01, 0.1

local function accelerations(place, mass)
  local away = place:unsqueeze(0) - place:unsqueeze(1)
  local distance2 = away:square():sum { axis = -1, keepdims = true } + SOFTENING ^ 2
  return (away * mass:reshape(1, -1, 1) * distance2 ^ -1.5):sum { axis = 1 }
end

local function simulate(place, speed, mass)
  local pull = accelerations(place, mass)
  for _ = 1, STEPS do
    speed = speed + pull * (DT / 2)
    place = place + speed * DT
    pull = accelerations(place, mass)
    speed = speed + pull * (DT / 2)
  end
  return op.concat { place, speed }
end

return {
  data = { rng.normal { BODIES, 3 }, rng.normal { BODIES, 3 }, rng.uniform { BODIES } / BODIES },
  run = simulate,
}
