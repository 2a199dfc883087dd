-- Errors name what was called, and not the operator that it is made of; views of bits and of expanded tensors are
-- refused in captured functions as they are eagerly.
local tessera = require "tessera"
local op, nn, graph, rng = tessera.op, tessera.nn, tessera.graph, tessera.rng
local x, i64 = op.ones { 2, 3 }, function(list) return tessera.tensor(list, { dtype = "i64" }) end

-- Composed rows, rows that another one calls, functions of op in Lua.
op.mse(x, op.ones { 4, 3 }) --! mse: shapes do not broadcast: f32[2,3] x f32[4,3]
op.huber(x, op.ones { 4, 3 }) --! huber: shapes do not broadcast
op.cosine_similarity(x, op.ones { 4, 3 }) --! cosine_similarity: shapes do not broadcast
op.nll(x, i64 { 0, 7 }) --! nll: index 7 is out of range
op.group_norm(op.ones { 1, 4, 2 }, op.ones { 3 }, nil, { groups = 2 }) --! group_norm: shapes do not broadcast
op.max(x, { axes = 0, indices = true }) --! max: unknown option 'axes'
op.max(x, { axis = { 0, 1 }, indices = true }) --! max: option 'axis' must be an integer
op.min(x, { axis = 7, indices = true }) --! min: axis 7 is out of range
op.median(x, { axis = 7, indices = true }) --! median: axis 7 is out of range
op.clamp(x, op.ones { 4 }, op.ones { 4 }) --! clamp: shapes do not broadcast
op.quantile(x, { 0.5, 3 }) --! quantile: q = 3 is not in 0..1
op.div(x, op.ones { 4 }, { rounding_mode = "floor" }) --! div: shapes do not broadcast
op.repeat_interleave(x, i64 { 1, 2, 3 }, { axis = 0 }) --! repeat_interleave: one whole count for each of 2 elements
op.repeat_interleave(x, i64 { 1, -2 }, { axis = 0 }) --! repeat_interleave: -2 repetitions
op.repeat_interleave(x, i64 { 1, 2 }, { axis = 5 }) --! repeat_interleave: axis 5 is out of range
op.softmin(x, { axis = 4 }) --! softmin: axis 4 is out of range
op.hstack(x, op.ones { 3, 3 }) --! hstack: shapes do not fit
op.index_fill(x, 0, i64 { 9 }, 1) --! index_fill: index 9 is out of range
op.take_along_dim(x, i64 { { 9 } }, 1) --! take_along_dim: index 9 is out of range
op.cholesky_solve(op.ones { 3, 2 }, op.ones { 3, 2, 2 }) --! cholesky_solve: rows of b and size of a differ
op.pairwise_distance(x, op.ones { 4, 3 }) --! pairwise_distance: shapes do not broadcast
op.lerp(x, op.ones { 2 }, 1) --! lerp: shapes do not broadcast
x:softmin { axis = 4 } --! softmin: axis 4 is out of range
graph.module("f", function(v) return op.mse(v, op.ones { 4, 3 }) end)(x) --! mse: shapes do not broadcast
-- A function of the program that they call keeps its names.
op.scan(function(c, v) return c, op.matmul(v, v) end, x, op.ones { 2, 3, 2 }) --! matmul: inner sizes differ
op.map(function(v) return v + op.ones { 7 } end, x) --! add: shapes do not broadcast

-- ---- draws
op.multinomial(tessera.tensor { -1, 2 }) --! multinomial: a weight is negative, or NaN
tessera.graph.module(function(w) return op.multinomial(w) end)(tessera.tensor { -1, 2 }) --! multinomial: a weight is negative, or NaN
tessera.graph.module(function(w) return op.multinomial(w, { replacement = true }) end)(tessera.tensor { -1, 2 }) --! multinomial: a weight is negative, or NaN
op.multinomial(tessera.tensor { 0 / 0, 2 }, { replacement = true }) --! multinomial: a weight is negative, or NaN
op.multinomial(x, { count = 5 }) --! multinomial: count = 5 is more than the 3 classes of f32[2,3], each of which is drawn once
op.multinomial(x, { count = -1 }) --! multinomial: count = -1 is negative
op.multinomial(op.ones {}) --! multinomial: weights [.., classes] are needed, not f32[]
local draw = graph.module("draw", function(w) return op.multinomial(w, { count = 2 }) end)
draw(tessera.tensor { 1, -2, 3 }) --! multinomial: a weight is negative, or NaN
draw(tessera.tensor { 1, 0 / 0, 3 }) --! multinomial: a weight is negative, or NaN
local weights = tessera.tensor { 1, 2, 3 }
rng.seed(3)
local eager = op.multinomial(weights, { count = 2, seed = 1, stream = 1 })
graph.module("drawn", function(w) return op.multinomial(w, { count = 2, seed = 1, stream = 1 }) end)(weights):hash() == eager:hash() --> true

-- ---- vectors and columns
op.solve(op.ones { 3, 2, 2 } + op.eye(2), op.ones { 3, 2 }) --! solve: rows of b and size of a differ: f32[3,2,2] x f32[3,2]
op.solve(op.ones { 3, 2, 2 } + op.eye(2), op.ones { 3, 2 }) --! hint: b is a vector with one axis alone: b:unsqueeze(-1) has columns
op.solve(op.ones { 3, 2, 2 } + op.eye(2), op.ones { 2 }).shape --> {3, 2}
op.solve(op.ones { 3, 2, 2 } + op.eye(2), op.ones { 2, 2 }).shape --> {3, 2, 2}

-- ---- changes in place of views
local function add_to(view) return function(v) view(v * 1):add_(1) return v end end
add_to(function(v) return v:expand(2, 2, 3) end)(x) --! elements of the destination overlap: a view f32[2,2,3]
graph.module("f", add_to(function(v) return v:expand(2, 2, 3) end))(x) --! elements of the destination overlap: a view f32[2,2,3]
graph.module("f", add_to(function(v) return v:expand(2, 2, 3):transpose(0, 1) end))(x) --! elements of the destination overlap: a view f32[2,2,3]
graph.module("f", add_to(function(v) return v:unfold(1, 2) end))(x) --! elements of the destination overlap: a view f32[2,2,2]

-- Bytes that were changed as whole numbers have no slope: an error, eagerly and captured, and no silent zero.
local function through(dtype)
  return function(v)
    local y = v * 1
    y:bitcast(dtype):add_(1)
    return (y * y):sum()
  end
end
for _, dtype in ipairs { "i32", "u8", "i64", "f64" } do
  graph.module("bytes", through(dtype))(op.ones { 4 }).ndim --> 0
  local captured, why = pcall(graph.grad(through(dtype)), op.ones { 4 })
  captured, why:find "bitcast has no derivative" ~= nil --> false, true
  local leaf = op.ones { 4 }
  leaf.requires_grad = true
  local loss = through(dtype)(leaf)
  (pcall(loss.backward, loss)) --> false
  leaf.grad --> nil
end
-- What is read as whole numbers has none, as ever, and others are as they were.
local function read(v) return (v:bitcast "i32":cast "f64" * 0 + v * 2):sum() end
graph.grad(read)(op.ones { 2 }) --> [2. 2.]
--> f32[2]
