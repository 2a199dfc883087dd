-- Tensors over a mesh as a program sees them: made, shown, moved, gathered; what is wrong says so.
local tessera = require "tessera"
local dist, op, nn, optim, rng = tessera.dist, tessera.op, tessera.nn, tessera.optim, tessera.rng
local cpu = "cpu:0"
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { cpu, cpu, cpu, cpu } }
tostring(mesh) --> mesh dp=2 tp=2 (cpu:0 .. cpu:0)

-- ---- specs
tostring(dist.ShardSpec { "dp", nil, { "tp", "pp" }, block = 4 }) --> {"dp", nil, {"tp", "pp"}, block = 4}
tostring(dist.ShardSpec { partition = { "row", "col" }, mesh_axes = { "tp", "pp" } }) --> {"tp", "pp"}
tostring(dist.ShardSpec { axes = { [1] = "dp", [-1] = "tp" } }) --> {nil, "dp", axes = {[-1] = "tp"}}
tostring(dist.ShardSpec { row = "dp" }) --> {"dp"}
tostring(dist.ShardSpec { reduce = "sum", over = { "tp" } }) --> {reduce = "sum", over = {"tp"}}
dist.ShardSpec { blok = 4 } --! did you mean 'block'?
dist.ShardSpec { reduce = "max", over = { "tp" } } --! reduce must be "sum", not 'max'
dist.ShardSpec { reduce = "sum" } --! stand together
dist.ShardSpec { partition = { "row" }, mesh_axes = { "a", "b" } } --! partition names 1 axes, mesh_axes 2
dist.ShardSpec(op.ones { 2 }) --! not a tensor
local x = op.arange(42):reshape(7, 6):cast "f32"
dist.shard(x, mesh, { "dp", "dp" }) --! mesh axis 'dp' stands twice
dist.shard(x, mesh, { nil, nil, "tp" }) --! names axis 2 of a tensor of 2 axes
dist.shard(x, mesh, { nil, nil, "tp" }) --! hint: axes count from 0: it has 0 to 1
dist.shard(op.ones { 4 }, mesh, { nil, "tp" }) --! names axis 1 of a tensor of 1 axis
dist.shard(op.ones { 4 }, mesh, { nil, "tp" }) --! it has axis 0 alone
dist.shard(x, mesh, { "dp" }, { block = 2 }) --! options stand in the spec
dist.replicate(x, mesh, { "dp" }) --! dist.shard(x, mesh, spec) splits axes
dist.shard(x, mesh, { "pd" }) --! its axes are dp, tp
dist.shard(x, nil, {}) --! mesh must be a dist.Mesh, not nothing
dist.Mesh { axes = { "a", "b" }, devices = { cpu, cpu } } --! shape says how large each is
mesh:sub { dp = 2 } --! place 2 of axis 'dp', which has 2, from 0
mesh:sub { dp = 0.5 } --! place 0.5 of axis 'dp'
local pair = dist.Mesh { axes = { "dp" }, devices = { cpu, cpu } }
op.add(dist.shard(x, mesh, { "dp" }), dist.shard(x, pair, { "dp" })) --! add: operands lie on two meshes: f32[7@dp,6] over dp=2 tp=2, f32[7@dp,6] over dp=2
dist.shard(x, mesh, { "dp" }).placements --! dist.spec_of(x) says how x lies over its mesh

-- ---- made in parts
local y = dist.tensor { shape = { 7, 6 }, mesh = mesh, layout = { "dp", "tp" }, init = 2 }
tostring(y.device) --> mesh dp=2 tp=2 (cpu:0 .. cpu:0)
assert(y.device == mesh and dist.mesh_of(y) == mesh)
tostring(dist.spec_of(y)) --> {"dp", "tp"}
assert(y:hash() == op.full({ 7, 6 }, 2):hash())
rng.seed(3)
local whole = op.normal { 50257, 2 }
rng.seed(3)
local rows = dist.tensor({ 50257, 2 }, { mesh = dist.Mesh { axes = { "v" }, devices = { cpu, cpu, cpu, cpu, cpu, cpu, cpu, cpu } },
  layout = { "v" }, init = "normal" })
assert(rows:hash() == whole:hash())
rows:parts()[1].shape[1] --> 6282
rows:parts()[8].shape[1] --> 6283
dist.tensor { shape = { 2 }, mesh = mesh, init = "noise" } --! init must be a number or one of
dist.tensor { shape = { 2 }, mesh = mesh, lay = {} } --! unknown option 'lay'
dist.tensor { shape = { 2 } } --! option 'mesh' must be a table, not nothing
local small = dist.tensor { shape = { 1, 3 }, mesh = mesh, layout = { { "dp", "tp" } }, init = "ones" }
small:sharding_valid() --> false, axis 0 has 1 elements for 4 pieces: some devices have none
assert((small + 1):sum():gather():hash() == op.full({}, 6):hash())
y:sharding_valid() --> true
x:sharding_valid() --> false, it is on one device: cpu:0

