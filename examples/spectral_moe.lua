-- A mixture of experts over the frequencies of signals: what has bent them differs from band to band, and the router finds the bands.
--
--   tessera examples/spectral_moe.lua [--steps N] [--dp N] [--ep N] [--capacity C] [--only mixture|dense]
--                                     [--size gpu] [--device cuda:0] [--dtype bf16] [--n N] [--batch N] ..
--
-- Signals [batch, n, width] go to n / 2 + 1 frequencies, each a token of 2 width numbers; three times the same experts add to
-- it; back to signals. To be learned is a filter that mixes the channels, bends what comes out and mixes again, with matrices and
-- a bend of their own in each band. Beside it learns a dense network of as many multiplications a token, which is told the
-- frequency as the router is. MESH says where it runs, and no bit; several virtual devices: tessera --devices=cpu:4 .. --ep 4;
-- several GPUs: --device cuda:0,cuda:1 --ep 2

local tessera = require "tessera"
local op, nn, optim, data, graph, rng, dist = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph, tessera.rng,
  tessera.dist

local sizes = {
  laptop = { steps = 1000, batch = 8, n = 256, width = 32, hidden = 64, experts = 4, bands = 4, lr = 2e-2 },
  gpu = { steps = 200, batch = 1, n = 16384, width = 1024, hidden = 4096, experts = 16, bands = 8, lr = 1e-3 },
}
local options = tessera.arguments({ size = "laptop", device = "cpu", dtype = "f32", dp = 0, ep = 0, capacity = 0,
  only = { "both", "mixture", "dense" },
  steps = false, batch = false, n = false, width = false, hidden = false, experts = false, bands = false, lr = false }, sizes)
local CAPACITY = options.capacity > 0 and options.capacity or nil

