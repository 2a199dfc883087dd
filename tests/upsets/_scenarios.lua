-- Things that a program does, each of which may be interrupted or run out of memory at any point.
-- A scenario makes something anew: {run, weights}. run() does it and gives what identifies the
-- result; weights(), optional, lists the tensors and numbers that are all as before or all as
-- behind run(), whatever ends it.
local tessera = require "tessera"
local core, op, nn, optim, graph = tessera.core, tessera.op, tessera.nn, tessera.optim, tessera.graph
local scenarios = {}

local function add(name, make) scenarios[#scenarios + 1] = { name = name, make = make } end

local function normal(shape, seed) return op.normal(shape, { seed = seed or 1 }) end

local function hashes(...)
  local out = {}
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    out[i] = core.is_tensor(x) and x:hash() or tostring(x)
  end
  return table.concat(out, " ")
end

-- ---- operators, a class each
local x, y = normal { 33, 40 }, normal({ 40, 17 }, 2)
local ops = {
  pointwise = function() return (x * 2 + x:exp()):tanh() end,
  strided = function() return x:T() + x:T():contiguous():flip() end,
  reduce = function() return x:sum { axis = 1 }, x:max(), x:T():mean { axis = 1 } end,
  scan = function() return x:cumsum { axis = 1 } end,
  product = function() return x:matmul(y), x:cast "bf16":matmul(y:cast "bf16") end,
  rows = function() return x:softmax(), op.layernorm(x, op.ones { 40 }, op.zeros { 40 }) end,
  sort = function() return x:sort(), x:topk { k = 3 } end,
  fft = function() return op.rfft(x), op.fft(normal { 3, 37 }) end,
  linalg = function() return op.svd(x["0:8, 0:6"]), op.qr(x["0:8, 0:6"]) end,
  factors = function()
    local s = x:matmul(x:T()) + op.eye(33)
    return op.qr(x), op.eigh(s), op.cholesky(s), op.solve(s, x), op.tri_solve(s, x), op.svd(x)
  end,
  lanes = function()
    local a = normal { 21, 6, 6 }
    local s = a:matmul(a:transpose()) + op.eye(6)
    local p, l, u = op.lu(a)
    return op.inv(a), op.det(a), p, l, u, op.cholesky(s), op.eigh(s:cast "f64"), op.qr(a:cast "bf16"), op.solve(a, x["0:6"])
  end,
  convolution = function() return op.conv2d(normal { 2, 3, 9, 9 }, normal({ 4, 3, 3, 3 }, 3), { padding = 1 }) end,
  attention = function() return op.attention(normal { 1, 2, 9, 8 }, normal { 1, 2, 9, 8 }, normal { 1, 2, 9, 8 }) end,
  random = function() return op.uniform({ 50 }, { seed = 4 }), op.dropout(x, { p = 0.5, seed = 3 }) end,
  index = function() return x[core.tensor({ 1, 3, 2 }, { dtype = "i64" })], x[x:gt(1)], x["::2, 1:5"] end,
  concat = function() return op.concat { x, x, x, x, x, x, x, x, x, x, x, x } end,
  composed = function() return op.cross_entropy(x, op.zeros({ 33 }, { dtype = "i64" })), op.gelu(x) end,
  another_device = function() return (x:to "null:0" + 1):to "cpu" end,
}
local names = {}
for name in pairs(ops) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  add("operator " .. name, function() return { run = function() return hashes(ops[name]()) end } end)
end

add("values in and out", function()
  return { run = function()
    local t = core.tensor { { 1, 2 }, { 3, 4 } }
    t[0] = 5
    t["1:, 0"] = core.tensor { 7 }
    t[t:gt(6)] = 0
    return hashes(t, tostring(t), #t:totable(), t:sum():item())
  end }
end)

add("in place", function()
  local t = op.arange(2000):cast "f32"
  return { run = function()
    t:add_(1)
    return hashes(t)
  end, weights = function() return { t } end }
end)

-- ---- captured functions
local function two_layers(a, b)
  local w = op.tanh(a:matmul(b))
  return (w * w):sum(), w:softmax()
end

add("in place, windows of windows", function()
  local windows = dofile "tests/vm/_windows.lua"
  local t = windows.strided(windows.scattered(12), "u8")
  return {
    run = function()
      t:copy_(t["..., 1"]:sum():item() % 100 + 1)
      return hashes(t)
    end,
    weights = function() return { t } end,
  }
end)

add("capture", function()
  local f = graph.module("two", two_layers)
  return { run = function() return hashes(f(x, y)) end }
end)

add("capture of a model", function()
  core.seed(3)
  local model = nn.Sequential(nn.Linear(40, 8), nn.LayerNorm(8), nn.Linear(8, 4))
  local f = graph.module("model", function(m, a) return m(a) end)
  return { run = function() return hashes(f(model, x)) end,
    weights = function() return model:parameters() end }
end)

add("capture of many layers", function()
  local layers = {}
  for i = 1, 60 do layers[i] = nn.Linear(4, 4, { bias = false }) end
  for i, l in ipairs(layers) do l.weight:copy_(normal({ 4, 4 }, i)) end
  local model = nn.Sequential(unpack(layers))
  local f = graph.module("deep", function(m, a) return m(a) end)
  local a = normal { 2, 4 }
  return { run = function() return hashes(f(model, a)) end,
    weights = function() return model:parameters() end }
end)

add("sizes that become symbols", function()
  local f = graph.module("sized", function(a) return (a * 2):sum { axis = 0 } end)
  return { run = function() return hashes(f(normal { 3, 4 }), f(normal { 5, 4 }), f(normal { 7, 4 }), f(normal { 9, 4 })) end }
end)

add("gradient", function()
  local g = graph.value_and_grad(function(a, b) return (two_layers(a, b)) end, { 1, 2 })
  return { run = function() return hashes(g(x, y)) end }
end)

add("second derivative", function()
  local h = graph.hvp(function(a) return (a:tanh() * a):sum() end)
  return { run = function() return hashes(h(x, x)) end }
end)

add("directional derivative", function()
  local j = graph.jvp(function(a) return a:exp():matmul(y) end)
  return { run = function() return hashes(j(x, x)) end }
end)

add("derivatives of derivatives", function()
  local w = normal({ 2, 12 }, 7)
  local function net(a, b) return (op.concat({ a, b }, { axis = 1 }):matmul(w):tanh() * a):sum { axis = 1 } end
  local function along(f, i) return function(a, b) return (select(2, graph.jvp(f)(a, b, i == 1 and 1, i == 2 and 1))) end end
  local function laplacian(a, b) return along(along(net, 1), 1)(a, b) + along(along(net, 2), 2)(a, b) end
  local slope = graph.value_and_grad(function(a, b) return laplacian(a, b):square():sum() end)
  local a, b = normal({ 5, 1 }, 8), normal({ 5, 1 }, 9)
  return { run = function() return hashes(slope(a, b)) end }
end)

-- Products that read matrices of which little is there: entries, blocks of experts; on the tape and captured.
local function with_slopes(name, f, ...)
  local args, n = { ... }, select("#", ...)
  add("eager " .. name, function()
    local a = args[1]:clone()
    a.requires_grad = true
    return { run = function()
      a.grad = nil
      local y = f(a, unpack(args, 2, n))
      y:square():sum():backward()
      return hashes(y, a.grad)
    end }
  end)
  add("captured " .. name, function()
    local both = graph.value_and_grad(function(...) return f(...):square():sum() end)
    return { run = function() return hashes(both(unpack(args, 1, n))) end }
  end)
end
local row, column = op.randint({ 40 }, { low = 0, high = 9, seed = 3 }), op.randint({ 40 }, { low = -7, high = 7, seed = 4 })
with_slopes("product of entries", function(v, r, c, m) return op.spmm_coo(v, r, c, m, { rows = 9 }) end, normal { 40 }, row, column, normal({ 7, 5 }, 2))
with_slopes("entries of a product", op.sddmm, normal({ 9, 5 }, 1), normal({ 5, 7 }, 2), row, column, normal({ 40 }, 3))
with_slopes("experts in blocks", op.experts_linear, normal { 6, 64 }, normal({ 3, 8, 64 }, 2):cast "mxfp4",
  op.randint({ 6, 2 }, { low = -1, high = 3, seed = 5 }), normal({ 3, 8 }, 4))

add("constants of a captured function", function()
  local slope = graph.grad(function(a)
    local t = { a }
    tessera.no_grad(function() t[2], t[3] = a:exp(), { a * 2 } return t end)
    local given = tessera.no_grad(function() return { a:exp(), t } end)
    return (a * given[1] * given[2][3][1]):sum()
  end)
  local a = normal { 9 }
  return { run = function() return hashes(slope(a)) end }
end)

add("update of captured state", function()
  local mean, count = op.zeros { 40 }, op.zeros { 1 }
  local f = graph.module("state", function(a)
    mean:copy_(mean * 0.9 + a:mean { axis = 0 } * 0.1)
    count:add_(1)
    return (a - mean):square():sum() + op.cumsum(a):sum() * 0
  end)
  return { run = function() return hashes(f(x)) end, weights = function() return { mean, count } end }
end)

add("text of a function", function()
  local f = graph.module("two", two_layers)
  return { run = function()
    f(x, y)
    return hashes(f:ir "graph", f:ir "captured", f:ir "rewrites", f:ir "bytecode", f:ir "schedule")
  end }
end)

-- ---- control flow
add("cond", function()
  local f = graph.module("cond", function(a)
    return op.cond(a:sum():gt(0), function(b) return b * 2 end, function(b) return b - 1 end, a)
  end)
  return { run = function() return hashes(f(x), f(-x)) end }
end)

add("while loop", function()
  local f = graph.grad(function(a)
    local _, b = op.while_loop(function(i) return i:lt(4) end, function(i, b) return i + 1, b * b * 0.5 end, 0, a, { max = 6 })
    return b:sum()
  end)
  return { run = function() return hashes(f(x)) end }
end)

add("scan and map", function()
  local f = graph.module("scan", function(a)
    local carry, out = op.scan(function(c, r) return c + r, c * r end, op.zeros { 40 }, a)
    return carry, out, op.map(function(r) return r:sum() end, a)
  end)
  return { run = function() return hashes(f(x)) end }
end)

add("fixed point", function()
  local f = graph.grad(function(a) return op.fixed_point(function(z) return (z * 0.5 + a * 0.1):tanh() end, op.zeros { 40 }):sum() end)
  local a = normal { 40 }
  return { run = function() return hashes(f(a)) end }
end)

local function power(self, n, a)
  return op.cond(n:gt(0), function(m, b) return self(m - 1, b) * b end, function(_, b) return b * 0 + 1 end, n, a)
end

add("recursion", function()
  local rec = op.recursive(power)
  local f = graph.module("power", function(a) return rec(op.full({}, 5, { dtype = "i64" }), a) end)
  local g = graph.grad(function(a) return rec(op.full({}, 3, { dtype = "i64" }), a):sum() end)
  local a = normal { 9 }
  return { run = function() return hashes(f(a), g(a)) end }
end)

add("recursion unrolled", function()
  local rec = op.recursive(function(self, n, a) return n > 0 and self(n - 1, a * 1.5) or a end)
  local f = graph.module("unrolled", function(a) return rec(5, a) end)
  return { run = function() return hashes(f(x)) end }
end)

add("checkpoint", function()
  local f = graph.grad(function(a) return graph.checkpoint(function(b) return b:tanh():exp() end)(a):sum() end)
  return { run = function() return hashes(f(x)) end }
end)

-- ---- learning
local target = op.zeros({ 33 }, { dtype = "i64" })
local function loss(m, a) return op.cross_entropy(m(a), target) end

local function small_model()
  core.seed(5)
  return nn.Sequential(nn.Linear(40, 6), nn.LayerNorm(6), nn.Linear(6, 3))
end

local function state_of(model, opt)
  local list = model:parameters()
  for _, s in ipairs(opt.state or {}) do
    for _, name in ipairs { "m", "v", "r", "c" } do list[#list + 1] = s[name] end
  end
  list[#list + 1] = opt.steps
  return list
end

for _, name in ipairs { "SGD", "Adam", "AdamW", "Lion", "Adafactor" } do
  local options = { SGD = { lr = 0.1, momentum = 0.9 } }
  add("training step " .. name, function()
    local model = small_model()
    local opt = optim[name](model:parameters(), options[name])
    local step = graph.training_step(model, loss, opt)
    opt:prepare()
    return { run = function() return hashes(step(x)) end, weights = function() return state_of(model, opt) end }
  end)
  add("training step by operators " .. name, function()
    local model = small_model()
    local opt = optim[name](model:parameters(), options[name]):prepare()
    return { run = function()
      opt:zero_grad()
      local l = loss(model, x)
      l:backward()
      opt:step()
      return hashes(l:detach())
    end, weights = function() return state_of(model, opt) end }
  end)
end

add("training step with clipping and a schedule", function()
  local model = small_model()
  local opt = optim.AdamW(model:parameters(), { clip = 0.1 })
  local step = graph.training_step(model, loss, opt, { schedule = optim.schedule.cosine { lr = 0.1, steps = 9 } })
  return { run = function() return hashes(step(x)) end, weights = function() return state_of(model, opt) end }
end)

add("LBFGS", function()
  local model = nn.Linear(40, 2)
  model.weight:copy_(normal({ 2, 40 }, 6))
  model.bias:copy_(op.zeros { 2 })
  local opt = optim.LBFGS(model:parameters(), { iterations = 2 })
  local step = graph.training_step(model, function(m, a) return m(a):square():mean() end, opt)
  return { run = function() return hashes(step(x)) end, weights = function()
    local list = model:parameters()
    for i, m in ipairs(opt.moves) do list[#list + 1], list[#list + 2] = m, opt.bends[i] end
    list[#list + 1] = opt.steps
    return list
  end }
end)

add("backward", function()
  local w = normal { 40, 3 }
  w.requires_grad = true
  return { run = function()
    w.grad = nil
    local l = (x:matmul(w):tanh() * 2):sum() + op.dropout(w, { p = 0.5, seed = 2 }):sum()
    l:backward()
    return hashes(l:detach(), w.grad)
  end, weights = function() return { w } end }
end)

add("gradients added up", function()
  local w, v = normal { 40, 3 }, normal { 3 }
  w.requires_grad, v.requires_grad = true, true
  w.grad, v.grad = op.zeros { 40, 3 }, op.zeros { 3 }
  return { run = function()
    (x:matmul(w) * v):sum():backward()
    return hashes(w.grad, v.grad)
  end, weights = function() return { w.grad, v.grad } end }
end)

add("function in a backward pass", function()
  local f = graph.module("inner", function(a, w) return a:matmul(w):tanh() end)
  local w = normal { 40, 3 }
  w.requires_grad = true
  return { run = function()
    w.grad = nil
    f(x, w):sum():backward()
    return hashes(w.grad)
  end }
end)

add("a derivative of one's own", function()
  local f = graph.custom_adjoint(function(a) return a:floor() end, function(_, _, g) return g end)
  local g = graph.grad(function(a) return (f(a) * a):sum() end)
  return { run = function() return hashes(g(x)) end }
end)

-- ---- files
local folder = os.tmpname()
os.remove(folder)
add("save and load", function()
  local model = small_model()
  local path = folder .. ".safetensors"
  return { run = function()
    tessera.save(path, model:state_dict())
    local state = tessera.load(path)
    model:load_state_dict(state)
    os.remove(path)
    return hashes(unpack(model:parameters()))
  end, weights = function() return model:parameters() end }
end)

add("save and load npy", function()
  local path = folder .. ".npy"
  return { run = function()
    tessera.save(path, x:T())
    local t = tessera.load(path)
    os.remove(path)
    return hashes(t)
  end }
end)

add("load a state", function()
  local model = small_model()
  local opt = optim.Adam(model:parameters()):prepare()
  local other, moments = {}, opt:state_dict()
  for name, t in pairs(model:state_dict()) do other[name] = op.ones_like(t) end
  moments.steps = 4
  for i, p in ipairs(model:parameters()) do moments.state[i] = { m = op.ones_like(p), v = op.ones_like(p) } end
  return { run = function()
    core.held(function()
      model:load_state_dict(other)
      opt:load_state_dict(moments)
    end)
    return hashes(unpack(model:parameters()))
  end, weights = function() return model:parameters() end }
end)

add("model to another type", function()
  local model = small_model()
  return { run = function()
    model:to "f64"
    return hashes(unpack(model:parameters()))
  end, weights = function() return model:parameters() end }
end)

add("export and load a graph", function()
  local f = graph.module("two", two_layers)
  local path = folder .. ".tgraph"
  return { run = function()
    f(x, y)
    graph.export(f, path)
    local g = graph.load(path)
    os.remove(path)
    return hashes(g(x, y))
  end }
end)

-- ---- settings that hold for a while
add("settings", function()
  return { run = function()
    local a = tessera.no_grad(function() return x + 1 end)
    local b = tessera.device("null:0", function() return op.ones { 3 } end)
    local c = tessera.numerics.profile("strict", function() return x:sum() end)
    local d = tessera.numerics.trap(function() return x * 3 end)
    return hashes(a, b:to "cpu", c, d)
  end }
end)

add("errors of the program", function()
  local f = graph.module("wrong", function(a, b) return a:matmul(b:T()) end)
  return { run = function()
    local ok, why = pcall(f, x, y)
    if not tostring(why):find "inner sizes" then error(why, 0) end
    return tostring(why)
  end }
end)

-- ---- compiled code
local function compiled(f)
  return function()
    local made = f()
    local run = made.run
    made.run = function()
      core.jit_eager(true)
      return core.guarded(function() core.jit_eager(false) end, run)
    end
    made.compiles = true
    return made
  end
end

add("compile", compiled(function()
  local f = graph.module("kernel", function(a) return ((a * 2 + 1):tanh() * a):sum { axis = 1 } end)
  return { run = function() return hashes(f(x)) .. " " .. hashes(f(x)) end }
end))

add("compile a training step", compiled(function()
  local model = small_model()
  local opt = optim.AdamW(model:parameters())
  local step = graph.training_step(model, loss, opt)
  opt:prepare()
  return { run = function() return hashes(step(x)) end, weights = function() return state_of(model, opt) end }
end))

add("tune", compiled(function()
  local f = graph.module("tuned", function(a) return (a * 2 + 1):tanh():sum { axis = 1 } end)
  return { run = function()
    local y = f(x)
    f:tune()
    return hashes(y, f(x))
  end }
end))

add("profile", compiled(function()
  local f = graph.module("profiled", function(a) return (a * 2 + 1):tanh() end)
  return { run = function()
    local text = tessera.profile.report(f, { args = { x }, runs = 2, warm = 1 })
    return hashes(f(x), #text > 0)
  end }
end))

add("levels of compiled code", compiled(function()
  local f = graph.module("levels", function(a) return (a * 2 + 1):tanh() end)
  return { run = function()
    local z = f(x)
    for _, level in ipairs { "tile", "explicit", "llvm", "asm", "bytecode", "tiles", "why" } do f:ir(level) end
    return hashes(z)
  end }
end))

add("jit off and on", function()
  local f = graph.module("switched", function(a) return (a * 2 + 1):tanh() end)
  return { run = function()
    return core.guarded(function() tessera.jit.on() end, function()
      local a = f(x)
      tessera.jit.off()
      local b = f(x)
      tessera.jit.on()
      tessera.jit.flush()
      return hashes(a, b, f(x))
    end)
  end }
end)

-- Loops of plain code whose calls are put off and run as functions.
add("hot loop", function()
  local a = normal { 50 }
  return { run = function()
    core.jit_traces(true)
    return core.guarded(function() core.jit_traces(false) end, function()
      local z = a
      for i = 1, 12 do z = (z * 0.9 + a):tanh() + i * 0.01 end
      return hashes(z)
    end)
  end }
end)

add("hot loop with a state", function()
  local a, state = normal { 50 }, op.zeros { 50 }
  return { run = function()
    core.jit_traces(true)
    return core.guarded(function() core.jit_traces(false) end, function()
      local z = a
      for _ = 1, 9 do z = (z * 0.9 + a):tanh() - z end
      state:add_(z)
      return hashes(z)
    end)
  end, weights = function() return { state } end }
end)

-- A simulated GPU: kernels, copies, recorded launches.
add("simulated device", function()
  local f = graph.module("there", function(a) return (a * 2 + 1):tanh():sum { axis = 1 } end)
  return { run = function()
    local a = x:to "sim:0"
    return hashes((a * 2):to "cpu", f(a):to "cpu")
  end }
end)

add("simulated device, a step", function()
  local model = small_model():to "sim:0"
  local opt = optim.AdamW(model:parameters())
  local a, t = x:to "sim:0", target:to "sim:0"
  local step = graph.training_step(model, function(m, b) return op.cross_entropy(m(b), t) end, opt)
  opt:prepare()
  return { run = function() return hashes(step(a)) end, weights = function() return state_of(model, opt) end }
end)

require "_learning"(add, hashes)

return scenarios
