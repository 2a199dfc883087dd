-- Options of the prompt's commands: words such as --json, anywhere outside of brackets and quotes. In the Lua of a command
-- they would be comments.

local core = require "tessera.core"

local options = {}
local KNOWN = { json = "JSON instead of text" }

local closing = { ["("] = ")", ["{"] = "}", ["["] = "]" }

--- take(text): what is left of it, and a table of the options that it has: {json = true}, {[1] = "--jsn"} of those that are
--- none.
function options.take(text)
  local left, given, at, quote, depth = {}, {}, 1, nil, 0
  while at <= #text do
    local c = text:sub(at, at)
    local word = not quote and depth == 0 and (at == 1 or text:find("^%s", at - 1)) and text:match("^%-%-%a[^%s]*", at)
    if word then
      local name = word:sub(3)
      if KNOWN[name] then given[name] = true else given[#given + 1] = word end
      at = at + #word
    else
      if quote then
        if c == "\\" then
          left[#left + 1], at = c, at + 1
          c = text:sub(at, at)
        elseif c == quote then quote = nil end
      elseif c == "'" or c == '"' then quote = c
      elseif closing[c] then depth = depth + 1
      elseif c == ")" or c == "}" or c == "]" then depth = math.max(0, depth - 1) end
      left[#left + 1], at = c, at + 1
    end
  end
  local rest = table.concat(left)
  while quote or depth > 0 do -- a bracket or a string that is not closed: options stand at the end all the same
    local front, name = rest:match "^(.-)%s+%-%-(%a[%w-]*)%s*$"
    if not front then break end
    if KNOWN[name] then given[name] = true else given[#given + 1] = "--" .. name end
    rest = front
  end
  return (rest:gsub("^%s+", ""):gsub("%s+$", "")), given
end

--- Calls wrong(format, ..) where there are options that no command has.
function options.check(given, wrong)
  local word = given[1]
  if not word then return end
  local names = {}
  for name in pairs(KNOWN) do names[#names + 1] = "--" .. name end
  table.sort(names)
  local guess = core.suggest(word, names)
  if guess then wrong("has no option '%s'; did you mean '%s'?", core.shown(word, 40), guess) end
  wrong("has no option '%s'; all commands have %s: %s", core.shown(word, 40), names[1], KNOWN[names[1]:sub(3)])
end

return options
