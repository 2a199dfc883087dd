-- Losses and weights of training over meshes of n devices beside those of one device: a decoder and one with mixtures of
-- experts, over dp, tp, pp, ep, ZeRO 1 to 3 and mixed meshes. Library of ours.lua; gives a row's name and 1 or 0.

local tessera = require "tessera"
local op, dist, graph, rng, optim = tessera.op, tessera.dist, tessera.graph, tessera.rng, tessera.optim
local models = dofile "scripts/bench/mesh/models.lua"

local STEPS, LEAVES = 20, 8

local function train(o, mesh, plan, spread, device)
  rng.seed(1)
  local model = models.Decoder(o)
  if mesh and spread then dist.shard_module(model, mesh, spread) end
  if not mesh and device then model:to(device) end
  local step = graph.training_step(model, function(...) return tessera.autocast(o.cast, models.loss, ...) end,
    optim.AdamW(model:parameters(), { lr = 1e-3 }), mesh and { mesh = mesh, plan = plan } or nil)
  local all = {}
  for i = 1, STEPS do
    local x = rng.randint({ o.batch, o.context }, { low = 0, high = o.vocabulary })
    if device then x = x:to(device) end
    all[i] = tostring(step(x, x):hash())
  end
  for _, p in ipairs(model:parameters()) do all[#all + 1] = tostring(p:hash()) end
  return table.concat(all, " ")
end

-- Meshes of m devices: name, axes, shape, plan, how weights lie.
local function dense_meshes(m)
  local list = { { ("dp%d"):format(m), { "dp" }, { m } } }
  for zero = 1, 3 do list[#list + 1] = { ("dp%d ZeRO-%d"):format(m, zero), { "dp" }, { m }, { zero = zero } } end
  list[#list + 1] = { ("tp%d"):format(m), { "tp" }, { m }, nil, models.tp }
  list[#list + 1] = { ("pp%d"):format(m), { "pp" }, { m }, { pp = { micro = 4 } } }
  if m % 2 == 0 and m > 2 then
    local h = m / 2
    list[#list + 1] = { ("dp%d tp2 ZeRO-3"):format(h), { "dp", "tp" }, { h, 2 }, { zero = 3 }, models.tp }
    list[#list + 1] = { ("dp%d pp2 ZeRO-1"):format(h), { "dp", "pp" }, { h, 2 }, { zero = 1, pp = { micro = 2 } } }
    list[#list + 1] = { ("tp%d pp2"):format(h), { "tp", "pp" }, { h, 2 }, { pp = { micro = 4, schedule = "gpipe" } }, models.tp }
  end
  return list
end

local function expert_meshes(m)
  local list = { { ("ep%d"):format(m), { "ep" }, { m }, nil, models.ep }, { ("dp%d ZeRO-1"):format(m), { "dp" }, { m }, { zero = 1 } } }
  if m % 2 == 0 and m > 2 then
    list[#list + 1] = { ("dp%d ep2 ZeRO-1"):format(m / 2), { "dp", "ep" }, { m / 2, 2 }, { zero = 1 }, models.ep }
  end
  return list
end

-- devices: names; large: the sizes of GPT-2 124M; say(name, 1 or 0).
return function(devices, large, say)
  local size = large and { layers = 12, width = 768, heads = 12, hidden = 2048, vocabulary = 50257, context = 256, batch = 16 }
    or { layers = 2, width = 32, heads = 8, hidden = 64, vocabulary = 97, context = 16, batch = 16 }
  local few = {} -- mixtures of fewer layers, for what expert weights take
  for k, v in pairs(size) do few[k] = v end
  few.layers, few.experts = large and 4 or 2, 8
  for _, kind in ipairs { { "decoder", size, dense_meshes }, { "mixture", few, expert_meshes } } do
    for _, dtype in ipairs { "f32", "bf16" } do
      local o = setmetatable({ cast = dtype ~= "f32" and dtype }, { __index = kind[2] })
      dist.leaves(LEAVES, function()
        local want = train(o, nil, nil, nil, devices[1])
        local m = 1
        while m <= #devices do
          for _, each in ipairs(kind[3](m)) do
            local own = {}
            for i = 1, m do own[i] = devices[i] end
            local mesh = dist.Mesh { axes = each[2], shape = each[3], devices = own }
            local ok, got = pcall(train, o, mesh, each[4] or {}, each[5])
            if not ok then io.stderr:write(got, "\n") end
            say(("bits equal, %s %s, %s"):format(kind[1], dtype, each[1]), ok and got == want and 1 or 0)
          end
          m = m * 2
        end
      end)
    end
  end
end
