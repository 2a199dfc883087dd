-- Rows of ours.lua: linear algebra in f64, and single operators that programs wait for.

local ts = require "tessera"
local op, nn, rng = ts.op, ts.nn, ts.rng

local row = {}

local function normal(...) return rng.normal { ... } end

-- One result of each, so that it can be compared.
local decompose = {
  inv = op.inv,
  cholesky = op.cholesky,
  qr = function(a) return (select(2, op.qr(a))) end,
  eigh = function(a) return (op.eigh(a)) end,
  svd = function(a) return (select(2, op.svd(a))) end,
}

local function positive(batch, n)
  local m = rng.normal({ batch, n, n }, { dtype = "f64" })
  return op.matmul(m, m:T()) / n + op.eye(n, { dtype = "f64" })
end

function row.linalg(name, n, batch)
  local a = positive(batch, n)
  if batch == 1 then a = a:squeeze(0) end
  if name == "solve" then
    local b = rng.normal({ batch, n, 8 }, { dtype = "f64" })
    if batch == 1 then b = b:squeeze(0) end
    return function() return op.solve(a, b) end
  end
  local f = decompose[name]
  return function() return f(a) end
end

function row.categorical(rows, n, count)
  local logits = rows == 1 and normal(n) or normal(rows, n)
  local options = { count = count }
  return function() return rng.categorical(logits, options) end
end

function row.batch_norm(b, c, size)
  local x, norm = normal(b, c, size, size), nn.BatchNorm(c):eval()
  return function() return ts.no_grad(norm, x) end
end

function row.permutation(n)
  return function() return rng.permutation(n) end
end

function row.cumsum(r, c, axis)
  local x, options = rng.uniform { r, c }, { axis = axis }
  return function() return x:cumsum(options) end
end

function row.sum_axis(r, c, axis)
  local x, options = rng.uniform { r, c }, { axis = axis }
  return function() return x:sum(options) end
end

function row.depthwise(b, c, size, window)
  local x, w, options = normal(b, c, size, size), normal(c, 1, window, window), { padding = (window - 1) / 2 }
  return function() return op.depthwise_conv2d(x, w, options) end
end

function row.conv_transpose(b, cin, cout, size, window, padding, stride)
  local x, w = normal(b, cin, size, size), normal(cin, cout, window, window)
  local options = { stride = stride, padding = padding }
  return function() return op.conv_transpose(x, w, options) end
end

function row.lstm(steps, b, width)
  local lstm, x = nn.LSTM(width, width), normal(steps, b, width)
  return function() return (ts.no_grad(lstm, x)) end
end

function row.lstm_grad(steps, b, width)
  local lstm, x = nn.LSTM(width, width), normal(steps, b, width)
  local parameters = lstm:parameters()
  return function()
    for _, w in ipairs(parameters) do w.grad = nil end
    local y = lstm(x)
    y:sum():backward()
    return y:detach()
  end
end

function row.cdist(n, width)
  local x, y = normal(n, width), normal(n, width)
  return function() return op.cdist(x, y) end
end

function row.distances(n, width)
  local x, y = normal(n, width), normal(n, width)
  return function() return (x:unsqueeze(1) - y:unsqueeze(0)):square():sum { axis = -1 }:sqrt() end
end

-- Places in space: an axis of three behind two longer ones.
function row.times_length(n)
  local x, y = normal(n, n, 3), normal(n, n, 1)
  return function() return x * y end
end

function row.heat_step(n)
  local u = rng.uniform { n, n }
  return function() return u + op.laplacian(u) * 0.2 end
end

function row.totable(r, c)
  local x = normal(r, c)
  return function()
    assert(#x:totable() == r)
    return x
  end
end

return row
