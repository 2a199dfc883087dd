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
