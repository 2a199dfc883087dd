-- Checkpoints of tensors over meshes; run by checkpoint.lua with eight devices, and a folder in CHECKPOINTS.
local tessera = require "tessera"
local dist, op, rng, checkpoint, core = tessera.dist, tessera.op, tessera.rng, tessera.checkpoint, tessera.core
local dir = assert(os.getenv "CHECKPOINTS")

local grid = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = dist.range(4) }
local X, I = rng.normal({ 9, 6 }, { seed = 1, stream = 0 }), op.arange(35):reshape(5, 7)
local B = rng.normal({ 16, 4 }, { seed = 1, stream = 1 }):cast "bf16"
local whole = { X, I, B, X:gt(0), X:cast "f64", op.ones { 0, 3 }, op.arange(13):cast "u8", X:sum() }

local axes_of = {} -- of a tensor that a spec is of, where that is not 1
local function two(spec)
  axes_of[spec] = 2
  return spec
end

-- Each under some layouts of a mesh, as far as they fit.
local function spread(mesh, specs)
  local out, n = {}, 0
  for i, x in ipairs(whole) do
    for k, spec in ipairs(specs) do
      if #x.shape >= (axes_of[spec] or 1) then
        n = n + 1
        out[("x%d.%d"):format(i, k)] = dist.shard(x, mesh, spec)
      end
    end
  end
  return out, n
end

local function from(name) return whole[tonumber(name:match "^x(%d+)")] end

-- All of b are as in `whole`, and, if given, on the same devices in the same parts as those of a.
local function same(b, a)
  local n = 0
  for name, x in pairs(b) do
    n = n + 1
    assert(x.dtype == from(name).dtype and x:hash() == from(name):hash(), name)
    local mesh = a and dist.mesh_of(a[name])
    assert((mesh and tostring(mesh)) == (dist.mesh_of(x) and tostring(dist.mesh_of(x))), name)
    for i, p in ipairs(mesh and x:parts() or {}) do
      local q = a[name]:parts()[i]
      assert(p.device == q.device and tostring(p.shape) == tostring(q.shape) and p:hash() == q:hash(), name)
    end
  end
  return n
end

local specs = { { "dp" }, two { "dp", "tp" }, two { nil, "tp" }, { { "tp", "dp" } }, {},
  dist.ShardSpec { "tp", block = 2 } }
local state, n = spread(grid, specs)
n > 30 --> true
checkpoint.save(dir, { x = state }, { step = 1 }).error --> nil
local back, which = checkpoint.load(dir)
which.step --> 1
same(back.x) == n --> true
same(checkpoint.load(dir, { like = { x = state } }).x, state) == n --> true

-- Equal parts stand in the files once.
local sum, bytes = 0, 0
for _, x in pairs(state) do sum = sum + x.nbytes end
checkpoint.save(dir, { x = state }, { step = 1 }).bytes == sum --> true

-- Into other meshes: other numbers of devices, other axes, other cuts; and from there to one device.
for _, shape in ipairs { { 1, 1 }, { 2, 1 }, { 3, 1 }, { 1, 4 }, { 2, 4 }, { 4, 2 } } do
  local mesh = dist.Mesh { axes = { "a", "b" }, shape = shape, devices = dist.range(shape[1] * shape[2]) }
  local other = spread(mesh, { two { nil, "a" }, two { "b", "a" }, { "a" }, {}, { { "a", "b" } }, dist.ShardSpec { "b", block = 1 } })
  for name in pairs(other) do
    if not state[name] then other[name] = nil end
  end
  for name in pairs(state) do
    if not other[name] then other[name] = from(name) end
  end
  assert(same(checkpoint.load(dir, { like = { x = other } }).x, other) == n, tostring(mesh))
  checkpoint.save(dir, { x = other }, { name = "there" })
  assert(same(checkpoint.load(dir, { name = "there" }).x) == n, tostring(mesh))
  assert(same(checkpoint.load(dir, { name = "there", like = { x = state } }).x, state) == n, tostring(mesh))
end

-- Parts of the loaded are their own: changing one changes no other.
local r = checkpoint.load(dir, { step = 1, like = { x = state } }).x["x1.5"]
r:parts()[1]:mul_(0)
r:parts()[2]:hash() == X:hash() --> true
r:parts()[1]:abs():sum():item() --> 0

-- Summands are added up.
local l, r = dist.shard(X:T():contiguous(), grid, { nil, "tp" }), dist.shard(X, grid, { "tp" })
local product = op.matmul(l, r)
checkpoint.save(dir, { product = product }, { name = "sums" })
checkpoint.load(dir, { name = "sums" }).product:hash() == product:hash() --> true

-- A later step does not get into what is being written, whatever part of the tensors it changes.
local w = dist.shard(op.zeros { 1024, 1024 }, grid, { "dp", "tp" })
for i = 1, 5 do
  local saving = checkpoint.save(dir, { w = w, sum = i - 1 }, { name = "beside", async = true })
  w:add_(1)
  assert(saving:wait().done)
  local kept = checkpoint.load(dir, { name = "beside" })
  assert(kept.w:sum():item() == 1024 * 1024 * kept.sum and kept.sum == i - 1)
end

-- Nor does a captured function, once it runs as pieces of single devices.
local x = dist.shard(op.ones { 256, 256 }, grid, { "dp", "tp" })
local v = dist.shard(op.zeros { 256, 256 }, grid, { "dp", "tp" })
v.requires_grad = true
local opt = tessera.optim.AdamW({ v }, { lr = 0.1 })
local step = tessera.graph.module("step", function(x) local d = v - x return (d * d):mean() end)
for i = 1, 30 do
  local before = v:hash()
  local saving = checkpoint.save(dir, { v = v, opt = opt:state_dict() }, { name = "captured", async = true })
  step(x):backward()
  opt:step()
  opt:zero_grad()
  saving:wait()
  assert(checkpoint.load(dir, { name = "captured" }).v:hash() == before and v:hash() ~= before)
end
local full = tessera.graph.training_step({ v }, function(_, x) local d = v - x return (d * d):mean() end, opt)
for i = 1, 30 do
  local before = v:hash()
  local saving = checkpoint.save(dir, { v = v, opt = opt:state_dict() }, { name = "captured", async = true })
  full(x)
  saving:wait()
  assert(checkpoint.load(dir, { name = "captured" }).v:hash() == before and v:hash() ~= before)
end
local add = tessera.graph.module("add", function(x) v:add_(x) return x * 2 end)
for i = 1, 30 do
  local before = v:hash()
  local saving = checkpoint.save(dir, { v = v }, { name = "captured", async = true })
  tessera.no_grad(add, x)
  saving:wait()
  assert(checkpoint.load(dir, { name = "captured" }).v:hash() == before and v:hash() ~= before)
end

-- Every tensor's bytes, for join.py.
checkpoint.save(dir, { x = state }, { name = "joined" })
local out = assert(io.open(dir .. "/whole", "wb"))
for name in pairs(state) do
  local path = ("%s/%s.npy"):format(dir, name)
  local x = from(name)
  if x.dtype ~= "bf16" then
    tessera.save(path, x)
    out:write("x.", name, "\n")
  end
end
out:close()
