-- Errors behind `return f(...)` name the line of the call (repl/tail_code.c), and nothing else of what a
-- program does changes.
local tessera = require "tessera"
local op, graph, nn = tessera.op, tessera.graph, tessera.nn
local x, w = op.ones { 2, 3 }, op.ones { 4, 5 }
local name, plain = debug.getupvalue(loadstring, 1) -- which changes nothing

local function line(text, ...)
  local f = assert(loadstring("local op, x, w, graph, nn, tessera = ...\n" .. text, "=t"))
  local ok, why = pcall(f, op, x, w, graph, nn, tessera)
  return ok or tostring(why):match "^(t:%d+: [%w_]+)" or why
end
line "local function f()\n return op.matmul(x, w)\n end\n f()" --> t:3: matmul
line "local function f()\n return x:matmul(w)\n end\n f()" --> t:3: matmul
line "local function f(...)\n return op.matmul(...)\n end\n f(x, w)" --> t:3: matmul
line "local function f()\n return op.matmul(x, op.neg(w))\n end\n f()" --> t:3: matmul
line "local function f()\n return x:matmul(w:neg())\n end\n f()" --> t:3: matmul
line "local function f()\n local m = op.matmul\n return m(x, w)\n end\n f()" --> t:4: matmul
line "local m = op.matmul\n local function f()\n return m(x, w)\n end\n f()" --> t:4: matmul
line "local function f(a)\n return (a and op.matmul or op.add)(x, w:neg())\n end\n f(true)" --> t:3: matmul
line "local function f()\n return op.matmul(\n x,\n w)\n end\n f()" --> t:3: matmul
line "local function f()\n return x:add_(w)\n end\n f()" --> t:3: add
line "local function f()\n local u = x\n local function g() return u end\n return op.matmul(g(), w)\n end\n f()" --> t:5: matmul
line "local function f()\n local u = x\n local function g() return u end\n return op.matmul(w, g())\n end\n f()" --> t:5: matmul
line "local function f()\n for i = 1, 3 do\n if i == 2 then return op.matmul(x, w) end\n end\n end\n f()" --> t:4: matmul
line "return op.matmul(x, w)" --> t:2: matmul
line "return op.matmul(x, op.neg(w))" --> t:2: matmul
line "local function g()\n return op.matmul(x, w)\n end\n local function f()\n return g()\n end\n f()" --> t:3: matmul
line "local function f()\n return op.cond(x, x, w)\n end\n f()" --> t:3: op
line "local l = nn.Linear(7, 2)\n local function f()\n return l(x)\n end\n f()" --> t:4: linear
line "local l = graph.module('l', function(a)\n return op.matmul(a, w)\n end)\n local function f()\n return l(x)\n end\n f()" --> t:3: matmul
line "local l = graph.module('l', function(a)\n return a\n end)\n local function f()\n return l(x, print)\n end\n return f()" --> true
line "local function f()\n return tessera.load 'nowhere.npy'\n end\n f()" --> t:3: cannot
line "local function f()\n return error 'boo'\n end\n f()" --> t:3: boo
line "local function f()\n return error('boo', 2)\n end\n local function g()\n f()\n end\n g()" --> t:6: boo
line "local function f()\n return math.floor(x)\n end\n f()" --> t:3: bad
line "local function f()\n return ('a'):rep(x)\n end\n f()" --> t:3: bad
line "local function f()\n return op.nothing(x)\n end\n f()" --> t:3: there
line "local l = nn.Linear(7, 2)\n local function f()\n return l:forward(x)\n end\n f()" --> t:4: linear
line "local N = nn.Linear:extend 'N'\n function N:forward(x)\n return nn.Linear.forward(self, x)\n end\n N(7, 2)(x)" --> t:4: linear
line "local o = tessera.optim.SGD(nn.Linear(2, 2):parameters(), 1)\n local function f()\n return o:load_state_dict(5)\n end\n f()" --> t:4: SGD
line "local function f()\n return coroutine.resume(5)\n end\n f()" --> t:3: bad
line "local function g()\n return pcall(op.matmul, x, w)\n end\n local _, why = g()\n error(why, 0)" --> t:3: matmul
line "local function g()\n return coroutine.resume(coroutine.create(op.matmul), x, w)\n end\n local _, why = g()\n error(why, 0)" --> t:3: matmul
line "local function f()\n return nothing(x)\n end\n f()" --> t:3: attempt
line "return coroutine.wrap(function()\n return op.matmul(x, w)\n end)()" --> t:3: matmul
-- A coroutine that is an operator has no line of its own: that of who runs it.
line "return coroutine.wrap(op.matmul)(x, w)" --> t:2: matmul
line "local function f()\n return coroutine.wrap(op.matmul)(x, w)\n end\n f()" --> t:3: matmul
line "local y = coroutine.wrap(op.matmul)(x, w)" --> t:2: matmul
line "local ok, why = pcall(coroutine.wrap(op.matmul), x, w)\n error(why, 0)" --> t:2: matmul
line "local c = coroutine.create(op.matmul)\n local ok, why = coroutine.resume(c, x, w)\n error(why, 0)" --> t:3: matmul
line "local c = coroutine.create(x.matmul)\n error(select(2, coroutine.resume(c, x, w)), 0)" --> t:3: matmul
line "return coroutine.wrap(coroutine.wrap(op.matmul))(x, w)" --> t:2: matmul
line "return coroutine.wrap(function()\n local y = coroutine.wrap(op.matmul)(x, w)\n end)()" --> t:3: matmul
line "return coroutine.wrap(function()\n local ok, why = coroutine.resume(coroutine.create(op.matmul), x, w)\n error(why, 0)\n end)()" --> t:3: matmul
local co = coroutine.wrap(3) --! bad argument #1 to 'wrap' (function expected, got number)
line "local ok, why = pcall(function()\n return op.matmul(x, w)\n end)\n error(why, 0)" --> t:3: matmul
line "local ok, why = xpcall(function()\n return op.matmul(x, w)\n end, function(e) return e end)\n error(why, 0)" --> t:3: matmul
line "local f = loadstring('\\nlocal a, b = ... return a:matmul(b)', '=t')\n f(x, w)" --> t:2: matmul

