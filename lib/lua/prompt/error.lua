-- The last error as a table: what `--json` prints where a command fails, and what :err is made of.
--   {error, code, hint, place}: what is wrong; a code of lib/errors.def, or "lua" of Lua's own errors; what to do; the
--   program's line. What is not there has a reason beside it.

local console = require "tessera.console"

-- "a\n  hint: b\n  usage: c" as "a" and "b; usage: c".
local function split(text)
  local head, hint = text:match "^(.-)\n  (hint: .*)$"
  if not head then head, hint = text:match "^(.-)\n  (usage: .*)$" end
  if not head then return text, nil end
  return head, (hint:gsub("^hint: ", ""):gsub("\n%s*", "; "))
end

--- interrupted: it was Ctrl-C. said: what the prompt itself found wrong, which is a wrong argument.
return function(interrupted, said)
  local report, _, parts = console.last_error()
  if not report then return { error_reason = "no error so far" } end
  parts = parts or { message = report:gsub("\nstack traceback:.*$", "") }
  local text, hint = split(parts.message)
  local place = parts.place
  if not hint then hint = report:match "\n  hint: ([^\n]*)" end -- of an error of Lua's own
  return { error = text, hint = hint, place = place,
    code = interrupted and "interrupt" or said and parts.message:find(said, 1, true) and "argument" or parts.code or "lua",
    hint_reason = not hint and "it has none" or nil,
    place_reason = not place and "it comes from no line of the program" or nil }
end
