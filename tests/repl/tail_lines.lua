-- The line of an operator in tail position, wherever lines are shown: shapes of programs, each of which says by a mark
-- which line is the operator's.
local tessera = require "tessera"
local op, graph, nn, jit, profile = tessera.op, tessera.graph, tessera.nn, tessera.jit, tessera.profile
local HEAD = "local tessera, op, graph, nn = ...\n"

-- Each makes f, whose one operator stands in the line with the mark.
local shapes = {
  "local function f(x)\n return op.softmax(x) --@\nend",
  "local function f(x)\n return x:softmax() --@\nend",
  "local function f(x)\n return x:softmax {\n axis = -1 } --@ +-1\nend",
  "local function f(x)\n return op.softmax( --@\n x\n )\nend",
  "local function f(x)\n return op.softmax((function() return x end)()) --@\nend",
  "local function f(...)\n return op.softmax(...) --@\nend",
  "local s = op.softmax\nlocal function f(x)\n return s(x) --@\nend",
  "local function f(x)\n local s = x.softmax\n return s(x) --@\nend",
  "local function f(x)\n if x.ndim == 2 then return op['softmax'](x) end --@\n return x\nend",
  "local function f(x)\n for i = 1, 3 do\n if i == 2 then return x:softmax() end --@\n end\nend",
  "local function f(x)\n return x + x --@\nend",
  "local function f(x)\n return -x --@\nend",
  "local function f(x)\n return (op.softmax(x)) --@\nend",
  "local function f(x)\n return x and op.softmax(x) --@\nend",
  "local function f(x)\n return op.softmax(x), 1 --@\nend",
  -- Of functions that call each other the one where the operator stands.
  "local function g(x)\n return op.softmax(x) --@\nend\nlocal function f(x)\n return g(x)\nend",
  "local function h(x) return op.softmax(x) end --@\nlocal function g(x)\n return h(x)\nend\nlocal function f(x)\n return g(x)\nend",
  "local function g(n, x)\n if n == 0 then return op.softmax(x) end --@\n return g(n - 1, x)\nend\nlocal function f(x)\n return g(50, x)\nend",
  "local T = {}\nfunction T:g(x)\n return x:softmax() --@\nend\nlocal function f(x)\n return T:g(x)\nend",
  "local T = setmetatable({}, { __call = function(_, x)\n return x:softmax() --@\nend })\nlocal function f(x)\n return T(x)\nend",
  "local T = setmetatable({}, { __add = function(_, x)\n return x:softmax() --@\nend })\nlocal function f(x)\n return T + x\nend",
  "local function g(k)\n return function(x)\n return k(x) --@\n end\nend\nlocal function f(x)\n return g(op.softmax)(x)\nend",
  -- Layers, and methods of the library's classes.
  "local l = nn.Softmax()\nlocal function f(x)\n return l(x) --@\nend",
  "local l = nn.Softmax()\nlocal function f(x)\n return l:forward(x) --@\nend",
  "local l = nn.Linear(64, 64)\nlocal function f(x)\n return l:forward(x) --@\nend",
  "local l = nn.Sequential(nn.Linear(64, 64), nn.ReLU())\nlocal function f(x)\n return l(x) --@\nend",
  "local M = nn.Module:extend 'M'\nfunction M:forward(x)\n return op.softmax(x) --@\nend\nlocal f = M()",
  "local M = nn.Module:extend 'M'\nfunction M:init() self.l = nn.ReLU() end\nfunction M:forward(x)\n return op.softmax(self.l(x)) --@\nend\nlocal f = M()",
  "local M = nn.Module:extend 'M'\nfunction M:forward(x)\n return self:inner(x)\nend\nfunction M:inner(x)\n return op.softmax(x) --@\nend\nlocal f = M()",
  "local N = nn.Linear:extend 'N'\nfunction N:forward(x)\n return nn.Linear.forward(self, x) --@\nend\nlocal f = N(64, 64)",
  "local N = nn.Softmax:extend 'N'\nfunction N:forward(x)\n return N.parent.forward(self, x) --@\nend\nlocal f = N()",
  -- Functions of the library around it.
  "local g = graph.module('n', function(x) return op.softmax(x) end) --@\nlocal function f(x)\n return g(x)\nend",
  "local f = graph.module('n', function(x) return op.softmax(x) end) --@",
  "local function f(x)\n return tessera.no_grad(function() return op.softmax(x) end) --@\nend",
  "local function f(x)\n return tessera.no_grad(op.softmax, x) --@\nend",
  "local function f(x)\n return graph.checkpoint(op.softmax)(x) --@\nend",
  -- Calls that Lua makes.
  "local function g(x)\n return pcall(op.softmax, x) --@\nend\nlocal function f(x)\n local _, y = g(x)\n return y\nend",
  "local function g(x)\n return xpcall(op.softmax, error, x) --@\nend\nlocal function f(x)\n local _, y = g(x)\n return y\nend",
  "local function f(x)\n return select(2, pcall(function()\n return x:softmax() --@\n end))\nend",
  "local function f(x)\n return unpack { op.softmax(x) } --@\nend",
  -- Coroutines.
  "local function f(x)\n return coroutine.wrap(function()\n return op.softmax(x) --@\n end)()\nend",
  "local function f(x)\n return coroutine.wrap(op.softmax)(x) --@\nend",
  "local function g(x)\n return coroutine.resume(coroutine.create(op.softmax), x) --@\nend\nlocal function f(x)\n local _, y = g(x)\n return y\nend",
  "local g = coroutine.wrap(function(x)\n local function h(x)\n return op.softmax(x) --@\n end\n while true do x = coroutine.yield(h(x)) end\nend)\nlocal function f(x)\n return g(x)\nend",
  "local function f(x)\n return coroutine.wrap(function()\n return coroutine.wrap(op.softmax)(x) --@\n end)()\nend",
  "local function f(x)\n return coroutine.wrap(function()\n return select(2, coroutine.resume(coroutine.create(op.softmax), x)) --@\n end)()\nend",
  "local function f(x)\n return coroutine.wrap(function()\n return coroutine.wrap(coroutine.wrap(op.softmax))(x) --@\n end)()\nend",
  -- Chunks of their own.
  "local function f(x)\n return load('local x = ...\\n\\n\\n\\n\\n\\nreturn x:softmax()', NAME)(x)\nend\n\n\n --@",
  "local f = loadstring('\\n\\n\\n\\nreturn (...):softmax()', NAME)\n\n\n --@",
  "local f = loadstring(string.dump(function(x)\n return op_of.softmax(x) --@\nend))",
}
op_of = op

