-- Operators beside what they mean, written out in f64 by other operators: X, Y, Z are x, y, z in f64.
local words = dofile "tests/fuzz/programs/_words.lua"

-- name: the call, its meaning, options. whole: integers too; data: kinds of data; rank: of x at least. %a: an axis.
local list = {
  { "op.mse(x, y)", "(X - Y):square():mean()", whole = true },
  { "op.mse(x, y, {reduction = 'none'})", "(X - Y):square()", whole = true },
  { "op.l1(x, y)", "(X - Y):abs():mean()", whole = true },
  { "op.l1(x, y, {reduction = 'sum'})", "(X - Y):abs():sum()", whole = true },
  { "op.huber(x, y)", "op.where((X - Y):abs():le(1), (X - Y):square() / 2, (X - Y):abs() - 0.5):mean()", whole = true },
  { "x:mean{axis = %a}", "X:sum{axis = %a} / X.shape[%a1]", whole = true },
  { "x:var{axis = %a}", "(X - X:mean{axis = %a, keepdims = true}):square():mean{axis = %a}", whole = true, data = { "unit", "large" } },
  { "x:std{axis = %a}", "(X - X:mean{axis = %a, keepdims = true}):square():mean{axis = %a}:sqrt()", whole = true, data = { "unit", "large" } },
  { "x:norm{axis = %a}", "X:square():sum{axis = %a}:sqrt()", whole = true },
  { "x:norm{ord = 1}", "X:abs():sum()", whole = true },
  { "x:norm{ord = 1 / 0}", "X:abs():max()", whole = true },
  { "x:norm{ord = 0}", "X:ne(0):cast('f64'):sum()", whole = true },
  { "x:logsumexp{axis = %a}", "(X - X:max{axis = %a, keepdims = true}):exp():sum{axis = %a}:log() + X:max{axis = %a}" },
  { "op.softmax(x, {axis = %a})", "(X - X:max{axis = %a, keepdims = true}):exp() / (X - X:max{axis = %a, keepdims = true}):exp():sum{axis = %a, keepdims = true}" },
  { "op.log_softmax(x, {axis = %a})", "X - X:max{axis = %a, keepdims = true} - (X - X:max{axis = %a, keepdims = true}):exp():sum{axis = %a, keepdims = true}:log()" },
  { "op.layernorm(x)", "(X - X:mean{axis = -1, keepdims = true}) / ((X - X:mean{axis = -1, keepdims = true}):square():mean{axis = -1, keepdims = true} + 1e-5):sqrt()" },
  { "op.rmsnorm(x)", "X / (X:square():mean{axis = -1, keepdims = true} + 1e-5):sqrt()" },
  { "op.batch_norm(x, x:mean{axis = 0}, x:var{axis = 0} + 1)", "(X - x:mean{axis = 0}:cast('f64')) / ((x:var{axis = 0} + 1):cast('f64') + 1e-5):sqrt()", rank = 2, exactly = 2 },
  { "op.gelu(x)", "X * 0.5 * (X / math.sqrt(2)):erf() + X * 0.5" },
  { "op.silu(x)", "X / (1 + (-X):exp())" },
  { "op.softplus(x)", "X:exp():log1p()" },
  { "op.mish(x)", "X * X:exp():log1p():tanh()" },
  { "op.matmul(x, y:T())", "(X:unsqueeze(-2) * Y:unsqueeze(-3)):sum{axis = -1}", whole = "i64", rank = 2 },
  { "op.linear(x, y)", "(X:unsqueeze(-2) * Y:unsqueeze(-3)):sum{axis = -1}", exactly = 2 },
  { "op.einsum('ij,ij->i', x, y)", "(X * Y):sum{axis = 1}", exactly = 2, whole = "i64" },
  { "op.attention(x, y, z)", "(op.softmax((X:unsqueeze(-2) * Y:unsqueeze(-3)):sum{axis = -1} / math.sqrt(X.shape[X.ndim]), {axis = -1}):unsqueeze(-1) * Z:unsqueeze(-3)):sum{axis = -2}", exactly = 3 },
  { "op.attention(x, x, x)", "(op.softmax((X:unsqueeze(-2) * X:unsqueeze(-3)):sum{axis = -1} / math.sqrt(X.shape[X.ndim]), {axis = -1}):unsqueeze(-1) * X:unsqueeze(-3)):sum{axis = -2}", exactly = 3 },
  { "op.cross_entropy(x, op.softmax(y))", "-(op.softmax(y):cast('f64') * op.log_softmax(X)):sum{axis = -1}:mean()", exactly = 2 },
  { "op.bce_with_logits(x, y:sigmoid())", "(X:exp():log1p() - X * y:sigmoid():cast('f64')):mean()" },
  { "x:cumsum{axis = %a}", "op.tril(op.ones({X.shape[%a1], X.shape[%a1]}, {dtype = 'f64'})):reshape(op_side(X, %a)):matmul(X:transpose(%a, -1):unsqueeze(-1)):squeeze(-1):transpose(%a, -1)", whole = "i64" },
  { "x:median{axis = %a}", "((X:sort{axis = %a}):select(%a, math.floor((X.shape[%a1] - 1) / 2)) + (X:sort{axis = %a}):select(%a, math.floor(X.shape[%a1] / 2))) / 2", whole = true },
  { "x:roll(2, %a)", "op.concat({X:narrow(%a, X.shape[%a1] - 2 % X.shape[%a1], 2 % X.shape[%a1]), X:narrow(%a, 0, X.shape[%a1] - 2 % X.shape[%a1])}, {axis = %a})", whole = true },
  { "x:repeat_interleave(3, %a)", "op.stack({X, X, X}, {axis = %a + 1}):flatten(%a, %a + 1)", whole = true },
  { "x:square():sum{axis = %a}:sqrt()", "X:norm{axis = %a}", data = { "unit" } },
  { "op.hypot(x, y)", "(X:square() + Y:square()):sqrt()", data = { "unit", "large" } },
  { "op.outer(x:reshape(-1), y:reshape(-1))", "X:reshape(-1, 1) * Y:reshape(1, -1)", whole = "i64" },
  { "op.kl_divergence(op.log_softmax(x), op.softmax(y), {reduction = 'sum'})", "(op.softmax(y):cast('f64') * (op.softmax(y):cast('f64'):log() - op.log_softmax(x):cast('f64'))):sum()" },
  { "op.linear_scan(x, y, {axis = 0})", "fold0(X, Y)" },
  { "op.cumprod(x, {axis = 0})", "fold0(X, op.zeros_like(X), true)" },
  { "x:max{axis = %a}", "(X:sort{axis = %a}):select(%a, X.shape[%a1] - 1)", whole = true },
  { "x:prod{axis = %a}", "(op.cumprod(X, {axis = %a})):select(%a, X.shape[%a1] - 1)" },
  { "op.where(x:gt(y), x, y)", "(X + Y + (X - Y):abs()) / 2", whole = true },
  { "op.clamp(x, -0.5, 0.5)", "op.minimum(op.maximum(X, -0.5), 0.5)" },
  { "op.avg_pool(x, {window = {2}, stride = {1}})", '(X[":, :, :-1"] + X[":, :, 1:"]) / 2', exactly = 3 },
  { "op.max_pool(x, {window = {2}, stride = {1}})", 'op.maximum(X[":, :, :-1"], X[":, :, 1:"])', exactly = 3 },
  { "op.conv1d(x, op.ones({1, x.shape[2], 2}, {dtype = x.dtype}))", '(X[":, :, :-1"] + X[":, :, 1:"]):sum{axis = 1, keepdims = true}', exactly = 3 },
  { "op.stft(x, {frame = 4, hop = 2, center = false, norm = 'forward'}):abs()", "op.rfft(X:unfold(-1, 4, 2) * (op.cos(op.arange(4):cast('f64') * math.pi / 2) * -0.5 + 0.5), {norm = 'forward'}):abs():T()", exactly = 1 },
  { "op.rfft(x, {norm = 'backward'}):real():select(-1, 0)", "X:sum{axis = -1}" },
}

