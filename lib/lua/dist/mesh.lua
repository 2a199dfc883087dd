-- tessera.dist: tensors that are spread over a mesh of devices.
--
--   local mesh = dist.Mesh {axes = {"dp", "tp"}, shape = {2, 2}, devices = dist.range(4)}
--   local x = dist.shard(rng.normal {8, 6}, mesh, {"dp"})       -- rows over dp
--   local w = dist.shard(rng.normal {6, 4}, mesh, {nil, "tp"})  -- columns over tp
--   print(op.matmul(x, w))                                      -- f32[8@dp,4@tp]
--
-- A layout (dist.ShardSpec) says which axis of a tensor is split by which axes of the mesh. lib/mesh.h defines
-- where pieces begin, lib/shard/shard.h how calls are done in parts. The parts: grid.lua meshes, spec.lua layouts, tensor.lua tensors,
-- inspect.lua pictures, modes.lua what may move, map.lua and collectives.lua programs of one part, sent.lua what is sent,
-- world.lua several processes.

local named = require "tessera.named"
local dist = {}

local function take(part, names)
  local from = require("tessera.dist." .. part)
  for name in names:gmatch "%S+" do dist[name] = from[name] end
end

take("grid", "range Mesh")
take("spec", "ShardSpec")
take("tensor", "tensor shard replicate gather reshard parts mesh_of spec_of sharding_valid shard_module")
take("inspect", "inspect links")
take("modes", "leaves overlap hidden explicit abstract")
take("map", "map")
take("collectives", "all_reduce reduce_scatter all_gather all_to_all broadcast scatter permute send recv barrier place")
take("sent", "sent")
take("world", "rank world transport flight patience")

--- For other parts of the library: the layout, a number, of a spec over a mesh for a tensor of so many axes.
dist.layout_of = require("tessera.dist.spec").layout

return named("tessera.dist", dist)
