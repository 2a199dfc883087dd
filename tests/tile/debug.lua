-- The debugger's commands and values: breaks, steps, what is printed, of kernels of the program and of captured functions.
-- Values are those that operators give.
local tessera = require "tessera"
local core, op, rng, graph, debug = tessera.core, tessera.op, tessera.rng, tessera.graph, tessera.debug
tessera.jit.later(false)

local norm = op.kernel([[
tile @norm<M,N>(%x: f32[M,N]) -> (%y: f32[M,N]) {
  %m = dim {index=0} : i64[]
  for %r in 0..%m parallel {
    %a = load %x[%r, 0] : f32[N]     // norm.lua:7
    %top = max %a {axis=0} : f32[]
    %all = broadcast %top : f32[N]
    %b = sub %a, %all : f32[N]
    %c = exp %b : f32[N]
    store %y[%r, 0] = %c
  }
}
]])
local x = op.arange(12):reshape { 3, 4 }:cast "f32"
local want = op.exp(x - op.max(x, { axis = 1, keepdims = true }))
local report = norm:debug(x)
print(report) --> norm: nothing was found
report.clean --> true
report.results[1]:hash() == want:hash() --> true

-- ---- commands
local function said(...) return (norm:debug(x, { commands = { ... } }).output:gsub("%s+$", "")) end
print(said("break 7 tile (1)", "continue", "print %top", "p a", "where", "quit")) --> block 0
--> ->   2  %m = dim {index=0} : i64[]
--> (debug) break 7 tile (1)
--> 1: line 7 tile (1)
--> (debug) continue
--> block 1, tile (1, 0)
--> ->   7  %b = sub %a, %all : f32[N]
--> (debug) print %top
--> 7. f32[]
--> (debug) p a
--> [4. 5. 6. 7.]
--> f32[4]
--> (debug) where
--> block 1, tile (1, 0)
-->      3    for %r in 0..%m parallel {
-->      4      %a = load %x[%r, 0] : f32[N]
-->      5      %top = max %a {axis=0} : f32[]
-->      6      %all = broadcast %top : f32[N]
--> ->   7      %b = sub %a, %all : f32[N]
-->      8      %c = exp %b : f32[N]
-->      9      store %y[%r, 0] = %c
-->     10    }
-->     11  }
-->   in line 3: for %r in 0..%m parallel {
--> (debug) quit
print((said("step", "s", "", "tile", "out", "c"):gsub(" +\n", "\n"))) --> block 0
--> ->   2  %m = dim {index=0} : i64[]
--> (debug) step
--> block 0
--> ->   3  for %r in 0..%m parallel {
--> (debug) s
--> block 0, tile (0, 0)
--> ->   4  %a = load %x[%r, 0] : f32[N]  // norm.lua:7
--> (debug)
--> block 0, tile (0, 0)
--> ->   5  %top = max %a {axis=0} : f32[]
--> (debug) tile
--> block 1, tile (1, 0)
--> ->   4  %a = load %x[%r, 0] : f32[N]  // norm.lua:7
--> (debug) out
local many = { "brek 5", "frobnicate", "break", "break 1", "break tile (9)", "break 5", "b block 2", "delete 1", "b", "stage",
  "print", "p nothing", "findings", "list 9", "q" }
print(said(unpack(many))) --> block 0
--> ->   2  %m = dim {index=0} : i64[]
--> (debug) brek 5
--> there is no command 'brek'; did you mean 'break'?
--> (debug) frobnicate
--> there is no command 'frobnicate'; help lists them
--> (debug) break
--> no breaks
--> (debug) break 1
--> no statement is on this line
--> (debug) break tile (9)
--> the first result has no such tile
--> (debug) break 5
--> 1: line 5
--> (debug) b block 2
--> 2: block 2
--> (debug) delete 1
--> (debug) b
--> 2: block 2
--> (debug) stage
--> no loop is around this line
--> (debug) print
--> print takes a value: print %acc
--> (debug) p nothing
--> %nothing has no value yet, or is no value of the text
--> (debug) findings
--> none
--> (debug) list 9
-->      9      store %y[%r, 0] = %c
-->     10    }
-->     11  }
--> (debug) q
norm:debug(x, { commands = { "q" } }).quit --> true
norm:debug(x, { commands = { "c" } }).results[1]:hash() == want:hash() --> true

