-- A tensor of one device that is cut for a mesh: no other device gets all of it, and what lies as it should is left alone.
local tessera = require "tessera"
local op, dist, nn, rng = tessera.op, tessera.dist, tessera.nn, tessera.rng
local mesh = dist.Mesh { axes = { "tp" }, devices = { "sim:0", "sim:1", "sim:2", "sim:3" } }
local function live(name)
  for _, d in ipairs(tessera.devices()) do if d.name == name then return d.live end end
  return 0
end
local cases = {
  { { 64, 4096 }, { "tp" } }, { { 64, 4096 }, { nil, "tp" } }, { { 8, 32, 1024 }, { nil, nil, "tp" } }, { { 30, 4000 }, { "tp" } },
  { { 64, 4096 }, { "tp", block = 2 } }, { { 64, 4096 }, { nil, "tp", block = 8 } }, { { 3, 4096 }, { "tp" } },
}
for _, from in ipairs { "sim:0", "sim:2", "cpu:0" } do
  for i, case in ipairs(cases) do
    local x = rng.normal(case[1]):to(from)
    local want, whole = x:to("cpu:0"):hash(), x.nbytes
    for _, other in ipairs { x, op.permute(rng.normal(case[1]), { perm = case[1][3] and { 2, 1, 0 } or { 1, 0 } }):to(from) } do
      if other ~= x then other = op.permute(other, { perm = case[1][3] and { 2, 1, 0 } or { 1, 0 } }) want = other:to("cpu:0"):hash() end
      collectgarbage() collectgarbage()
      local before = { live "sim:1", live "sim:3" }
      local y = dist.shard(other, mesh, case[2])
      assert(y:sharding_valid() or case[1][1] == 3)
      for k, name in ipairs { "sim:1", "sim:3" } do
        local more = live(name) - before[k]
        assert(more <= 0.6 * whole, ("case %d from %s: %s has %d bytes of %d"):format(i, from, name, more, whole))
      end
      assert(dist.gather(y):hash() == want, i)
    end
  end
end

local model = nn.Linear(256, 512)
local specs = { weight = { "tp" } }
dist.shard_module(model, mesh, specs)
local weight, bias = model.weight, model.bias
dist.shard_module(model, mesh, specs)
assert(model.weight == weight and model.bias == bias)
dist.shard_module(model, mesh, { weight = { nil, "tp" } })
assert(model.weight ~= weight and dist.gather(model.weight):hash() == dist.gather(weight):hash())
