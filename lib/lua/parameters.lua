-- What every optimiser has to know of its parameters: that they are there once, that a module still
-- holds them, and which of them move.

local core = require "tessera.core"
local options = require "tessera.options"
local Module = require "tessera.module"
local parameters = {}

-- Notes which of self.params require gradients now.
function parameters.check_list(self)
  if #self.params == 0 then core.fail(self.name .. ": the list of parameters is empty") end
  local seen = {}
  self.moving = {}
  for i, p in ipairs(self.params) do
    if seen[p] then core.fail(("%s: parameter %d is parameter %d once more"):format(self.name, i, seen[p])) end
    seen[p], self.moving[i] = i, p.requires_grad
  end
end

local function is_float(t) return t.dtype:match "^b?f" ~= nil end

function parameters.same_shape(a, b) return table.concat(a.shape, ",") == table.concat(b.shape, ",") end

-- A step by operators would round integers, leave imaginary parts out and spread a gradient of another shape.
function parameters.check_gradient(name, p, g)
  if not is_float(p) then core.fail(("%s: a parameter is %s, and only floats move"):format(name, core.type_text(p))) end
  if not core.is_tensor(g) then core.fail(("%s: a gradient is a %s, not a tensor"):format(name, type(g))) end
  if g.dtype:match "^c" or not parameters.same_shape(p, g) then
    core.fail(("%s: the gradient %s does not fit the parameter %s"):format(name, core.type_text(g), core.type_text(p)))
  end
end

-- The number of steps that a state tells, 0 if it tells none.
function parameters.steps_of(what, state)
  options.argument(what, "the state", options.table, state)
  local steps = state.steps
  if steps == nil then return 0 end
  local n = core.is_tensor(steps) and steps.numel == 1 and not steps.dtype:match "^c" and tonumber(steps:item())
  if not n or n < 0 or n % 1 ~= 0 then core.fail(what .. ": steps is no tensor of one whole number >= 0") end
  return n
end

-- given: what a state has for t.
function parameters.check_state(what, key, t, given)
  if not core.is_tensor(given) then core.fail(("%s: '%s' is a %s, not a tensor"):format(what, key, type(given))) end
  if not parameters.same_shape(t, given) or not is_float(given) then
    core.fail(("%s: '%s' is %s, and has to be %s"):format(what, key, core.type_text(given), core.type_text(t)))
  end
end

-- What a module holds in place of a parameter would not be trained, and nobody would know.
function parameters.check_places(self)
  for i, p in ipairs(self.params) do
    local module, key = Module.place_of(p)
    if module and not rawequal(rawget(module, key), p) then
      core.fail(("%s: parameter %d, '%s' of a %s, was replaced after the optimiser was made, and would not be trained\n  hint: "
        .. "make the optimiser after model:to(...) and after assignments, or copy values, model.%s:copy_(...)"):format(
        self.name, i, tostring(key), module.class, tostring(key)))
    end
  end
end

-- Whether a step may move parameter i: not if it required gradients once, as a module's does, and
-- does no more.
function parameters.is_moving(self, i)
  local p = self.params[i]
  return p.requires_grad or not (self.moving[i] or Module.place_of(p))
end

return parameters
