-- Rows of experts on a mesh in a captured function without a capacity: a device has room for what its experts together may get, side by
-- side, and not for each of them as much as there are tokens. Bits, and gradients, are those of one device.
local tessera = require "tessera"
local dist, op, nn, rng, graph = tessera.dist, tessera.op, tessera.nn, tessera.rng, tessera.graph

-- ---- products of groups that share rooms: those of each room by itself
local x, w = op.normal({ 3, 20, 5 }, { seed = 1 }), op.normal({ 12, 5, 7 }, { seed = 2 })
local sizes = op.randint({ 12 }, { low = 0, high = 6, seed = 3 })
local y = op.grouped_matmul(x, w, sizes)
local function room(t, i, n) return t:narrow(0, i * n, n) end
for i = 0, 2 do
  local alone = op.grouped_matmul(x:select(0, i), room(w, i, 4), room(sizes, i, 4))
  assert(y:select(0, i):hash() == alone:hash(), i)
end
local g = op.normal({ 3, 20, 7 }, { seed = 4 })
local dw = op.grouped_matmul_weight_grad(x, g, sizes)
for i = 0, 2 do
  local alone = op.grouped_matmul_weight_grad(x:select(0, i), g:select(0, i), room(sizes, i, 4))
  assert(room(dw, i, 4):hash() == alone:hash(), i)
end
op.grouped_matmul(op.ones { 5, 4, 5 }, w, sizes) --! rows of each group are needed

-- ---- the layer
local function run(devices, experts, captured, options)
  rng.seed(1)
  local moe = nn.MoE(12, 10, { experts = experts, k = 2, activation = "swiglu", bias = options.bias })
  local input = op.normal({ 24, 12 }, { seed = 5 })
  if devices then
    local mesh = dist.Mesh { axes = { "ep" }, devices = devices }
    dist.shard_module(moe, mesh, { ["experts.*"] = { "ep" } })
    if options.split then input = dist.shard(input, mesh, { "ep" }) end
  end
  local f = function(t) return (moe(t)) end
  if captured then f = graph.module("layer", f) end
  local out = f(input)
  out:square():sum():backward()
  local all = { out:hash() }
  for _, p in ipairs(moe:parameters()) do all[#all + 1] = p.grad:hash() end
  return table.concat(all, " ")
end

local function devices(n, names)
  local list = {}
  for i = 1, n do list[i] = names[(i - 1) % #names + 1] end
  return list
end
dist.leaves(8, function()
  for _, options in ipairs { { bias = false }, { bias = true, split = true } } do
    for _, experts in ipairs { 4, 6, 12 } do
      local alone = run(nil, experts, true, options)
      for _, n in ipairs { 2, 4 } do -- 6 do not fit 4 evenly
        assert(run(devices(n, { "cpu:0" }), experts, true, options) == alone, ("%d experts on %d"):format(experts, n))
      end
      assert(run(devices(2, { "sim:0", "sim:1" }), experts, true, options) == alone, experts)
      -- By counts, on devices that differ: what is counted lies where the rows are.
      assert(run(devices(2, { "sim:0", "sim:1" }), experts, false, { bias = options.bias, split = true }) == run(nil, experts, false, options), experts)
    end
  end
end)

-- ---- room grows with tokens, not with experts
local function most(experts, whole)
  local mesh = dist.Mesh { axes = { "dp", "ep" }, shape = { 1, 2 }, devices = dist.range(1000, 1002) }
  local moe = dist.abstract(mesh, nn.MoE, 12, 10, { experts = experts, k = 2, bias = false })
  if not whole then dist.shard_module(moe, mesh, { ["experts.*"] = { "ep" } }) end
  local t = dist.tensor { shape = { 4096, 12 }, mesh = mesh, layout = {}, abstract = true }
  local step = graph.training_step(moe, function(m, v) return (m(v)):square():mean() end, tessera.optim.SGD(moe:parameters(), { lr = 1 }), { mesh = mesh })
  local n, unit = tostring(step:plan(t)):match "has at most ([%d.]+) (%a+)"
  return tonumber(n) * ({ KiB = 1, MiB = 1024, GiB = 2 ^ 20 })[unit]
end
most(64) < 2 * most(8) --> true
most(64, true) < 2 * most(8, true) --> true
