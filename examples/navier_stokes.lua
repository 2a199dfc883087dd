-- The lid-driven cavity from the Navier-Stokes equations alone, beside Ghia's table.
--
--   tessera examples/navier_stokes.lua [--re 100|1000] [--by lm|lbfgs] [--form momentum|vorticity] [--steps N] [--rounds N]
--     [--points N] [--width N] [--dtype f32] [--dp N] [--size gpu] [--picture cavity.png]
--
-- A network maps (x, y) to a stream function psi and the pressure p: u = psi_y and v = -psi_x
-- cannot diverge. It is asked for the speed of the walls and of the lid, and to satisfy the steady
-- equations inside, either the two of momentum (third derivatives of psi) or the transport of
-- vorticity (fourth ones, no pressure); first for a thick fluid, then for thinner ones. The derivatives are written as nested jvp; the
-- system computes them as jets in one walk forward, with sums such as the Laplacian of the Laplacian
-- as one derivative, then takes one reverse pass. Adam comes near; Levenberg and Marquardt's method (lm), on other
-- points every few rounds, arrives in a hundred steps where L-BFGS is far away after thousands.

local tessera = require "tessera"
local op, nn, optim, data, graph, rng, image = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph,
  tessera.rng, tessera.image

local options = tessera.arguments({ re = { 100, 1000 }, by = { "lm", "lbfgs" }, form = { "momentum", "vorticity" }, steps = 100, rounds = 80, points = 1200, width = 30,
  seed = 1, dtype = { "f64", "f32" }, tolerance = 0.03, dp = 0, size = "laptop", device = "cpu", picture = ">.png" }, {
  laptop = {},
  gpu = { steps = 500, rounds = 80, points = 4096, width = 40, device = "cuda:0" },
})
local viscosity = tessera.tensor(0, { dtype = options.dtype }):to(options.device)
local WALLS = 20 -- weight of the walls beside the equations
local LID = 100 -- the lid's speed falls to 0 within 1 / LID of the corners

-- U. Ghia, K. N. Ghia, C. T. Shin: High-Re solutions for incompressible flow using the Navier-Stokes equations
-- and a multigrid method, J. Comput. Phys. 48 (1982), tables I (u at x = 1/2) and II (v at y = 1/2).
local GHIA = {
  y = { 0.0547, 0.0625, 0.0703, 0.1016, 0.1719, 0.2813, 0.4531, 0.5, 0.6172, 0.7344, 0.8516, 0.9531, 0.9609, 0.9688, 0.9766 },
  x = { 0.0625, 0.0703, 0.0781, 0.0938, 0.1563, 0.2266, 0.2344, 0.5, 0.8047, 0.8594, 0.9063, 0.9453, 0.9531, 0.9609, 0.9688 },
  [100] = {
    u = { -0.03717, -0.04192, -0.04775, -0.06434, -0.10150, -0.15662, -0.21090, -0.20581, -0.13641, 0.00332, 0.23151,
      0.68717, 0.73722, 0.78871, 0.84123 },
    v = { 0.09233, 0.10091, 0.10890, 0.12317, 0.16077, 0.17507, 0.17527, 0.05454, -0.24533, -0.22445, -0.16914, -0.10313,
      -0.08864, -0.07391, -0.05906 },
  },
  [1000] = {
    u = { -0.18109, -0.20196, -0.22220, -0.29730, -0.38289, -0.27805, -0.10648, -0.06080, 0.05702, 0.18719, 0.33304,
      0.46604, 0.51117, 0.57492, 0.65928 },
    v = { 0.27485, 0.29012, 0.30353, 0.32627, 0.37095, 0.33075, 0.32235, 0.02526, -0.31966, -0.42665, -0.51550, -0.39188,
      -0.33714, -0.27669, -0.21388 },
  },
}

-- ---- the network: x, y [n, 1] to psi, p [n, 1]
local Flow = nn.Module:extend "Flow"

