-- Steps of training of large models, planned for devices that are not there: `tessera scripts/bench/mesh/plans.lua [ROW..]`. A row of
-- the table in docs/performance_mesh.md each: memory of the device with the most, what a device receives over each axis of the
-- mesh, how long places of a pipeline wait, and how long planning took. Nothing is computed; the models are of their true shapes.

local T = require "tessera"
local op, nn, optim, graph, dist, rng = T.op, T.nn, T.optim, T.graph, T.dist, T.rng

local function linear(a, b, bias) return nn.Linear(a, b, { bias = bias or false }) end
local function heads(y, n, d) return y:reshape(y.shape[1], y.shape[2], n, d):permute(0, 2, 1, 3) end

-- ---- attention of grouped heads, with projections that tp splits by heads
local Attention = nn.Module:extend "Attention"
function Attention:init(c)
  self.c = c
  self.q, self.k = linear(c.width, c.heads * c.head, c.bias), linear(c.width, c.kv_heads * c.head, c.bias)
  self.v, self.out = linear(c.width, c.kv_heads * c.head, c.bias), linear(c.heads * c.head, c.width, c.bias)
  if c.sink then
    self.sink = op.zeros { c.heads }
    self.sink.requires_grad = true
  end
end
function Attention:forward(x, window)
  local c = self.c
  local q, k, v = heads(self.q(x), c.heads, c.head), heads(self.k(x), c.kv_heads, c.head), heads(self.v(x), c.kv_heads, c.head)
  q, k = op.rope(q, c.rope), op.rope(k, c.rope)
  local how = { causal = true, window = window }
  local y = self.sink and op.attention(q, k, v, nil, self.sink:cast(q.dtype), how) or op.attention(q, k, v, how)
  return self.out(y:permute(0, 2, 1, 3):flatten(2, 3))
end

local Dense = nn.Module:extend "Dense"
function Dense:init(c)
  self.gate, self.up, self.down = linear(c.width, c.hidden), linear(c.width, c.hidden), linear(c.hidden, c.width)
end
function Dense:forward(x) return self.down(op.silu(self.gate(x)) * self.up(x)) end

local Block = nn.Module:extend "Block"
function Block:init(c, i)
  self.before, self.between = nn.RMSNorm(c.width, { eps = 1e-5 }), nn.RMSNorm(c.width, { eps = 1e-5 })
  self.attention = Attention(c)
  self.window = c.window and i % 2 == 1 and c.window or nil
  self.mlp = c.experts and nn.MoE(c.width, c.hidden, { experts = c.experts, k = c.chosen, activation = "clamped_swiglu", router_bias = true,
    capacity = 1 }) or Dense(c)
end
function Block:forward(x)
  x = x + self.attention(self.before(x), self.window)
  return x + (self.mlp(self.between(x)))
end

local Model = nn.Module:extend "Model"
function Model:init(c)
  self.embedding, self.blocks, self.norm, self.head = nn.Embedding(c.vocabulary, c.width), nn.List(), nn.RMSNorm(c.width), linear(c.width, c.vocabulary)
  for i = 1, c.layers do self.blocks[i] = Block(c, i) end
end
function Model:forward(ids)
  local x = self.embedding(ids)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

local MODELS = {
  ["405B dense"] = { layers = 126, width = 16384, heads = 128, kv_heads = 8, head = 128, hidden = 53248, vocabulary = 128256, rope = { theta = 5e5 }, context = 8192 },
  ["gpt-oss-120b"] = { layers = 36, width = 2880, heads = 64, kv_heads = 8, head = 64, hidden = 2880, vocabulary = 201088, context = 4096,
    rope = { theta = 150000, scaling = "yarn", factor = 32, beta_fast = 32, beta_slow = 1, original_context = 4096 },
    experts = 128, chosen = 4, bias = true, sink = true, window = 128 },
}
-- Projections to heads and to the hidden width by rows, back by columns.
local TP = { ["*.q.weight"] = { "tp" }, ["*.k.weight"] = { "tp" }, ["*.v.weight"] = { "tp" }, ["*.out.weight"] = { nil, "tp" }, ["*.gate.weight"] = { "tp" },
  ["*.up.weight"] = { "tp" }, ["*.down.weight"] = { nil, "tp" }, ["head.weight"] = { "tp" }, ["embedding.weight"] = { nil, "tp" } }

