-- What a product whose sum is sent in chunks of rows is made of is made in the same chunks: the bits are those without, forward and
-- backward, and the plan shows what runs.
local tessera = require "tessera"
local core, op, dist, graph, rng, nn, optim = tessera.core, tessera.op, tessera.dist, tessera.graph, tessera.rng, tessera.nn, tessera.optim
tessera.jit.later(false)

local function mesh_of(kind, n, axes, shape)
  local devices = {}
  for i = 1, n do devices[i] = kind == "cpu" and "cpu:0" or ("%s:%d"):format(kind, i - 1) end
  return dist.Mesh { axes = axes or { "tp" }, shape = shape, devices = devices }
end

-- Products of what is returned, of what two read, of gates, behind a norm.
local forms = {
  mlp = function(x, a, b) return op.matmul(op.gelu_tanh(op.matmul(x, a)), b) end,
  bias = function(x, a, b, c, d) return op.matmul(op.tanh(op.matmul(x, a) + d), b) end,
  gated = function(x, a, b, c) return op.matmul(op.silu(op.matmul(x, a)) * op.matmul(x, c), b) end,
  norm = function(x, a, b, c)
    local y = op.rmsnorm(x * 2)
    return op.matmul(op.silu(op.matmul(y, a)) * op.matmul(y, c), b) + x
  end,
  kept = function(x, a, b)
    local h = op.gelu_tanh(op.matmul(x, a))
    return op.matmul(h, b), h
  end,
  read = function(x, a, b)
    local h = op.tanh(op.matmul(x, a))
    local mean = h:mean { axis = 0 }
    return op.matmul(h, b) + mean:sum()
  end,
  beside = function(x, a, b, c) -- what reads h before the first product is made with it
    local h, gate = op.tanh(op.matmul(x, a)), op.matmul(x, c)
    local u = h * gate
    return op.matmul(h, b), op.matmul(u, b)
  end,
  two = function(x, a, b, c)
    local h = op.tanh(op.matmul(x, a))
    return op.matmul(h, b), op.matmul(h * op.matmul(x, c), b)
  end,
}
-- Hashes of results, and the plan.
local function run(how, form, mesh, shape, layout, quick)
  return dist.overlap(how, function()
    local function normal(s, seed, l) return dist.shard(op.normal(s, { seed = seed }), mesh, l) end
    local x = normal(shape, 1, layout or {})
    local a, b = normal({ 16, 32 }, 2, { nil, "tp" }), normal({ 32, 16 }, 3, { "tp" })
    local c, d = normal({ 16, 32 }, 4, { nil, "tp" }), normal({ 32 }, 5, { "tp" })
    local f = graph.module(form, forms[form])
    local out = {}
    for turn = 1, 2 do
      for _, y in ipairs { f(x, a, b, c, d) } do out[#out + 1] = y:gather():hash() end
    end
    if quick then return table.concat(out, " ") end
    return table.concat(out, " "), f:plan "steps", f:why().remarks
  end)
end
local function behind(remarks)
  local list = {}
  for _, r in ipairs(remarks) do list[#list + 1] = r:match "each behind its rows of (%d+) product" end
  return table.concat(list, " ")
end

local products = { mlp = "1", bias = "1", gated = "2", norm = "2", kept = "1", read = "", two = "1 1", beside = "1" }
for form, want in pairs(products) do
  for _, kind in ipairs { "cpu", "sim" } do
    for _, leaves in ipairs { 0, 8 } do
      dist.leaves(leaves, function()
        local mesh = mesh_of(kind, 4)
        local bits = run(false, form, mesh, { 64, 16 })
        for _, n in ipairs { 2, 8 } do
          local got, _, remarks = run({ chunks = n }, form, mesh, { 64, 16 })
          assert(got == bits, form .. " " .. n)
          assert(behind(remarks) == want, form .. ": " .. table.concat(remarks, "\n"))
        end
      end)
    end
  end
end

-- Rows that are split as well, along the first axis of several; of a size that does not go up nothing is cut.
local square = mesh_of("sim", 4, { "dp", "tp" }, { 2, 2 })
for _, shape in ipairs { { 16, 16 }, { 4, 6, 16 }, { 6, 16 } } do
  local bits = run(false, "gated", square, shape, { "dp" })
  local got, _, remarks = run({ chunks = 2 }, "gated", square, shape, { "dp" })
  assert(got == bits)
  assert(behind(remarks) == (shape[1] == 6 and "" or "2"), table.concat(remarks, "\n"))
end

-- Pieces of the first device, and what is sent.
local function short(text)
  local out, on = {}, false
  for line in text:gmatch "[^\n]+" do
    local n, part = line:match "^stage (%d+) part (%d+)"
    if n then
      on = part == "0"
      if on then out[#out + 1] = "stage " .. n end
    elseif line:match "^  %%" then
      if on then out[#out + 1] = line end
    elseif line:match "^  %l" then
      out[#out + 1] = line:match "^  (.-)%s*//" or line
    end
  end
  return table.concat(out, "\n")
end
local _, text = run({ chunks = 2 }, "kept", mesh_of("cpu", 2), { 64, 16 })
short(text) --> stage 0
-->   %3 = narrow %0 {axis=0 start=0 length=32} : f32[32,16]
-->   %4 = matmul %3, %1 : f32[32,16]
-->   %5 = gelu_tanh %4 : f32[32,16]
-->   %6 = matmul %5, %2 : f32[32,16]
--> start sum %10 f32[32,16] -> %9 f32[32,16]
--> stage 1
-->   %3 = narrow %0 {axis=0 start=32 length=32} : f32[32,16]
-->   %4 = matmul %3, %1 : f32[32,16]
-->   %5 = gelu_tanh %4 : f32[32,16]
-->   %6 = matmul %5, %2 : f32[32,16]
--> start sum %14 f32[32,16] -> %13 f32[32,16]
--> stage 2
-->   %2 = concat %0, %1 : f32[64,16]
--> done sum %10 f32[32,16] -> %9 f32[32,16]
--> done sum %14 f32[32,16] -> %13 f32[32,16]
--> stage 3
-->   %2 = concat %0, %1 : f32[64,16]

-- ---- training steps: backward passes have the same form
local Block = nn.Module:extend "Block"
function Block:init(gated)
  self.norm, self.up, self.down = nn.RMSNorm(16), nn.Linear(16, 32, { bias = not gated }), nn.Linear(32, 16, { bias = not gated })
  if gated then self.gate = nn.Linear(16, 32, { bias = false }) end
end
function Block:forward(x)
  local h = self.norm(x)
  if self.gate then return x + self.down(op.silu(self.gate(h)) * self.up(h)) end
  return x + self.down(op.gelu_tanh(self.up(h)))
end
local function train(how, kind, n, gated)
  return dist.overlap(how, function()
    rng.seed(3)
    local mesh, model = mesh_of(kind, n), nn.Sequential { Block(gated), Block(gated) }
    dist.shard_module(model, mesh, { ["*.up.weight"] = { "tp" }, ["*.down.weight"] = { nil, "tp" }, [gated and "*.gate.weight" or "*.up.bias"] = { "tp" } })
    local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end, optim.AdamW(model:parameters(), { lr = 1e-2 }), { mesh = mesh })
    local x, y, out = rng.normal { 32, 16 }, rng.normal { 32, 16 }, {}
    for i = 1, 2 do out[i] = step(x, y):hash() end
    for _, p in ipairs(model:parameters()) do out[#out + 1] = p:gather():hash() end
    return table.concat(out, " "), behind(step:why().remarks)
  end)
end
for _, leaves in ipairs { 0, 4 } do
  dist.leaves(leaves, function()
    for _, gated in ipairs { false, true } do
      for _, kind in ipairs { "cpu", "sim" } do
        local want = train(false, kind, 2, gated)
        local got, list = train({ chunks = 2 }, kind, 2, gated)
        assert(got == want, kind)
        assert(list == (gated and "2 2" or "1 1 1 1"), list)
      end
    end
  end)
end

-- ---- costs: whole waves of tiles, and something to hide
local function by_costs(n, rows, inner, hidden)
  return dist.overlap(true, function()
    local mesh = dist.Mesh { axes = { "tp" }, shape = { n }, devices = dist.range(1000, 1000 + n) }
    local function t(shape, l) return dist.tensor { shape = shape, dtype = "bf16", mesh = mesh, layout = l, abstract = true } end
    local f = graph.module("mlp", forms.mlp)
    f:plan(t({ rows, inner }, {}), t({ inner, hidden }, { nil, "tp" }), t({ hidden, inner }, { "tp" }))
    local remarks = f:why().remarks
    return remarks[#remarks]:match "its sum is sent (.-): about"
  end)
end
by_costs(4, 8192, 4096, 16384) --> in 8 chunks of rows, each behind its rows of 1 product
by_costs(4, 2048, 4096, 16384) --> in 2 chunks of rows, each behind its rows of 1 product
by_costs(4, 1024, 4096, 16384) --> as one

-- ---- a plan for which there is no memory is none
local mesh = mesh_of("cpu", 2)
local want = run({ chunks = 4 }, "gated", mesh, { 64, 16 })
for n = 1, 2000, 37 do
  core.fail_after(n)
  local fine, got = pcall(run, { chunks = 4 }, "gated", mesh, { 64, 16 }, {}, true)
  core.fail_after(0)
  assert(not fine or got == want, n)
end
run({ chunks = 4 }, "gated", mesh, { 64, 16 }) == want --> true
