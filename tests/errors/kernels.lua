-- What is wrong with a kernel's text, or with what the debugger of kernels is given, is told with the place and what helps.
local tessera = require "tessera"
local op, graph, debug = tessera.op, tessera.graph, tessera.debug
local x = op.ones { 64 }
local loop = "  for %r in 0..64 parallel {\n    %a = load %x[%r] : f32[]\n    store %y[%r] = %a\n  }\n"
local function text(head, n) return ("tile @k(%%x: f32[64]) -> (%%y: f32[64])%s {\n%s}\n"):format(head or "", loop:rep(n or 1)) end
local function told(f, ...)
  local ok, why = pcall(f, ...)
  assert(not ok and why:find "^[^\n]*kernels%.lua:%d+: " , tostring(why))
  return (why:gsub("^[^\n]-kernels%.lua:%d+: ", ""))
end

told(function() op.kernel(text " tile 0") end) --> @k: axis 0 of the tile has no elements: tile 0
-->   hint: the head says tile 8x768, each number 1 at least; without it the passes choose
told(function() op.kernel(text() .. "\0") end) --> op.kernel: line 7: the text contains a zero byte, behind 126 of its 127 bytes
-->   hint: texts of IR are plain text: is this a file of another kind?
told(function() debug.kernel(text() .. "\0", x) end):match "^[^\n]*" --> debug.kernel: line 7: the text contains a zero byte, behind 126 of its 127 bytes
told(function() debug.kernel(text(), x, { N = 3 }) end) --> debug.kernel: k has no size 'N'
-->   hint: it has no sizes that can be given; options are prompt and commands
told(function() debug.kernel(text(), { x }) end) --> debug.kernel: argument 1 of k is a table, not a tensor
-->   hint: arguments stand one behind the other, and sizes that they do not tell in a table at the end: debug.kernel(k, x, {M = 64})
told(function() debug.kernel("hello", x) end) --> debug.kernel: the first argument is a kernel of op.kernel, its text, or a captured function, not 'hello'
-->   hint: the text of a kernel begins with tile @name
told(function() debug.peek(text(), { 0 }) end) --> debug.peek: where is a line of the text, the name of a value, or {line =, value =, stage =}, not nothing
-->   hint: debug.peek(k, {0}, 6, x): tile, line, arguments; k.text has the lines
told(function() debug.peek(text(), { 0 }, 99, x) end) --> k: the text has 6 lines, no line 99
-->   hint: lines are those of level tile, from 1 on, without comments in front
told(function() debug.peek(text(), { 0 }, "nosuch", x) end) --> k: no line makes %nosuch
-->   hint: values have the names that level tile shows, such as %3 or %acc

if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
-- As many phases as there are in the text: compiled kernels have fewer, the interpreter runs all.
local many = op.kernel(text(nil, 40))
assert(op.all(many(x):eq(x)):item())
told(function() return many:ir "asm" end) --> jit: @k has 40 phases, compiled kernels have 1 to 16; each loop over the grid is a phase: join some, or make several kernels
for _, target in ipairs { "avx2", "sm_80" } do told(function() return many:ir("asm", { target = target }) end) end
local f = graph.module("f", function(x) return op.softmax(x * 2) end)
local given = op.ones { 8, 64 } -- held: f:with runs on what f had last
f(given)
local own = f:ir("tile", { kernel = 0 }):match "target (%S+)"
local other = own == "avx2" and "base" or "avx2"
local why = told(function() f:with("tile", f:ir("tile", { kernel = 0, target = other })) end):gsub("for " .. other, "for OTHER"):gsub(own, "OWN")
why --> f:with: @f is for OTHER, the kernel that it stands for is for OWN
-->   hint: its head says target OWN; f:ir("tile", {kernel = 0}), without a target, is the text of what runs here
