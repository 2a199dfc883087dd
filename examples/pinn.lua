-- A physics-informed network: the Taylor-Green vortex from the Navier-Stokes equations alone.
--
--   tessera examples/pinn.lua [--steps N] [--rounds N] [--dtype f64] [--picture flow.png]
--
-- The network maps (x, y, t) to a stream function psi and the pressure p; u = psi_y and
-- v = -psi_x cannot diverge. It is asked to satisfy the momentum equations inside, and the
-- exact flow at t = 0 and on the walls. Up to third derivatives come from nested jvp inside
-- the captured step: forward jets, then one reverse pass. Adam comes near, L-BFGS arrives.

local tessera = require "tessera"
local op, nn, optim, data, graph, rng, image = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph,
  tessera.rng, tessera.image

local options = tessera.arguments { steps = 1000, rounds = 30, points = 512, width = 32, seed = 1, dtype = { "f32", "f64" }, tolerance = 1e-2,
  picture = ">.png" }

local NU, SIDE, TIME = 0.05, 2 * math.pi, 1
local KNOWN = 10 -- weight of known values beside the equations

local function exact(x, y, t)
  local decay = (t * (-2 * NU)):exp()
  return -x:cos() * y:sin() * decay, x:sin() * y:cos() * decay
end

-- ---- the network: x, y, t [n, 1] to psi, p [n, 1]
local Flow = nn.Module:extend "Flow"

function Flow:init(width, dtype)
  local o = { dtype = dtype }
  self.layers = nn.Sequential { nn.Linear(3, width, o), nn.Tanh(), nn.Linear(width, width, o), nn.Tanh(),
    nn.Linear(width, width, o), nn.Tanh(), nn.Linear(width, 2, o) }
  for _, p in ipairs(self:parameters()) do -- Glorot's deviation suits tanh
    if p.ndim == 2 then
      p:copy_(op.normal(p.shape, { std = math.sqrt(2 / (p.shape[1] + p.shape[2])), dtype = dtype }))
    end
  end
end

function Flow:forward(x, y, t)
  local scaled = op.concat({ x * (2 / SIDE) - 1, y * (2 / SIDE) - 1, t * (2 / TIME) - 1 }, { axis = 1 })
  return self.layers(scaled):split(1, { axis = 1 })
end

-- ---- derivatives, named by letters: derivative(f, "xxy"). Equal beginnings are computed once.
local function jet(f, axis)
  return function(x, y, t)
    local along = { x = false, y = false, t = false }
    along[axis] = 1
    local _, slope = graph.jvp(f)(x, y, t, along.x, along.y, along.t)
    return slope
  end
end

local function derivative(f, letters)
  for axis in letters:gmatch "." do f = jet(f, axis) end
  return f
end

local function fields(flow, x, y, t)
  local function psi(letters) return derivative(function(...) return (flow(...)) end, letters)(x, y, t) end
  local function p(letters) return derivative(function(...) return (select(2, flow(...))) end, letters)(x, y, t) end
  return psi, p
end

local function velocity(flow, x, y, t)
  local psi = fields(flow, x, y, t)
  return psi "y", -psi "x"
end

-- u_t + u u_x + v u_y = -p_x + nu (u_xx + u_yy), and so for v.
local function residuals(flow, x, y, t)
  local psi, p = fields(flow, x, y, t)
  local u, v = psi "y", -psi "x"
  local u_x, u_y, v_x = psi "xy", psi "yy", -psi "xx" -- and v_y = -u_x
  return psi "yt" + u * u_x + v * u_y + p "x" - (psi "xxy" + psi "yyy") * NU,
    -psi "xt" + u * v_x - v * u_x + p "y" + (psi "xxx" + psi "xyy") * NU
end

-- ---- jets beside finite differences of a network in f64
local function difference(f, letters)
  for axis in letters:gmatch "." do
    local inner, h = f, 0.01
    f = function(x, y, t)
      local function at(k)
        local d = { x = 0, y = 0, t = 0 }
        d[axis] = k * h
        return inner(x + d.x, y + d.y, t + d.t)
      end
      return (at(-2) - at(-1) * 8 + at(1) * 8 - at(2)) / (12 * h) -- of order 4
    end
  end
  return f
end

local function check_jets()
  local flow = Flow(options.width, "f64")
  local function psi(x, y, t) return (flow(x, y, t)) end
  local function place(high) return rng.uniform({ 8, 1 }, { high = high, dtype = "f64" }) end
  local x, y, t, worst = place(SIDE), place(SIDE), place(TIME), 0
  for letters in ("x y xx xy yy xt yt xxx xxy xyy yyy"):gmatch "%a+" do
    local jets = graph.module(letters, derivative(psi, letters))
    local apart = (jets(x, y, t) - difference(psi, letters)(x, y, t)):abs():max():item()
    worst = math.max(worst, apart)
  end
  print(("jets of order 1 to 3 and finite differences: %.1e apart at most"):format(worst))
  assert(worst < 1e-6)