function Flow:init(width, dtype)
  local o = { dtype = dtype }
  self.layers = nn.Sequential { nn.Linear(2, width, o), nn.Tanh(), nn.Linear(width, width, o), nn.Tanh(),
    nn.Linear(width, width, o), nn.Tanh(), nn.Linear(width, 2, o) }
  for _, p in ipairs(self:parameters()) do -- Glorot's deviation suits tanh
    if p.ndim == 2 then
      p:copy_(op.normal(p.shape, { std = math.sqrt(2 / (p.shape[1] + p.shape[2])), dtype = dtype }))
    end
  end
end

-- The layers with these weights; those that differ by row have an axis of rows in front.
local function network(weights, x, y)
  local h = op.concat({ x * 2 - 1, y * 2 - 1 }, { axis = 1 })
  for i = 1, #weights, 2 do
    local weight, bias = weights[i], weights[i + 1]
    if weight.ndim == 3 then
      h = h:unsqueeze(1):matmul(weight:transpose(1, 2)):squeeze(1) + bias
    else
      h = op.linear(h, weight, bias)
    end
    if i < #weights - 1 then h = h:tanh() end
  end
  return h
end

-- psi is 0 on the walls, so that nothing flows through them.
local function flow(weights, x, y)
  local free, p = network(weights, x, y):split(1, { axis = 1 })
  return x * (1 - x) * y * (1 - y) * 4 * free, p
end

-- ---- derivatives, named by letters: derivative(f, "xxy")
local function along(f, axis)
  return function(x, y)
    return (select(2, graph.jvp(f)(x, y, axis == "x" and 1, axis == "y" and 1)))
  end
end

local function derivative(f, letters)
  for axis in letters:gmatch "." do f = along(f, axis) end
  return f
end

local function fields(weights, x, y)
  local function psi(letters) return derivative(function(...) return (flow(weights, ...)) end, letters)(x, y) end
  local function p(letters) return derivative(function(...) return (select(2, flow(weights, ...))) end, letters)(x, y) end
  return psi, p
end

local function velocity(weights, x, y)
  local psi = fields(weights, x, y)
  return psi "y", -psi "x"
end

local residuals = {}
-- u u_x + v u_y = -p_x + nu (u_xx + u_yy), and so for v.
function residuals.momentum(weights, x, y)
  local psi, p = fields(weights, x, y)
  local u, v, u_x, u_y, v_x = psi "y", -psi "x", psi "xy", psi "yy", -psi "xx" -- and v_y = -u_x
  return u * u_x + v * u_y + p "x" - (psi "xxy" + psi "yyy") * viscosity,
    u * v_x - v * u_x + p "y" + (psi "xxx" + psi "xyy") * viscosity
end
-- u w_x + v w_y = nu (w_xx + w_yy) of the vorticity w = -(psi_xx + psi_yy).
function residuals.vorticity(weights, x, y)
  local psi = fields(weights, x, y)
  return psi "x" * (psi "xxy" + psi "yyy") - psi "y" * (psi "xxx" + psi "xyy")
    + (psi "xxxx" + psi "xxyy" * 2 + psi "yyyy") * viscosity
end

-- ---- jets beside finite differences of a network in f64
local function difference(f, letters)
  for axis in letters:gmatch "." do
    local inner, h = f, 0.01
    f = function(x, y)
      local function at(k)
        local d = { x = 0, y = 0 }
        d[axis] = k * h
        return inner(x + d.x, y + d.y)
      end
      return (at(-3) * -1 + at(-2) * 9 - at(-1) * 45 + at(1) * 45 - at(2) * 9 + at(3)) / (60 * h) -- of order 6
    end
  end
  return f
end

