-- What an object was told and counts, numbers, words and flags, as a table that tessera.save takes, and back:
-- all of it, or an error and nothing. Schedules and loss scalers have state_dict and load_state_dict of it.
--
--   settings.into(class, "plateau", { "lr", "best" })      -- class.state_dict, class.load_state_dict

local core = require "tessera.core"
local options = require "tessera.options"
local settings = {}

local PLAIN = { number = true, string = true, boolean = true }

local function is_plain(v)
  if type(v) ~= "table" then return PLAIN[type(v)] end
  for _, part in pairs(v) do
    if not PLAIN[type(part)] then return false end
  end
  return not getmetatable(v)
end

local function copied(v) return type(v) == "table" and { unpack(v) } or v end

--- Both methods for a class. what: the noun of its kind, whose name is object.name. known(object): the list
--- of names that a state has, and the set of those that may be nil.
function settings.into(class, what, known)
  function class.state_dict(self)
    local state = { [what] = self.name }
    for _, name in ipairs(known(self)) do state[name] = copied(self[name]) end
    return state
  end

  function class.load_state_dict(self, state)
    local title = self.name .. ":load_state_dict"
    options.argument(title, "the state", options.table, state)
    if state[what] == nil then core.fail(("%s: the state is of no %s: '%s' is missing"):format(title, what, what)) end
    if state[what] ~= self.name then
      core.fail(("%s: the state is of %s, not of %s"):format(title, core.shown(tostring(state[what]), 60), self.name))
    end
    local names, optional = known(self)
    for _, name in ipairs(names) do
      local v, own = state[name], self[name]
      local fits = v == nil and optional and optional[name] or is_plain(v) and (own == nil or type(v) == type(own))
      if not fits then
        core.fail(("%s: '%s' is %s in the state, and %s here"):format(title, name,
          v == nil and "missing" or "a " .. type(v), own == nil and "nothing" or "a " .. type(own)))
      end
    end
    core.held(function()
      for _, name in ipairs(names) do self[name] = copied(state[name]) end
    end)
  end
end

return settings
