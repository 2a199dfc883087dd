-- The gradient of an embedding adds rows of all devices in the order of tokens. Devices exchange rows for columns, and each adds up
-- those columns alone: none has all rows, or all of the gradient; with the bits of one device.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph

local function mesh(axes, shape)
  local devices, n = {}, 1
  for _, k in ipairs(shape) do n = n * k end
  for i = 1, n do devices[i] = "cpu:0" end
  return dist.Mesh { axes = axes, shape = shape, devices = devices }
end

local function run(m, plan, split)
  rng.seed(1)
  local emb = nn.Embedding(61, 12)
  if split then dist.shard_module(emb, m, { weight = split }) end
  local step = graph.training_step(emb, function(f, x) return f(x):square():mean() end, optim.AdamW(emb:parameters(), { lr = 0.1 }), { mesh = m, plan = plan })
  local ids = op.randint({ 16, 5 }, { low = 0, high = 61, seed = 7 })
  local text = m and tostring(step:collectives(ids)) or ""
  local out = {}
  for i = 1, 3 do out[i] = step(ids):hash() end
  return table.concat(out, " ") .. emb.weight:hash(), text
end

dist.leaves(8, function()
  local alone = run()
  for _, n in ipairs { 2, 3, 4 } do
    for zero = 0, 3 do
      for _, micro in ipairs { 1, 2 } do
        local bits, text = run(mesh({ "dp" }, { n }), { zero = zero, micro = micro })
        assert(bits == alone, ("dp %d zero %d micro %d"):format(n, zero, micro))
        assert(text:find "all_to_all  over dp  [%d.]+ [%a]+ +index_add", text)
        assert(not text:find "index_add  f32%[16@dp,5,12%] %-> f32%[16,5,12%] ", text)
      end
    end
  end
  -- Columns that tp has are split further.
  local bits, text = run(mesh({ "dp", "tp" }, { 2, 2 }), { zero = 0 }, { nil, "tp" })
  assert(bits == alone)
  assert(text:find("index_add  f32[16@dp,5,12@tp] -> f32[16,5,12@tp*dp]", 1, true), text)
  assert(run(mesh({ "dp", "tp" }, { 2, 2 }), { zero = 3 }, { "tp" }) == alone)
end)

-- Both axes of tokens may be split.
local m = mesh({ "dp", "cp" }, { 2, 2 })
local x, at = op.normal({ 4, 6, 8 }, { seed = 1 }), op.randint({ 4, 6 }, { low = 0, high = 5, seed = 2 })
local z = op.zeros { 5, 8 }
local y = op.index_add(z, dist.shard(at, m, { "dp", "cp" }), dist.shard(x, m, { "dp", "cp" }))
print(dist.spec_of(y)) --> {nil, {"dp", "cp"}}
y:hash() == op.index_add(z, at, x):hash() --> true

-- Where there are fewer columns than devices, rows are gathered.
local three = mesh({ "dp" }, { 3 })
local few = op.index_add(op.zeros { 5, 2 }, at, dist.shard(x:narrow(2, 0, 2), three, { "dp" }))
print(dist.spec_of(few)) --> {}
few:hash() == op.index_add(op.zeros { 5, 2 }, at, x:narrow(2, 0, 2)):hash() --> true