local function check_jets()
  local weights, worst = Flow(options.width, "f64"):parameters(), 0
  local function free(x, y) return (network(weights, (x + 1) / 2, (y + 1) / 2):narrow(1, 0, 1)) end
  local x, y = rng.uniform({ 8, 1 }, { dtype = "f64" }), rng.uniform({ 8, 1 }, { dtype = "f64" })
  for sum in ("xx+yy xxx+xyy xxy+yyy xxxx+xxyy+yyxx+yyyy"):gmatch "%S+" do
    local function by(how)
      return function(x, y)
        local total = 0
        for letters in sum:gmatch "%a+" do total = total + how(free, letters)(x, y) end
        return total
      end
    end
    local jets, differences = graph.module(sum, by(derivative))(x, y), by(difference)(x, y)
    worst = math.max(worst, ((jets - differences):abs():max() / (differences:abs():max() + 1)):item())
  end
  print(("Laplacian, its slopes, biharmonic: jets and finite differences are %.1e apart at most"):format(worst))
  assert(worst < 1e-6)
end

rng.seed(options.seed)
tessera.no_grad(check_jets)
local model = tessera.no_grad(Flow, options.width, options.dtype)
if options.device ~= "cpu" then model:to(options.device) end

-- ---- training
local function sample(n) -- half of the places evenly, half nearer to the walls, where the flow bends
  local function uniform(n) return rng.uniform({ n, 1 }, { dtype = options.dtype }) end
  local function near(n) return (1 - (uniform(n) * math.pi):cos()) * 0.5 end
  local function place() return op.concat({ uniform(n / 2), near(n / 2) }):to(options.device) end
  local m = n / 8 -- at the lid, at the floor, left, right
  local at, zero, one = near(m), op.zeros({ m, 1 }, { dtype = options.dtype }), op.ones({ m, 1 }, { dtype = options.dtype })
  local lid = 1 - ((at - 0.5) * LID):cosh() * (1 / math.cosh(LID / 2))
  local wall = { x = op.concat { at, at, zero, one }, y = op.concat { one, zero, at, at },
    u = op.concat { lid, zero, zero, zero } }
  for k, v in pairs(wall) do wall[k] = v:to(options.device) end
  return place(), place(), wall
end

local residual = residuals[options.form]
-- Near the ends of the lid the pressure has no bound: what is asked for there counts little.
local function inside(weights, x, y)
  local near = op.tanh((x:square() + (1 - y):square()) * ((1 - x):square() + (1 - y):square()) * 100)
  local all = { residual(weights, x, y) }
  for i, r in ipairs(all) do all[i] = r * near end
  return unpack(all)
end
local function at_walls(weights, x, y, u_there)
  local u, v = velocity(weights, x, y)
  return u - u_there, v
end
local function loss(model, x, y, wall)
  local weights, total = model:parameters(), 0
  for _, r in ipairs { at_walls(weights, wall.x, wall.y, wall.u) } do total = total + r:square():mean() * WALLS end
  for _, r in ipairs { inside(weights, x, y) } do total = total + r:square():mean() end
  return total
end

local spread = {}
assert(options.dp == 0 or options.by == "lbfgs", "--dp spreads points over devices for --by lbfgs; lm has one matrix, on one device")
if options.dp > 0 then tessera.dist.leaves(8) end -- sums are cut into so many, whatever the mesh: --dp 1, 2 and 4 have the same bits
if options.dp > 1 then
  spread.mesh = tessera.dist.Mesh { axes = { "dp" }, shape = { options.dp }, devices = tessera.dist.range(options.dp) }
end
local function run(label, step, count, places)
  local bar = data.progress(count, { label = label })
  for i = 1, count do
    local value = step(places())
    if i % 20 == 0 or i == 1 or i == count then bar:update(i, { loss = value }) end
  end
  bar:finish()
end

-- |(u, v) - Ghia's| over the root of the mean square of his.
local predict = graph.module("predict", function(x, y) return velocity(model:parameters(), x, y) end)
local function profiles()
  local function column(list) return tessera.tensor(list, { dtype = options.dtype }):reshape(-1, 1):to(options.device) end
  local ys, xs = column(GHIA.y), column(GHIA.x)
  local u = predict(op.full_like(ys, 0.5), ys)
  local _, v = predict(xs, op.full_like(xs, 0.5))
  return u:to "cpu", v:to "cpu"