-- ---- roles: a break by tile and stage, barriers, the other role
local file = io.open "tests/tile/faults/ring.tile"
local ring = file:read "*a"
file:close()
local a, b = rng.normal({ 128, 128 }, { seed = 1, stream = 0 }):cast "bf16", rng.normal({ 128, 64 }, { seed = 1, stream = 1 }):cast "bf16"
local commands = { "break 33 tile (1, 0) stage 2", "c", "p %full", "p %j", "stage", "role load", "quit" }
local out = debug.kernel(ring, a, b, { commands = commands })
print((out.output:gsub("%s+$", ""))) --> block 0
--> ->   3  for %m in 0..128 step 64 parallel {
--> (debug) break 33 tile (1, 0) stage 2
--> 1: line 33 tile (1, 0) stage 2
--> (debug) c
--> block 1, role mma, tile (1, 0), stage 2
--> ->  33  commit {of=products}
--> (debug) p %full
--> [0] phase 2, 0 of 1 arrivals, 0 bytes are due
--> [1] phase 1, 1 of 1 arrivals, 8192 bytes are due
--> (debug) p %j
--> 2 i64[]
--> (debug) stage
--> block 1, role mma, tile (1, 0), stage 3
--> ->  29  await %full[%t], %q
--> (debug) role load

-- ---- peek: a tile of A on its way, and the sums after three of four steps
local part = debug.peek(ring, { 1, 0 }, { line = 30, stage = 2 }, a, b)
part:hash() == a["64:128, 64:96"]:contiguous():hash() --> true
local sums = debug.peek(ring, { 1, 0 }, { value = "%d", line = 32, stage = 2 }, a, b)
local close = op.abs(sums - op.matmul(a["64:128, 0:96"]:cast "f32", b["0:96, :"]:cast "f32")):max():item()
close < 1e-4 --> true
norm:peek({ 2 }, 8, x):hash() == want["2"]:contiguous():hash() --> true
norm:peek({ 2 }, "%top", x):item() --> 11
norm:peek({ 9 }, "%top", x) --! nothing comes there
norm:peek({ 0 }, "%nothing", x) --! no line makes %nothing
norm:peek({ 0 }, 40, x) --! the text has 11 lines, no line 40
norm:peek({ 0 }, nil, x) --! where is a line of the text

-- ---- captured functions, on the CPU and on a device: what the function gives the kernel
local f = graph.module("f", function(x) return op.softmax(x * 2) end)
local scaled = x * 2
f:debug(0, x).clean --> true
f:debug("f", x).name --> f
f:debug(7, x) --! @f: there is no kernel 7
f:debug(x) --! debug: a kernel stands in front of the arguments, by its number or name
f:debug(0, x).name --> f
local g = graph.module("g", function(x) return op.softmax(x * 2) end)
local there = x:to "sim:0"
g:debug(0, there).clean --> true
g(there):hash() == op.softmax(scaled):hash() --> true
local number, row = 0, nil
for text in g:ir("tile", { kernel = 0 }):gmatch "([^\n]*)\n" do
  number = number + 1
  if text:find " = mul " then row = row or number end
end
g:peek(0, { 2 }, row, there):reshape { 4 }:hash() == scaled["2"]:contiguous():hash() --> true
-- One look within another one's call: the outer one is still there.
local nested = core.debug_caught(f:ir("tile", { kernel = 0 }), function()
  core.debug_caught(f:ir("tile", { kernel = 0 }), function() end, nil, {})
  f(x)
end, nil, {})
type(nested) --> table

-- ---- words
debug.kernel(3) --! the first argument is a kernel of op.kernel, its text, or a captured function, not a number
norm:debug(x, x) --! norm
norm:debug("x") --! argument 1 of norm is a string, not a tensor

-- ---- Ctrl-C stops where somebody is asked; else it ends the run as it ends everything
local large, stopped = op.ones(3000, 4), false
for n = 10, 200, 5 do
  core.interrupt_after(n)
  local ok, r = pcall(norm.debug, norm, large, { commands = { "c", "p %r", "q" } })
  core.interrupt_after(0)
  stopped = stopped or ok and r.output:find "p %%r\n%d+ i64%[%]" ~= nil
end
stopped --> true
core.interrupt_after(60)
norm:debug(large) --! interrupted
core.interrupt_after(0)
