-- The command line, driven from outside: outputs and exit codes of real runs.
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

-- Output (both streams) of a run and its exit code; {F} stands for the folder.
local function shell(command)
  local p = io.popen("{ " .. command:gsub("{F}", folder) .. "; } 2>&1; echo \"exit $?\"")
  local out = p:read "*a"
  p:close()
  out = out:gsub(folder:gsub("%p", "%%%0"), "{F}")
  return (out:gsub("exit 0\n$", ""):gsub("\n$", ""))
end

local function run(arguments, input)
  local from = input and " < " .. write("input", input) or " < /dev/null"
  return shell(tessera .. " " .. arguments .. from)
end

-- What the constructors of the libraries touch is given back: resident are 20 MB at most, ever.
do
  local status = run [[-e 'for line in io.lines "/proc/self/status" do print(line) end']]
  local peak, now = tonumber(status:match "VmHWM:%s*(%d+)"), tonumber(status:match "VmRSS:%s*(%d+)")
  local sanitized = shell("nm -D " .. tessera .. " 2>/dev/null | grep -c __asan_init"):match "^%d+" ~= "0"
  assert(sanitized or peak * 1024 <= 20e6, "resident at most: " .. peak .. " KiB")
  assert(sanitized or now * 1024 <= 12e6, "resident: " .. now .. " KiB")
end

