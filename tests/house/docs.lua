-- The operator reference is what `make docs` writes.
local pipe = io.popen((arg[-1] or "bin/tessera") .. " scripts/docs.lua -")
local wanted = pipe:read("*a")
pipe:close()
local file = assert(io.open("docs/operators.md"))
local text = file:read("*a")
file:close()
#wanted > 50000 --> true
local state = text == wanted and "up to date" or "behind the operator table: make docs"
state --> up to date

-- So is the reference of the library in Lua, and has every layer, optimiser and schedule.
local pipe = io.popen((arg[-1] or "bin/tessera") .. " scripts/docs_library.lua -")
local wanted = pipe:read("*a")
pipe:close()
local file = assert(io.open("docs/library.md"))
local text = file:read("*a")
file:close()
#wanted > 30000 --> true
text == wanted and "up to date" or "behind lib/lua: make docs" --> up to date
local tessera, missing = require "tessera", {}
for _, path in ipairs { "nn", "optim", "optim.schedule" } do
  local part = tessera
  for word in path:gmatch "[^.]+" do part = part[word] end
  for name, v in pairs(part) do
    local public = type(v) == "function" or (type(v) == "table" and rawget(v, "class"))
    if public and not text:find("\n### " .. path .. "." .. name .. "\n", 1, true) then missing[#missing + 1] = path .. "." .. name end
  end
end
table.concat(missing, " ") -->

-- The manual page has every option of --help and every command of the prompt, and no other.
local pipe = io.popen((arg[-1] or "bin/tessera") .. " --help")
local help = pipe:read "*a"
pipe:close()
local file = assert(io.open "docs/tessera.1")
local manual = file:read("*a"):gsub("\\%-", "-"):gsub("\\f.", "")
file:close()
-- Words of heads of paragraphs, the line behind .TP, from a section: what pattern finds.
local function heads(section, pattern)
  local found = {}
  for head in ("\n" .. manual:match("\n%.SH " .. section .. "\n(.-)\n%.SH ")):gmatch "\n%.TP\n([^\n]*)" do
    for word in head:gsub('"', ""):gmatch(pattern) do found[word] = true end
  end
  return found
end
local function difference(a, b)
  local list = {}
  for word in pairs(a) do
    if not b[word] then list[#list + 1] = word end
  end
  table.sort(list)
  return table.concat(list, " ")
end
local options = {}
for line in help:gmatch "[^\n]+" do
  local letter, word = line:match "^%s+%-(%a)", line:match "^%s+%-?%a?,?%s*%-%-([%a-]+)"
  if letter then options["-" .. letter] = true end
  if word then options["--" .. word] = true end
end
options["--profile-to"], options["-p"], options["--help"] --> true, true, true
local said = heads("OPTIONS", "%-%-?[%a-]*")
said["-"], said["--"], said["-jv"] = nil, nil, nil -- the script on standard input, the end of options, LuaJIT's -j
difference(options, said) -->
difference(said, options) -->
local commands = {}
for name in pairs(require("tessera.prompt").commands) do commands[name == "shell" and "!" or ":" .. name] = true end
said = heads("PROMPT", "[:!]%a*")
difference(commands, said) -->
difference(said, commands) -->
