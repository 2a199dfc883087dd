-- Operators beside what they mean, written out in f64 by other operators.
local words = dofile "tests/fuzz/programs/_words.lua"

-- What meanings are written with: a line each, in programs that use it.
local helpers = {
  mean = "local function mean(x, axis) return x:mean{axis = axis, keepdims = true} end",
  most = "local function most(x, axis) return x:max{axis = axis, keepdims = true} end",
  wide = 'local function wide(x) return x:cast "f64" end',
  products = "local function products(x, y) return (x:unsqueeze(-2) * y:unsqueeze(-3)):sum{axis = -1} end",
  attend = "local function attend(q, k, v) return products(op.softmax(products(q, k) / math.sqrt(q.shape[q.ndim])), "
    .. "v:T()) end",
  fold = "local function fold(f, y, list) local r = {} for i = 1, list.shape[1] do y = f(i - 1, y) r[i] = y end "
    .. "return op.stack(r, {axis = 0}) end",
  hann = 'local function hann(n) return op.cos(op.arange(n):cast "f64" * (2 * math.pi / n)) * -0.5 + 0.5 end',
}
local order = { "mean", "most", "wide", "products", "attend", "fold", "hann" }

-- The call, its meaning (X, Y, Z are x, y, z in f64; A is an axis, N its size), what x may be: "whole"
-- numbers too,
-- "wide" ones (i64), "large" ones (1e19 in f32), its rank ("1" to "3").
local list = {
  { "op.mse(x, y)", "(X - Y):square():mean()", "whole" },
  { "op.mse(x, y, {reduction = 'none'})", "(X - Y):square()", "whole" },
  { "op.l1(x, y)", "(X - Y):abs():mean()", "whole" },
  { "op.l1(x, y, {reduction = 'sum'})", "(X - Y):abs():sum()", "whole" },
  { "op.huber(x, y)",
    "op.where((X - Y):abs():le(1), (X - Y):square() * 0.5, (X - Y):abs() - 0.5):mean()", "whole" },
  { "x:mean{axis = A}", "X:sum{axis = A} / N", "whole" },
  { "x:var{axis = A}", "(X - mean(X, A)):square():mean{axis = A}", "whole large" },
  { "x:std{axis = A}", "(X - mean(X, A)):square():mean{axis = A}:sqrt()", "whole large" },
  { "x:norm{axis = A}", "X:square():sum{axis = A}:sqrt()", "whole" },
  { "x:norm{ord = 1}", "X:abs():sum()", "whole" },
  { "x:norm{ord = 1 / 0}", "X:abs():max()", "whole" },
  { "x:norm{ord = 0}", "wide(X:ne(0)):sum()", "whole" },
  { "x:logsumexp{axis = A}", "(X - most(X, A)):exp():sum{axis = A}:log() + X:max{axis = A}" },
  { "op.softmax(x, {axis = A})", "X:exp() / X:exp():sum{axis = A, keepdims = true}" },
  { "op.log_softmax(x, {axis = A})", "X - X:exp():sum{axis = A, keepdims = true}:log()" },
  { "op.layernorm(x)", "(X - mean(X, -1)) / (mean((X - mean(X, -1)):square(), -1) + 1e-5):sqrt()" },
  { "op.rmsnorm(x)", "X / (mean(X:square(), -1) + 1e-5):sqrt()" },
  { "op.batch_norm(x, x:mean{axis = 0}, x:var{axis = 0} + 1)",
    "(X - wide(x:mean{axis = 0})) / (wide(x:var{axis = 0} + 1) + 1e-5):sqrt()", "2" },
  { "op.gelu(x)", "X * 0.5 * (X / math.sqrt(2)):erf() + X * 0.5" },
  { "op.silu(x)", "X / (1 + (-X):exp())" },
  { "op.softplus(x)", "X:exp():log1p()" },
  { "op.mish(x)", "X * X:exp():log1p():tanh()" },
  { "op.matmul(x, y:T())", "products(X, Y)", "wide 2 3" },
  { "op.linear(x, y)", "products(X, Y)", "2" },
  { "op.einsum('ij,ij->i', x, y)", "(X * Y):sum{axis = 1}", "wide 2" },
  { "op.attention(x, y, z)", "attend(X, Y, Z)", "3" },
  { "op.attention(x, x, x)", "attend(X, X, X)", "3" },
  { "op.attention(x, y, z, {scale = -0.5})", "products(op.softmax(products(X, Y) * -0.5), Z:T())",
    "3" },
  { "op.cross_entropy(x, op.softmax(y))",
    "-(wide(op.softmax(y)) * op.log_softmax(X)):sum{axis = -1}:mean()", "2" },
  { "op.bce_with_logits(x, y:sigmoid())", "(X:exp():log1p() - X * wide(y:sigmoid())):mean()" },
  { "x:cumsum{axis = 0}", "fold(function(i, y) return y + X[i] end, X[0] * 0, X)", "wide" },
  { "x:cumprod{axis = 0}", "fold(function(i, y) return y * X[i] end, X[0] * 0 + 1, X)" },
  { "op.linear_scan(x, y, {axis = 0})",
    "fold(function(i, z) return X[i] * z + Y[i] end, X[0] * 0, X)" },
  { "x:max{axis = A}", "(X:sort{axis = A}):select(A, N - 1)", "whole" },
  { "x:prod{axis = A}", "X:cumprod{axis = A}:select(A, N - 1)" },
  { "x:median{axis = A}", "((X:sort{axis = A}):select(A, math.floor((N - 1) / 2)) "
    .. "+ (X:sort{axis = A}):select(A, math.floor(N / 2))) / 2", "whole" },
  { "x:roll(2, A)", "op.concat({X:narrow(A, N - 2 % N, 2 % N), X:narrow(A, 0, N - 2 % N)}, {axis = A})",
    "whole" },
  { "x:repeat_interleave(3, A)", "op.stack({X, X, X}, {axis = A + 1}):flatten(A, A + 1)", "whole" },
  { "op.hypot(x, y)", "(X:square() + Y:square()):sqrt()", "large" },
  { "op.outer(x:reshape(-1), y:reshape(-1))", "X:reshape(-1, 1) * Y:reshape(1, -1)", "wide" },
  { "op.kl_divergence(op.log_softmax(x), op.softmax(y), {reduction = 'sum'})",
    "(wide(op.softmax(y)) * (wide(op.softmax(y)):log() - wide(op.log_softmax(x)))):sum()" },
  { "op.where(x:gt(y), x, y)", "(X + Y + (X - Y):abs()) / 2", "whole" },
  { "op.clamp(x, -0.5, 0.5)", "op.minimum(op.maximum(X, -0.5), 0.5)" },
  { "op.avg_pool(x, {window = {2}, stride = {1}})", '(X[":, :, :-1"] + X[":, :, 1:"]) / 2', "3" },
  { "op.max_pool(x, {window = {2}, stride = {1}})", 'op.maximum(X[":, :, :-1"], X[":, :, 1:"])', "3" },
  { "op.conv1d(x, op.ones({1, x.shape[2], 2}, {dtype = x.dtype}))",
    '(X[":, :, :-1"] + X[":, :, 1:"]):sum{axis = 1, keepdims = true}', "3" },
  { "op.stft(x, {frame = 4, hop = 2, center = false, norm = 'forward'}):abs()",
    "op.rfft(X:unfold(-1, 4, 2) * hann(4), {norm = 'forward'}):abs():T()", "1" },
  { "op.rfft(x, {norm = 'backward'}):real():select(-1, 0)", "X:sum{axis = -1}" },
}

