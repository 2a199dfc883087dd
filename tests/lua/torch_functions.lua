-- Functions of op that are made of operators, beside PyTorch's: values and gradients, captured, on a device.
local tessera = require "tessera"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng
local layers = dofile "tests/lua/_layers.lua"
local function fn(name, f) layers.check("fn_" .. name, nil, function(_, ...) return f(...) end) end

for _, name in ipairs { "logit", "xlogy", "xlog1py", "entr", "sinc", "erfinv", "ndtr", "ndtri", "i0", "logaddexp2", "deg2rad", "rad2deg", "tanhshrink", "softsign", "logsigmoid",
  "hardshrink", "cov", "corrcoef", "svdvals", "vander", "block_diag", "cartesian_prod", "hstack", "vstack", "dstack", "column_stack", "broadcast_tensors" } do
  if name ~= "vander" then fn(name, op[name]) end
end
for _, name in ipairs { "hstack", "vstack", "dstack", "column_stack" } do fn(name .. "_2", op[name]) end
fn("logit_eps", function(x) return x:logit(0.3) end)
fn("trigamma", function(x) return op.polygamma(1, x) end)
fn("polygamma", function(x) return op.polygamma(3, x) end)
fn("addcmul", function(a, b, c) return op.addcmul(a, b, c, 0.5) end)
fn("addcdiv", function(a, b, c) return op.addcdiv(a, b, c, { value = 0.5 }) end)
fn("lerp", function(a, b) return op.lerp(a, b, 0.3) end)
fn("relu6", function(x) return op.relu6(x * 4) end)
fn("hardtanh", function(x) return op.hardtanh(x, -0.5, 0.7) end)
fn("hardsigmoid", function(x) return op.hardsigmoid(x * 3) end)
fn("softshrink", function(x) return op.softshrink(x, 0.3) end)
fn("softmin", function(x) return op.softmin(x, 0) end)
fn("threshold", function(x) return op.threshold(x, 0.1, 20) end)
fn("glu", function(x) return op.glu(x, 0) end)
fn("normalize", function(x) return op.normalize(x, 3, 0) end)
fn("pairwise", function(x, y) return op.pairwise_distance(x, y, { p = 3, keepdims = true }) end)
fn("movedim", function(x) return op.movedim(x, { 0, 2 }, { -1, 0 }) * 1 end)
fn("unflatten", function(x) return op.unflatten(x, 1, { 3, -1 }) * 1 end)
fn("take_along_dim", function(x, i) return op.take_along_dim(x, i, 1) end)
fn("index_copy", function(x, i, s) return op.index_copy(x, 1, i, s) end)
fn("index_fill", function(x, i) return op.index_fill(x, 1, i, 0.25) end)
fn("combinations", function(x) return op.combinations(x, 3) end)
fn("combinations_again", function(x) return op.combinations(x, 2, true) end)
fn("vander", function(x) return op.vander(x, 4) end)
fn("vander_up", function(x) return op.vander(x, 3, true) end)
fn("std_mean", function(x) return op.std_mean(x, { axis = 1 }) end)
fn("var_mean", function(x) return op.var_mean(x, { axis = 0, correction = 0 }) end)
fn("aminmax", function(x) return op.aminmax(x, { axis = 1 }) end)
fn("cov_line", op.cov)
fn("cumulative_trapezoid", function(x) return op.cumulative_trapezoid(x, 0.5, 0) end)
fn("dist", function(x, y) return op.dist(x, y, 3) end)
fn("col2im", function(x) return op.col2im(x, { size = { 5, 6 }, window = { 2, 3 }, stride = { 1, 2 }, padding = { 1, 0 }, dilation = { 2, 1 } }) end)
fn("eigvalsh", function(x) return op.eigvalsh(x + x:T()) end)
fn("matrix_power", function(x) return op.matrix_power(x, 5) end)
fn("matrix_power_back", function(x) return op.matrix_power(x, -2) end)
fn("multi_dot", function(...) return op.multi_dot { ... } end)
for name, ord in pairs { fro = "fro", nuc = "nuc", ["1"] = 1, ["-1"] = -1, ["2"] = 2, ["-2"] = -2, inf = math.huge, ["-inf"] = -math.huge } do
  fn("matrix_norm_" .. name, function(x) return op.matrix_norm(x, ord) end)
end
fn("cond_None", op.matrix_cond)
for name, p in pairs { ["-2"] = -2, ["1"] = 1, fro = "fro" } do fn("cond_" .. name, function(x) return op.matrix_cond(x, p) end) end
fn("cholesky_solve", function(b, x)
  return op.cholesky_solve(b, op.cholesky(x:matmul(x:T()) + op.eye(3, { dtype = x.dtype }):to(x.device)))
end)
fn("vecdot", function(x, y) return op.vecdot(x, y, 0) end)

