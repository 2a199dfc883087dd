-- Pinned functions: compiled at once, kept while other sizes come and go, with the same bits.
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end

local f = graph.module("f", function(x) return op.exp(x) * x + 1 end)
local function x(n) return op.normal({ n, 8 }, { seed = 3 }) end
jit.off()
local want = f(x(5)):hash()
jit.on()

jit.pin(f) --> true
f:ir "why":match "^// tier 1" ~= nil --> true
f(x(5)):hash() == want --> true
-- More sizes than are remembered.
for n = 10, 400 do f(x(n)) end
f(x(5)):hash() == want --> true
f:ir "why":match "^// tier 1" ~= nil --> true
for _ = 1, 40 do f(x(5)) end -- no turns are lost
f:ir "why":match "^// tier 1" ~= nil --> true

jit.pin(f, x(6)) --> true
f:ir("why", x(6)):match "^// tier 1" ~= nil --> true
jit.unpin(f, x(5))
for n = 10, 400 do f(x(n)) end
f:ir("why", x(5)):match "^// tier 1" ~= nil --> false
f:ir("why", x(6)):match "^// tier 1" ~= nil --> true

jit.pin(print) --! jit.pin takes a captured function, as graph.module makes them
jit.unpin {} --! jit.unpin takes a captured function
jit.pin(graph.module("g", function(x) return x end)) --! g has not run yet: call it, or give arguments
-- Where there is nothing to compile.
local one = graph.module("one", function(x) return op.sort(x) end)
one(x(5))
jit.pin(one) --> false
