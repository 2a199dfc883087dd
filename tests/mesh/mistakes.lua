-- What somebody new asks of a mesh that it has not: each is an error where it stands, with what there is.
local tessera = require "tessera"
local dist, op = tessera.dist, tessera.op
local mesh = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }
mesh:sizes "dp" --! did you mean 'size'?
return mesh.device --! a mesh has no 'device'
dist.sent "all" --! dist.sent: it takes a number of collectives, the last ones
dist.sent(-1) --! dist.sent: it takes a number
dist.shard(op.ones { 8 }, dist.Mesh { axes = { "dp" }, devices = { false, false, false } }, { "dp" }) --! tessera --devices=cpu:3 makes as many
local many = {}
for i = 1, 16 do many[i] = false end
dist.shard(op.ones { 32 }, dist.Mesh { axes = { "dp" }, devices = many }, { "dp" }) --! a process has 15 devices at most
dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:1" } } --! hint: tessera --devices=cpu:2 makes it
tessera.device(mesh) --! hint: over a mesh op.ones({2}, {device = mesh}) makes copies
