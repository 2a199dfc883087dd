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
