-- Losses and weights of training have the same bits on one device, in micro-batches, and in a pipeline of any schedule, alone
-- and beside dp, tp and ZeRO's stages; f32 and bf16, with dropout, with batches that micro-batches do not divide.
local tessera = require "tessera"
local small = dofile "tests/mesh/_pipeline.lua"
local dist, op, optim, nn, graph, rng = tessera.dist, tessera.op, tessera.optim, tessera.nn, tessera.graph, tessera.rng

local function each(cases, leaves, autocast, rows)
  tessera.device(small.device, dist.leaves, leaves, function()
    local alone = small.train { autocast = autocast, rows = rows }
    for name, o in pairs(cases) do
      o.autocast, o.rows = autocast, rows
      assert(small.train(o) == alone, ("%s, %d leaves, %s, %s rows"):format(name, leaves, autocast or "f32", rows or 8))
    end
  end)
end

local pp2, pp4 = small.mesh({ 2 }, { "pp" }), small.mesh({ 4 }, { "pp" })
local grid, tall, cube = small.mesh({ 2, 2 }, { "dp", "pp" }), small.mesh({ 2, 2 }, { "pp", "tp" }), small.mesh({ 2, 2, 2 }, { "dp", "pp", "tp" })
local cases = {
  ["micro 1"] = { plan = { micro = 1 } },
  ["micro 2"] = { plan = { micro = 2 } },
  ["micro 4"] = { plan = { micro = 4 } },
  ["dp 2, micro 4"] = { mesh = small.mesh({ 2 }, { "dp" }), plan = { micro = 4 } },
  ["dp 2, tp 2, micro 2"] = { mesh = small.mesh({ 2, 2 }, { "tp", "dp" }), plan = { micro = 2, zero = 1 } },
  ["pp 2"] = { mesh = pp2, plan = { pp = { stages = 2, micro = 4 } } },
  ["pp 2 by names"] = { mesh = pp2, plan = { pp = { stages = { "h.0", "h.1" }, micro = 8, rematerialise = { "h.0" } } } },
  ["pp 2, gpipe"] = { mesh = pp2, plan = { pp = { schedule = "gpipe", micro = 4, rematerialise = true } } },
  ["pp 2, interleaved"] = { mesh = pp2, plan = { pp = { schedule = "interleaved", micro = 4 } } },
  ["pp 4"] = { mesh = pp4, plan = { pp = { micro = 4 } } },
  ["pp 4, gpipe"] = { mesh = pp4, plan = { pp = { schedule = "gpipe", micro = 8 } } },
  ["pp 2, tp 2"] = { mesh = tall, split = small.split(tall), plan = { pp = { micro = 4, rematerialise = true, schedule = "gpipe" } } },
  ["dp 2, pp 2, tp 2"] = { mesh = cube, split = small.split(cube), plan = { zero = 1, pp = { micro = 2 } } },
}
for zero = 0, 3 do cases["dp 2, pp 2, zero " .. zero] = { mesh = grid, plan = { zero = zero, pp = { micro = 4 } } } end
each(cases, 8)
each(cases, 8, "bf16")

-- Leaves that pieces do not divide, and rows that leaves do not.
local uneven = {
  ["micro 3"] = { plan = { micro = 3 } },
  ["dp 2, micro 3"] = { mesh = small.mesh({ 2 }, { "dp" }), plan = { micro = 3 } },
  ["pp 2, micro 3"] = { mesh = pp2, plan = { pp = { micro = 3, schedule = "gpipe" } } },
  ["pp 2, interleaved, micro 5"] = { mesh = pp2, plan = { pp = { micro = 5, schedule = "interleaved" } } },
  ["dp 2, pp 2, micro 3"] = { mesh = grid, plan = { pp = { micro = 3, rematerialise = true } } },
}
each(uneven, 12, nil, 8)
each(uneven, 12, nil, 7)
each(uneven, 8, "bf16", 12)

-- What else a step can do: gradients that are clipped by all of them, added up over calls, scaled; averages of weights.
local ways = {
  { optimizer = function(p) return optim.AdamW(p, { lr = 0.01, clip = 0.1 }) end },
  { optimizer = function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end, how = function() return { accumulate = 2 } end },
  { how = function() return { scale = "dynamic", autocast = "f16" } end },
  { how = function(m) return { ema = optim.EMA(m:parameters(), { decay = 0.9 }) } end },
}
tessera.device(small.device, dist.leaves, 8, function()
  for i, way in ipairs(ways) do
    local alone = small.train(way)
    for name, o in pairs { ["micro 2"] = { plan = { micro = 2 } }, ["pp 2"] = { mesh = pp2, plan = { pp = { micro = 4 } } },
      ["dp 2, pp 2"] = { mesh = grid, plan = { zero = 1, pp = { micro = 2, schedule = "interleaved" } } } } do
      o.optimizer, o.how = way.optimizer, way.how
      assert(small.train(o) == alone, ("%s, way %d"):format(name, i))
    end
  end
end)

-- Where micro-batches meet in the middle, as in a mean over the batch, turns come apart; results of the batch are whole.
local Normed = nn.Module:extend "Normed"
function Normed:init() self.a, self.norm, self.b = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 4) end
function Normed:forward(x) return self.b(op.relu(self.norm(self.a(x)))) end
local function normed(o)
  rng.seed(5)
  local model, out = Normed(), {}
  local step = graph.training_step(model, function(m, x, y)
    local z = m(x)
    return op.mse(z, y), z, z:max()
  end, optim.AdamW(model:parameters(), { lr = 0.01 }), o)
  for i = 1, 3 do
    for _, v in ipairs { step(op.normal({ 11, 6 }, { seed = i }), op.normal({ 11, 4 }, { seed = 9 + i })) } do out[#out + 1] = v:hash() end
  end
  return table.concat(out, " ") .. " " .. small.hashes(model), step
end
dist.leaves(8, function()
  local alone = normed {}
  local pieces, step = normed { mesh = pp2, plan = { pp = { stages = { "a", "b" }, micro = 4 } } }
  assert(pieces == alone and normed { plan = { micro = 4 } } == alone)
  assert(step:plan():find "micro%-batches meet in between")
end)

-- On eight devices of a process of its own.
local script = os.tmpname()
local file = assert(io.open(script, "w"))
file:write [[
local small = dofile "tests/mesh/_pipeline.lua"
local dist = require "tessera".dist
dist.leaves(8)
local mesh = dist.Mesh {axes = {"dp", "pp", "tp"}, shape = {2, 2, 2}, devices = dist.range(8)}
print((small.train {mesh = mesh, split = small.split(mesh), plan = {zero = 2, pp = {schedule = "interleaved", micro = 2}}}) == (small.train {}))
]]
file:close()
local pipe = io.popen(("%s --devices=cpu:8 %s 2>&1"):format(arg[-1] or "bin/tessera", script))
pipe:read "*l" --> true
pipe:close()
os.remove(script)