write("script.lua", [[
#!/usr/bin/env tessera
print(arg[0] == nil, #arg, ...)
return 1]])
write("fails.lua", [[
local tessera = require "tessera"
local x = tessera.tensor({{1, 2}, {3, 4}})
local function inner(w)
  local y = x:matmul(w)
  return y
end
local function outer() inner(tessera.tensor({{1, 2, 3}})) end
outer()
]])

-- code, scripts, standard input
run "-e 'print(1)' -e 'print(2)'" --> 1
--> 2
run "{F}/script.lua a b" --> false	2	a	b
run("", "print(arg[0] == nil, ...) return 5") --> true
run("- a b", "print(arg[0], ...)") --> -	a	b
run "-e 'print(...)' -- {F}/script.lua -x" --> 
--> false	1	-x
run "-e 'os.exit(7)'" --> exit 7
run "-e 'os.exit(true)'" -->
run "-v" --> Tessera 0.1.0 with LuaJIT 2.1.0-beta3
run("--help"):match "^[^\n]*" --> usage: tessera [options] [script.lua [arguments]]
run "-e 'print(op, tessera, nn)'" --> nil	nil	nil
run "-l tessera -e 'print(type(op.relu), type(tessera.tensor), type(nosuch))'" --> function	function	nil
run "-e 'print(jit.status())' -joff":match "^%a+" --> true
run "-joff -e 'print((jit.status()))'" --> false
run "-O0 -e 'print((require \"jit.util\" ~= nil))'" --> true
run "-jv=- -e 'for i = 1, 100 do end'" --> [TRACE   1 (command line):1 loop]
shell("LUA_INIT='x = 5' " .. tessera .. " -e 'print(x)'") --> 5
shell("LUA_INIT='x = 5' " .. tessera .. " -E -e 'print(x)'") --> nil
shell("LUA_INIT='error(1)' " .. tessera .. " -e 'print(1)'"):match "LUA_INIT:1: 1" --> LUA_INIT:1: 1
-- finalizers run at the end, as under luajit
run "-e 'getmetatable(newproxy(true)).__gc = function() print(\"closed\") end'" --> closed
run "-e 'p = newproxy(true) getmetatable(p).__gc = function() print(\"closed\") end'" --> closed

-- settings
run "--threads=1 -l tessera -e 'print(tessera.core.threads())'" --> 1
run "--threads 2 -l tessera -e 'print(tessera.core.threads())'" --> 2
run "--isa=base -l tessera -e 'print(tessera.core.isa())'" --> base
local target = "f = graph.module(function(x) return x * 2 + 1 end) f(op.ones{8}) print(f:ir([[tile]]):match [[target (%w+)]])"
run("--isa=base -l tessera -e '" .. target .. "'") --> base
run("-l tessera -e 'numerics.isa [[base]] " .. target .. "'") --> base
run "--devices=cpu:3 -l tessera -e 'local n = 0 for _, d in ipairs(tessera.core.devices()) do n = n + (d.name:find [[^cpu]] and 1 or 0) end print(n)'" --> 3
run "--no-jit -e 'print(1)'" --> 1
run "--nan-trap -l tessera -e 'op.log(tessera.tensor{0})'":match "[^\n]*" --> (command line):1: log gives infinity at [0] of its result f32[1] in the forward pass
run("-i", "? kernel\n"):match "[^\n]*" --> op.kernel(name, inputs, outputs, f, options)
run("-i", "? foreign\n"):match "[^\n]*" --> op.foreign(library, symbol, signature, options)
run("-i", "? op.cond\n"):match "[^\n]*" --> op.cond(p, f, g, ...)
run "--nan-trap -l tessera -e 'print(tessera.numerics.trap())'" --> true

-- wrong options
run "--thread=2" --> tessera: unknown option '--thread=2'
-->   hint: did you mean '--threads'?
--> exit 1
run "-q" --> tessera: unknown option '-q'
-->   hint: tessera --help lists the options
--> exit 1
run "-e" --> tessera: option '-e' needs a value
-->   hint: tessera --help lists the options
--> exit 1
run "--hash=1" --> tessera: option '--hash=1' takes no value
-->   hint: tessera --help lists the options
--> exit 1
run "--threads=many" --> tessera: --threads takes a number from 0 to 256, not 'many'
-->   hint: tessera --help lists the options
--> exit 1
run "--threads=+2 -e 'print(1)'":match "^[^\n]+" --> tessera: --threads takes a number from 0 to 256, not '+2'
run "--isa=mmx" --> tessera: --isa: this CPU has no instruction set 'mmx'
-->   hint: avx512, avx2 and base are known; the best one is the default
--> exit 1
run "--devices=gpu" --> tessera: --devices: cannot make the devices 'gpu'
-->   hint: cpu:N makes N virtual CPU devices, N <= 14
--> exit 1
run "--devices=cpu:4x":match "[^\n]+" --> tessera: --devices: cannot make the devices 'cpu:4x'
run "-jnosuch" --> tessera: -jnosuch: LuaJIT has no module 'jit.nosuch'
--> exit 1
run "{F}/nosuch.lua" --> tessera: cannot open {F}/nosuch.lua: No such file or directory
--> exit 1

-- errors: the line, a mark under the operator, the hint, the calls
(run "{F}/fails.lua":gsub("matmul: [^\n]*", "matmul: ...")) --> {F}/fails.lua:4: matmul: ...
-->     local y = x:matmul(w)
-->                 ^
--> stack traceback:
-->     {F}/fails.lua:4: in function 'inner'
-->     {F}/fails.lua:7: in function 'outer'
-->     {F}/fails.lua:8: in main chunk
--> exit 1
-- A function that was called in tail position has its own name, not that of who called it so.
write("tails.lua", [[
local function inner(x)
  error "here"
end
local M = {}
function M.go(x)
  return inner(x)
end
local go = M.go
function M:method(x) return go(x) end
local function each(f)
  local y = f(1)
  return y
end
each(function(x)
  local y = M:method(x)
  return y
end)]])
run "{F}/tails.lua" --> {F}/tails.lua:2: here
-->     error "here"
-->     ^
--> stack traceback:
-->     {F}/tails.lua:2: in function 'inner'
-->     {F}/tails.lua:15: in function 'f'
-->     {F}/tails.lua:11: in function 'each'
-->     {F}/tails.lua:14: in main chunk
--> exit 1
run "-l tessera -e 'local t = tessera.tensor local a = t({1, 2, 3}) + t({1, 2})'" --> (command line):1: add: shapes do not broadcast: f32[3] x f32[2]
-->     local t = tessera.tensor local a = t({1, 2, 3}) + t({1, 2})
-->                                                     ^
-->   hint: sizes are aligned at the right and must be equal or 1
--> exit 1
run "-l tessera -e 'tessera.tensor({1}):softmx()'" --> (command line):1: a tensor has no field or method 'softmx'
-->     tessera.tensor({1}):softmx()
-->                         ^
-->   hint: did you mean 'softmax'?
--> exit 1
run "-e 'x = op.ones{2}'" --> (command line):1: attempt to index global 'op' (a nil value)
-->     x = op.ones{2}
-->         ^
-->   hint: scripts write: local op = require("tessera").op; with -l tessera it is a global
--> exit 1
run "-l tessera -e 'tessera.jit.device_profile(3)'" --> (command line):1: jit.device_profile: a function is needed, not a number
-->     tessera.jit.device_profile(3)
-->     ^
--> exit 1
run "-e 'local a = nil; a.b = 1'" --> (command line):1: attempt to index local 'a' (a nil value)
-->     local a = nil; a.b = 1
-->                    ^
--> exit 1
run "-e 'x = = 2'" --> (command line):1: unexpected symbol near '='
-->     x = = 2
-->       ^
--> exit 1
run "-e 'error({})'" --> tessera: (error object is a table value)
--> exit 1
run "-e 'error(setmetatable({}, {__tostring = function() return \"mine\" end}))'" --> tessera: mine
--> exit 1
run("", "\n\nlocal x = nosuch()") --> stdin:3: attempt to call global 'nosuch' (a nil value)
-->     local x = nosuch()
-->               ^
--> exit 1
run("", "\nif x then") --> stdin:2: 'end' expected near '<eof>'
-->     if x then
-->     ^
--> exit 1
run "-e 'local function f() return 1 + f() end f()'":match "stack overflow" --> stack overflow
run "-e 'error(\"a\")' -e 'print(2)'" --> (command line):1: a
-->     error("a")
-->     ^
--> exit 1

-- --hash
run "--hash -l tessera -e 'return tessera.tensor({1, 2})'" --> 1 f32[2] 097a69ee2da301d8
write("hash.lua", [[
local t = require("tessera").tensor
local shared = {t(1)}
local cycle = {w = t({1, 2})}
cycle.self = cycle
return {b = cycle, a = shared, c = shared, [2] = t({true}), [10] = t(0), n = 5}]])
(run "--hash {F}/hash.lua":gsub(" %x+%f[\n%z]", "")) --> 2 bool[1]
--> 10 f32[]
--> a.1 f32[]
--> b.w f32[2]
--> c.1 f32[]
run "--hash -e 'return 1'" --> tessera: --hash: the script returned no tensor

-- the prompt without a terminal
run("-i", "1 + 1\nx = 3\nx\nx;\nlocal y = 4\ny\n'a\\n', nil\n_\n:quit 3\n") --> 2
--> 3
--> 4
--> "a\n"
--> nil
--> "a\n"
--> exit 3
-- Commands take what their usage says, and nothing else.
run("-i", ":quit abc\n:quit 256\n:quit 1.5\n:mem 3\n:devices x\n:reset all\n:time\n:threads 1e99\n:quit 4\n") --> tessera: :quit takes an exit code from 0 to 255, not 'abc'
-->   usage: :quit [code]
--> tessera: :quit takes an exit code from 0 to 255, not '256'
-->   usage: :quit [code]
--> tessera: :quit takes an exit code from 0 to 255, not '1.5'
-->   usage: :quit [code]
--> tessera: :mem takes nothing, not '3'
-->   usage: :mem
--> tessera: :devices takes nothing, not 'x'
-->   usage: :devices
--> tessera: :reset takes nothing, not 'all'
-->   usage: :reset
--> :time expression
-->     runs an expression repeatedly and tells the time of one run
--> 
-->   example  :time x:matmul(x)
--> tessera: :threads takes a whole number from 0 to 256, not '1e99'
-->   usage: :threads [n]
--> exit 4
-- Help, and the timeline of a profile, fit the terminal.
local function too_wide()
  local wide
  for _, columns in ipairs { 60, 80, 120 } do
    local function typed(text) return shell(("COLUMNS=%d %s -i < %s"):format(columns, tessera, write("input", text))) end
    for line in typed(":help\n"):gmatch "[^\n]+" do
      if #line > columns and not line:find "y = " then wide = wide or line end
    end
    local said = typed "f = graph.module('f', function(x) return op.softmax(x) end)\n:profile f(op.ones{64})\n"
    if #said:match "thread 0 [^\n]*" ~= columns then wide = wide or said end
  end
  return wide
end
too_wide() --> nil
run("-i", "for i = 1, 2 do\nprint(i)\nend\n= 5\n") --> 1
--> 2
--> 5
run("-i", "local function f(n) return n * 2 end\nf(4)\nlocal a, b\na, b\ndo local c = 1 end\nc\n") --> 8
--> nil
--> nil
--> nil
-- levels of a function for arguments that are given, and of what ran last
local levels = "f = graph.module('f', function(x) return x * 2 + 1 end)\nx = op.ones{2}\n"
run("-i", levels .. ":ir f graph\n") --> :ir:1: f has not run yet: call it, or give arguments
-->     :ir f graph
-->     ^
run("-i", levels .. ":ir f(x) tile\n"):match "tile @f" --> tile @f
run("-i", levels .. ":ir f(x)\n:ir f schedule\n"):match "graph @f.*schedule @f" ~= nil --> true
run("-i", levels .. ":ir f(x) tiel\n"):match "there is no level 'tiel'" --> there is no level 'tiel'
run("-i", "{1, 2, {3, {4, {5}}}}\n{a = 1, ['b c'] = print}\n{}\n") --> {1, 2, {3, {...}}}
--> {a = 1, ["b c"] = function}
--> {}
run("-i", "tessera.tensor({1, 2})\n{tessera.tensor({1, 2})}\n_[1] + 1\n") --> [1. 2.]
--> f32[2]
--> {f32[2]}
--> [2. 3.]
--> f32[2]
run("-i", "nosuch()\nx = {}\nx.y.z\nif\n") --> input 1:1: attempt to call global 'nosuch' (a nil value)
-->     nosuch()
-->     ^
--> input 3:1: attempt to index field 'y' (a nil value)
-->     x.y.z
-->       ^
--> input 4:1: unexpected symbol near '<eof>'
-->     if
-->     ^
-- An input is read as values and as statements: the message is that of the reading that got furthest, and
-- what one of them could go on with goes on.
run("-i", "1 + * 2\n") --> input 1:1: unexpected symbol near '*'
-->     1 + * 2
-->         ^
run("-i", "x = = 3\n") --> input 1:1: unexpected symbol near '='
-->     x = = 3
-->       ^
run("-i", "x = 1 + * 3\n") --> input 1:1: unexpected symbol near '*'
-->     x = 1 + * 3
-->             ^
run("-i", "{1, 2, = 3}\n") --> input 1:1: unexpected symbol near '='
-->     {1, 2, = 3}
-->            ^
run("-i", "x y\n") --> input 1:1: '=' expected near 'y'
-->     x y
-->       ^
run("-i", "#'abc' 3\n#'abc'\n") --> input 1:1: '<eof>' expected near '3'
-->     #'abc' 3
-->            ^
--> 3
run("-i", "1 +\n2\n") --> 3
run("-i", "x = 1 +\n)\n") --> input 1:2: unexpected symbol near ')'
-->     )
-->     ^
run("-i", "op.ones{2} < 1\n") --> input 1:1: attempt to compare userdata with number
-->     op.ones{2} < 1
-->     ^
-->   hint: tensors are compared by x:lt(y), x:le(y), x:gt(y), x:ge(y)
run("-i", "function f(x)\n  x:foo()\nend\ny = f(1)\n") --> input 1:2: attempt to index local 'x' (a number value)
-->     x:foo()
-->     ^
--> stack traceback:
-->     input 1:2: in function 'f'
-->     input 2:1: in main chunk
run("-i", "\"open\n1\n") --> input 1:1: unfinished string near '<eof>'
-->     "open
-->     ^
--> 1
run("-i", ":thread\n:threads 1\n:threads x\n? :time\n") --> tessera: there is no command ':thread'; did you mean ':threads'?
--> 1 thread
--> tessera: :threads takes a whole number from 0 to 256, not 'x'
-->   usage: :threads [n]
--> :time expression
-->     runs an expression repeatedly and tells the time of one run
--> 
-->   example  :time x:matmul(x)
run("-i", "-- a comment\n? -- nothing\n"):match "no help on" --> no help on
run("-i -e 'x = 5'", "x\n") --> 5
run("-i", "x = {}\nx.y = 2\n:reset\nx\n") --> nil
write("loaded.lua", "function loaded() return 'yes' end")
run("-i", ":load " .. folder .. "/loaded.lua\nloaded()\n") --> "yes"