-- What has a tail call is changed, whatever stands between `return` and the call, and nothing else: LuaJIT's own listing says
-- what has one.
local list_code = require "jit.bc".dump
local function mismatch(text)
  local has, changed, n = false, false, 1
  list_code(assert(plain(text)), { write = function(_, part) has = has or part:find "CALLM?T" ~= nil end, flush = function() end }, true)
  local f = loadstring(text)
  while debug.getupvalue(f, n) do
    changed = changed or debug.getupvalue(f, n) == "(tail)"
    n = n + 1
  end
  return has ~= changed and text
end
local ends = { "", " ", "\n", " --\n", " --[[ ( ]] ", "--[==[\n]==]" }
local wrong
for _, between in ipairs(ends) do
  for _, value in ipairs { "f@(x)", "f@'x'", 'f@"x"', "f@{x}", "f@[[x]]", "f@[=[x]=]", "f@[1]@(x)", "f@.@g@(x)", "f@.g@:@h@(x)", "(@f@)@(x)", "f(x)@(x)",
    "f(@x) + 1", "f(x)@.@y", "(@f(x))", "f", "f@.@g", "f@, f(x)", "f(x)@, f", "f@..@g(x)", "not@ f(x)", "-@ f(x)", "#@f(x)", "{@f(x)}", "'x'", "[[x]]", "1", "1.5", ".5",
    "0x1p3", "nil", "true", "false", "...", "function@() end", "function() return@ f(x) end", "nilly@(x)", "truest.x(x)", "a and@ f(x)", "f@ == f(x)", "'return f(x)'",
    "f@ --return f(x)", "_@(x)", "\195\164@(x)", "", "f@;" } do
    for _, before in ipairs { "%s", "do %s end", "local function h(f, x) %s end", "local s = 'return f(x)' %s", "local returned = f %s", "if x then %s else return end" } do
      local text = before:format("return@ " .. value .. "@\n"):gsub("@", (between:gsub("%%", "%%%%")))
      if plain(text) then wrong = wrong or mismatch(text) end
    end
  end
