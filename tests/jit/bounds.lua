-- A clamp without a bound keeps integers as they are, in a kernel as elsewhere.
local ts = require "tessera"
local op = ts.op
ts.jit.eager(true)
local f = ts.graph.module("f", function(v) return op.clamp(v) + v end)
local x = op.arange(5):cast "i8" - 2
f(x):totable() --> {-4, -2, 0, 2, 4}
f:ir("why"):match "exact" --> nil
op.clamp(x:to "sim:0"):totable() --> {-2, -1, 0, 1, 2}
