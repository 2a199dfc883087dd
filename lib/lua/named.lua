-- Tables of functions in which a misspelt name is an error where it is written.
--
--   return named("tessera.jit", jit)
--   tessera.jit.wiat()   -- tessera.jit has no function 'wiat'; hint: did you mean 'wait'?

local core = require "tessera.core"

return function(title, functions)
  return setmetatable(functions, {
    __index = function(t, name)
      local words = {}
      for word in pairs(t) do words[#words + 1] = word end
      table.sort(words)
      local guess = core.suggest(tostring(name), words)
      error(("%s has no function '%s'%s"):format(title, tostring(name),
        guess and ("\n  hint: did you mean '%s'?"):format(guess) or ""), 2)
    end,
  })
end
