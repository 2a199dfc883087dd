-- Programs made at random, of functions that call operators and each other in tail position and elsewhere: each operator has its
-- line in the graph, in the bytecode, in a profile of the program and in the loops that are found, run as it stands or compiled.
local tessera = require "tessera"
local op, graph, nn = tessera.op, tessera.graph, tessera.nn
local program = arg[-1] or "bin/tessera"

local state = 11
local function random(n)
  state = (state * 16807) % 2147483647
  return state % n + 1
end
local function pick(list) return list[random(#list)] end

-- Operators that no rewriting takes away, beside each other.
local NAMES = { "sin", "cos", "tanh", "sigmoid", "erf", "atan" }

-- A text that grows by lines, and what happens in it.
local Source = {}
Source.__index = Source
function Source:line(text, ...)
  self.n = self.n + 1
  self[self.n] = text:format(...)
  return self.n
end

-- A call of operators on e, at one line or more: its text and its steps, {name, line}, in the order in which they run. `at` is
-- the line where the text begins.
local last = 0
local function operator()
  last = last % #NAMES + random(#NAMES - 1) -- another one than before
  last = (last - 1) % #NAMES + 1
  return NAMES[last]
end
local function call(e, at, depth)
  local name, steps, inner = operator(), {}, e
  local breaks = random(4) == 1
  local from = breaks and at + 1 or at
  if depth > 0 and random(2) == 1 then
    inner, steps, from = call(e, from, depth - 1)
  end
  local form = random(breaks and 2 or 6)
  steps[#steps + 1] = { name, at }
  if breaks then return (form == 1 and "op.%s(\n%s\n)" or "s_%s(\n%s\n)"):format(name, inner), steps, from + 1 end
  if from > at then form = random(2) end -- its lines come behind
  local text = ({ "op.%s(%s)", "s_%s(%s)", "(%2$s):%1$s()", "op['%s'](%s)", "(%2$s):%1$s()", "(%2$s):%1$s()" })[form]
  return text:find "%$" and ("(%s):%s()"):format(inner, name) or text:format(name, inner), steps, from
end

-- Those that are layers of the library as well.
local LAYERS = { tanh = "Tanh", sigmoid = "Sigmoid" }

-- A call in tail position: what stands behind `return`.
local function tail_call(at, ways)
  local text, steps, to = call("x", at, 1)
  if to == at and #steps == 1 and random(3) == 1 then
    local name = steps[1][1]
    local one = pick(ways)
    if not one:find "^layers" or LAYERS[name] then return one:format(name), steps, to end
  end
  return text, steps, to
end
local WAYS = { "select(2, pcall(op.%s, x))", "coroutine.wrap(op.%s)(x)", "coroutine.wrap(function(x) return x:%s() end)(x)", "apply(op.%s, x)", "(x and op.%s or nil)(x)",
  "select(2, coroutine.resume(coroutine.create(op.%s), x))", "layers.%s:forward(x)", "layers.%s(x)", "tessera.no_grad(op.%s, x)", "unpack { op.%s(x) }" }

-- Text over several lines.
local function put(source, text)
  for line in (text .. "\n"):gmatch "(.-)\n" do source:line("%s", line) end
end

local function body(source, made)
  local steps = {}
  local function add(more) for _, step in ipairs(more) do steps[#steps + 1] = step end end
  local function other() return made[random(#made)] end
  for _ = 1, random(3) - 1 do
    local way = random(#made > 0 and 4 or 2)
    if way == 1 then
      local text, more = call("x", source.n + 1, 2)
      put(source, "x = " .. text)
      add(more)
    elseif way == 2 then
      local text, more = tail_call(source.n + 2, { "op.%s(x)", "x:%s()" })
      source:line "local function inner(x)"
      put(source, "return " .. text)
      source:line "end"
      source:line "x = inner(x)"
      add(more)
    elseif way == 3 then
      local f = other()
      source:line("x = %s(x)", f.name)
      add(f.steps)
    else
      local f = other()
      source:line("for _ = 1, 2 do x = %s(x) end", f.name)
      add(f.steps)
      add(f.steps)
    end
  end
  local way = random(#made > 0 and 4 or 2)
  if way <= 2 then
    local open = way == 2
    if open then source:line "if x then" end
    local text, more = tail_call(source.n + 1, WAYS)
    put(source, "return " .. text)
    if open then source:line "end" end
    add(more)
  elseif way == 3 then
    local f = other()
    source:line("return %s(x)", f.name)
    add(f.steps)
  else -- behind a call
    local f = other()
    local text, more = call(f.name .. "(x)", source.n + 1, 0)
    add(f.steps)
    for _, step in ipairs(more) do add { step } end
    put(source, "return " .. text)
  end
  return steps
end

local HEAD = { "local tessera = require 'tessera'", "local op, graph, nn = tessera.op, tessera.graph, tessera.nn",
  "local s_sin, s_cos, s_tanh, s_sigmoid, s_erf, s_atan = op.sin, op.cos, op.tanh, op.sigmoid, op.erf, op.atan",
  "local T, layers = {}, { tanh = nn.Tanh(), sigmoid = nn.Sigmoid() }",
  "local function apply(f, ...) return f(...) end" }

-- Functions of one program, the last of which is run.
local function generate(captured)
  local source = setmetatable({ n = 0 }, Source)
  for _, text in ipairs(HEAD) do source:line("%s", text) end
  local made = {}
  for i = 1, 2 + random(3) do
    local kind = random(captured and 6 or 5)
    local name = "f" .. i
    if kind == 1 then
      source:line("function T.%s(x)", name)
      name = "T." .. name
    elseif kind == 2 then
      source:line("function T:%s(x)", name)
      name = "T:" .. name
    elseif kind == 3 then
      source:line("local C%d = nn.Module:extend 'C%d'", i, i)
      source:line("function C%d:forward(x)", i)
    elseif kind == 4 then
      source:line("local %s = load(%q, %q)(function(x)", name, "local f = ... return function(...) return f(...) end", "=outside")
    elseif kind == 5 then
      source:line("local function %s(x)", name)
    else
      source:line("local %s = graph.module('m', function(x)", name)
    end
    local steps = body(source, made)
    source:line((kind == 4 or kind == 6) and "end)" or "end")
    if kind == 3 then source:line("local %s = C%d()", name, i) end
    made[i] = { name = name, steps = steps }
    if #steps > 60 then break end
  end
  return source, made[#made]
end

-- "apply" calls in its own line, of which the operator's is kept.
local APPLY = #HEAD
local function expected(steps, text_lines)
  local list = {}
  for i, step in ipairs(steps) do
    local line = text_lines[step[2]]
    list[i] = ("%s:%d"):format(step[1], line:find("apply(op." .. step[1], 1, true) and APPLY or step[2])
  end
  return list
end
local function listed(text, pattern)
  local list = {}
  for name, line in text:gmatch(pattern) do
    if name ~= "param" then list[#list + 1] = name .. ":" .. line end
  end
  return table.concat(list, " ")
end

local wrong = {}
local luajit = require "jit"
luajit.opt.start("hotloop=2", "hotexit=1")
for i = 1, 400 do
  luajit[i % 2 == 0 and "on" or "off"]()
  local source, main = generate(true)
  local text = table.concat(source, "\n") .. ("\nreturn function(x) return %s(x) end"):format(main.name)
  local f = assert(loadstring(text, "=s"))()
  local g = graph.module("g", f)
  g(op.ones { 2, 4 + i })
  local want = table.concat(expected(main.steps, source), " ")
  for level, pattern in pairs { places = "= (%l+) %%[^\n]-// s:(%d+)", bytecode = "= (%l+) r%d+[^\n]-// s:(%d+)" } do
    local have = listed(g:ir(level), pattern)
    if have ~= want then wrong[#wrong + 1] = ("%s\nwant %s\nhave %s\n%s"):format(level, want, have, text) end
  end
end
#wrong, wrong[1] --> 0, nil

-- ---- a program of many, eagerly: each in a loop that is found, recorded and compiled
local TIMES, PROGRAMS = 60, 12
local path = os.tmpname()
os.remove(path)
for round = 1, 3 do
  local parts, at, steps_of = {}, 0, {}
  for i = 1, PROGRAMS do
    local source, main = generate(false)
    local steps = {}
    for k, name in ipairs(expected(main.steps, source)) do
      local what, line = name:match "(.*):(.*)"
      steps[k] = what .. ":" .. line + at + 1
    end
    steps_of[i] = steps
    parts[i] = ("do\n%s\nlocal x = op.full({ 2, %d }, 0.5)\nfor _ = 1, %d do\nlocal y = %s(x)\nend\nend\n"):format(table.concat(source, "\n"), 9 + i, TIMES,
      main.name)
    at = at + source.n + 6
  end
  local file = assert(io.open(path .. ".lua", "w"))
  file:write("local op = require('tessera').op ", table.concat(parts))
  file:close()
  local p = io.popen(("%s %s -jv --profile-to=%s.csv %s.lua 2>&1"):format(program, round == 2 and "-joff" or "-O3 -Ohotloop=3", path, path))
  local told = p:read "*a"
  p:close()
  file = assert(io.open(path .. ".csv"))
  local csv = file:read "*a"
  file:close()
  -- How often each operator is called at each line, and which there are. Calls that compiled code puts off itself are not counted.
  local want, known = {}, {}
  for _, steps in ipairs(steps_of) do
    for _, step in ipairs(steps) do
      want[step], known[step:match "%d+"] = (want[step] or 0) + TIMES, true
    end
  end
  local have = {}
  for line, what, calls in csv:gmatch '"program > [^"]-%.lua:(%d+)",operator,"(%l+)","",(%d+),' do
    if what ~= "full" then have[what .. ":" .. line] = tonumber(calls) end
  end
  local bad
  for step, n in pairs(want) do
    local all = have[step] or 0
    if all == 0 or all > n or all < n and round == 2 then bad = bad or ("%s: %s for %d"):format(step, tostring(have[step]), n) end
  end
  for step in pairs(have) do
    if not want[step] then bad = bad or step .. " is none" end
  end
  for what, line in csv:gmatch 'instruction,"(%l+)","[^"]-%.lua:(%d+)"' do
    if what ~= "full" and not want[what .. ":" .. line] then bad = bad or "instruction " .. what .. ":" .. line end
  end
  local found = 0
  for from, to in told:gmatch "%[jit trace %a+ [^\n]-%.lua:(%d+)%.?%.?(%d*):" do
    found = found + 1
    if not known[from] or to ~= "" and not known[to] then bad = bad or "trace " .. from .. ".." .. to end
  end
  if found < PROGRAMS / 2 then bad = bad or "loops: " .. found end
  if bad then wrong[#wrong + 1] = bad .. "\n" .. told .. csv .. table.concat(parts) end
  os.remove(path .. ".lua")
  os.remove(path .. ".csv")
end
#wrong, wrong[1] --> 0, nil
