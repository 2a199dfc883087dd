-- tessera --debug-kernel: a text with its sizes and inputs, commands from standard input, a script; and the prompt's :debug
-- and :peek.
local tessera = require "tessera"
local op = tessera.op
local program = arg[-1] or "bin/tessera"
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir " .. folder)

local function run(arguments, input)
  local file = assert(io.open(folder .. "/in", "w"))
  file:write(input or "")
  file:close()
  local p = io.popen(("{ %s %s < %s/in; } 2>&1; echo \"exit $?\""):format(program, arguments:gsub("{F}", folder), folder))
  local out = p:read "*a"
  p:close()
  return (out:gsub("%(debug%) ", ""):gsub("%s+$", ""))
end

local faults = "--debug-kernel tests/tile/faults/"
print(run(faults .. "rows.tile M=10", "continue\n")) --> block 0
--> ->   3  %n = dim {index=0} : i64[]
--> rows: nothing was found
--> exit 0
print(run(faults .. "tail.tile M=10")) --> block 0
--> ->   3  %n = dim {index=0} : i64[]
-->
--> bounds: %y: position 11 is outside of axis 0, which has 10
-->   line 10: store %y[%r, 0] = %c
-->     the block, block 2
-->   the tile of [4, 64] begins at [8, 0] of its axes
--> block 2, tile (2, 0)
--> ->  10  store %y[%r, 0] = %c
-->
--> rows: 1 finding
--> exit 1
op.arange(640):reshape { 10, 64 }:cast("f32"):contiguous()
tessera.save(folder .. "/x.npy", op.arange(640):reshape { 10, 64 }:cast "f32")
run(faults .. "rows.tile M=10 x={F}/x.npy", "b 6 tile (1)\nc\np %a\nq\n"):find("[256. 257. 258.", 1, true) ~= nil --> true
run(faults .. "rows.tile") --> tessera: --debug-kernel: the size M is not given: M=64
--> exit 1
run(faults .. "rows.tile M=10 K=4") --> tessera: --debug-kernel: the kernel has no size or input 'K'; it has M, x
--> exit 1
run(faults .. "rows.tile M=3 M=4") --> tessera: --debug-kernel: M is given twice
--> exit 1
run(faults .. "rows.tile M=a") --> tessera: --debug-kernel: the size M is a whole number, not 'a'
--> exit 1
run(faults .. "rows.tile M") --> tessera: --debug-kernel: 'M' is no size and no input: M=64, x=x.npy
--> exit 1
run "--debug-kernel" --> tessera: --debug-kernel takes file.tile or a script
--> exit 1
run("--debug-kernel {F}/none.tile"):match "No such file" --> No such file

local script = assert(io.open(folder .. "/s.lua", "w"))
script:write [[
local op = require("tessera").op
local k = op.kernel("tile @f<M>(%x: f32[M]) -> (%y: f32[M]) {\n%m = dim {index=0} : i64[]\nfor %r in 0..%m step 4 parallel {\n" ..
  "%a = load %x[%r] {edge=true} : f32[4]\nstore %y[%r] = %a\n}\n}")
print(k(op.ones(4)))
k(op.ones(6))
print "not reached"
]]
script:close()
local said = run "--debug-kernel {F}/s.lua"
said:match "^[^\n]*" --> [1. 1. 1. 1.]
said:find("position 7 is outside of axis 0, which has 6", 1, true) ~= nil --> true
said:find("not reached", 1, true) --> nil
said:match "exit %d" --> exit 1

-- Commands to the kernel of a captured function, whose own call has arguments of its own on Lua's stack.
local softmax = tessera.graph.module("softmax", function(x) return op.softmax(x) end)
softmax:debug(0, op.ones { 64, 64 }, { commands = { "where", "quit" } }).output:match "tile @softmax" --> tile @softmax

-- ---- the prompt
local lines = [[
k = op.kernel(io.open"tests/tile/faults/rows.tile":read"*a")
x = op.arange(640):reshape{10, 64}:cast"f32"
:debug k(x)
q
:peek k(x) (1, 0) 5
:peek k(x) (1) %a line 5
f = graph.module(function(x) return op.softmax(x * 2) end)
:debug f(x) 0
q
:debug f(x)
:debug f
:peek k(x)
]]
said = run("-i", lines)
select(2, said:gsub("%[%[256%. 257%.", "")) --> 2
said:find("rows: nothing was found before it was quit", 1, true) ~= nil --> true
said:find(":debug: a number or name of its kernels stands behind the call", 1, true) ~= nil --> true
said:find(":debug runs a kernel, and needs the arguments of a call", 1, true) ~= nil --> true
said:find(":peek takes a line or the name of a value", 1, true) ~= nil --> true
os.execute("rm -r " .. folder)