end

rng.seed(options.seed)
tessera.no_grad(check_jets)
local model = tessera.no_grad(Flow, options.width, options.dtype)

-- ---- training
local function place(n, high) return rng.uniform({ n, 1 }, { high = high, dtype = options.dtype }) end

-- n places inside; n / 4 at the start and n / 4 on the walls, where the flow is known.
local function sample(n)
  local m = n / 4
  local x, y, t = place(2 * m, SIDE), place(2 * m, SIDE), place(2 * m, TIME)
  local wall = op.concat { op.full({ m, 1 }, 4), op.floor(rng.uniform({ m, 1 }, { high = 4 })) }
  x = op.where(wall:eq(0), 0, op.where(wall:eq(1), SIDE, x))
  y = op.where(wall:eq(2), 0, op.where(wall:eq(3), SIDE, y))
  t = op.where(wall:eq(4), 0, t)
  local u, v = exact(x, y, t)
  return { x = place(n, SIDE), y = place(n, SIDE), t = place(n, TIME) }, { x = x, y = y, t = t, u = u, v = v }
end

local function loss(flow, inside, known)
  local ru, rv = residuals(flow, inside.x, inside.y, inside.t)
  local u, v = velocity(flow, known.x, known.y, known.t)
  return ru:square():mean() + rv:square():mean() + (op.mse(u, known.u) + op.mse(v, known.v)) * KNOWN
end

-- On a grid of cell centres at five times: |(u, v) - exact| / |exact|.
local predict = graph.module("predict", function(x, y, t) return velocity(model, x, y, t) end)
local function grid(n, times)
  local at, k = (op.arange(n):cast(options.dtype) + 0.5) * (SIDE / n), #times
  local function all(v, ...) return v:reshape(...):expand(k, n, n):reshape(-1, 1) end
  return all(at, 1, 1, n), all(at, 1, n, 1), all(tessera.tensor(times, { dtype = options.dtype }), k, 1, 1)
end
local function relative_error()
  local x, y, t = grid(40, { 0, 0.25 * TIME, 0.5 * TIME, 0.75 * TIME, TIME })
  local u, v = tessera.no_grad(predict, x, y, t)
  local eu, ev = exact(x, y, t)
  return op.sqrt((op.mse(u, eu) + op.mse(v, ev)) / (eu:square():mean() + ev:square():mean())):item()
end

local adam = optim.Adam(model:parameters())
local step = graph.training_step(model, loss, adam, {
  schedule = optim.schedule.cosine { lr = 5e-3, warmup = 100, steps = math.max(1, options.steps) },
})
local bar = data.progress(options.steps, { label = "Adam" })
for i = 1, options.steps do bar:update(i, { loss = step(sample(options.points)) }) end
bar:finish()
print(("after Adam: (u, v) is %.2e from the exact flow"):format(relative_error()))

local inside, known = sample(2 * options.points)
local polish = graph.training_step(model, loss, optim.LBFGS(model:parameters()))
bar = data.progress(options.rounds, { label = "L-BFGS", scale = 20 })
for i = 1, options.rounds do bar:update(i, { loss = polish(inside, known) }) end
bar:finish()
local off = relative_error()
print(("after L-BFGS: %.2e"):format(off))

-- ---- a picture: vorticity and stream lines of the network, left, and of the exact flow
if options.picture then
  local n = 256
  local x, y, t = grid(n, { TIME })
  local look = graph.module("look", function(x, y, t)
    local psi = fields(model, x, y, t)
    return model(x, y, t), psi "xx" + psi "yy"
  end)
  local psi, vorticity = tessera.no_grad(look, x, y, t)
  local true_psi = x:cos() * y:cos() * math.exp(-2 * NU * TIME)
  local shift = (psi - true_psi):mean() -- psi is known up to a constant
  local both = op.concat({ (psi - shift):reshape(n, n), true_psi:reshape(n, n) }, { axis = 1 })
  local line = (both * 5 + 0.5 - (both * 5 + 0.5):round()):abs():lt(0.04):unsqueeze(2)
  local colour = image.diverging(op.concat({ vorticity:reshape(n, n), (true_psi * -2):reshape(n, n) }, { axis = 1 }), 2)
  image.save(options.picture, op.where(line, 0.2, colour))
  print("wrote " .. options.picture)
end
assert(off <= options.tolerance,
  ("the flow is %.3g from the exact one, and --tolerance allows %g; more steps and rounds would help"):format(off, options.tolerance))
return model:state_dict()
