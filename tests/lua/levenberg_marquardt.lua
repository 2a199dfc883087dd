-- Levenberg and Marquardt's method: least squares of residuals, row by row.
local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng
local f64 = { dtype = "f64" }

-- The bottom of Rosenbrock's valley, whose two residuals are one row.
local one = op.ones({ 1, 1 }, f64)
local function valley(weights, one)
  local p = weights[1]:reshape(-1, 2)
  local a, b = p:narrow(1, 0, 1), p:narrow(1, 1, 1)
  return (1 - a) * one, (b - a:square()) * 10 * one
end
local function start() return tessera.tensor({ -1.2, 1 }, f64) end
local place = start()
local opt = optim.LevenbergMarquardt({ place }, { damping = 1e-3 })
local loss
for _ = 1, 25 do loss = opt:step { { valley, one } } end
loss < 1e-20, (place - 1):abs():max():item() < 1e-9, opt.steps --> true, true, 25

-- A network: weights are those of the model, or have an axis of rows in front.
rng.seed(3)
local function fitted(dtype, rounds)
  local model = nn.Sequential { nn.Linear(1, 8, { dtype = dtype }), nn.Tanh(), nn.Linear(8, 1, { dtype = dtype }) }
  local function apply(w, x)
    if w[1].ndim == 2 then return op.linear(op.linear(x, w[1], w[2]):tanh(), w[3], w[4]) end
    local h = (x:unsqueeze(1):matmul(w[1]:transpose(1, 2)):squeeze(1) + w[2]):tanh()
    return h:unsqueeze(1):matmul(w[3]:transpose(1, 2)):squeeze(1) + w[4]
  end
  local x = ((op.arange(40):cast(dtype) + 0.5) / 20 - 1):reshape(40, 1)
  local lm, value = optim.LevenbergMarquardt(model:parameters()), nil
  for _ = 1, rounds do
    value = lm:step { { function(w, x, y) return apply(w, x) - y end, x, (x * 3):sin() }, { function(w, at) return apply(w, at) end, x:narrow(0, 0, 1) * 0, weight = 4 } }
  end
  return value, apply(model:parameters(), x) - (x * 3):sin()
end
local value, off = fitted("f64", 60)
value < 1e-5, off:abs():max():item() < 1e-2 --> true, true
local value, off = fitted("f32", 60)
value < 1e-4, off.dtype --> true, f32

-- The loss is the sum of weight times the mean square; a step that would not lower it leaves parameters as they are.
local w = op.ones({ 1, 1 }, f64)
local lm = optim.LevenbergMarquardt { w }
local x = op.arange(1, 5):cast "f64":reshape(4, 1)
local function line(weights, x, y) return x:unsqueeze(1):matmul(weights[1]):squeeze(1) - y end
for _ = 1, 12 do loss = lm:step { { line, x, x * 3 } } end
math.abs(w:item() - 3) < 1e-12, loss < 1e-20 --> true, true
local was = w:hash()
for _ = 1, 2 do lm:step { { line, x, x * w } } end
w:hash() == was --> true
-- Damping does not grow without end where steps are below rounding: what comes then moves them.
for _ = 1, 100 do lm:step { { line, x, x * w } } end
lm.damping <= 1 --> true
for _ = 1, 6 do loss = lm:step { { line, x, x * 7 } } end
math.abs(w:item() - 7) < 1e-9 --> true
-- A function that is written anew for each step is let go.
local seen = setmetatable({}, { __mode = "k" })
for _ = 1, 60 do
  local function own(...) return line(...) end
  seen[own] = true
  lm:step { { own, x, x * 5 } }
end
for _ = 1, 4 do collectgarbage() end
local held = 0
for _ in pairs(seen) do held = held + 1 end
held < 30 --> true
-- What is saved in the middle goes on with the same bits.
local function run(cut)
  local p = start()
  local o = optim.LevenbergMarquardt { p }
  for i = 1, 6 do
    if i == 4 and cut then
      local fresh = optim.LevenbergMarquardt { p }
      fresh:load_state_dict(o:state_dict())
      o = fresh
    end
    o:step { { valley, one } }
  end
  return p:hash(), o.damping
end
local a, b = { run(true) }, { run(false) }
a[1] == b[1], a[2] == b[2] --> true, true
-- A device has the same bits.
local p = start():to "sim:0"
local o = optim.LevenbergMarquardt { p }
for _ = 1, 6 do o:step { { valley, one:to "sim:0" } } end
p:to "cpu":hash() == a[1] --> true

-- ---- what is refused, with parameters and damping as before
local p = start()
local o = optim.LevenbergMarquardt { p }
o:step() --! LevenbergMarquardt:step: a list of terms is needed, not nothing
o:step {} --! LevenbergMarquardt:step: a list of terms is needed, not an empty one
o:step { { one } } --! LevenbergMarquardt:step: term 1 has no function in front
o:step { { valley, one, wieght = 2 } } --! LevenbergMarquardt:step: term 1: unknown option 'wieght'
o:step { { valley, one, weight = -1 } } --! weight of term 1 must be a number > 0, not -1
o:step { { function(w) return w[1]:reshape(-1, 2) end, one } } --! LevenbergMarquardt:step: residual 1 is f64[1,2], and has to be [n] or [n, 1] of floats
o:step { { function(w, x) return x:reshape(-1):narrow(0, 0, 0) end, one } } --! LevenbergMarquardt:step: residual 1 is f64[0], without a row
o:step { { function() end, one } } --! LevenbergMarquardt:step: a function gives no residual
o:step { { function(w, x) return (w[1]:reshape(-1, 2):narrow(1, 0, 1) * x):log() end, one } } --! LevenbergMarquardt:step: the loss is nan at the parameters as they are
o:step { { function(w, x) error "stop" end, one } } --! stop
p:hash() == start():hash(), o.damping, o.steps --> true, 0.01, 0
optim.LevenbergMarquardt({ p }, { dampening = 1 }) --! LevenbergMarquardt: unknown option 'dampening'
optim.LevenbergMarquardt { { params = { p } } } --! LevenbergMarquardt: it has no groups of parameters
optim.LevenbergMarquardt { op.ones({ 2 }, { dtype = "i64" }) } --! LevenbergMarquardt: a parameter is i64[2], and only floats move
tessera.graph.training_step({ p }, function() return p:sum() end, o) --! LevenbergMarquardt takes residuals