end
wrong or nil --> nil
for path in io.popen "ls lib/lua/*.lua examples/*.lua scripts/*.lua":lines() do
  local file = io.open(path)
  if mismatch(file:read "*a") then wrong = wrong or path end
  file:close()
end
wrong or nil --> nil

-- Names in messages.
local function said(text)
  return (select(2, pcall(assert(loadstring(text, "=t")))))
end
said "local function f() return foo.bar(1) end f()" --> t:1: attempt to index global 'foo' (a nil value)
said "local t = {} local function f() return t.bar(1) end f()" --> t:1: attempt to call field 'bar' (a nil value)

said "local t = {} local function f() return t:bar(tostring(1)) end f()" --> t:1: attempt to call method 'bar' (a nil value)
said "local t local function f() return t(1) end f()" --> t:1: attempt to call upvalue 't' (a nil value)
said "local function f() local t return t(1) end f()" --> t:1: attempt to call local 't' (a nil value)
said "local function f() return math.floor({}) end f()" --> t:1: bad argument #1 to 'floor' (number expected, got table)
said "local function f() return ('x'):rep({}, tostring(1)) end f()" --> t:1: bad argument #1 to 'rep' (number expected, got table)
said "local function f() return string.rep({}, tostring(1)) end f()" --> t:1: bad argument #1 to 'rep' (string expected, got table)
loadstring(nil) --! bad argument #1 to 'loadstring' (function expected, got nil)

-- Loops by tail calls run in constant stack, whoever is called.
local function loop(n, acc) if n == 0 then return acc end return loop(n - 1, acc + 1) end
loop(1e6, 0) --> 1000000
local list = {}
function list:sum(n) if n == 0 then return 0 end return self:sum(n - 1) end -- an operator's name
list:sum(1e6) --> 0
local callable = setmetatable({}, { __call = function(self, n) if n == 0 then return "end" end return self(n - 1) end })
callable(1e6) --> end
local function spread(n, ...) if n == 0 then return ... end return spread(n - 1, select(1, ...)) end
spread(1e6, 1, 2, 3) --> 1, 2, 3
local machine = coroutine.wrap(function() local function go(n) coroutine.yield(n) return go(n + 1) end return go(1) end)
for _ = 1, 1e5 do machine() end
machine() --> 100001

-- A dump that is loaded again, by what changes it and by what does not.
local f = loadstring "local a = ... local function g(n) return math.max(n, a) end return g(3), g"
(loadstring(string.dump(f))(7)) --> 7
(plain(string.dump(f))(7)) --> 7
debug.getinfo(loadstring("\n\nreturn f()"), "L").activelines[3] --> true

-- Programs made at random do the same, compiled and not.
local state = 7
local function random(n)
  state = (state * 16807) % 2147483647
  return state % n + 1
