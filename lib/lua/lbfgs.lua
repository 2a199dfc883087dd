-- L-BFGS (Liu and Nocedal 1989): the direction of descent from the last changes of place and
-- gradient, its length by backtracking until the loss falls enough (Armijo). For smooth
-- losses on a fixed batch, after another optimiser came near:
--   local opt = optim.LBFGS(model:parameters())
--   local step = graph.training_step(model, loss, opt)
--   for round = 1, 20 do print(step(x, y):item()) end      -- 20 iterations a step
--
-- Vectors are f64, whatever the parameters are; places are those that parameters can hold.

local core = require "tessera.core"
local options = require "tessera.options"
local parameters = require "tessera.parameters"
local op = core.op

local LBFGS = { name = "LBFGS" }
LBFGS.__index = LBFGS
LBFGS.__tostring = function(self)
  return ("LBFGS(%d iterations a step, %d parameters)"):format(self.iterations, #self.params)
end

local defaults = { lr = 1, iterations = 20, history = 20 }
local read = options.placed("LBFGS", { lr = options.number { above = 0 }, iterations = options.whole { least = 1 },
  history = options.whole { least = 0 } }, defaults, { "lr", "iterations", "history" })

-- LBFGS(params, {lr = 1, iterations = 20, history = 20}): L-BFGS for smooth losses on a fixed batch: the direction from
-- the last changes of place and gradient, as many as history, two vectors of f64 each; its length by backtracking from
-- lr. A step is as many iterations, each of one evaluation of the loss at least, so that it is made with
-- graph.training_step, or opt:step(closure).
--   local loss = function(m, x, y) return op.mse(m(x), y) end
--   local opt = optim.LBFGS(model:parameters())
--   local step = graph.training_step(model, loss, opt)
--   print(step(x, y))
local function new(params, ...)
  local self = setmetatable({ params = {}, steps = 0, moves = {}, bends = {}, curves = {}, search = true }, LBFGS)
  for k, v in pairs(read(...)) do self[k] = v end
  options.tensors("LBFGS", "parameter", params, "optim.LBFGS(model:parameters(), ...)")
  for i, p in ipairs(params) do self.params[i] = p end
  parameters.check_list(self)
  return self
end

LBFGS.check_places, LBFGS.is_moving = parameters.check_places, parameters.is_moving
function LBFGS:prepare() return self end
function LBFGS:set_rate(rate) self.lr = rate end
function LBFGS:tick() self.steps = self.steps + 1 end
-- step puts everything else back itself.
function LBFGS:counting(f, ...)
  local steps = self.steps
  return core.guarded(function(fine)
    if not fine then self.steps = steps end
  end, f, ...)
end

-- One vector of values like the parameters'; what is missing counts as 0.
local function flat(self, values)
  local parts = {}
  for i, p in ipairs(self.params) do
    parts[i] = (values[i] or op.zeros_like(p)):detach():flatten():cast("f64")
  end
  return op.concat(parts)
end

local function dot(a, b) return (a * b):sum():item() end

-- Moves the parameters to a place; returns the place that they can hold.
local function move(self, place)
  local parts, at = {}, 0
  for i, p in ipairs(self.params) do
    parts[i] = place:narrow(0, at, p.numel):reshape(p.shape)
    at = at + p.numel
  end
  core.no_grad(core.assign_all, self.params, parts)
  return flat(self, self.params)
end

-- The two loops: the gradient times the estimate of the inverse Hessian.
local function direction(self, gradient)
  local moves, bends, curves, q, a = self.moves, self.bends, self.curves, gradient, {}
  for i = #moves, 1, -1 do
    a[i] = dot(moves[i], q) / curves[i]
    q = q - bends[i] * a[i]
  end
  local n = #moves
  if n == 0 then return q * math.min(1, 1 / gradient:abs():sum():item()) end
  q = q * (curves[n] / dot(bends[n], bends[n]))
  for i = 1, n do q = q + moves[i] * (a[i] - dot(bends[i], q) / curves[i]) end
  return q
end

-- curves: the product of each move with its bend, a number that every direction needs.
local function remember(self, moved, bend)
  local curve = dot(moved, bend)
  -- Without positive curvature the estimate would stop being one of descent.
  if curve <= 1e-10 * dot(bend, bend) then return end
  table.insert(self.moves, moved)
  table.insert(self.bends, bend)
  table.insert(self.curves, curve)
  if #self.moves > self.history then
    table.remove(self.moves, 1)
    table.remove(self.bends, 1)
    table.remove(self.curves, 1)
  end
end

local ENOUGH, TRIALS = 1e-4, 20

-- One line search; nil when no length lowers the loss.
local function descend(self, evaluate, place, now)
  local d = direction(self, now.gradient)
  local slope, length = -dot(d, now.gradient), self.lr
  for _ = 1, slope < 0 and TRIALS or 0 do
    local there = move(self, place - d * length)
    local next_ = evaluate()
    if next_.value <= now.value + ENOUGH * length * slope then
      remember(self, there - place, next_.gradient - now.gradient)
      return there, next_
    end
    -- The lowest point of the parabola through what is known, within limits.
    local best = slope * length / (2 * (slope - (next_.value - now.value) / length))
    length = math.max(0.1 * length, math.min(best == best and best or 0, 0.5 * length))
  end
  move(self, place)
end

local function search(self, closure)
  local function evaluate()
    local results = { closure() }
    local value = results[2]
    return { gradient = flat(self, results[1]), value = core.is_tensor(value) and value:item() or value,
      results = results }
  end
  local place, now = flat(self, self.params), evaluate()
  for _ = 1, self.iterations do
    local there, next_ = descend(self, evaluate, place, now)
    if there then
      place, now = there, next_
    elseif #self.moves > 0 then
      self.moves, self.bends, self.curves = {}, {}, {} -- once more along the gradient
    else
      break
    end
  end
  return unpack(now.results, 2)
end

--- closure() returns the list of gradients, then the loss and whatever else. Returns the
--- latter as they are after the last iteration. After an error parameters and memory are those
--- of before.
function LBFGS:step(closure)
  self:check_places()
  local moves, bends, curves = { unpack(self.moves) }, { unpack(self.bends) }, { unpack(self.curves) }
  local restore = core.snapshot(self.params)
  return core.guarded(function(fine)
    if fine then return end
    self.moves, self.bends, self.curves = moves, bends, curves
    restore()
  end, search, self, closure)
end

function LBFGS:state_dict()
  local state = { steps = core.tensor(self.steps, { dtype = "i64" }) }
  for i, moved in ipairs(self.moves) do
    state[("%d.move"):format(i - 1)], state[("%d.bend"):format(i - 1)] = moved, self.bends[i]
  end
  return state
end

function LBFGS:load_state_dict(state)
  self.steps, self.moves, self.bends, self.curves = state.steps and state.steps:item() or 0, {}, {}, {}
  for i = 1, self.history do
    local moved, bend = state[("%d.move"):format(i - 1)], state[("%d.bend"):format(i - 1)]
    if not moved then break end
    self.moves[i], self.bends[i], self.curves[i] = moved:clone(), bend:clone(), dot(moved, bend)
  end
end

return new