return function(W)
  local R = W.R
  W:line('profile "%s"', R:pick { "strict", "deterministic" })
  W:line "local function op_side(x, axis) local s = {} for i = 1, x.ndim - 1 do s[i] = 1 end s[#s + 1] = x.shape[axis + 1] s[#s + 1] = x.shape[axis + 1] return s end"
  W:line "local function fold0(a, b, product) local y = {product and a[0] or b[0]} for i = 1, a.shape[1] - 1 do y[i + 1] = a[i] * y[i] + b[i] end return op.stack(y, {axis = 0}) end"
  W:run "function op_side(x, axis) local s = {} for i = 1, x.ndim - 1 do s[i] = 1 end s[#s + 1] = x.shape[axis + 1] s[#s + 1] = x.shape[axis + 1] return s end"
  W:run "function fold0(a, b, product) local y = {product and a[0] or b[0]} for i = 1, a.shape[1] - 1 do y[i + 1] = a[i] * y[i] + b[i] end return op.stack(y, {axis = 0}) end"
  local made = 0
  for _ = 1, 30 do
    local d = R:pick(list)
    local rank = d.exactly or R:between(d.rank or 1, 3)
    local shape = words.shape(R, rank, { 2, 3, 4, 5, 8, R:chance(0.2) and 17 or 1, R:chance(0.1) and 130 or 6 })
    local dtype = d.whole == true and R:chance(0.5) and R:pick(words.wholes) or d.whole == "i64" and R:chance(0.3) and "i64" or R:pick(words.floats)
    local kind = d.data and R:pick(d.data) or "unit"
    if d.whole == true and dtype:match "^[iu]" and dtype ~= "i64" then kind = "special" end
    if kind == "large" and dtype ~= "f32" then kind = "unit" end
    local axis = R(rank) - 1
    local function filled(s) return (s:gsub("%%a1", tostring(axis + 1)):gsub("%%a", tostring(axis))) end
    local x, y, z = words.data(R, shape, dtype, kind == "large" and "unit" or kind), words.data(R, shape, dtype, kind == "large" and "unit" or kind), words.data(R, shape, dtype, "unit")
    if kind == "large" then x, y = "(" .. x .. ") * 1e19", "(" .. y .. ") * 1e19" end
    W:run(("x, y, z = %s, %s, %s X, Y, Z = x:cast 'f64', y:cast 'f64', z:cast 'f64'"):format(x, y, z))
    if W:run("return " .. filled(d[1])) and W:run("return " .. filled(d[2])) then
      W:open "do"
      W:line("local x, y, z = %s, %s, %s", x, y, z)
      W:line "local X, Y, Z = x:cast 'f64', y:cast 'f64', z:cast 'f64'"
      W:line("means(%q, %s, %s)", filled(d[1]), filled(d[1]), filled(d[2]))
      W:close "end"
      made = made + 1
      if made >= 4 then return end
    end
  end
end
