-- Losses and weights of training over meshes of n devices beside those of one device: a decoder and one with mixtures of
-- experts, over all meshes of dp, tp, pp, ep with ZeRO 1 to 3 and all schedules. Library of ours.lua; gives a row's name and 1 or 0.

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

-- All ways to deal m devices out to so many axes, in order: {8, 1, 1}, {4, 2, 1} ..
local function shapes(m, count)
  if count == 1 then return { { m } } end
  local list = {}
  for first = m, 1, -1 do
    if m % first == 0 then
      for _, rest in ipairs(shapes(m / first, count - 1)) do list[#list + 1] = { first, unpack(rest) } end
    end
  end
  return list
end

local SCHEDULES = { "1f1b", "gpipe", "interleaved" }

-- Of a mesh whose axes have these sizes (those of one device are left out, if there are others): name, axes, shape, how weights lie,
-- and plans, each with what it adds to the name. A pipeline has as many micro-batches as leaves let it beside dp. brief: one plan for each
-- mesh of several axes, that of most stages of ZeRO.
local function arrangement(names, shape, specs, brief)
  local axes, sizes, spread, plans, size_of = {}, {}, {}, {}, {}
  for i, name in ipairs(names) do
    if shape[i] > 1 then axes[#axes + 1], sizes[#sizes + 1] = name, shape[i] end
    size_of[name] = shape[i]
  end
  if #axes == 0 then axes, sizes = { "dp" }, { 1 } end
  local text = {}
  for i, name in ipairs(axes) do
    text[i] = ("%s%d"):format(name, sizes[i])
    spread = models.together(spread, specs[name] or {})
  end
  local last = axes[1] == "dp" and 3 or 0
  local schedules = size_of.pp == 1 and { false } or brief and { SCHEDULES[1] } or SCHEDULES
  for zero = brief and axes[2] and last or 0, last do
    for _, schedule in ipairs(schedules) do
      local pp = schedule and { micro = math.min(4, math.floor(LEAVES / size_of.dp)), schedule = schedule } or nil
      plans[#plans + 1] = { (zero > 0 and (" ZeRO-%d"):format(zero) or "") .. (schedule and " " .. schedule or ""), { zero = zero, pp = pp } }
    end
  end
  return { table.concat(text, " "), axes, sizes, next(spread) and spread, plans }
end

-- Meshes of m devices.
local function meshes_of(m, names, specs, brief)
  local list = {}
  for _, shape in ipairs(shapes(m, #names)) do list[#list + 1] = arrangement(names, shape, specs, brief) end
  return list
end

-- devices: names; large: the sizes of GPT-2 124M, and fewer plans; only: over as many devices, or nil: 1, 2, 4 .. of them; say(name, 1 or 0).
return function(devices, large, only, say)
  local size = large and { layers = 12, width = 768, heads = 12, hidden = 2048, vocabulary = 50257, context = 256, batch = 16 }
    or { layers = 2, width = 32, heads = 8, hidden = 64, vocabulary = 97, context = 16, batch = 16 }
  local few = {} -- mixtures of fewer layers, for what expert weights take
  for k, v in pairs(size) do few[k] = v end
  few.layers, few.experts = large and 4 or 2, 8
  for _, kind in ipairs { { "decoder", size, { "dp", "tp", "pp" }, { tp = models.tp } }, { "mixture", few, { "dp", "ep", "tp", "pp" }, { ep = models.ep, tp = models.tp_experts } } } do
    for _, dtype in ipairs { "f32", "bf16" } do
      local o = setmetatable({ cast = dtype ~= "f32" and dtype }, { __index = kind[2] })
      dist.leaves(LEAVES, function()
        local want = train(o, nil, nil, nil, devices[1])
        local m = only or 1
        while m <= #devices do
          for _, each in ipairs(meshes_of(m, kind[3], kind[4], large)) do
            local own = {}
            for i = 1, m do own[i] = devices[i] end
            local mesh = dist.Mesh { axes = each[2], shape = each[3], devices = own }
            for _, plan in ipairs(each[5]) do
              local ok, got = pcall(train, o, mesh, plan[2], each[4])
              if not ok then io.stderr:write(each[1], plan[1], ": ", got, "\n") end
              say(("bits equal, %s %s, %s%s"):format(kind[1], dtype, each[1], plan[1]), ok and got == want and 1 or 0)
            end
          end
          m = only and math.huge or m * 2
        end
      end)
    end
  end
end