-- Dtype and kind of data for an entry.
local function choose(R, kinds)
  if kinds:find "whole" and R:chance(0.5) then
    local dtype = R:pick(words.wholes)
    return dtype, dtype ~= "i64" and "special" or "unit" -- what f64 holds
  end
  if kinds:find "wide" and R:chance(0.3) then return "i64", "unit" end
  if kinds:find "large" and R:chance(0.3) then return "f32", "large" end
  return R:pick(words.floats), "unit"
end

return function(W)
  local R = W.R
  W:line('profile "%s"', R:pick { "strict", "deterministic" })
  for _, name in ipairs(order) do W:run((helpers[name]:gsub("^local ", ""))) end
  local blocks, used, made = {}, "", 0
  for _ = 1, 30 do
    local d = R:pick(list)
    local ranks, kinds = {}, d[3] or ""
    for n in kinds:gmatch "%d" do ranks[#ranks + 1] = tonumber(n) end
    local shape = words.shape(R, R:pick(#ranks > 0 and ranks or { 1, 2, 3 }), { 2, 3, 4, 5, 6, 8,
      R:chance(0.2) and 17 or 1,
      R:chance(0.1) and 130 or 7 })
    local dtype, kind = choose(R, kinds)
    local function data()
      if kind == "large" then return "(" .. words.data(R, shape, dtype, "unit") .. ") * 1e19" end
      return words.data(R, shape, dtype, kind)
    end
    local given = ("%s, %s, %s"):format(data(), data(), words.data(R, shape, dtype, "unit"))
    local axis = R(#shape) - 1
    local function filled(s)
      return (s:gsub("%f[%w]A%f[%W]", tostring(axis)):gsub("%f[%w]N%f[%W]", tostring(shape[axis + 1])))
    end
    local call, meaning = filled(d[1]), filled(d[2])
    W:run(("x, y, z = %s X, Y, Z = x:cast 'f64', y:cast 'f64', z:cast 'f64'"):format(given))
    if W:run("return " .. call) and W:run("return " .. meaning) then
      blocks[#blocks + 1] = { given, call, meaning }
      used, made = used .. meaning, made + 1
      if made >= 4 then break end
    end
  end
  if used:find "attend" then used = used .. "products" end
  for _, name in ipairs(order) do
    if used:find(name .. "(", 1, true) or name == "products" and used:find "products" then W:line("%s",
      helpers[name]) end
  end
  for _, b in ipairs(blocks) do
    W:open "do"
    W:line("local x, y, z = %s", b[1])
    W:line "local X, Y, Z = x:cast 'f64', y:cast 'f64', z:cast 'f64'"
    W:line("means(%q, %s, %s)", b[2], b[2], b[3])
    W:close "end"
  end
end
