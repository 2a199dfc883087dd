-- Files of long runs stay small, and can be read: the first and the last of everything, and what was between as sums.
local tessera = require "tessera"
local op, graph, jit, profile = tessera.op, tessera.graph, tessera.jit, tessera.profile
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
local files, program_files = require "tessera.profile.files", require "tessera.profile.program_files"

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)
local function path(name) return folder .. "/" .. name end
local function read(name)
  local f = assert(io.open(path(name)))
  local text = f:read "*a"
  f:close()
  assert(#text < 20e6, name .. " has " .. #text .. " bytes")
  return text
end

-- A loop of more rounds than there is room for spans, several times: the rounds at its end are there, too.
local ROUNDS = 20000
local f = graph.module("f", function(v)
  return op.while_loop(function(i) return i:lt(ROUNDS) end, function(i, u) return i + 1, u:tanh() * 2 end, op.zeros({}, { dtype = "i64" }), v)
end)
f(op.ones(8))
local said = profile.report(f, { args = { op.ones(8) }, runs = 6, warm = 0, trace = path "loop.json", csv = path "loop.csv", html = path "loop.html" })
tonumber(said:match "(%d+) spans between the first and the last found no room") > ROUNDS --> true
local csv = read "loop.csv"
csv:find '\n1,"while_loop' ~= nil, csv:find '\n6,"while_loop' ~= nil, csv:find '\n,"lt.-the sum of those between the first and the last' ~= nil --> true, true, true
read("loop.json"):find '"%d+ more instructions"' ~= nil, #read "loop.html" < 2e6 --> true, true

-- A program of many lines with long names, each with what it called: made here, since it would take its time.
local tree, events, at, usec, long = { kind = "program", what = "program", usec = 0, count = 1, bytes = 0, flops = 0 }, {}, 0, 0, ("folder/"):rep(60)
for i = 1, 60000 do
  local place, n = ("%s%d.lua:%d"):format(long, i % 50, i), 1 + i % 97
  local call = { kind = "operator", what = "tanh", usec = n, count = 4, bytes = 64, flops = 8 }
  tree[i] = { kind = "line", what = "", place = place, usec = n + 0.25, count = 4, bytes = 0, flops = 0, call }
  usec = usec + tree[i].usec
  if i <= 16384 or i > 60000 - 16384 then
    events[#events + 1] = { kind = "operator", what = "tanh", start = at + 0.1, usec = n / 8 }
    events[#events + 1] = { kind = "line", what = "", place = place, start = at, usec = n / 8 + 0.2 }
  end
  at = at + n
end
tree.usec = usec + 1000
local r = { tree = tree, events = events, facts = { events = 480000, lost = 0, kernels = 0 }, lines = {}, collectives = {}, left = 1000 }
for i = 1, 5000 do r.lines[i] = { line = tree[i].place, n = 1, usec = 1, of = { N = 1, I = 0, C = 0, G = 0, J = 0 } } end
local program = require "tessera.program_profile"
local core = tessera.core
core.write_file(path "program.csv", { program_files.csv(r) })
core.write_file(path "program.json", { files.trace(program_files.events(r)) })
core.write_file(path "program.html", { program.html_text(r, {}) })
#program.text(r, 80) < 1e5, #read "program.html" < 5e6 --> true, true
csv = read "program.csv"
csv:match '\n"program",folded,"%d+ more","",%d+' ~= nil, select(2, csv:gsub("\n", "")) < 50000 --> true, true
local own, all = 0, nil
for kind, whole, mine in csv:gmatch '\n"[^"]*",(%l+),"[^"]*","[^"]*",%d+,([%d.]+),([%d.]+),' do
  if kind == "program" then all = tonumber(whole) end
  if kind ~= "lua" then own = own + tonumber(mine) end
end
math.abs(own - all) < 1 --> true
read("program.json"):find "420000 more activities" ~= nil --> true

local function checked(command)
  local pipe = io.popen(command .. " 2>&1")
  local text = pipe:read "*a"
  pipe:close()
  if text:find "^skipped: " then print((text:gsub("\n$", ""))) end
  return text:match "wrong: [^\n]*" or text:match "Traceback.*" or "fine"
end
checked(("python3 tests/lua/profile/_check.py %s %s"):format(path "loop", path "program")) --> fine
checked(("python3 tests/lua/profile/_page.py %s %s"):format(path "loop.html", path "program.html")) --> fine
os.execute("rm -r " .. folder)
