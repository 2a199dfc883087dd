-- Rows that have a definition and a function for calls that run at once: both give the same bits, in
-- every layout, for numbers beyond the range, and where gradients are asked for.
local ts = require "tessera"
local op, rng, graph, nn = ts.op, ts.rng, ts.graph, ts.nn
ts.jit.off()

local stream = 0
local function normal(shape, dtype)
  stream = stream + 1
  return rng.normal(shape, { seed = 5, stream = stream, dtype = dtype })
end
local function same(name, f, ...)
  local now, captured = { f(...) }, { graph.module("f", f)(...) }
  for i, y in ipairs(now) do
    local z = captured[i]
    assert(table.concat(y.shape, " ") == table.concat(z.shape, " ") and y.dtype == z.dtype, name)
    assert(y:hash() == z:hash(), name)
  end
end

for _, dtype in ipairs { "f32", "f64", "bf16" } do
  local function norm(x) -- by all of weight and bias, one of them, none
    local c = x.shape[2]
    local mean, var, weight, bias = normal({ c }, dtype), op.abs(normal({ c }, dtype)), normal({ c }, dtype), normal({ c }, dtype)
    for _, with in ipairs { { weight, bias }, { weight }, { nil, bias }, {} } do
      same("batch_norm", function(x) return op.batch_norm(x, mean, var, with[1], with[2]) end, x)
    end
  end
  for _, shape in ipairs { { 3, 5 }, { 2, 7, 1 }, { 2, 3, 4 }, { 2, 3, 33 }, { 2, 5, 7, 7 }, { 1, 3, 2, 2 }, { 2, 2, 3, 2, 9 }, { 0, 3, 4 } } do
    norm(normal(shape, dtype))
  end
  norm(normal({ 2, 6, 5, 4 }, dtype):permute(0, 3, 1, 2))
  norm(normal({ 7, 4 }, dtype):T())
  norm(normal({ 4, 6 }, dtype)["::2"])
  norm(normal({ 2, 3, 4 }, dtype) / 0)

  for _, d in ipairs { 1, 2, 3, 4, 5, 8, 15, 16, 100, 127, 128, 129, 256, 257, 4096, 5000 } do
    local x, y = normal({ 3, d }, dtype), normal({ 35, d }, dtype)
    same("cdist", function(x, y) return op.cdist(x, y) end, x, y)
  end
  same("cdist", function(x, y) return op.cdist(x, y) end, normal({ 2, 3, 4 }, dtype), normal({ 2, 5, 4 }, dtype))
  local threads = ts.core.threads()
  for n = 1, 3 do -- points in parts, a batch shared out or entry by entry, the last panel with one point
    ts.core.threads(n)
    for _, batch in ipairs { 1, 2, 40 } do
      same("cdist", function(x, y) return op.cdist(x, y) end, normal({ batch, 131, 33 }, dtype), normal({ batch, 65, 33 }, dtype))
    end
  end
  ts.core.threads(threads)
  same("cdist", function(x, y) return op.cdist(x, y) end, normal({ 4, 3 }, dtype):T(), normal({ 4, 6 }, dtype):T())
  local large = dtype == "f64" and 1e200 or 1e25
  for _, by in ipairs { large, 1 / 0, 0 / 0, 1e-30 } do
    same("cdist", function(x, y) return op.cdist(x, y) end, normal({ 3, 5 }, dtype) * by, normal({ 40, 5 }, dtype))
  end

  for _, size in ipairs { { 1, 1, 1 }, { 5, 3, 4 }, { 7, 1, 33 } } do
    local steps, batch, n = unpack(size)
    local x, w = normal({ steps, batch, 4 * n }, dtype), normal({ 4 * n, n }, dtype)
    for _, reverse in ipairs { false, true } do
      same("lstm", function(...) return op.lstm(...) end, x, w, normal({ batch, n }, dtype), normal({ batch, n }, dtype), { reverse = reverse })
    end
  end
end

-- A layer by one call, and by a loop of its steps.
local lstm = nn.LSTM(3, 4, { layers = 2, bidirectional = true })
for _, steps in ipairs { 5, 700 } do
  same("LSTM", function(x)
    local y, state = lstm(x)
    return y, state[1], state[2]
  end, normal { steps, 2, 3 })