end
local function pick(list) return list[random(#list)] end
local expression
local function arguments(depth)
  local n, list = random(4) - 1, {}
  for i = 1, n do list[i] = expression(depth - 1) end
  if random(4) == 1 then list[#list + 1] = "..." end
  return table.concat(list, ", ")
end
local function call(depth)
  local callee = pick { "f1", "f2", "f3", "math.max", "select", "t:m", "t.n", "t.u.g", "(a and f1 or f2)", "id", "tostring", "c", "make(b)" }
  local args = arguments(depth)
  if callee == "math.max" or callee == "select" or callee == "tostring" then args = "1" .. (args == "" and "" or ", " .. args) end
  return callee .. "(" .. args .. ")"
end
function expression(depth)
  if depth <= 0 then return pick { "a", "b", "n", "1", "2.5", "nil", "true", "'s'", "#t" } end
  return pick {
    function() return call(depth) end,
    function() return "(" .. call(depth) .. ")" end,
    function() return expression(depth - 1) .. " and " .. expression(depth - 1) end,
    function() return "(" .. expression(depth - 1) .. " or " .. expression(depth - 1) .. ")" end,
    function() return "(" .. expression(depth - 1) .. ") == (" .. expression(depth - 1) .. ")" end,
    function() return "function(...) return " .. call(depth - 1) .. " end" end,
    function() return "{" .. expression(depth - 1) .. "}" end,
    function() return expression(0) end,
  }()
end
local function body(depth)
  local parts = {}
  for _ = 1, random(3) do
    parts[#parts + 1] = pick {
      function() return "local v" .. random(3) .. " = " .. expression(2) end,
      function() return "if " .. expression(1) .. " then return " .. call(2) .. " end" end,
      function() return "for i = 1, 2 do local q = i local h = function() return q end if " .. expression(1) .. " then return " .. call(2) .. " end end" end,
      function() return "while n > 0 do n = n - 1 if " .. expression(1) .. " then return " .. call(2) .. " end end" end,
      function() return "do local a = b goto on" .. #parts .. " end ::on" .. #parts .. "::" end,
      function() return "b = " .. expression(1) end,
    }()
  end
  return table.concat(parts, "\n") .. "\nreturn " .. call(depth)
end
local function program()
  local out = { [[
    local budget, n, a, b = 60, 3, ...
    local function id(...) return ... end
    local function step() budget = budget - 1 if budget < 0 then error("enough", 0) end end
    local f1, f2, f3, c
    local t = { u = {} }
    local function make(v) return function(...) step() return v, ... end end
    c = setmetatable({}, { __call = function(_, ...) step() return ... end })]] }
  for _, name in ipairs { "function f1(a, b, ...)", "function f2(...) local a, b = ...", "function f3(b)  local a = b local function g() return a end",
    "function t:m(a, b, ...)", "function t.n(a, ...) local b", "function t.u.g(...) local b = 1" } do
    out[#out + 1] = name .. " step()\n" .. (name:find "%.%.%." and body(2) or body(2):gsub("%.%.%.", "a")) .. "\nend"
  end
  out[#out + 1] = body(3)
  return table.concat(out, "\n")
end
local function outcome(load, text)
  local f, why = load(text, "=p")
  if not f then return "does not load: " .. why end
  local r = { pcall(f, 1, "x") }
  for i = 1, table.maxn(r) do
    local kind = type(r[i])
    r[i] = (kind == "table" or kind == "function") and kind or tostring(r[i])
  end
  return (table.concat(r, " | "):gsub("0x%x+", "P"))
end
-- Only the line of an error may differ, and what names its callee.
local function told(text)
  return (text:gsub("p:%d+: ", ""):gsub("bad argument #%d to '[^']*'", "bad argument"):gsub("local '[^']*' ", ""):gsub("%a+ '[^']*' %(a", "(a"):gsub("calling '[^']*'", "calling"))
end
local luajit = require "jit"
luajit.opt.start("hotloop=2", "hotexit=1")
local loaded, wrong = 0, {}
for _ = 1, 3000 do
  local text = program()
  local want = outcome(plain, text)
  if not want:find "^does not load" then loaded = loaded + 1 end
  for _, mode in ipairs { "off", "on", "on" } do
    luajit[mode]()
    local have = outcome(loadstring, text)
    if told(have) ~= told(want) then wrong[#wrong + 1] = text .. "\nwant " .. want .. "\nhave " .. have break end
  end
end
loaded > 2000 --> true
#wrong, wrong[1] --> 0, nil
