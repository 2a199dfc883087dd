-- The state of an optimiser as a table that tessera.save takes: its name, the number of steps, its options, those of
-- each group with the shapes of its parameters, and the tensors of each parameter:
--   {optimizer = "AdamW", steps = 10, options = {lr = 1e-3, ..}, groups = {{lr = 1e-3, .., shapes = {{3, 2}, {3}}}},
--    state = {{m = tensor, v = tensor}, ..}}
-- What is loaded has to be of the same optimiser, with as many groups of parameters of the same shapes.

local core = require "tessera.core"
local options = require "tessera.options"
local State = {}

local function copied(v) return type(v) == "table" and { unpack(v) } or v end

local function same(a, b)
  if type(a) == "table" and type(b) == "table" then return table.concat(a, " ") == table.concat(b, " ") end
  return a == b
end

--- A group's own rate beside that of the optimiser, which a schedule keeps.
function State.set_share(self, group)
  local rate = not rawequal(group, self) and rawget(group, "lr")
  rawset(group, "share", rate and self.lr ~= 0 and rate / self.lr or nil)
end

local function shape_text(shape) return "[" .. table.concat(shape, ",") .. "]" end

-- What a group has of the options, its own or the optimiser's.
local function options_of(holder, names)
  local all = {}
  for name in pairs(names) do all[name] = copied(holder[name]) end
  return all
end

--- names: a set of those of options.
function State.of(self, names)
  local state = { optimizer = self.name, steps = self.steps, options = options_of(self, names), groups = {} }
  for i, g in ipairs(self.groups) do
    local group = options_of(g, names)
    group.clip, group.shapes = nil, {}
    for k, p in ipairs(g.params) do group.shapes[k] = p.shape end
    state.groups[i] = group
  end
  return state
end

local function need_shapes(title, at, shapes, params)
  if type(shapes) ~= "table" then core.fail(("%s: group %d of the state has no shapes"):format(title, at)) end
  if #shapes ~= #params then
    core.fail(("%s: group %d has %d parameters in the state, and %d here"):format(title, at, #shapes, #params))
  end
  for i, p in ipairs(params) do
    local there = type(shapes[i]) == "table" and shape_text(shapes[i]) or "none"
    if there ~= shape_text(p.shape) then
      core.fail(("%s: parameter %d of group %d has shape %s in the state, and %s here"):format(title, i, at, there, shape_text(p.shape)))
    end
  end
end

--- Looks at everything and changes nothing; gives the function that sets steps and options, and the options that
--- each group has then. check(options): those of the optimiser, or of a group.
function State.reader(self, names, check, state)
  local title = self.name .. ":load_state_dict"
  options.argument(title, "the state", options.table, state)
  if type(state.optimizer) ~= "string" then
    core.fail(title .. ": the state is of no optimiser: 'optimizer' is missing\n  hint: what opt:state_dict() gave is loaded")
  end
  if state.optimizer ~= self.name then
    core.fail(("%s: the state is of %s, not of %s"):format(title, core.shown(state.optimizer, 60), self.name))
  end
  local steps = options.argument(title, "steps", options.whole { least = 0 }, state.steps)
  check(options.argument(title, "options", options.table, state.options))
  local groups = options.argument(title, "groups", options.table, state.groups)
  if #groups ~= #self.groups then
    core.fail(("%s: the state has %d groups of parameters, the optimiser %d"):format(title, #groups, #self.groups))
  end
  local own, given = {}, {}
  for i, g in ipairs(self.groups) do
    own[i] = {}
    for name, v in pairs(options.argument(title, "group " .. i, options.table, groups[i])) do
      if name ~= "shapes" then own[i][name] = v end
    end
    check(own[i])
    given[g] = own[i]
    need_shapes(title, i, groups[i].shapes, g.params)
  end
  return function()
    self.steps = steps
    for name in pairs(names) do rawset(self, name, copied(state.options[name])) end
    for i, g in ipairs(self.groups) do
      for name in pairs(own[i]) do
        if rawequal(g, self) then
          rawset(g, name, copied(own[i][name]))
        else -- what equals the optimiser's is not the group's own
          rawset(g, name, not same(own[i][name], self[name]) and copied(own[i][name]) or nil)
        end
      end
      State.set_share(self, g)
    end
  end, given
end

return State