-- Ctrl-C: a stopped script says so and gives 130, also from a compiled loop
local function interrupt(script, status)
  write("loop.lua", "io.stderr:write 'GO\\n' " .. script)
  return shell("sh tests/stop.sh 0.3 " .. tessera .. " {F}/loop.lua; test $? = " .. (status or 130) .. " || echo wrong")
end
interrupt("local t = {} while true do t[1] = tostring(t) end"):match "interrupted" --> interrupted
interrupt("while true do end") --> {F}/loop.lua:1: interrupted
interrupt("print(pcall(function() while true do tostring(1) end end))", 0):match "false.*interrupted$" ~= nil --> true
-- and in a captured recursion, of 2^60 calls
local calls = [[local t = require "tessera"
local op = t.op
local function two(self, m)
  return op.cond(m:le(0), function(k) return k end, function(k) return self(k - 1) + self(k - 1) end, m)
end
t.graph.module(op.recursive(two))(t.tensor(60, { dtype = "i64" }))]]
interrupt(calls):match "interrupted" --> interrupted

-- ---- values, variables, JSON
run("-i", "20 + 1\nOut[1] * 2\n_1 + _2\n_2\nOut[9]\n") --> 21
--> 42
--> 63
--> 42
--> nil
run("-i", "x = tessera.op.ones({2, 3}, {dtype = 'f64'})\nm = nn.Linear(3, 4)\ns = 'abc'\nwho()\n:reset\n:who\n") --> name  type    shape  bytes  device
--> m     Linear            64  cpu:0
--> s     string             3
--> x     f64     [2,3]     48  cpu:0
--> no variables
run("-i", "s = 'a\"b\\n\\xc3\\xa9\\xff'\nx = op.zeros{2}\n:who --json\n:device --json\n:threads 2 --json\n:hints off --json\n") --> [{"bytes":7,"name":"s","type":"string"},{"bytes":8,"device":"cpu:0","name":"x","shape":[2],"type":"f32"}]
--> {"device":"auto"}
--> {"threads":2}
--> {"hints":"off"}
-- Another reader of JSON has the same values.
do
  local io_ = require "tessera.io"
  local path = os.tmpname()
  local function read(line)
    local f = assert(io.open(path, "w"))
    f:write((run("-i", line .. "\n"):match "[^\n]*$"))
    f:close()
    return io_.load_json(path)
  end
  local m = read "x = op.ones{64} y = x * 2 collectgarbage() print()\n:mem --json"
  assert(m.tensors_bytes == 512 and m.lua_bytes > 1000)
  assert(read(":devices --json")[1].name == "cpu:0")
  local t = read ":time 1 + 1 --json"
  assert(t.median_ns > 0 and t.runs >= 1 and t.first_ns > 0)
  local e = read "x = op.ones{2, 3}\nx:matmul(x)\n:err --json"
  assert(e.message:find "inner sizes differ" and e.hint:find "transposed" and e.calls[1]:find "input 2")
  os.remove(path)
end
run("-i", "!exit 3\n!true\n!kill -9 $$\n") --> exit status 3
--> ended by signal 9
run("-i", "!\n"):match "^[^\n]*" --> :shell command
run("-i", "f = graph.module('f', op.softmax) f(op.ones{2, 3});\n:tiles f --json\n"):match '"kind":"rows","space":%[2,3%],"tile":%[3%],' ~= nil --> true
-- Hot loops of a plain function.
local plain = run("-i", "g = function(x) local y = x for i = 1, 3000 do y = (y * 1.01 + x):tanh() end return y end\ng(op.ones{64});\n:why g\n:ir g graph\n")
plain:match "^// a plain function: its operators run one by one, but for one hot loop" ~= nil --> true
plain:match "\n// loop %d+, at input 1:1: %d+ calls" ~= nil --> true
plain:match "\ngraph @trace" ~= nil --> true

os.execute("rm -r " .. folder)
