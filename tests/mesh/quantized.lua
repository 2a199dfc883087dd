-- Rows of x over a mesh, weights in blocks whole on each device: the bits of one device.
local tessera = require "tessera"
local op, rng, dist, graph = tessera.op, tessera.rng, tessera.dist, tessera.graph
local mesh = dist.Mesh { axes = { "dp" }, shape = { 3 }, devices = { "cpu:0", "cpu:0", "cpu:0" } }
local w, b = rng.normal({ 24, 64 }):cast "q4_1", rng.normal { 24 }
local x = rng.normal { 8, 64 }
local xs, ws, bs = dist.shard(x, mesh, { "dp" }), dist.replicate(w, mesh), dist.replicate(b, mesh)
local y = op.linear(xs, ws, bs)
tostring(y):match "[^\n]*$" --> f32[8@dp,24]
y:gather():hash() == op.linear(x, w, b):hash() --> true
local f = graph.module(function(x, w, b) return op.silu(op.linear(x, w, b)) end)
f(xs, ws, bs):gather():hash() == f(x, w, b):hash() --> true
