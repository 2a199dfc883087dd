-- tessera -p: what it tells of a whole program, to where, and how programs end with it.
local tessera = arg[-1] or "bin/tessera"
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)
local function write(name, text)
  local f = assert(io.open(folder .. "/" .. name, "w"))
  f:write(text)
  f:close()
  return folder .. "/" .. name
end
local function read(name)
  local f = assert(io.open(folder .. "/" .. name))
  local text = f:read "*a"
  f:close()
  return text
end
-- Output, errors and exit code.
local function run(arguments)
  local p = io.popen(("%s %s > %s/out 2> %s/err < /dev/null; echo $?"):format(tessera, arguments, folder, folder))
  local code = tonumber(p:read "*a")
  p:close()
  return read "out", read "err", code
end

local script = write("s.lua", [[
local t = require "tessera"
local op, graph = t.op, t.graph
local w = op.ones{64, 64}
local f = graph.module("f", function(x) return op.softmax(x:matmul(w)) end)
local x = op.ones{32, 64}
for i = 1, 6 do
  x = f(x)
end
local y = op.relu(x - 1)
print(y:sum():item())
if arg[1] == "exit" then os.exit(7) end
if arg[1] == "error" then error "broken" end
]])

-- The program's output is its own; lines, the function with its instructions, operators and calls.
local out, err, code = run("-p " .. script)
out:match "%S+", code --> 0, 0
assert(err:find "^\n[%d.]+ m?s in all: ", err)
assert(err:find "[%d.]+%%%s+[^\n]*s%.lua:7\n", err) -- what takes little beside others is left out here

-- Files by their endings: a timeline, a table whose own times add up to the whole, and text.
local trace, csv, text = folder .. "/p.json", folder .. "/p.csv", folder .. "/p.txt"
out, err, code = run(("--profile-to=%s --profile-to=%s --profile-to %s %s"):format(trace, csv, text, script))
code --> 0
assert(err:find("written: " .. trace, 1, true) and err:find("written: " .. csv, 1, true) and err:find("written: " .. text, 1, true), err)
local json = require("tessera.core").open_json().decode(read "p.json")
local kinds = {}
for _, e in ipairs(json.traceEvents) do
  if e.ph == "X" then
    kinds[e.cat] = (kinds[e.cat] or 0) + 1
    assert(e.ts >= 0 and e.dur >= 0 and e.name)
  end
end
kinds["function"], kinds.operator >= 3, kinds.line >= 9 --> 6, true, true
local rows = read "p.csv"
assert(rows:find '\n"program > [^"]*s%.lua:7",function,"f","",6,', rows)
assert(rows:find '\n"program > [^"]*s%.lua:7 > f",instruction,"softmax","[^"]*s%.lua:4",6,', rows)
local own, whole = 0, nil
for line in read("p.csv"):gmatch "[^\n]+" do
  local kind, usec, mine = line:match '^"[^"]*",(%l+),"[^"]*","[^"]*",%d+,([%d.]+),([%d.]+),'
  if kind and kind ~= "lua" then own = own + tonumber(mine) end
  if kind == "program" then whole = tonumber(usec) end
end
assert(math.abs(own - whole) < 0.2, own .. " of " .. whole)
read("p.txt"):match "in all" --> in all

-- Many lines, each once in the table however often it ran.
local many = { 'require("tessera").jit.off()\nlocal op = require("tessera").op\nlocal a = op.ones(4)\nlocal b\nfor round = 1, 2 do\n' }
for i = 0, 2999 do
  many[#many + 1] = i % 500 == 0 and (i > 0 and "end part() " or "") .. "local function part()\n" or ""
  many[#many + 1] = "b = a + " .. i .. "\n"
end
many[#many + 1] = "end part() end\n"
out, err, code = run("--profile-to=" .. csv .. " " .. write("many.lua", table.concat(many)))
code --> 0
local lines, twice = {}, 0
for place, calls in read("p.csv"):gmatch '"program",line,"","([^"\n]+)",(%d+),' do
  assert(not lines[place], place)
  lines[place] = true
  if calls == "2" then twice = twice + 1 end
end
twice --> 3000

-- However it ends.
out, err, code = run("-p " .. script .. " exit")
code, err:match "in all" --> 7, in all
out, err, code = run("-p " .. script .. " error")
code, err:match "broken", err:match "in all" --> 1, broken, in all
tessera = "sh tests/stop.sh 0.3 " .. tessera
out, err, code = run("-p -e 'io.stderr:write \"GO\\n\" while true do end'")
tessera = arg[-1] or "bin/tessera"
out:match "interrupted" or out --> interrupted
out:match "in all" --> in all

-- Kernels of a device stand under what launched them, with their device.
local there = write("d.lua", [[
local op = require("tessera").op
local x = op.ones({32, 32}):to "sim:0"
print(op.matmul(x, x):sum():item())
]])
out, err, code = run("--profile-to=" .. csv .. " " .. there)
out:match "%S+" --> 32768
assert(read("p.csv"):find '> matmul",kernel,"[^"]*","sim:0",1,', read "p.csv")
assert(read("p.csv"):find ',copy,"from sim:0"', read "p.csv")

-- Profiles within it are made, or refused, and it goes on: also with the kernels of devices behind them.
local within = write("w.lua", [[
local t = require "tessera"
local x = t.op.ones({32, 32}):to "sim:0"
print(pcall(t.profile.report, function() return t.op.exp(t.op.ones(4)) end))
t.jit.device_profile(t.op.exp, x)
print(t.op.matmul(x, x):sum():item())
]])
out, err, code = run("--profile-to=" .. csv .. " " .. within)
code, out:match "already", out:match "32768" --> 0, already, 32768
assert(read("p.csv"):find '> matmul",kernel,"[^"]*","sim:0",1,', read "p.csv")

-- What is wrong is said before anything runs.
out, err, code = run("--profile-to=/nonexistent/p.txt " .. script) -- before it runs
assert(code == 1 and out == "" and err:find("--profile-to: /nonexistent/p.txt: No such file", 1, true), out .. err)
out, err, code = run("--profile-to=p.exe " .. script)
out, code, err:match "written as [^,]*, %.csv or %.txt, not 'p.exe'" ~= nil --> , 1, true
select(2, run "--profile-too=x"):match "did you mean '%-%-profile%-to'" --> did you mean '--profile-to'
os.execute("rm -r " .. folder)
