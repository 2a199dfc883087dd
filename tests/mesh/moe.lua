-- Mixtures of experts whose experts are spread over a mesh: losses, weights and drops have the bits of one device, for
-- experts that divide among devices and that do not, f32 and bf16, without and with a capacity, eager and captured.
local tessera = require "tessera"
local dist, op, rng, nn, optim, graph = tessera.dist, tessera.op, tessera.rng, tessera.nn, tessera.optim, tessera.graph

local DEVICE = os.getenv "DEV" or ""
if DEVICE == "" then DEVICE = "cpu:0" end
if not DEVICE:find ":" then DEVICE = DEVICE .. ":0" end

local function mesh(shape, axes)
  local list, n = {}, 1
  for _, k in ipairs(shape) do n = n * k end
  for i = 1, n do list[i] = DEVICE end
  if dist.world() > 1 then list = dist.range(n) end -- tests/net runs it in several processes
  return dist.Mesh { axes = axes, shape = shape, devices = list }
end

local function hashes(model)
  local names, out, state = {}, {}, model:state_dict()
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do out[i] = state[name]:hash() end
  return table.concat(out, " ")
end

-- ---- a language model of one block
local VOCAB, WIDTH, EXPERTS = 29, 12, 4
local Model = nn.Module:extend "Model"
function Model:init(o)
  self.embedding, self.norm, self.last = nn.Embedding(VOCAB, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
  self.attn = nn.MultiHeadAttention(WIDTH, 2, { causal = true })
  self.moe = nn.MoE(WIDTH, 20, { experts = EXPERTS, k = o.k, capacity = o.capacity, activation = o.activation, noise = 0.1 })
end
function Model:forward(ids)
  local x = self.embedding(ids)
  x = x + self.attn(x)
  local y, routing = self.moe(self.norm(x))
  return op.matmul(self.last(x + y), self.embedding.weight:T()), routing
end

local function loss_of(m, x, y)
  local logits, r = m(x)
  local loss = op.cross_entropy(logits:reshape(-1, VOCAB), y:reshape(-1))
  loss = loss + op.load_balance_loss(r.logits, r.index) * 0.01 + op.router_z_loss(r.logits) * 0.001
  return loss, r.sizes, r.dropped
end

local function train(o)
  rng.seed(3)
  local model = Model(o)
  if o.mesh then dist.shard_module(model, o.mesh, { ["*experts.*"] = { o.over } }) end
  local opt = optim.AdamW(model:parameters(), { lr = 0.01 })
  local spread = o.mesh and not o.captured and require "tessera.dist.training"(model, opt, o.mesh)
  local step = o.captured and graph.training_step(model, loss_of, opt, { mesh = o.mesh, autocast = o.cast }) or function(...)
    local function run(...)
      local function loss_now(...) return loss_of(model, ...) end
      local loss, sizes, dropped
      if o.cast then loss, sizes, dropped = tessera.autocast(o.cast, loss_now, ...) else loss, sizes, dropped = loss_now(...) end
      loss:backward()
      return loss, sizes, dropped
    end
    if spread then return run(spread(...)) end
    return run(...)
  end
  local told = {}
  for i = 1, 3 do
    local ids = op.randint({ 5, 8 }, { low = 0, high = VOCAB, seed = 9, stream = i })
    local loss, sizes, dropped = step(ids:narrow(1, 0, 7):contiguous(), ids:narrow(1, 1, 7):contiguous())
    if not o.captured then
      opt:step()
      opt:zero_grad()
    end
    told[i] = loss:hash() .. " " .. sizes:hash() .. " " .. dropped:item()
  end
  return table.concat(told, " ") .. " " .. hashes(model)
end

local kinds = { { k = 2 }, { k = 2, capacity = 1 }, { k = 1, activation = "swiglu" } }
for _, captured in ipairs { false, true } do
  for _, cast in ipairs({ false, "bf16" }) do
    for i, o in ipairs(kinds) do
      o.captured, o.cast, o.mesh = captured, cast or nil, nil
      tessera.device(DEVICE, dist.leaves, 12, function()
        local alone = train(o)
        for _, m in ipairs { { { 1 }, { "ep" }, "ep" }, { { 2 }, { "ep" }, "ep" }, { { 3 }, { "ep" }, "ep" }, { { 4 }, { "ep" }, "ep" },
          { { 2, 2 }, { "dp", "ep" }, "ep" }, { { 3 }, { "dp" }, "dp" }, { { 2, 2 }, { "dp", "ep" }, { "dp", "ep" } } } do
          o.mesh, o.over = mesh(m[1], m[2]), m[3]
          local got = train(o)
          assert(got == alone, ("%s, %d, %s over %s\n%s\n%s"):format(captured and "captured" or "eager", i, cast or "f32",
            table.concat(m[1], " "), got, alone))
        end
      end)
    end
  end
end

-- ---- what is sent: all tokens there, choices back; by counts, rows of other devices' experts there and back
local two = mesh({ 2 }, { "ep" })
rng.seed(8)
local moe = nn.MoE(16, 24, { experts = 4, k = 2, bias = false })
local x = rng.normal { 64, 16 }
local want = moe(x)
dist.shard_module(moe, two, { ["experts.*"] = { "ep" } })
local there = dist.shard(x, two, { "ep" })
local f = graph.module("f", function(t) return (moe(t)) end)
local function bytes(kind, n)
  local sum = 0
  for _, s in ipairs(dist.sent(n)) do sum = sum + (s.kind == kind and s.bytes or 0) end
  return sum
end
f(there):hash() == want:hash() --> true
#f:collectives(there) --> 3
bytes("all_gather", 3) == 64 * 16 * 4 + 64 * 2 * 8 --> true
bytes("reduce_scatter", 3) == 64 * 2 * 16 * 4 --> true
local first, away = select(2, op.router(moe.router(x), { k = 2 })), 0
for t, row in ipairs(first:totable()) do
  for _, e in ipairs(row) do away = away + ((t > 32) ~= (e > 1) and 1 or 0) end
end
local y, routing = moe(there)
y:hash() == want:hash() --> true
bytes("all_to_all", 4) == 2 * away * 16 * 4 --> true
routing.sizes:sum():item() --> 128

-- Rows of -0 come back as they were, from whichever device.
local minus = op.full({ 4, 3, 2 }, -0.0)
local place, source = op.moe_places(tessera.tensor({ { 0 }, { 3 }, { 2 }, { 3 } }, { dtype = "i64" }), { experts = 4, capacity = 3 })
op.route_rows(dist.shard(minus, two, { "ep" }), place, source):hash() == op.route_rows(minus, place, source):hash() --> true
1 / op.route_rows(dist.shard(minus, two, { "ep" }), place, source):gather()[1][0][0]:item() --> -inf

-- A layout of leaves in a word of the operator.
local spread = dist.leaves(12, dist.shard, op.ones { 7, 2 }, two, { "ep" })
dist.leaves(12, function() return dist.replicate(op.ones { 7, 2 }, two):reshard { "ep" } + spread end):sum():item() --> 28

-- Summands of an expert's product of 16 bits are those of the matrix unit, before they are rounded: no factor is widened.
local halves = dist.Mesh { axes = { "tp" }, devices = { "sim:0", "sim:1" } }
local rows, w = op.normal({ 40, 64 }, { seed = 1 }):cast "bf16", op.normal({ 3, 64, 32 }, { seed = 2 }):cast "bf16"
local sizes = tessera.tensor({ 9, 0, 20 }, { dtype = "i64" })
local product = graph.module("product", op.grouped_matmul)
local a, b, c = dist.shard(rows, halves, { nil, "tp" }), dist.shard(w, halves, { nil, "tp" }), dist.replicate(sizes, halves)
product(a, b, c)
product:plan("steps"):match "grouped_matmul [^\n]*" --> grouped_matmul %0, %1, %2 {accumulate=f32} : f32[40,32]
local function one() return op.grouped_matmul(rows:to "sim:0", w:to "sim:0", sizes:to "sim:0"):hash() end
dist.leaves(2, function() return one() == op.grouped_matmul(a, b, c):gather():hash() end) --> true
