-- Tables of functions in which a misspelt name is an error where it is written; a name of another
-- library tells what is here for it (repl/lua/elsewhere.def).
--
--   return named("tessera.jit", jit)
--   tessera.jit.wiat()   -- tessera.jit has no 'wiat'; hint: did you mean 'wait'?
--
-- rawget(t, name) asks whether there is one. more: where names stand that are made when first asked for.

local core = require "tessera.core"
local named = {}

-- The end of the message for a name that `title` lacks: its hint, if there is one.
function named.hint(title, name, ...)
  if type(name) ~= "string" then return "" end
  local known = core.elsewhere(title:match "%w+$", name)
  if known then return "\n  hint: " .. known end
  local words = {}
  for i = 1, select("#", ...) do
    for word in pairs((select(i, ...))) do
      if type(word) == "string" then words[#words + 1] = word end
    end
  end
  table.sort(words)
  local guess = core.suggest(name, words)
  return guess and ("\n  hint: did you mean '%s'?"):format(guess) or ""
end

function named.missing(title, name, ...)
  return ("%s has no '%s'%s"):format(title, core.shown(tostring(name), 60), named.hint(title, name, ...))
end

--- Objects of the class, a table, whose fields may be missing: a name that other libraries have there is an error with
--- what is here for it, by its rows under `title`.
function named.told(title, class)
  local seen = {} -- fields that are missing are asked for in every step
  return setmetatable(class, { __index = function(_, name)
    local known = seen[name]
    if known == nil and name ~= nil then
      known = type(name) == "string" and core.elsewhere(title, name) or false
      seen[name] = known
    end
    if known then error(("%s has no '%s'\n  hint: %s"):format(title, name, known), 3) end
  end })
end

return setmetatable(named, {
  __call = function(_, title, functions)
    return setmetatable(functions, { __index = function(t, name) error(named.missing(title, name, t), 2) end })
  end,
})
