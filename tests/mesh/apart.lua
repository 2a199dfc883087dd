-- GPUs that do not reach each other's memory: bytes go through the host, the bits are the same, and what is shown says so.
local tessera = require "tessera"
local core, dist, op, rng, graph = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph
core.sim_fail("link", true)
local mesh = dist.Mesh { axes = { "tp" }, devices = { "sim:0", "sim:1" } }
dist.links(mesh) --> sim:0 - sim:1: through the host, in copies: neither reaches the memory of the other
local x, w = rng.normal { 24, 37 }, rng.normal { 37, 12 }
local function body(a, b) return op.softmax(op.matmul(a, b)) end
local f = graph.module("f", body)
dist.leaves(2)
local want = graph.module("alone", body)(x, w):hash()
f(dist.shard(x, mesh, { nil, "tp" }), dist.shard(w, mesh, { "tp" })):hash() == want --> true
dist.shard(x, mesh, { "tp" }):reshard { nil, "tp" }:gather():to "cpu":hash() == x:hash() --> true
dist.leaves(0)
local remark = "sim:0 and sim:1 do not reach each other's memory: what they send each other goes through the host, in copies"
f:facts "why".remarks[1] == remark --> true
tostring(f:why()):find("// remark: " .. remark, 1, true) ~= nil --> true
f:ir "tile":find("// remark: " .. remark, 1, true) ~= nil --> true
-- In a profile what is sent has its time and who waited, whichever way it goes.
local told = tessera.profile.measure(f, { args = { dist.shard(x, mesh, { nil, "tp" }), dist.shard(w, mesh, { "tp" }) }, runs = 2, marks = false })
told.collectives[1].kind, #told.collectives[1].waits, told.collectives[1].time_ns > 0 --> all_reduce, 2, true
