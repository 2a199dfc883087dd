-- A bar on a terminal: an error behind it begins on a line of its own, and so does what the program prints when it asks for room.
local program = arg and arg[-1] or "bin/tessera"
local path = os.tmpname()
local function shown(columns, text)
  local file = io.open(path, "w")
  file:write('local data = require("tessera").data\n', text, "\n")
  file:close()
  local p = io.popen(("TERM=xterm script -qec 'stty cols %d; exec %s %s' /dev/null </dev/null 2>&1"):format(columns, program, path))
  local out = p:read("*a"):gsub("\r\n", "\n"):gsub("\27%[K", "")
  p:close()
  return out
end
local has = os.execute "script -qec true /dev/null </dev/null >/dev/null 2>&1" == 0
if not has then return print "skipped: there is no command script, which makes a terminal" end

local out = shown(60, 'local bar = data.progress(9, {label = "train"})\nbar:update(3, {loss = 1})\nerror "oh"')
assert(out:find("loss 1\n" .. path:gsub("%p", "%%%0") .. ":4: oh\n"), out)
out = shown(60, 'local bar = data.progress(9)\nbar:update(3)\nbar:clear()\nprint "a line"\nbar:update(9)\nbar:finish()\nerror("oh", 0)')
assert(out:find "\ra line\n" and out:find "9/9[^\n]*\ntessera: oh\n", out)
-- No line of the bar is wider than the terminal.
out = shown(30, 'local bar = data.progress(9, {label = "a label", terminal = true})\nbar:update(3, {loss = 1, other = 2})\nbar:finish()')
for line in out:gmatch "[^\r\n]+" do assert(#line <= 28, line) end
os.remove(path)