-- What gives no numbers with slopes.
local t = tessera.tensor
op.isclose(t { 1, 1, 1 / 0, 0 / 0 }, t { 1.000001, 1.1, 1 / 0, 0 / 0 }) --> [ true false  true false]
--> bool[4]
op.allclose(t { 1, 2 }, t { 1, 2.1 }), op.allclose(t { 0 / 0 }, t { 0 / 0 }, { equal_nan = true }) --> false, true
op.isin(op.arange(4), t({ 1, 3 }, { dtype = "i64" })) --> [false  true false  true]
--> bool[4]
op.signbit(t { -1, 0, -0.0 * 1, 2 } * 1) --> [ true false  true false]
--> bool[4]
op.tril_indices(3, 3, -1) --> [[1 2 2]
-->  [0 0 1]]
--> i64[2,3]
op.triu_indices(2, 3, 1) --> [[0 0 1]
-->  [1 2 2]]
--> i64[2,3]
op.logspace(0, 3, 4, 2) --> [1. 2. 4. 8.]
--> f32[4]
op.histc(t { 1, 2, 1, 4 }, 4, 0, 3) --> [0. 2. 1. 0.]
--> f32[4]
op.matrix_rank(op.ones { 2, 3, 3 }) --> [1 1]
--> i64[2]
op.fliplr(op.arange(4):reshape(2, 2)), op.flipud(op.arange(4):reshape(2, 2)):hash() == op.arange(4):reshape(2, 2):flip { 0 }:hash() --> [[1 0]
-->  [3 2]]
--> i64[2,2], true
op.erfinv(t { -1, 1, 2, 0 }) --> [-inf  inf  nan   0.]
--> f32[4]
op.xlogy(t { 0, 0 }, t { 0 / 0, 1 / 0 }):isnan() --> [ true false]
--> bool[2]
op.entr(t { -1, 0 }) --> [-inf   0.]
--> f32[2]
-- A hard choice is one of the classes, with the slope of the soft one.
local logits = rng.normal({ 50, 4 }, { seed = 1, stream = 1 })
local hard = op.gumbel_softmax(logits, { hard = true, tau = 0.5 })
hard:sum { axis = 1 }:sub(1):abs():max():item() < 1e-6, hard:max():item() > 0.999 --> true, true
graph.grad(function(x) return (op.gumbel_softmax(x, { hard = true }) * op.arange(4)):sum() end)(logits):abs():max():item() > 0 --> true

op.logit(2) --! logit: x must be a tensor, not 2
op.glu(op.ones { 3 }) --! glu: axis -1 of f32[3] has no two halves
op.unflatten(op.ones { 6 }, 0, { 4, 2 }) --! unflatten: axis 0 of f32[6] is not {4, 2}
op.matrix_norm(op.eye(2), 3) --! matrix_norm: ord 3 is none of
op.movedim(op.eye(2), { 0, 0 }, { 0, 1 }) --! movedim: an axis is named twice

-- Indices beside loops that count them.
local function same(a, b) return a.ndim == b.ndim and a.shape[1] == b.shape[1] and a.shape[2] == b.shape[2] and a:contiguous():hash() == b:hash() end
local function listed(rows, width)
  return #rows > 0 and t(rows, { dtype = "i64" }) or op.zeros({ 0, width }, { dtype = "i64" })
end
for rows = 0, 3 do
  for columns = 0, 4 do
    for offset = -5, 5 do
      local low, high = {}, {}
      for i = 0, rows - 1 do
        for j = 0, columns - 1 do
          if j <= i + offset then low[#low + 1] = { i, j } end
          if j >= i + offset then high[#high + 1] = { i, j } end
        end
      end
      assert(same(op.tril_indices(rows, columns, offset):T(), listed(low, 2)))
      assert(same(op.triu_indices(rows, columns, offset):T(), listed(high, 2)))
    end
  end
end
for n = 0, 5 do
  for r = 1, 6 do
    for _, again in ipairs { false, true } do
      local rows, row = {}, {}
      local function fill(k, from)
        if k > r then rows[#rows + 1] = { unpack(row) } end
        for i = from, k > r and 0 or n do
          row[k] = i - 1
          fill(k + 1, again and i or i + 1)
        end
      end
      fill(1, 1)
      assert(same(op.combinations(op.arange(n), r, again), listed(rows, r)), n .. " " .. r)
    end
  end
end
op.tril_indices(3000).shape[2], op.combinations(op.arange(30), 28).shape[1] --> 4501500, 435
op.combinations(op.arange(100), 10) --! combinations: 5.794e+08 elements are too many
op.triu_indices(1e6, 1e6, 2) --! triu_indices: 5e+11 elements are too many
op.triu_indices(1e6, 1e6, 999998).shape[2] --> 3

-- nn.Softplus is the operator with PyTorch's threshold; above it the layer gives x itself.
local nn, line = tessera.nn, op.linspace(-50, 50, 41)
for _, o in ipairs { { 1, 20 }, { 2, 1 }, { 0.5, 3 } } do
  nn.Softplus(o[1], o[2])(line):hash() == op.softplus(line, { beta = o[1], threshold = o[2] }):hash() --> true
end
nn.Softplus()(t { 21, 30 }):hash() == t { 21, 30 }:hash() --> true
nn.Softplus(1, 2)(t { 2.5 }):hash() == t { 2.5 }:hash() --> true
