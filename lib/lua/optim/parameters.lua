-- What every optimiser has to know of its parameters: that they are there once, that a module still
-- holds them, and which of them move.

local core = require "tessera.core"
local options = require "tessera.options"
local Module = require "tessera.module"
local same_shape = require "tessera.same_shape"
local parameters = {}

-- Whether params may come behind those of self.
function parameters.check_new(self, params)
  if #params == 0 then core.fail(self.name .. ": the list of parameters is empty") end
  local seen = {}
  for i, p in ipairs(self.params) do seen[p] = i end
  for i, p in ipairs(params) do
    local at = #self.params + i
    if seen[p] then core.fail(("%s: parameter %d is parameter %d once more"):format(self.name, at, seen[p])) end
    seen[p] = at
  end
end

-- Notes which of the parameters that are new require gradients now.
function parameters.note(self)
  self.moving = self.moving or {}
  for i = #self.moving + 1, #self.params do self.moving[i] = self.params[i].requires_grad end
end

local function is_float(t) return t.dtype:match "^b?f" ~= nil end

-- A step by operators would round integers, leave imaginary parts out and spread a gradient of another shape.
function parameters.check_gradient(name, p, g)
  if not is_float(p) then core.fail(("%s: a parameter is %s, and only floats move"):format(name, core.type_text(p))) end
  if not core.is_tensor(g) then core.fail(("%s: a gradient is a %s, not a tensor"):format(name, type(g))) end
  if g.dtype:match "^c" or not same_shape(p.shape, g.shape) then
    core.fail(("%s: the gradient %s does not fit the parameter %s"):format(name, core.type_text(g), core.type_text(p)))
  end
end

-- given: what a state has for t.
function parameters.check_state(what, key, t, given)
  if not core.is_tensor(given) then core.fail(("%s: '%s' is a %s, not a tensor"):format(what, key, type(given))) end
  if not same_shape(t.shape, given.shape) or not is_float(given) then
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