-- ---- pictures
print(dist.inspect(dist.shard(x, mesh, { "dp", "tp" }))) --> f32[7@dp,6@tp] over dp=2 tp=2
-->           [0..2]  [3..5]
-->   [0..2]  cpu:0   cpu:0
-->   [3..6]  cpu:0   cpu:0
--> 36 bytes to 48 bytes a device, 168 bytes in all for 168 bytes
print(dist.inspect(dist.tensor { shape = { 9 }, mesh = mesh, layout = { "tp", block = 2 } })) --> f32[9@tp/2] over dp=2 tp=2
-->     [0..1 4..5 8]  [2..3 6..7]
-->     cpu:0 cpu:0    cpu:0 cpu:0
--> 16 bytes to 20 bytes a device, 72 bytes in all for 36 bytes (2 copies)
dist.inspect(dist.tensor { shape = { 2, 4, 2 }, mesh = mesh, layout = { nil, "dp" } }):match "  (cpu:0  dp=1 tp=0 .-)\n" --> cpu:0  dp=1 tp=0  [0..1, 2..3, 0..1]  32 bytes

-- ---- planned with
local far = dist.Mesh { axes = { "tp", "pp", "dp" }, shape = { 4, 3, 6 }, devices = dist.range(1000, 1072) }
local W = dist.tensor { shape = { 1e6, 1e6 }, dtype = "bf16", mesh = far, layout = { partition = { "row", "col" }, mesh_axes = { "tp", "pp" } } }
W --> planned bf16[1000000@tp,1000000@pp]
W:sharding_valid() --> true
dist.inspect(W):match "[^\n]*$" --> 155 GiB a device, 10.9 TiB in all for 1.82 TiB (6 copies), planned
op.matmul(W, dist.tensor { shape = { 1e6, 8 }, dtype = "bf16", mesh = far, layout = { "pp" } }) --> planned bf16[1000000@tp,8]
W:hash() --! only planned with
dist.parts(W) --! only planned with
dist.shard(x, far, { "tp" }) --! devices that are only planned with

-- ---- moved and gathered
local s = dist.shard(x, mesh, { "dp", "tp" })
assert(s:gather():hash() == x:hash() and s:gather "cpu:0".device == cpu and s:gather { device = cpu }.device == cpu)
assert(x:gather(tessera.tensor({ { 1 } }, { dtype = "i64" }), { axis = 1 }):gather().shape[1] == 1)
for _, spec in ipairs { {}, { "tp" }, { nil, { "tp", "dp" } }, { { "dp", "tp" }, block = 2 } } do
  local moved = s:reshard(spec)
  assert(moved:hash() == x:hash() and tostring(dist.spec_of(moved)) == tostring(dist.ShardSpec(spec)))
end
local other = dist.Mesh { axes = { "a" }, devices = { cpu, cpu, cpu } }
assert(s:reshard({ nil, "a" }, other):hash() == x:hash() and s:reshard({ "tp" }, mesh:sub { dp = 1 }).device ~= mesh)
assert(x:to(mesh).device == mesh and s:to(cpu):hash() == x:hash())
x:reshard { "dp" } --! dist.shard(x, mesh, spec) spreads it
local w = dist.shard(x, mesh, { "dp" })
w.requires_grad = true
local moved = (w:reshard { nil, "tp" } * 2):gather()
moved:sum():backward()
assert(w.grad:hash() == op.full({ 7, 6 }, 2):hash() and tostring(dist.spec_of(w.grad)) == '{"dp"}')

-- ---- in place, modules, files
local z = dist.shard(x, mesh, { "dp" })
z:add_(1)
z[1] = 0
local ref = x + 1
ref[1] = 0
assert(z:hash() == ref:hash())
rng.seed(1)
local one = nn.Sequential { nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3) }
local many = one:clone()
dist.shard_module(many, mesh, { ["0.weight"] = { "tp" }, ["0.bias"] = { "tp" }, ["2.weight"] = { nil, "tp" } })
tostring(dist.spec_of(many:state_dict()["0.weight"])) --> {"tp"}
dist.shard_module(many, mesh, { ["9.weight"] = {} }) --! nothing is named '9.weight'
local function train(model, input)
  local opt = optim.AdamW(model:parameters(), { lr = 0.1 })
  for _ = 1, 3 do
    local loss = model(input):square():mean()
    opt:zero_grad()
    loss:backward()
    opt:step()
  end
  return model
end
train(one, x)
train(many, dist.shard(x, mesh, { "dp" }))
for name, p in pairs(one:state_dict()) do
  assert((many:state_dict()[name]:gather() - p):abs():max():item() < 1e-4, name)
end
local path = os.tmpname() .. ".safetensors"
tessera.save(path, { s = s })
assert(tessera.load(path).s:hash() == x:hash())
os.remove(path)

-- ---- links
dist.links(dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "sim:0", "sim:1", "sim:0" } }):match "^[^\n]*" --> cpu:0 - sim:0: through the host, in copies: neither reaches the memory of the other
dist.links(dist.Mesh { axes = { "dp" }, devices = { "sim:0", "sim:1" } }) --> sim:0 - sim:1: direct: kernels of each read the memory of the other
dist.links(dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }) --> cpu:0 alone
dist.links(dist.Mesh { axes = { "dp" }, devices = dist.range(100, 102) }) --> #0 - #1: not here
dist.links(dist.Mesh { axes = { "dp" }, devices = dist.range(100, 108) }) --> #0 .. #7, each two: not here
dist.links(3) --! links: mesh must be a dist.Mesh, not a number
