-- Says "done" when a captured function has run as one kernel of a GPU.

local ts = require "tessera"

ts.jit.eager(true)
local x = ts.rng.normal({ 4096, 4096 }):to "cuda:0"
local f = ts.graph.module("first", function(v) return ts.op.softmax(v / 8) end)
local y = f(x)
ts.synchronize()
assert(y.device == "cuda:0" and f:ir "tiles":find "softmax", "no kernel was made")
print "done"
