-- Levenberg and Marquardt's method (Marquardt 1963) for sums of squares: each row of the residuals r is taken for a
-- linear function of the parameters, whose slopes J are computed row by row, and the step solves
--   (J^T J + damping I) step = J^T r
-- by Cholesky. A step that does not lower the loss is tried again with more damping, until it is short enough to.
-- What it costs: rows * parameters of f64 for J, parameters^2 for the matrix, so it is for some thousands of parameters;
-- what it gives: equations of physics that L-BFGS has not solved after tens of thousands of iterations take some hundreds.

local core = require "tessera.core"
local states = require "tessera.optim.state"
local options = require "tessera.options"
local parameters = require "tessera.optim.parameters"
local op = core.op

local LM = require("tessera.named").told("optimiser", { name = "LevenbergMarquardt", residuals = true })
LM.__index = LM
LM.__tostring = function(self) return ("LevenbergMarquardt(damping = %g, %d parameters)"):format(self.damping, #self.params) end

local POSITIVE = options.number { above = 0 }
local kinds = { damping = POSITIVE, rise = options.number { above = 1 }, fall = options.number { above = 1 }, least = POSITIVE, trials = options.whole { least = 1 } }
local defaults = { damping = 1e-2, rise = 4, fall = 3, least = 1e-12, trials = 10 }
local read, check = options.placed("LevenbergMarquardt", kinds, defaults, { "damping" }), options.some("LevenbergMarquardt", kinds, defaults)
local TITLE, HINT = "LevenbergMarquardt:step", "opt:step { { f, x, y }, { g, z, weight = 10 } }, with f(weights, x, y) giving a number for each row of x"

-- LevenbergMarquardt(params, {damping = 1e-2, rise = 4, fall = 3, least = 1e-12, trials = 10}): least squares by
-- Levenberg and Marquardt's method: damped Gauss-Newton steps. For some thousands of parameters and more rows than those:
-- slopes of all rows, and the matrix of parameters^2, are there as f64. A step that lowers the loss divides damping by fall,
-- down to least; one that does not multiplies it by rise and is tried again, at most trials times.
-- opt:step(terms) takes a list of {f, batch..., weight = 1}. f(weights, batch...) gives one or several residuals [n] or
-- [n, 1], row i of them from row i of each tensor of the batch alone (what has one element is for all rows). weights are
-- like params, or have an axis of n rows in front, so that each row has slopes of its own. The loss, which step returns as it
-- is afterwards, is the sum over terms of weight times the mean square of each residual. It has no groups.
--   local w = op.zeros({1, 1}, {dtype = "f64"})
--   local function line(weights, x, y)
--     return op.matmul(x:unsqueeze(1), weights[1]):squeeze(1) - y
--   end
--   local opt = optim.LevenbergMarquardt({w})
--   local x = op.arange(1, 5):cast("f64"):reshape(4, 1)
--   for _ = 1, 10 do opt:step{{line, x, x * 3}} end     -- w is 3 now
local function new(params, ...)
  local self = setmetatable({ params = {}, steps = 0, revision = 0, captured = {} }, LM)
  for k, v in pairs(read(...)) do self[k] = v end
  if type(params) == "table" and type(params[1]) == "table" and not core.is_tensor(params[1]) then
    core.fail "LevenbergMarquardt: it has no groups of parameters: one list is needed, optim.LevenbergMarquardt(model:parameters(), ...)"
  end
  options.tensors("LevenbergMarquardt", "parameter", params, "optim.LevenbergMarquardt(model:parameters(), ...)")
  parameters.check_new(self, params)
  self.numel = 0
  for i, p in ipairs(params) do
    parameters.check_gradient("LevenbergMarquardt", p, p)
    self.params[i] = p
    self.numel = self.numel + p.numel
  end
  parameters.note(self)
  self.groups = { self }
  return self
end

LM.check_places, LM.is_moving = parameters.check_places, parameters.is_moving
function LM:prepare() return self end
function LM:set_rate() core.fail "LevenbergMarquardt: it has no rate; damping shortens its steps" end
function LM:add_param_group() core.fail "LevenbergMarquardt: it has no groups of parameters" end
function LM:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end
function LM:tick() self.steps = self.steps + 1 end

-- ---- residuals and their slopes, as captured functions
local function columns(results)
  for i, r in ipairs(results) do
    if not core.is_tensor(r) or r.ndim ~= 1 and not (r.ndim == 2 and r.shape[2] == 1) or not r.dtype:match "^b?f" then
      core.fail(("%s: residual %d is %s, and has to be [n] or [n, 1] of floats\n  hint: %s"):format(TITLE, i,
        core.is_tensor(r) and core.type_text(r) or "a " .. type(r), HINT))
    end
    if r.numel == 0 then core.fail(("%s: residual %d is %s, without a row"):format(TITLE, i, core.type_text(r))) end
  end
  if #results == 0 then core.fail(("%s: a function gives no residual\n  hint: %s"):format(TITLE, HINT)) end
  return results
end

-- What was captured of a function that no step has taken for so long is let go: a program may write
-- a new one for each step.
local KEPT_STEPS = 16

-- Of f: its residuals, and for each of them the function that gives its slopes by parameters that differ by row.
local function captured_of(self, f)
  local made, all = self.captured[f], self.captured
  if not made then
    for other, m in pairs(all) do
      if m.used < self.steps - KEPT_STEPS then all[other] = nil end
    end
    local graph = require "tessera.graph"
    made = { residuals = graph.module("residuals", function(...) return unpack(columns { f(...) }) end), slopes = {} }
    all[f] = made
  end
  made.used = self.steps
  return made
end

local function slopes_of(self, f, k)
  local made = captured_of(self, f)
  if not made.slopes[k] then
    -- A row's sum has the slopes of that row by its own weights, and none by those of others.
    made.slopes[k] = require("tessera.graph").grad(function(weights, ...) return columns({ f(weights, ...) })[k]:sum() end)
  end
  return made.slopes[k]
end

-- The residuals of all terms at the parameters, each times the root of its share of the loss; one f64 vector, and for
-- each of its pieces where it comes from.
local function residuals_at(self, terms)
  local parts, from = {}, {}
  for _, term in ipairs(terms) do
    local results = { captured_of(self, term[1]).residuals(self.params, unpack(term, 2)) }
    for k, r in ipairs(results) do
      local scale = math.sqrt((term.weight or 1) / r.numel)
      parts[#parts + 1] = r:reshape(-1):cast("f64") * scale
      from[#from + 1] = { term = term, k = k, n = r.numel, scale = scale }
    end
  end
  local all = op.concat(parts)
  return all, all:square():sum():item(), from
end

local function slopes_at(self, from)
  local rows = {}
  for i, piece in ipairs(from) do
    local wide = {}
    for k, p in ipairs(self.params) do wide[k] = p:detach():unsqueeze(0):expand(piece.n, unpack(p.shape)) end
    local grads, flat = slopes_of(self, piece.term[1], piece.k)(wide, unpack(piece.term, 2)), {}
    for k, g in ipairs(grads) do flat[k] = g:reshape(piece.n, -1) end
    rows[i] = op.concat(flat, { axis = 1 }):cast "f64" * piece.scale
  end
  return op.concat(rows)
end

-- J^T J, of which Cholesky reads the lower half: blocks of rows as far as the diagonal.
local BLOCK = 512
local function lower_gram(slopes)
  local n, rows = slopes.shape[2], {}
  for from = 0, n - 1, BLOCK do
    local to = math.min(n, from + BLOCK)
    local row = slopes:narrow(1, from, to - from):T():matmul(slopes:narrow(1, 0, to))
    rows[#rows + 1] = row:pad { 0, n - to }
  end
  return op.concat(rows)
end

-- The step at this damping, or nil where the matrix has no Cholesky factor: rounding, if damping is small.
local function solved(gram, unit, slope, damping)
  local fine, factor = pcall(function() return (gram + unit * damping):cholesky() end)
  if fine then return factor:tri_solve(factor:tri_solve(slope), { transpose = true }) end
  if not tostring(factor):find "positive definite" then error(factor, 0) end
end

-- False where the step is below rounding: nothing moves.
local function move(self, from, step)
  local places, at, moved = {}, 0, false
  for i, p in ipairs(self.params) do
    local own = step:narrow(0, at, p.numel):reshape(p.shape)
    places[i] = self:is_moving(i) and (from[i]:cast "f64" - own):cast(p.dtype) or from[i]
    moved = moved or op.any(op.ne(places[i], from[i])):item()
    at = at + p.numel
  end
  core.assign_all(self.params, places)
  return moved
end

local function descend(self, terms)
  local r, now, from = residuals_at(self, terms)
  if now ~= now or now == math.huge then core.fail(("%s: the loss is %g at the parameters as they are"):format(TITLE, now)) end
  local slopes = slopes_at(self, from)
  local gram, slope = lower_gram(slopes), slopes:T():matmul(r:unsqueeze(1))
  local unit, places, before = op.eye(self.numel, { dtype = "f64" }):to(gram.device), {}, self.damping
  for i, p in ipairs(self.params) do places[i] = p:clone() end
  local behind = before * self.rise
  for trial = 1, self.trials do
    local step = solved(gram, unit, slope, self.damping)
    if step then
      if not move(self, places, step) then -- more damping would not be seen either, and less is for other batches
        behind = trial == 1 and math.max(before / self.fall, self.least) or before
        break
      end
      local _, there = residuals_at(self, terms)
      if there < now then
        self.damping = math.max(self.damping / self.fall, self.least)
        return there
      end
    end
    self.damping = self.damping * self.rise
  end
  core.assign_all(self.params, places) -- the lowest point that rounding lets one see
  self.damping = behind
  return now
end

local function check_terms(terms)
  if type(terms) ~= "table" or core.is_tensor(terms) or #terms == 0 then
    core.fail(("%s: a list of terms is needed, not %s\n  hint: %s"):format(TITLE, type(terms) == "table" and "an empty one" or
      terms == nil and "nothing" or "a " .. type(terms), HINT))
  end
  for i, term in ipairs(terms) do
    if type(term) ~= "table" or core.is_tensor(term) or not core.callable(term[1]) or core.is_tensor(term[1]) then
      core.fail(("%s: term %d has no function in front\n  hint: %s"):format(TITLE, i, HINT))
    end
    for k in pairs(term) do
      if type(k) ~= "number" and k ~= "weight" then
        core.fail(("%s: term %d: unknown option '%s'; it takes weight"):format(TITLE, i, core.shown(tostring(k))))
      end
    end
    if term.weight ~= nil then options.argument(TITLE, "weight of term " .. i, POSITIVE, term.weight) end
  end
end

--- One step on the terms' batches; returns the loss behind it. Where no damping lowers the loss, parameters stay. After an
--- error parameters and damping are those of before.
function LM:step(terms)
  check_terms(terms)
  self:check_places()
  local damping, restore = self.damping, core.snapshot(self.params)
  return core.guarded(function(fine)
    if fine then return end
    self.damping = damping
    restore()
  end, function()
    local loss = core.no_grad(descend, self, terms)
    self.steps = self.steps + 1
    return loss
  end)
end

function LM:state_dict() return require "tessera.state"(states.of(self, kinds)) end

--- All of it, or an error and nothing.
function LM:load_state_dict(state)
  local set = states.reader(self, kinds, check, state)
  core.held(set)
end

core.keep_line(LM, true)
return new