end
local table_of = GHIA[options.re]
local function off(show)
  if not table_of then return 0 end
  local u, v = tessera.no_grad(profiles)
  local square, all = 0, 0
  if show then print "     y    u(1/2, y)    Ghia        x    v(x, 1/2)    Ghia" end
  for i = 1, #GHIA.y do
    local a, b = u[i - 1][0]:item(), v[i - 1][0]:item()
    square = square + (a - table_of.u[i]) ^ 2 + (b - table_of.v[i]) ^ 2
    all = all + table_of.u[i] ^ 2 + table_of.v[i] ^ 2
    if show then
      print(("%.4f     %8.5f  %8.5f   %.4f     %8.5f  %8.5f"):format(GHIA.y[i], a, table_of.u[i], GHIA.x[i], b, table_of.v[i]))
    end
  end
  return math.sqrt(square / all)
end

-- Reynolds numbers on the way, since from nothing to a high one is too far.
local way = {}
for _, re in ipairs { 100, 400 } do
  if re < options.re then way[#way + 1] = re end
end
way[#way + 1] = options.re
local function flow_at(re) viscosity:copy_(tessera.tensor(1 / re, { dtype = options.dtype })) end

flow_at(way[1])
local rate = optim.schedule.cosine { lr = 3e-3, warmup = 100, steps = math.max(1, options.steps) }
local adam = graph.training_step(model, loss, optim.Adam(model:parameters()), { schedule = rate, mesh = spread.mesh })
run("Adam", adam, options.steps, function() return sample(options.points) end)
print(("after Adam: %.2e from Ghia's profiles"):format(off()))
local by = {}
function by.lbfgs(re, x, y, wall)
  local step = graph.training_step(model, loss, optim.LBFGS(model:parameters(), { history = 50 }), { mesh = spread.mesh })
  run("L-BFGS, Re " .. re, step, options.rounds, function() return x, y, wall end)
end
-- Points that stay would be satisfied alone.
local lm = optim.LevenbergMarquardt(model:parameters())
function by.lm(re, x, y, wall)
  local round = 0
  run("Levenberg-Marquardt, Re " .. re, function(x, y, wall)
    return lm:step { { inside, x, y }, { at_walls, wall.x, wall.y, wall.u, weight = WALLS } }
  end, options.rounds, function()
    if round % 5 == 0 and round > 0 then x, y, wall = sample(options.points) end
    round = round + 1
    return x, y, wall
  end)
end
local x, y, wall = sample(options.by == "lm" and options.points or 2 * options.points)
for _, re in ipairs(way) do
  flow_at(re)
  by[options.by](re, x, y, wall)
end
local apart = off(true)
print(("at the end: %.2e"):format(apart))

-- ---- a picture: vorticity and stream lines
if options.picture then
  local n = 256
  local at = (op.arange(n):cast(options.dtype) + 0.5) / n
  local px, py = at:reshape(1, n):expand(n, n):reshape(-1, 1), (1 - at):reshape(n, 1):expand(n, n):reshape(-1, 1)
  local look = graph.module("look", function(x, y)
    local weights = model:parameters()
    local psi = fields(weights, x, y)
    return flow(weights, x, y), psi "xx" + psi "yy"
  end)
  local psi, vorticity = tessera.no_grad(look, px:to(options.device), py:to(options.device))
  psi, vorticity = psi:to "cpu", vorticity:to "cpu"
  local level = (psi:abs() * 100):sqrt() * 4
  local line = (level - level:round()):abs():lt(0.06):reshape(n, n):unsqueeze(2)
  image.save(options.picture, op.where(line, 0.2, image.diverging(vorticity:reshape(n, n), 5)))
  print("wrote " .. options.picture)
end
assert(apart <= options.tolerance,
  ("the flow is %.3g from Ghia's, and --tolerance allows %g; more steps and rounds would help"):format(apart, options.tolerance))
return model:state_dict()
