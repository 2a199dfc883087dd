-- Commands of the prompt are lines of the program: what fails in them, or is interrupted, names the line of the program that
-- ran, or the command with what was typed; never a line of the library.
local program = arg[-1] or "bin/tessera"

local function said(lines)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(lines, "\n")
  file:close()
  local p = io.popen(program .. " -i < " .. path .. " 2>&1")
  local text = p:read "*a"
  p:close()
  os.remove(path)
  return (text:gsub("%s+$", ""))
end
local begin = [[
function f(x) local y = x + nil return y end
function g() error 'deep' end
h = graph.module("h", function(x)
return op.sort(x)
end)
x = op.ones{64}
h(x);
]]

-- ---- errors
said ":profile error('a')" --> :profile:1: a
-->     :profile error('a')
-->     ^
said(begin .. ":profile g()") --> input 2:1: deep
-->     function g() error 'deep' end
-->     ^
said(begin .. ":profile g"):match "^[^\n]*" --> input 2:1: deep
said(begin .. ":time f(x)"):match "^[^\n]*" --> input 1:1: add: input 'y' is missing
said(begin .. ":profile h()") --> :profile:1: h(x) was called without x: sort: input 'x' is missing
-->     :profile h()
-->     ^
local expressions = { "h(x + op.ones{3})", "h(error('a'))", "h(nosuch.field)", "h(op.nosuch)", "h(g())", "h(f(x))" }
for _, command in ipairs { "profile", "time", "tune", "ir", "why", "tiles", "rewrites", "collectives", "choose", "edit", "debug", "peek" } do
  for _, e in ipairs(expressions) do
    local typed = (":%s %s%s"):format(command, e, command == "debug" and " 0" or command == "peek" and " 0 (0) %x" or "")
    local text = said(begin .. typed)
    assert(not text:find("tessera.", 1, true), typed .. " says " .. text)
    local own = text:find("^:" .. command .. ":1: ") and text:find(typed, 1, true)
    assert(own or text:find "^input [12]:1: ", typed .. " says " .. text)
    assert(not text:find "main chunk", text)
  end
end
for _, typed in ipairs { ":diff h(nosuch.x) h(x)", ":diff h(error('a')) h(x)" } do
  local text = said(begin .. typed)
  assert(text:find("^:diff:1: ") and text:find(typed, 1, true), text)
end

-- ---- Ctrl-C, after so many looks for it
local ask = "core = require 'tessera.core' function stop(n) core.interrupt_after(n, 'looks') end\n"
local text = said(ask .. [[
function loop(x)
  stop(20)
  while true do x = x * 0.5 + 1 end
end
:time loop(op.ones{8})
:profile loop(op.ones{8})
:who
]])
select(2, text:gsub("input 2:3: [^\n]*interrupted\n", "")) --> 2
said(begin .. ask .. "stop(30)\n:profile h") --> :profile:1: h at input 3:2: interrupted
-->     :profile h
-->     ^
said(begin .. ask .. "stop(30)\n:time h(x)") --> :time:1: h at input 3:2: interrupted
-->     :time h(x)
-->     ^
said(begin .. ask .. "stop(2)\n:profile op.sort(x)"):match "^[^\n]*" --> :profile:1: sort: interrupted