-- name, axes of the mesh, plan, sequences of a step, how weights lie, how the batch lies
local ROWS = {
  { "405B dense", { { "dp", 1 }, { "tp", 8 } }, { micro = 8 }, 8, TP },
  { "405B dense", { { "dp", 9 }, { "tp", 8 } }, { zero = 3 }, 9, TP },
  { "405B dense", { { "dp", 4 }, { "pp", 16 }, { "tp", 8 } }, { zero = 1, pp = { micro = 32, rematerialise = true } }, 128, TP },
  { "405B dense", { { "dp", 64 }, { "tp", 8 } }, { zero = 3 }, 64, TP },
  { "gpt-oss-120b", { { "dp", 8 } }, { zero = 3 }, 8, { ["*.experts.*"] = { "dp" } } },
  { "gpt-oss-120b", { { "dp", 9 }, { "ep", 8 } }, { zero = 3 }, 72, { ["*.experts.*"] = { "ep" } }, { { "dp", "ep" } } },
  { "gpt-oss-120b", { { "dp", 4 }, { "ep", 128 } }, { zero = 3 }, 512, { ["*.experts.*"] = { "ep" } }, { { "dp", "ep" } } },
}

local function loss(m, x, y)
  local logits = m(x)
  return op.cross_entropy(logits:reshape(-1, logits.shape[3]), y:reshape(-1))
end

-- What a device receives over each axis or set of axes, on average.
local function received(rows, n)
  local by, order, list = {}, {}, {}
  for _, r in ipairs(rows) do
    local axes = table.concat(r.axes, "+")
    if r.bytes < n * 1e6 then axes = nil end -- a loss, or how many rows count
    if axes and not by[axes] then order[#order + 1], by[axes] = axes, 0 end
    if axes then by[axes] = by[axes] + r.bytes / n end
  end
  table.sort(order)
  for i, axes in ipairs(order) do list[i] = ("%s %.3g GB"):format(axes, by[axes] / 1e9) end
  return table.concat(list, ", ")
end

local function number(text, unit) return tonumber(text) * ({ bytes = 1, KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30, TiB = 2 ^ 40 })[unit] end

local function row(r)
  local name, mesh_axes, plan, batch, weights, layout = unpack(r, 1, 6)
  local c, axes, shape, n = MODELS[name], {}, {}, 1
  for i, a in ipairs(mesh_axes) do axes[i], shape[i], n = a[1], a[2], n * a[2] end
  local start = os.clock()
  local mesh = dist.Mesh { axes = axes, shape = shape, devices = dist.range(100000, 100000 + n) }
  local model = dist.abstract(mesh, Model, c)
  dist.shard_module(model, mesh, weights)
  local step = graph.training_step(model, function(...) return T.autocast("bf16", loss, ...) end, optim.AdamW(model:parameters(), { lr = 1e-4 }),
    { mesh = mesh, plan = plan })
  local ids = dist.tensor { shape = { batch, c.context }, dtype = "i64", mesh = mesh, layout = layout or { "dp" }, abstract = true }
  local text, held, most = tostring(step:plan(ids, ids)), 0, 0
  for a, u, b, v in text:gmatch "begins with ([%d.]+) (%a+), has at most ([%d.]+) (%a+)" do
    held, most = math.max(held, number(a, u)), math.max(most, number(b, v))
  end
  local sent = received(step:collectives(ids, ids), n)
  local words = {}
  for i, a in ipairs(mesh_axes) do words[i] = a[1] .. a[2] end
  local how = ("ZeRO-%d%s%s"):format(plan.zero or 0, plan.pp and (", 1f1b of %d"):format(plan.pp.micro) or plan.micro and (", %d micro-batches"):format(plan.micro) or "",
    plan.pp and plan.pp.rematerialise and ", again" or "")
  print(("| %s | %d | %s | %s | %d x %d | %.1f | %.1f | %s | %s | %.1f |"):format(name, n, table.concat(words, " "), how, batch, c.context,
    held / 1e9, most / 1e9, sent, text:match "wait (%d+%%)" or "", os.clock() - start))
  io.stdout:flush()
end

print "| model | devices | mesh | plan | batch | begins with, GB | at most, GB | receives | waits | planned in, s |"
print "| --- | ---: | --- | --- | --- | ---: | ---: | --- | ---: | ---: |"
if arg[1] then
  for _, i in ipairs(arg) do row(ROWS[tonumber(i)]) end
else
  for _, r in ipairs(ROWS) do row(r) end
end
