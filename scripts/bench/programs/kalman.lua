-- A Kalman filter follows 64 things in the plane, of which 50 noisy places are seen each.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local THINGS, STEPS, DT = 64, 50, 0.1
local function matrix(rows) return tessera.tensor(rows, { dtype = "f64" }) end

local move = matrix { { 1, 0, DT, 0 }, { 0, 1, 0, DT }, { 0, 0, 1, 0 }, { 0, 0, 0, 1 } }
local see = matrix { { 1, 0, 0, 0 }, { 0, 1, 0, 0 } }
local drift, noise = op.eye(4, { dtype = "f64" }) * 0.01, op.eye(2, { dtype = "f64" }) * 0.25

-- places [STEPS, THINGS, 2]; the states [STEPS, THINGS, 4].
local function filter(places)
  local state = op.zeros({ THINGS, 4, 1 }, { dtype = "f64" })
  local spread = op.eye(4, { dtype = "f64" }):expand(THINGS, 4, 4)
  local states = {}
  for i = 1, STEPS do
    state = op.matmul(move, state)
    spread = op.matmul(op.matmul(move, spread), move:T()) + drift

    local surprise = places:select(0, i - 1):unsqueeze(-1) - op.matmul(see, state)
    local seen = op.matmul(spread, see:T())
    local gain = op.solve(op.matmul(see, seen) + noise, seen:transpose(1, 2)):transpose(1, 2)
    state = state + op.matmul(gain, surprise)
    spread = spread - op.matmul(gain, seen:transpose(1, 2))
    states[i] = state:squeeze(-1)
  end
  return op.stack(states)
end

local speed = rng.normal({ 1, THINGS, 2 }, { dtype = "f64" })
local time = op.arange(STEPS):cast("f64"):reshape(STEPS, 1, 1) * DT

return {
  data = { speed * time + rng.normal({ STEPS, THINGS, 2 }, { dtype = "f64", std = 0.5 }) },
  run = filter,
}
