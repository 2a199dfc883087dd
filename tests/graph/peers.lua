-- Composite functions beside PyTorch and JAX (make_vectors.py, which has them by the same
-- names): values, gradients, jvp and hvp of captured functions in f64, to 1e-10.
local tessera = require "tessera"
local graph, op = tessera.graph, tessera.op
local stored = tessera.load "tests/graph/peers.safetensors"

local labels = tessera.tensor({ 1, 0, 3, 2 }, { dtype = "i64" })
local index = tessera.tensor({ 2, 0, 2, 1 }, { dtype = "i64" })
local function range(from, to) return op.arange(from, to, { dtype = "f64" }) end
local function eye(n) return op.eye(n, { dtype = "f64" }) end
local function huber(x, y, d) return op.huber(x, y, { delta = d }) end

local f = {}
function f.mlp(x, a, b, c) return op.tanh(op.tanh(x:matmul(a) + b):matmul(c)):square():sum() end
function f.mlp_cross_entropy(x, a, b) return op.cross_entropy(op.silu(x:matmul(a)):matmul(b), labels) end
function f.attention(q, k, v) return op.attention(q, k, v, { causal = true }):square():sum() end
function f.block(x, wq, wk, wv, wo, w1, w2)
  local h = op.layernorm(x)
  local a = op.softmax(h:matmul(wq):matmul(h:matmul(wk):T()) / 2):matmul(h:matmul(wv)):matmul(wo)
  x = x + a
  return (x + op.gelu(op.layernorm(x):matmul(w1)):matmul(w2)):square():mean()
end
function f.layernorm(x, w, b) return (op.layernorm(x, w, b) ^ 3):sum() end
function f.rmsnorm(x, w) return op.rmsnorm(x, w, { eps = 1e-6 }):exp():sum() end
function f.batchnorm(x, w, b)
  return op.batch_norm(x, x:mean { axis = 0 }, x:var { axis = 0 }, w, b, { eps = 1e-5 }):sin():sum()
end
function f.groupnorm(x) return (op.group_norm(x, { groups = 2 }):square() * x):sum() end
function f.conv1d(x, w, b) return op.conv1d(x, w, b, { stride = 2, padding = 1 }):tanh():sum() end
function f.conv_net(x, a, b)
  local y = op.tanh(op.conv2d(op.tanh(op.conv2d(x, a, { padding = 1 })), b, { stride = 2 }))
  return op.avg_pool(y, { window = { 2, 2 } }):square():sum()
end
function f.conv_groups(x, w) return op.conv2d(x, w, { groups = 2, dilation = 2 }):exp():mean() end
function f.conv_transpose(x, w) return op.conv_transpose(x, w, { stride = 2, padding = 1 }):sin():sum() end
function f.max_pool(x) return op.max_pool(x, { window = { 2, 2 } }):square():sum() end
function f.logsumexp(x) return op.logsumexp(x * 3, { axis = 1 }):square():sum() end
function f.log_softmax(x) return (op.log_softmax(x, { axis = 0 }) * op.softmax(x, { axis = 1 })):sum() end
function f.cumsum(x) return x:cumsum { axis = 1 }:tanh():cumsum { axis = 0 }:square():sum() end
function f.cumprod(x) return x:cumprod { axis = 1 }:sin():sum() end
function f.logcumsumexp(x) return x:logcumsumexp { axis = 1 }:square():sum() end
function f.norms(x)
  return x:norm { axis = 1 }:prod() + x:std { axis = 0, correction = 1 }:sum() + x:var { axis = 1 }:square():sum()
end
function f.prod(x) return x:prod { axis = 1 }:exp():sum() end
function f.max_sort(x) return ((op.sort(x, { axis = 1 })) * range(1, 6)):square():sum() + x:max { axis = 0 }:exp():sum() end
function f.topk(x) return (op.topk(x, 2, { axis = 1 })):square():sum() end
function f.gather(x, w)
  return (x:index_select(index, { axis = 0 }):exp() * w:gather(labels:unsqueeze(1), { axis = 1 })):sum()
end
function f.embedding(w) return op.embedding(w, index):cumsum { axis = 0 }:sin():sum() end
function f.scatter(x, y) return (x:index_add(index, y, { axis = 0 }):square() * x):sum() end
function f.where(x, y) return op.where(x:gt(y), x:exp() * y, x * y:square()):sum() end
function f.solve(a, b) return op.solve(a + eye(4) * 4, b):square():sum() end
function f.cholesky_solve(a, b)
  local l = op.cholesky(a:matmul(a:T()) + eye(4) * 2)
  return op.tri_solve(l, op.tri_solve(l, b), { transpose = true }):square():sum()
end
function f.logdet(a)
  local l = op.cholesky(a:matmul(a:T()) + eye(4))
  return (l * eye(4)):sum { axis = 1 }:log():sum() * 2
end
function f.inverse(a) return op.inv(a + eye(3) * 4):sin():sum() end
function f.eigvalsh(a) return ((op.eigh(a + a:T())) ^ 3):sum() end
function f.qr(a) return (select(2, op.qr(a)):abs() * range(1, 17):reshape(4, 4)):sum() end
function f.svdvals(a) return select(2, op.svd(a)):square():cumsum { axis = 0 }:sin():sum() end
function f.einsum(a, b, c) return op.einsum("bij,jk,bk->bi", a, b, c):tanh():sum() end
function f.losses(x, y)
  local p, q = op.log_softmax(y, { axis = 1 }), op.log_softmax(x, { axis = 1 })
  return huber(x * 3, y, 0.7) + op.bce_with_logits(x, op.sigmoid(y)) + (p:exp() * (p - q)):sum()
