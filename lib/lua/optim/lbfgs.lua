-- L-BFGS (Liu and Nocedal 1989): the direction of descent from the last changes of place and
-- gradient, its length by backtracking until the loss falls enough (Armijo). For smooth
-- losses on a fixed batch, after another optimiser came near:
--   local opt = optim.LBFGS(model:parameters())
--   local step = graph.training_step(model, loss, opt)
--   for round = 1, 20 do print(step(x, y):item()) end      -- 20 iterations a step
--
-- Vectors are f64, whatever the parameters are; places are those that parameters can hold.

local core = require "tessera.core"
local states = require "tessera.optim.state"
local options = require "tessera.options"
local parameters = require "tessera.optim.parameters"
local op = core.op

local LBFGS = require("tessera.named").told("optimiser", { name = "LBFGS" })
LBFGS.__index = LBFGS
LBFGS.__tostring = function(self)
  return ("LBFGS(%d iterations a step, %d parameters)"):format(self.iterations, #self.params)
end

local kinds = { lr = options.number { above = 0 }, iterations = options.whole { least = 1 }, history = options.whole { least = 0 } }
local defaults = { lr = 1, iterations = 20, history = 20 }
local read, check = options.placed("LBFGS", kinds, defaults, { "lr", "iterations", "history" }), options.some("LBFGS", kinds, defaults)

-- LBFGS(params, {lr = 1, iterations = 20, history = 20}): L-BFGS for smooth losses on a fixed batch: the direction from
-- the last changes of place and gradient, as many as history, two vectors of f64 each; its length by backtracking from
-- lr. A step is as many iterations, each of one evaluation of the loss at least, so that it is made with
-- graph.training_step, or opt:step(closure): the closure forgets the gradients, lets backward() make them and returns
-- the loss, or it returns the list of gradients and the loss. Parameters are one list: it has no groups.
--   local loss = function(m, x, y) return op.mse(m(x), y) end
--   local opt = optim.LBFGS(model:parameters())
--   local step = graph.training_step(model, loss, opt)
--   print(step(x, y))
local function new(params, ...)
  local self = setmetatable({ params = {}, steps = 0, moves = {}, bends = {}, curves = {}, search = true, revision = 0 }, LBFGS)
  for k, v in pairs(read(...)) do self[k] = v end
  if type(params) == "table" and type(params[1]) == "table" and not core.is_tensor(params[1]) then
    core.fail "LBFGS: it has no groups of parameters: one list is needed, optim.LBFGS(model:parameters(), ...)"
  end
  options.tensors("LBFGS", "parameter", params, "optim.LBFGS(model:parameters(), ...)")
  parameters.check_new(self, params)
  for i, p in ipairs(params) do self.params[i] = p end
  for _, p in ipairs(self.params) do parameters.check_gradient("LBFGS", p, p) end
  parameters.note(self)
  self.groups = { self }
  return self
end

LBFGS.check_places, LBFGS.is_moving = parameters.check_places, parameters.is_moving
function LBFGS:prepare() return self end
function LBFGS:set_rate(rate) self.lr = rate end
function LBFGS:add_param_group() core.fail "LBFGS: it has no groups of parameters" end
function LBFGS:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end
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
    if values[i] then parameters.check_gradient("LBFGS", p, values[i]) end
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
  -- A closure that gives the loss alone has left the gradients with the parameters.
  local function asked(first, ...)
    if type(first) == "table" and not core.is_tensor(first) then return { first, ... } end
    local grads = {}
    for i, p in ipairs(self.params) do grads[i] = p.grad or false end
    return { grads, first, ... }
  end
  local function evaluate()
    local results = asked(closure())
    options.tensors("LBFGS:step", "gradient", results[1], "the closure gives the loss, or the list of gradients, then the loss", true)
    local value = results[2]
    if not (core.is_tensor(value) and value.numel == 1 or type(value) == "number") then
      core.fail(("LBFGS:step: the closure returns the loss, or the gradients and the loss, a tensor of one element or a number, not %s"):format(
        core.is_tensor(value) and core.type_text(value) or value == nil and "nothing" or "a " .. type(value)))
    end
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

--- closure() returns the loss and whatever else, p.grad of each parameter being the gradients, or the
--- list of gradients before them. Returns the latter as they are after the last iteration. After an error
--- parameters and memory are those of before.
function LBFGS:step(closure)
  if not core.callable(closure) or core.is_tensor(closure) then
    core.fail(("LBFGS:step: a function is needed that gives the loss at any place, not %s\n  hint: "):format(
      closure == nil and "nothing" or type(closure) == "table" and "a table" or "a " .. type(closure)) ..
      "opt:step(function() opt:zero_grad() local y = loss(model, x) y:backward() return y end), or graph.training_step(model, loss, opt)")
  end
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
  local state = states.of(self, kinds)
  state.moves, state.bends = { unpack(self.moves) }, { unpack(self.bends) }
  return require "tessera.state"(state)
end

--- All of it, or an error and nothing.
function LBFGS:load_state_dict(state)
  local title = "LBFGS:load_state_dict"
  local set = states.reader(self, kinds, check, state)
  local moves, bends, curves, n = {}, {}, {}, 0
  for _, p in ipairs(self.params) do n = n + p.numel end
  for i = 1, #options.argument(title, "moves", options.table, state.moves) do
    local moved, bend = state.moves[i], options.argument(title, "bends", options.table, state.bends)[i]
    for name, t in pairs { moves = moved or false, bends = bend or false } do
      if not core.is_tensor(t) or t.ndim ~= 1 or t.numel ~= n then
        core.fail(("%s: %s are vectors of %d elements, not %s"):format(title, name, n, core.is_tensor(t) and core.type_text(t) or t and "a " .. type(t) or "nothing"))
      end
    end
    moves[i], bends[i], curves[i] = moved:clone(), bend:clone(), dot(moved, bend)
  end
  core.held(function()
    self.moves, self.bends, self.curves = moves, bends, curves
    set()
  end)
end

core.keep_line(LBFGS, true)
return new