end

-- Gradients: what is recorded is the row, and what is differentiated its definition.
local function gradients(f, ...)
  local given, like = { ... }, {}
  for i, x in ipairs(given) do
    like[i] = x:detach()
    x:requires_grad_()
  end
  f(unpack(given)):sum():backward()
  local slopes = { graph.grad(function(...) return f(...):sum() end, { 1, 2 })(unpack(like)) }
  for i = 1, 2 do assert(op.all(given[i].grad:eq(slopes[i])):item()) end
end
gradients(function(x, m) return op.batch_norm(x, m, op.abs(m) + 1, m, m) * x end, normal { 2, 3, 4 }, normal { 3 })
gradients(function(x, y) return op.cdist(x, y) ^ 2 end, normal { 4, 3 }, normal { 5, 3 })
gradients(function(x, w) return (op.lstm(x, w, w:narrow(0, 0, 2), w:narrow(0, 2, 2))) ^ 2 end, normal { 3, 2, 8 }, normal { 8, 2 })

-- An LSTM's gradient by backward() is one operator, with the bits of the definition's: by each of its results, of one
-- thread and several, with what ends in denormals and what is beyond the range.
local function lstm_gradients(dtype, size, results, reverse, by)
  local steps, batch, n = unpack(size)
  local g = { normal({ steps, batch, n }, dtype), normal({ batch, n }, dtype), normal({ batch, n }, dtype) }
  local function loss(...)
    local y, sum = { op.lstm(...) }, 0
    for _, i in ipairs(results) do sum = sum + (y[i] * g[i]):sum() end
    return sum
  end
  local given, like = { normal({ steps, batch, 4 * n }, dtype) * by, normal({ 4 * n, n }, dtype), normal({ batch, n }, dtype), normal({ batch, n }, dtype) }, {}
  for i, x in ipairs(given) do like[i], x.requires_grad = x:detach(), true end
  local options = { reverse = reverse }
  given[5], like[5] = options, nil
  loss(unpack(given)):backward()
  local slopes = { graph.grad(function(x, w, h, c) return loss(x, w, h, c, options) end, { 1, 2, 3, 4 })(unpack(like)) }
  for i = 1, 4 do assert(given[i].grad:hash() == slopes[i]:hash(), ("lstm %s %d %d %d"):format(dtype, steps, batch, n)) end
end
for _, dtype in ipairs { "f32", "f64", "bf16" } do
  for _, size in ipairs { { 1, 1, 1 }, { 3, 2, 5 }, { 5, 13, 33 }, { 4, 1, 64 }, { 6, 20, 40 } } do
    for _, results in ipairs { { 1 }, { 2 }, { 3 }, { 1, 2, 3 } } do lstm_gradients(dtype, size, results, #results == 3, 1) end
    for _, by in ipairs { 1e-30, 1e30, 1 / 0, 0 / 0, -0.0 } do lstm_gradients(dtype, size, { 1, 3 }, false, by) end
  end
end
ts.threads(3)
lstm_gradients("f32", { 6, 20, 40 }, { 1, 2 }, true, 1)
lstm_gradients("f32", { 5, 3, 300 }, { 1 }, false, 1) -- columns are shared instead of rows
ts.threads(0)

-- What it reads may have been changed since: then the steps are differentiated, which need nothing of it.
local x, w, zero = normal { 3, 2, 8 }, normal { 8, 2 }:requires_grad_(), op.zeros { 2, 2 }
local y = op.lstm(x, w, zero, zero)
local sum = y:sum()
y:mul_(2)
sum:backward()
w.grad:hash() == graph.grad(function(w) return (op.lstm(x, w, zero, zero)):sum() end)(w:detach()):hash() --> true

op.lstm(normal { 2, 1, 4 }, normal { 4, 2 }, normal { 1, 1 }, normal { 1, 1 }) --! does not fit
op.lstm(normal { 2, 1, 4 }, normal { 4, 1 }, normal { 2, 1 }, normal { 1, 1 }) --! the state is f32[2,1], and has to be [1,1]
op.batch_norm(normal { 3 }, normal { 3 }, normal { 3 }) --! needs [N, C, ...]
