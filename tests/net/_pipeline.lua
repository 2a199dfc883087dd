-- Two processes are two places of a pipeline, or have rows of the batch each: losses and weights are those of one.
local tessera = require "tessera"
local op, optim, graph, dist, rng = tessera.op, tessera.optim, tessera.graph, tessera.dist, tessera.rng
local _, GPT = dofile "scripts/bench/gpt.lua"

local function train(mesh, plan)
  rng.seed(1)
  local model = GPT(4, 32, 2, 16, 64)
  local step = graph.training_step(model, function(m, x, y) return op.cross_entropy(m(x), y) end,
    optim.AdamW(model:parameters(), { lr = 1e-3 }), mesh and { mesh = mesh, plan = plan } or nil)
  local all = {}
  for i = 1, 3 do
    local x = rng.randint({ 8, 16 }, { low = 0, high = 64 })
    all[i] = step(x, x):hash()
  end
  for _, p in ipairs(model:parameters()) do all[#all + 1] = p:hash() end
  for i = 1, #all do all[i] = tostring(all[i]) end
  return table.concat(all, " ")
end

dist.leaves(8)
local want = train()
local function over(axis, plan) return train(dist.Mesh { axes = { axis }, devices = dist.range(2) }, plan) == want end
print("equal", over("pp", { pp = { stages = 2, micro = 4, schedule = "1f1b" } }),
  over("pp", { pp = { stages = 4, micro = 4, schedule = "interleaved" } }), over("dp", { zero = 2, micro = 2 }))