end
function f.activations(x)
  return (op.gelu(x) * op.softplus(x) + op.elu(x) * op.silu(x) + op.mish(x) * op.erf(x)):square():sum()
end
function f.special(x)
  return (op.erf(x) * op.expm1(x) + op.log1p(x:square()) * op.atan2(x, x:square() + 1) + op.asin(x / 2) * op.tan(x / 2)):sum()
end
function f.spectrum(x) return (op.rfft(x, { norm = "backward" }):abs() + 0.1):log():sum() end
function f.fft_product(x, y)
  local o = { norm = "backward" }
  return (op.ifft(op.fft(x, o) * op.fft(y, o):conj(), o):real() ^ 3):sum()
end
function f.complex_matrix(a, b) return op.complex(a, b):matmul(op.complex(b, a)):exp():abs():sum() end
function f.interpolate(x) return (op.interpolate(x, { scale = { 2, 2 }, mode = "linear" }):square() * 2):tanh():sum() end
function f.scan_rnn(w, u, xs, h)
  local last, ys = op.scan(function(c, x)
    local n = op.tanh(c:matmul(w) + x:matmul(u))
    return n, n * c
  end, h, xs)
  return last:square():sum() + ys:sin():sum()
end
function f.scan_reverse(w, xs, h)
  local last, ys = op.scan(function(c, x) return op.sin(c * w + x), c:sum() end, h, xs, { reverse = true })
  return last:sum() + ys:square():sum()
end
function f.cond(x, y)
  return (op.cond(x:sum():gt(0), function(a, b) return (a:exp() * b):sum() end, function(a, b) return (a * b):cos():sum() end, x, y))
end
f.cond_else = f.cond
function f.while_bounded(x, w)
  return (op.while_loop(function(c) return c:sum():lt(9) end, function(c) return c * (1 + w:square()) end, x, { max = 7 })):square():sum()
end
function f.map(x, w) return op.map(function(r) return op.softmax(r * w) * r:sum() end, x):square():sum() end
function f.jax_mlp(x, a, b) return op.softplus(x:matmul(a)):matmul(b):prod() end

local failed, worst, count = {}, 0, 0
local function compare(name, what, got, want)
  local e = (got - want):abs():max():item() / math.max(1, want:abs():max():item())
  if not (e <= 1e-10) then failed[#failed + 1] = ("%s: %s is off by %g"):format(name, what, e) end
  if e > worst then worst = e end
end

local function pairing(list, vs)
  local sum
  for i, g in ipairs(list) do
    local part = (g * vs[i]):sum()
    sum = sum and sum + part or part
  end
  return sum
end

local function check(name)
  local x, v, wrt, both = {}, {}, {}, {}
  for i = 1, 20 do
    x[i], v[i] = stored[name .. ".x" .. i - 1], stored[name .. ".v" .. i - 1]
    if x[i] then wrt[i] = i end
  end
  for i, t in ipairs(x) do both[i] = t end
  for i, t in ipairs(v) do both[#x + i] = t end
  local body = f[name]
  compare(name, "the value eagerly", body(unpack(x)), stored[name .. ".y"])
  compare(name, "the value", graph.module(name, body)(unpack(x)), stored[name .. ".y"])
  local slopes = { graph.grad(body, wrt)(unpack(x)) }
  for i, g in ipairs(slopes) do compare(name, "gradient " .. i, g, stored[name .. ".g" .. i - 1]) end
  local _, d = graph.jvp(body)(unpack(both))
  compare(name, "jvp", d, stored[name .. ".d"])
  -- The Hessian by all arguments: forward over reverse, and reverse over reverse.
  local function gradient(...) return graph.grad(body, wrt).body(...) end
  local second = { graph.grad(function(...) return pairing({ gradient(...) }, v) end, wrt)(unpack(x)) }
  for i, h in ipairs(second) do compare(name, "second derivative " .. i, h, stored[name .. ".h" .. i - 1]) end
  for i in ipairs(x) do
    local _, h = graph.jvp(function(...) return (select(i, gradient(...))) end)(unpack(both))
    compare(name, "jvp of gradient " .. i, h, stored[name .. ".h" .. i - 1])
  end
  if #x == 1 then compare(name, "hvp", graph.hvp(body)(x[1], v[1]), stored[name .. ".h0"]) end
end

for name in pairs(f) do
  count = count + 1
  local ok, why = pcall(check, name)
  if not ok then failed[#failed + 1] = name .. ": " .. tostring(why) end
end
table.sort(failed)
table.concat(failed, "\n") -->
count --> 48
for key in pairs(stored) do
  local name = key:match "^[%w_]+"
  if not f[name] and name ~= "f_fft_direct" then error(name .. " has no function here") end
end

-- The gradient by a complex tensor: dL/da + i dL/db.
local function parts(key)
  local t = stored["f_fft_direct." .. key]
  return op.complex(t:select(-1, 0), t:select(-1, 1))
end
local g = graph.grad(function(z) return (op.fft(z, { norm = "backward" }):abs():square() * range(0, 6)):sum():log() end)(parts "z")
(g - parts "g"):abs():max():item() < 1e-12 --> true
if os.getenv "WORST" then print(("largest difference %.3g"):format(worst)) end
