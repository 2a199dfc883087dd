-- What is listed before a run is what is sent in it: the same collectives, bytes and places, in the same order.
local tessera = require "tessera"
local core, dist, op, graph = tessera.core, tessera.dist, tessera.op, tessera.graph
local cpu = "cpu:0"
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { cpu, cpu, cpu, cpu } }
local function spread(shape, spec, seed) return dist.shard(op.normal(shape, { seed = seed }), mesh, spec) end
local x, w1, w2 = spread({ 12, 6 }, { "dp" }, 1), spread({ 6, 8 }, { nil, "tp" }, 2), spread({ 8, 4 }, { "tp" }, 3)

local programs = {
  layer = function(t) return op.matmul(op.relu(op.matmul(t, w1)), w2) end,
  mean = function(t) return (t * t):mean() end,
  rounded = function(t) return t:cast "bf16":sum() end,
  softmax = function(t) return t:reshard { nil, "tp" }:softmax { axis = 1 } end,
  norm = function(t) return op.layernorm(t:reshard { nil, "dp" }) end,
  gather = function(t) return t:gather() * 2 end,
  scattered = function(t) return op.matmul(t:reshard { nil, "tp" }, spread({ 6, 5 }, { "tp" }, 4), { out = { "tp" } }) end,
  moves = function(t) return t:reshard { "tp" }:reshard { { "tp", "dp" } }:reshard {} end,
}
local function same(name, f)
  f(x)
  local before = core.mesh_sent()
  f(x)
  local _, real = core.mesh_sent(before)
  local plan = f:collectives(x)
  assert(#plan == #real, ("%s: %d listed, %d sent"):format(name, #plan, #real))
  for i, row in ipairs(plan) do
    for _, key in ipairs { "kind", "bytes", "from", "to", "operator", "place" } do
      assert(row[key] == real[i][key], ("%s, %d: %s is %s, was listed as %s"):format(name, i, key, tostring(real[i][key]), tostring(row[key])))
    end
  end
  return plan
end
for name, f in pairs(programs) do
  same(name, graph.module(name, f))
  if name ~= "gather" then same(name .. "_grad", graph.grad(graph.module(name, function(t) return f(t):cast "f32":square():sum() end))) end
end

-- Bytes by hand: of a sum over tp each device but the first gets f32[6,4], the first the summands of the other.
local layer = graph.module("layer", programs.layer)
local rows = same("layer", layer)
#rows, rows[1].kind, rows[1].bytes, rows[1].operator, rows[1].axes[1] --> 1, all_reduce, 384, matmul, tp
tostring(rows):match "^[^\n]* matmul" --> all_reduce  over tp  384 bytes  matmul
tostring(layer:collectives()):match "[^\n]*$" --> 1 collective, 384 bytes
tostring(graph.module("f", op.tanh):collectives(op.ones { 3 })) --> nothing is sent
graph.module("f", op.tanh):collectives() --! give some

-- Planned tensors are listed, too, and nothing is counted as sent.
local far = dist.Mesh { axes = { "tp" }, devices = { false, false, false, false } }
local big = graph.module("big", function(a, b) return op.matmul(a, b) end)
local a = dist.tensor { shape = { 1e5, 1e6 }, mesh = far, layout = { nil, "tp" } }
local b = dist.tensor { shape = { 1e6, 1e5 }, mesh = far, layout = { "tp" } }
local before = core.mesh_sent()
big:collectives(a, b)[1].bytes --> 240000000000
big(a, b) --> planned f32[100000,100000] on tp=4
core.mesh_sent() == before --> true
before = core.mesh_sent()
x:reshard { "tp" }
tostring(dist.sent(core.mesh_sent() - before)):match "^%S+" --> all_gather

-- ---- modes
local rows_of = spread({ 6, 8 }, { "dp" }, 1)
dist.explicit(op.matmul, x, rows_of) --! matmul: b f32[6@dp,8] would be moved to f32[6,8]: all_gather, 384 bytes
dist.explicit(op.matmul, x, rows_of) --! write b = b:reshard{} before it
dist.hidden() --> allow
local product = graph.module("product", function(u, v) return op.matmul(u, v) end)
dist.explicit(product, x, rows_of) --! matmul: b f32[6@dp,8] would be moved
dist.explicit(product, x, rows_of:reshard {}):sum():item() ~= nil --> true
dist.explicit(op.matmul, x, w1):sum():item() ~= nil --> true
dist.hidden "never" --! it is "allow" or "error"

-- ---- out
local p, q = spread({ 8, 6 }, { "dp" }, 1), spread({ 6, 8 }, { nil, "dp" }, 2)
op.matmul(p, q) --! the option out = spec
tostring(dist.spec_of(op.matmul(p, q, { out = { nil, "dp" } }))) --> {nil, "dp"}
tostring(dist.spec_of(p:relu { out = { nil, "tp" } })) --> {nil, "tp"}
local full = op.matmul(p:gather(), q:gather())
assert((op.matmul(p, q, { out = { "dp" } }):gather() - full):abs():max():item() < 1e-5)
op.relu(op.ones { 2 }, { out = { "dp" } }) --! no operand does
op.relu(p, { out = { "dq" } }) --! relu: option 'out': mesh dp=2 tp=2
op.relu(p, { out = 1 }) --! must be a ShardSpec or its list, not a number

-- ---- at the prompt
local prompt = require "tessera.prompt"
layer_of_prompt = layer -- luacheck: ignore
require "tessera.prompt.json"(prompt.data.collectives "layer_of_prompt"):match "^.-\"from\"" --> [{"axes":["tp"],"bytes":384,"count":1,"from"
prompt.collectives "meshes" --! there is no 'meshes'

-- What ZeRO stores in pieces is gathered as what it is cast to, if that has fewer bytes.
do
  local nn, optim = tessera.nn, tessera.optim
  local mesh = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }
  local m = nn.Linear(64, 128)
  local function loss(layer, x)
    return tessera.autocast("bf16", function() return layer(x):cast("f32"):pow(2):mean() end)
  end
  dist.leaves(2, function()
    local step = graph.training_step(m, loss, optim.SGD(m:parameters(), { lr = 1e-2 }), { mesh = mesh, plan = { zero = 3 } })
    step(tessera.rng.normal { 16, 64 })
    local gathered = 0
    for _, s in ipairs(dist.sent(5)) do
      if s.kind == "all_gather" then gathered = gathered + s.bytes end
    end
    assert(gathered == (64 * 128 + 128) * 2, gathered)
  end)
end
