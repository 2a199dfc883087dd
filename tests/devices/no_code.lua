-- Kernels without code: the CPU computes, and f:why has the reason.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local out = tiers.run [[
local tessera = require "tessera"
local core, op, graph = tessera.core, tessera.op, tessera.graph
local x = op.normal({ 64, 32 }, { seed = 1, stream = 1 }):to "sim:0"
core.sim_fail("sim:0", "open", 1)
op.erf(x) op.erf(x + 1)
core.sim_fail("sim:0", "open", 0)
tessera.jit.eager(true)
local f = graph.module("half", function(a) return op.sort(a * 2), op.cumsum(a * 3, { axis = 0 }) end)
core.sim_fail("sim:0", "open", 1)
f(x)
core.sim_fail("sim:0", "open", 0)
print("ran", f:why().told)
]]
print(out:match "ran%s+refused: no group has a kernel.-; group 0 .-(open failed)") --> open failed