-- The text of a shape, the lines before it left free, and its line.
local function placed(shape, before)
  local line, moved = before, 0
  for text in (shape .. "\n"):gmatch "(.-)\n" do
    line = line + 1
    local by = text:match "%-%-@ %+(%-?%d+)"
    if text:find("--@", 1, true) then moved = line + (tonumber(by) or 0) end
  end
  assert(moved > 0, shape)
  return shape, moved, line
end

-- The lines of the chunk s that a text names, each once.
local function lines_in(text)
  local seen, list = {}, {}
  for line in text:gmatch "%f[%w]s:(%d+)" do
    if not seen[line] then list[#list + 1] = line end
    seen[line] = true
  end
  table.sort(list)
  return table.concat(list, " ")
end

local wrong = {}
local function expect(what, shape, line, text, may_lack)
  local have = lines_in(text)
  if have ~= tostring(line) and not (may_lack and have == "") then
    wrong[#wrong + 1] = ("%s: %s for %d\n%s\n%s"):format(what, have, line, shape, text)
  end
end

local levels = { "places", "json", "dot", "schedule", "bytecode", "why" }
local of_kernels = { "tile", "explicit", "llvm" } -- where the group is worth one

for i, shape in ipairs(shapes) do
  local text, line = placed(shape, 1)
  local f = assert(loadstring(HEAD .. text:gsub("NAME", "'=s'") .. "\nreturn f", "=s"))(tessera, op, graph, nn)
  local x = op.ones { 60 + i, 64 }
  local g = type(f) == "table" and tessera.graph.module("g", function(x) return f(x) end) or graph.module("g", f)
  g(x)
  for _, level in ipairs(levels) do expect(level, shape, line, g:ir(level), level == "why") end
  for _, level in ipairs(of_kernels) do expect(level, shape, line, g:ir(level), true) end
  -- Profiles of the captured function; eagerly of the plain one, where the operators are those of its lines.
  local path = os.tmpname()
  local files = { html = path .. ".html", trace = path .. ".json", csv = path .. ".csv" }
  local function check(what, f, given)
    local text = profile.report(f, given)
    for _, file in pairs(files) do
      if given.html or not file:find "html" then
        local opened = assert(io.open(file))
        text = text .. opened:read "*a"
        opened:close()
        os.remove(file)
      end
    end
    expect(what, shape, line, text)
  end
  check("profile", g, { args = { x }, warm = 0, runs = 2, html = files.html, trace = files.trace, csv = files.csv })
  os.remove(path)
end
#wrong, wrong[1] --> 0, nil

-- ---- a kernel that is written in Lua, by functions
local kernel = assert(loadstring([[local op = ...
local function e(a)
  return a:exp()
end
local function m(a)
  return a:mean()
end
local function g(a, b)
  return a * b
end
local function l(x, r)
  return x:load(r)
end
local function c(t, a)
  return t:abs(a)
end
local function h(a)
  return a:f16()
end
return op.kernel("k", { x = "f32[M,N]" }, { y = "f16[M,N]" }, function(t, x, y)
  for r in t:rows(x) do
    y[r] = h(c(t, g(e(l(x, { r, 0 })), m(x[r]))))
  end
end)]], "=s"))(op)
local of = {}
for what, line in (kernel.text .. "\n"):gmatch "= (%l+) [^\n]-// s:(%d+)" do of[what] = (of[what] and of[what] .. " " or "") .. line end
of.exp, of.sum, of.mul, of.abs --> 3, 6, 9, 15
of.load, of.cast --> 12 22, 6 18

-- ---- eagerly: all of them in one program, whose loops are found and compiled
local program = arg[-1] or "bin/tessera"
local path = os.tmpname()
local TIMES = 100
local parts, at, expected = { (HEAD:gsub("%.%.%.", "require 'tessera', require('tessera').op, require('tessera').graph, require('tessera').nn")),
  "local made = {}\nop_of = op\n" }, 3, {}
for _, shape in ipairs(shapes) do
  if not shape:find("graph.module", 1, true) and not shape:find("load", 1, true) then -- whose lines are others
    local text, line, last = placed("do\n" .. shape .. "\nmade[#made + 1] = f\nend", at)
    parts[#parts + 1], at, expected[line] = text .. "\n", last, true
  end
end
parts[#parts + 1] = ("for i, f in ipairs(made) do\n local x = op.full({ 3 + i, 64 }, 2)\n for _ = 1, %d do\n local y = f(x)\n end\nend\n"):format(TIMES)
local head = at
local file = assert(io.open(path .. ".lua", "w"))
file:write(table.concat(parts))
file:close()
local p = io.popen(("%s -jv --profile-to=%s.csv --profile-to=%s.json %s.lua 2>&1"):format(program, path, path, path))
local told = p:read "*a"
p:close()
local function read(name)
  local file = assert(io.open(name))
  local text = file:read "*a"
  file:close()
  os.remove(name)
  return text
end
os.remove(path)
os.remove(path .. ".lua")
local csv, json = read(path .. ".csv"), read(path .. ".json")
local name = path:gsub("%p", "%%%0") .. "%.lua"
-- How often each line called an operator.
local calls, bad = {}, nil
for line, what, n in csv:gmatch('"program > ' .. name .. ':(%d+)",operator,"(%l+)","",(%d+),') do
  line = tonumber(line)
  if what ~= "full" and what ~= "uniform" and what ~= "ones" and what ~= "zeros" then
    calls[line] = math.max(calls[line] or 0, tonumber(n))
    if not expected[line] and line < head then bad = bad or what .. " at " .. line end
  end
end
for line in pairs(expected) do
  if (calls[line] or 0) < TIMES then bad = bad or line .. " has " .. tostring(calls[line]) end
end
bad and bad .. "\n" .. csv --> nil
-- The lines of loops, and of what runs within them; those of Lua alone may be any. What fills x is part of some.
local found = 0
expected[head + 2] = true
for first, last in told:gmatch("%[jit trace %a+ " .. name .. ":(%d+)%.?%.?(%d*):") do
  found = found + 1
  if not expected[tonumber(first)] or last ~= "" and not expected[tonumber(last)] then bad = bad or first .. ".." .. last end
end
for line in csv:gmatch('instruction,"%l+","' .. name .. ':(%d+)"') do
  if not expected[tonumber(line)] then bad = bad or "instruction at " .. line end
end
for kind, line in json:gmatch('"cat":"(%l+)"[^{}]*"args":{[^{}]*"place":"' .. name .. ':(%d+)"') do
  if kind ~= "line" and not expected[tonumber(line)] then bad = bad or "event at " .. line end
end
bad and bad .. "\n" .. told, found > 20 or told --> nil, true
expected[head + 2] = nil
local n = 0
for line in pairs(expected) do n = n + (json:find(path .. ".lua:" .. line .. '"', 1, true) and 1 or 0) end
local all = 0
for _ in pairs(expected) do all = all + 1 end
n == all --> true

-- ---- at the prompt and as input
local function output(input, options)
  local file = assert(io.open(path, "w"))
  file:write(input)
  file:close()
  local p = io.popen(("%s %s < %s 2>&1"):format(program, options, path))
  local text = p:read "*a"
  p:close()
  os.remove(path)
  return text
end
local said = output('local op, graph = require("tessera").op, require("tessera").graph\nlocal function f(x)\nreturn op.softmax(x) end\n' ..
  'local g = graph.module("g", f)\ng(op.ones{4, 4})\nprint(g:ir "places")', "-")
said:match "// ([^\n]*)" --> stdin:3
said = output('f = graph.module("f", function(x)\nreturn op.softmax(x) end)\nx = op.ones{64, 64}\nprint((f(x)))\n:why f\n:ir f places\n', "-i")
said:match "softmax at (input [%d:]*%d)", said:match "// (input [^\n]*)" --> input 1:2, input 1:2