local places = {} -- devices that the program names, of which a mesh may take one several times
for name in options.device:gmatch "[^,]+" do places[#places + 1] = name end
local HOME = places[1]

local MESH = { dp = math.max(1, options.dp), ep = math.max(1, options.ep) }

local B, N, D, HIDDEN, EXPERTS, BANDS = options.batch, options.n, options.width, options.hidden, options.experts, options.bands
assert(N % 2 == 0, "--n must be even: n / 2 + 1 frequencies")
local DEPTH, CHOSEN = 3, 2
local F, W = N / 2 + 1, 2 * D -- tokens of a signal, and numbers of each

rng.seed(1)
if options.dp + options.ep > 0 then dist.leaves(8) end -- sums are cut into so many, whatever the mesh: --ep 1, 2 and 4 have the same bits

-- ---- signals as tokens, and back
local function frequencies(x)
  local z = op.rfft(x, { axis = 1, norm = "ortho" })
  return op.concat({ op.real(z), op.imag(z) }, { axis = -1 })
end

local function signals(z)
  return op.irfft(op.complex(z:narrow(-1, 0, D), z:narrow(-1, D, D)), { axis = 1, n = N, norm = "ortho" })
end

-- ---- what is to be learned
local bends = { op.tanh, op.softsign, op.erf, op.atan }
local first, mixers = {}, {} -- where bands begin
for b = 0, BANDS do first[b] = math.floor(b * F / BANDS + 0.5) end
local function mixer() return rng.normal({ W, W }, { std = 1 / math.sqrt(W), device = HOME }) end
for b = 1, BANDS do mixers[b] = { before = mixer(), behind = mixer() } end

local function filtered(x)
  local z, out = frequencies(x), {}
  for b, mix in ipairs(mixers) do
    local band = op.matmul(z:narrow(1, first[b - 1], first[b] - first[b - 1]), mix.before)
    out[b] = op.matmul(bends[(b - 1) % #bends + 1](band), mix.behind)
  end
  return signals(op.concat(out, { axis = 1 }))
end

-- ---- the networks: signals to signals, and what uneven experts cost; how many choices were dropped, the choices
local Mixture, Dense = nn.Module:extend "Mixture", nn.Module:extend "Dense"
local networks = { mixture = Mixture, dense = Dense }

function Mixture:init()
  self.place = rng.normal { F, W }
  self.moe = nn.MoE(W, HIDDEN, { experts = EXPERTS, k = CHOSEN, capacity = CAPACITY })
end

function Mixture:forward(x)
  local z, cost, dropped, index = frequencies(x), 0, 0, {}
  for i = 1, DEPTH do
    local h = op.rmsnorm(z)
    local y, routing = self.moe(h, h + self.place)
    z, cost, dropped = z + y, cost + op.load_balance_loss(routing.logits, routing.index), dropped + routing.dropped
    index[i] = routing.index
  end
  return signals(z), cost, dropped, op.stack(index)
end

function Dense:init()
  local wide = CHOSEN * HIDDEN + EXPERTS / 2 -- and what the router multiplies
  self.place = rng.normal { F, W }
  self.layers = nn.Sequential(nn.Linear(W, wide), op.gelu, nn.Linear(wide, W))
end

function Dense:forward(x)
  local z = frequencies(x)
  for _ = 1, DEPTH do z = z + self.layers(op.rmsnorm(z) + self.place) end
  return signals(z), 0
end

-- ---- training
local mesh
if MESH.dp * MESH.ep > 1 then
  local count, devices = #tessera.core.devices(), {}
  for i = 1, MESH.dp * MESH.ep do
    devices[i] = HOME ~= "cpu" and places[(i - 1) % #places + 1] or count >= MESH.dp * MESH.ep and dist.range(i - 1, i)[1] or "cpu:0"
  end
  mesh = dist.Mesh { axes = { "dp", "ep" }, shape = { MESH.dp, MESH.ep }, devices = devices }
end

local function batch(n)
  local x = rng.normal({ n, N, D }, { device = HOME })
  return x, filtered(x)
end

local function trained(name, Net)
  rng.seed(2)
  local model = Net()
  if HOME ~= "cpu" then model:to(HOME) end
  if mesh then dist.shard_module(model, mesh, name == "mixture" and { ["*experts.*"] = { "ep" } } or {}) end
  local step = graph.training_step(model, function(m, x, y)
    local made, cost, dropped = m(x)
    local loss = op.mse(made, y)
    return loss + 0.01 * cost, loss, dropped
  end, optim.AdamW(model:parameters()), {
    schedule = optim.schedule.cosine { lr = options.lr, warmup = math.min(50, options.steps), steps = math.max(options.steps, 1) },
    mesh = mesh, autocast = options.dtype ~= "f32" and options.dtype or nil,
  })
  local bar, dropped = data.progress(options.steps, { label = name, unit = "token", scale = B * F }), 0
  for i = 1, options.steps do
    local _, loss, gone = step(batch(B))
    bar:update(i, { loss = loss })
    if CAPACITY and gone then dropped = dropped + gone:item() end
  end
  bar:finish()
  return model, dropped
end

-- ---- what the router has learned: by band and expert, how many choices; and how much of a choice the band tells, in bits
local function histogram(index)
  local counts = op.one_hot(index, { classes = EXPERTS }):cast("i64"):sum { axis = { 0, 1, 3 } } -- [F, EXPERTS]
  local ramp = " .:-=+*#%@"
  local most = DEPTH * index.shape[2]
  print "experts over the frequencies, low to high: how many of the signals choose them"
  for e = 0, EXPERTS - 1 do
    local line, column = {}, counts:select(1, e):totable()
    for k = 1, math.min(F, 64) do
      local share = column[math.floor((k - 1) * F / math.min(F, 64)) + 1] / most
      line[k] = ramp:sub(math.floor(share * 9 + 0.5) + 1, math.floor(share * 9 + 0.5) + 1)
    end
    print(("  %2d |%s|"):format(e, table.concat(line)))
  end
  local list = {}
  for b = 1, BANDS do list[b] = counts:narrow(0, first[b - 1], first[b] - first[b - 1]):sum { axis = 0 } end
  local bands = op.stack(list)
  local p = bands:cast "f64" / bands:sum():item()
  local apart = p / (p:sum { axis = 0, keepdims = true } * p:sum { axis = 1, keepdims = true })
  local bits = op.where(p:gt(0), p * op.log2(apart), 0):sum():item()
  print "choices by band (rows) and expert"
  for b, row in ipairs(bands:totable()) do
    for e, n in ipairs(row) do row[e] = ("%8d"):format(n) end
    print(("  %2d %s"):format(b, table.concat(row)))
  end
  print(("the band tells %.2f bits of a choice, of %.2f that it could"):format(bits, math.log(EXPERTS / CHOSEN) / math.log(2)))
  return bits
end

local result, losses = {}, {}
for _, name in ipairs { "mixture", "dense" } do
  if options.only == "both" or options.only == name then
    local model, dropped = trained(name, networks[name])
    for key, t in pairs(model:state_dict()) do result[name .. "." .. key] = t end
    print(("%s: %d weights, %d multiplications a token and layer%s"):format(name, model:num_parameters(),
      CHOSEN * 2 * W * HIDDEN + W * EXPERTS, CAPACITY and (", %d choices dropped"):format(dropped) or ""))
    rng.seed(3) -- other signals
    local x, y = batch(2 * B)
    local power = y:square():mean():item()
    local made, _, _, index = tessera.no_grad(graph.module(name, function(t) return model(t) end), x)
    losses[name] = op.mse(made, y):item()
    print(("  loss on other signals %.5f, %.1f%% of their power"):format(losses[name], 100 * losses[name] / power))
    if index then losses.bits = histogram(index) end
  end
end
if losses.mixture and losses.dense then
  print(("loss of the mixture, over that of the dense network: %.2f"):format(losses.mixture / losses.dense))
  if options.size == "laptop" and options.steps >= 300 then
    assert(losses.mixture < 0.6 * losses.dense, "the mixture is no better")
    assert(losses.bits > 0.3, "the router has not found the bands")
  end
end
dist.leaves(0)
return result
