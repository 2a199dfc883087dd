-- What is written out is recognised before it is differentiated: the gradients are those of
-- the operators, in memory and in numbers; what else the program reads stays; the strict
-- profile and the tape differentiate what was written.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, nn, optim = tessera.op, tessera.graph, tessera.nn, tessera.optim
local last = { axis = -1, keepdims = true }

local function ops(f, ...)
  f(...)
  local list = {}
  for name in f:ir("graph"):gmatch "= ([%w_]+)" do list[#list + 1] = name end
  return " " .. table.concat(list, " ") .. " "
end
local function has(list, name) return list:find(" " .. name .. " ", 1, true) ~= nil end
local function close(a, b) return op.le((a - b):abs(), b:abs() * 1e-4 + 1e-5):all():item() end

-- ---- written out
local by_hand = {}
function by_hand.softmax(x)
  local e = op.exp(x - x:max(last))
  return e / e:sum(last)
end
function by_hand.attention(q, k, v)
  local s, n = op.matmul(q, k:T()) / math.sqrt(q.shape[#q.shape]), q.shape[#q.shape - 1]
  s = op.where(op.tril(op.ones { n, n }):eq(0), -1 / 0, s)
  local y = op.matmul(by_hand.softmax(s), v)
  return y
end
function by_hand.layernorm(x, w, b)
  local c = x - x:mean(last)
  return c / op.sqrt((c * c):mean(last) + 1e-5) * w + b
end
function by_hand.gelu(x) return 0.5 * x * (1 + op.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3))) end
function by_hand.loss(x, t)
  local s = x - x:max(last)
  local logp = s - op.log(op.exp(s):sum(last))
  return -logp:gather(t:unsqueeze(-1), { axis = -1 }):mean()
end
local as_operators = {
  attention = function(q, k, v) return op.attention(q, k, v, { causal = true, scale = 1 / math.sqrt(q.shape[#q.shape]) }) end,
  layernorm = function(x, w, b) return op.layernorm(x, w, b, { eps = 1e-5 }) end,
  gelu = function(x) return op.gelu(x, { approximate = "tanh" }) end,
  loss = function(x, t) return op.cross_entropy(x, t) end,
}

-- ---- a step of a GPT
local WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 32, 4, 50, 24, 3
local GPT = nn.Module:extend "GPT"
function GPT:init(use)
  self.use = use
  self.embed = nn.Embedding(VOCABULARY, WIDTH)
  self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
  self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
  self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
  self.head = nn.Linear(WIDTH, VOCABULARY)
end
function GPT:forward(ids)
  local use, x = self.use, self.embed(ids)
  local function norm(n, v) return use.layernorm(v, n.weight, n.bias) end
  local parts = self.qkv(norm(self.n1, x)):reshape(BATCH, LENGTH, 3, HEADS, WIDTH / HEADS):permute(2, 0, 3, 1, 4)
  local y = use.attention(parts[0], parts[1], parts[2])
  x = x + self.proj(y:permute(0, 2, 1, 3):reshape(BATCH, LENGTH, WIDTH))
  return self.head(x + self.down(use.gelu(self.up(norm(self.n2, x)))))
end

local ids = op.randint({ BATCH, LENGTH }, { low = 0, high = VOCABULARY, seed = 2, stream = 1 })
local targets = op.randint({ BATCH, LENGTH }, { low = 0, high = VOCABULARY, seed = 2, stream = 2 })
local function trained(use)
  core.seed(5)
  local model = GPT(use)
  local step = graph.training_step(model, function(m, x, t) return use.loss(m(x), t) end,
    optim.SGD(model:parameters(), { lr = 0.1 }))
  local list, loss = ops(step, ids, targets), nil
  for _ = 1, 5 do loss = step(ids, targets) end
  return step, list, loss, model
end
local written, list, loss, model = trained(by_hand)
local operators, wanted, want = trained(as_operators)
for _, name in ipairs { "attention", "attention_grad", "layernorm", "layernorm_grad", "gelu_tanh_grad", "cross_entropy_grad" } do
  assert(has(list, name), name)
end
for _, name in ipairs { "exp", "tanh", "log", "max", "softmax", "sqrt" } do assert(not has(list, name), name) end
-- No scores in memory.
written:ir("graph"):find(("%d,%d]"):format(LENGTH, LENGTH), 1, true) --> nil
close(loss, want) --> true
-- As much memory but for the classes: those of a gather count from the end as well.
local more = written:stats().slab - operators:stats().slab
more <= BATCH * LENGTH * 32 --> true
written:rewrites():match "softmax_attention at [^\n]+" --> softmax_attention at tests/graph/recognise.lua:27: one operator, no scores in memory (rounding)
for _, rule in ipairs { "norm_div", "norm_weight", "norm_bias", "gelu", "picked_loss", "attention" } do
  assert(written:rewrites():find(rule, 1, true), rule)
end

-- ---- every derivative
local x = op.normal({ 6, 8 }, { seed = 3, stream = 1 })
local w, b = op.normal({ 8 }, { seed = 3, stream = 2 }), op.normal({ 8 }, { seed = 3, stream = 3 })
local u = op.normal({ 6, 8 }, { seed = 3, stream = 4 })
local function scalar(f) return function(...) return (f(...) * u):sum() end end
has(ops(graph.grad(scalar(by_hand.layernorm), { 1, 2, 3 }), x, w, b), "layernorm_grad") --> true
has(ops(graph.value_and_grad(scalar(by_hand.softmax)), x), "softmax_grad") --> true
has(ops(graph.vjp(by_hand.softmax), x, u), "softmax_grad") --> true
local sharp = graph.vjp(by_hand.layernorm)
local soft = graph.vjp(as_operators.layernorm)
local got, expected = { sharp(x, w, b, u) }, { soft(x, w, b, u) }
for i = 1, 3 do assert(close(got[i], expected[i]), i) end
-- Forward mode and second derivatives.
close(graph.hvp(scalar(by_hand.softmax))(x, u), graph.hvp(scalar(op.softmax))(x, u)) --> true
local _, moved = graph.jvp(by_hand.softmax)(x, u)
local _, there = graph.jvp(op.softmax)(x, u)
close(moved, there) --> true
local function penalty(f) return function(v) return op.square(graph.grad(scalar(f))(v)):sum() end end
close(graph.grad(penalty(by_hand.softmax))(x), graph.grad(penalty(op.softmax))(x)) --> true
-- A loop's body and a checkpoint.
local function looped(f) return function(v) return (op.scan(function(c, r) c = f(c + r) return c, c end, v[0], v)):mul(w):sum() end end
has(ops(graph.grad(looped(by_hand.softmax)), x), "softmax_grad") --> true
close(graph.grad(looped(by_hand.softmax))(x), graph.grad(looped(op.softmax))(x)) --> true
close(graph.grad(scalar(graph.checkpoint(by_hand.softmax)))(x), graph.grad(scalar(op.softmax))(x)) --> true

-- ---- what the program reads as well
-- The value is the one that the gradient read: there is one forward pass.
local function count(list, name) return select(2, list:gsub(" " .. name, "")) end
count(ops(graph.value_and_grad(scalar(by_hand.layernorm), { 1, 2, 3 }), x, w, b), "layernorm ") --> 1
local value = graph.value_and_grad(scalar(by_hand.layernorm))(x, w, b)
value:hash() == graph.module(scalar(by_hand.layernorm))(x, w, b):hash() --> true
-- Scores that are returned stay, and the attention that they belong to with them.
local layer = nn.Linear(8, 8)
local function scores(m, v)
  local p = by_hand.softmax(op.matmul(m(v), v:T()))
  return op.matmul(p, v):sum(), p
end
local looking = graph.training_step(layer, scores, optim.SGD(layer:parameters(), { lr = 0 }))
local shown = ops(looking, x)
has(shown, "attention") --> false
count(shown, "softmax ") --> 1
local _, p = looking(x)
close(p, select(2, scores(layer, x))) --> true
-- Values used after the gradient was made; gradients by values that are not arguments.
local function inner(v)
  local h = v * 2
  local n, dn = graph.value_and_grad(scalar(by_hand.softmax))(h)
  return n, dn, by_hand.softmax(h):sum(), graph.grad(scalar(by_hand.softmax))(h + 1)
end
local after = { graph.module(inner)(x) }
local plainly = { scalar(op.softmax)(x * 2), graph.grad(scalar(op.softmax))(x * 2), op.softmax(x * 2):sum(),
  graph.grad(scalar(op.softmax))(x * 2 + 1) }
for i = 1, 4 do assert(close(after[i], plainly[i]), i) end
-- Rules do not look behind what is differentiated by.
graph.module(function(v) local h = -v return graph.grad(function(z) return (-z * u):sum() end)(h) end)(x):add(u):abs():max():item() --> 0
local function twice(v)
  local y = by_hand.softmax(v)
  local z = (y * y * u):sum()
  local first = graph.grad(scalar(by_hand.softmax))(v)
  return graph.grad(function(t) return (t * t * u):sum() end)(y) + 0 * first, z
end
close((graph.module(twice)(x)), 2 * op.softmax(x) * u) --> true
-- A gradient that a program stops stays stopped, whatever it is part of.
local function stopped(v) local e = op.exp(v) return (e / e:detach():sum(last) * u):sum() end
close(graph.grad(stopped)(x), op.softmax(x) * u) --> true

-- ---- buffers that the forward pass changes
local function running(use)
  core.seed(7)
  local m = nn.BatchNorm(8)
  local step = graph.training_step(m, function(k, v) return (use(k(v)) * u):sum() end, optim.SGD(m:parameters(), { lr = 0.1 }))
  for _ = 1, 3 do step(x) end
  return m.running_mean, m.running_var
end
local mean1, var1 = running(by_hand.softmax)
local mean2, var2 = running(op.softmax)
close(mean1, mean2) and close(var1, var2) --> true

-- ---- sizes as symbols
local sized = graph.grad(function(v) return op.square(by_hand.softmax(v)):sum() end)
for _, n in ipairs { 4, 7, 9 } do
  local v = op.normal({ n, 5 }, { seed = 4, stream = n })
  assert(close(sized(v), graph.grad(function(t) return op.square(op.softmax(t)):sum() end)(v)), n)
end
sized:ir("graph"):match "softmax_grad [^\n]*" --> softmax_grad %0, %1 {axis=1} : f32[B,5]
sized:rewrites():match "exp_share" --> exp_share

-- ---- where nothing is recognised
tessera.numerics.profile("strict", function() return has(ops(graph.grad(scalar(by_hand.softmax)), x), "softmax_grad") end) --> false
-- backward() differentiates what ran.
local v = x:clone()
v.requires_grad = true
scalar(by_hand.softmax)(v):backward()
local strict = tessera.numerics.profile("strict", function() return graph.grad(scalar(by_hand.softmax))(x):hash() end)
v.grad:hash() == strict --> true
-- Of a captured function, what that was recognised as.
local module = graph.module(by_hand.softmax)
local m = x:clone()
m.requires_grad = true
scalar(module)(m):backward()
close(m.grad, v.grad) --> true
