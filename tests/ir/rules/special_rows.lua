-- Rules for whole rows, for what is written out in several steps and for movement, over special
-- values: what rounds keeps whether a result is finite, for rows of every kind; what moves keeps
-- every bit of every type, of empty tensors too.
local tessera = require "tessera"
local op, graph, numerics = tessera.op, tessera.graph, tessera.numerics
local rules = dofile "tests/ir/rules/_rules.lua"
local S = dofile "tests/ir/rules/_special.lua"
local last = { axis = -1, keepdims = true }
local nan, inf = 0 / 0, 1 / 0

-- Rows of 6: an ordinary one with each special value at one place, the value everywhere, and beside
-- its negative.
local function rows(d)
  local base = { 0.5, -1.25, 2, 0.1, -0.3, 1 }
  local list = S.values(d):cast "f64"
  local all = {}
  for i = 0, list.numel - 1 do
    local v = list[i]:item()
    local a, b, c = { unpack(base) }, {}, { unpack(base) }
    a[3], c[2], c[5] = v, v, -v
    for k = 1, 6 do b[k] = v end
    all[#all + 1], all[#all + 2], all[#all + 3] = a, b, c
  end
  return tessera.tensor(all, { dtype = "f64" }):cast(d)
end

local failures = {}
local function fail(...) if #failures < 40 then failures[#failures + 1] = table.concat({ ... }, " ") end end

--- The rule fires for the types of `on` in deterministic and for the others in fast at the most.
local function rounding(name, f, on, more)
  for _, d in ipairs { "f16", "bf16", "f32", "f64" } do
    local args = { rows(d) }
    for i, make in ipairs(more or {}) do args[i + 1] = make(args[1], d) end
    local before, after, g, why, why_not = S.both("deterministic", S.finite_inputs(f, unpack(args)))
    if not before or not after then fail(name, d, why or "", why_not or "") end
    local n, first = S.turned(before, after)
    if n > 0 then fail(name, d, n, first) end
    -- Of parameters, which are finite, more may be said than of quotients.
    local direct = numerics.profile("deterministic", function() return rules.fired(f, unpack(args)) end)
    local fires = S.fired(g, name) or (" " .. direct .. " "):find(" " .. name .. " ", 1, true) ~= nil
    if fires ~= ((" " .. on .. " "):find(" " .. d .. " ", 1, true) ~= nil) then fail(name, d, fires and "fires" or "does not fire") end
    before, after = S.both("strict", f, unpack(args))
    local wrong = S.differ(before, after)
    if wrong then fail(name, d, "in strict", wrong) end
  end
end
local function like(x) return op.flip(x, { axis = { 0 } }) end
local function weight(x, d) return tessera.tensor({ 1, 0, -0.5, 1e4, 3, -2 }, { dtype = "f64" }):cast(d) end
local all, wide = "f16 bf16 f32 f64", "bf16 f32 f64"

-- ---- softmax
local function shifted(x) return x - op.max(x, last) end
local function share(x) local e = op.exp(x) return e / e:sum(last) end
rounding("exp_share", function(x) return share(shifted(x)) end, all)
rounding("exp_share", share, "")
rounding("exp_share_mul", function(x) local e = op.exp(shifted(x)) return e * (1 / e:sum(last)) end, all)
rounding("softmax_shift", function(x) return op.softmax(shifted(x)) end, all)
rounding("softmax_shift", function(x) return op.softmax(x + 3) end, wide)
rounding("softmax_shift", function(x, y) return op.softmax(x - y:narrow(-1, 0, 1)) end, "", { like })
rounding("softmax_shift", function(x) return op.softmax(x + -inf) end, "")
rounding("softmax_shift", function(x) return op.softmax(x - op.min(x, last)) end, "")
rounding("log_softmax_shift", function(x) return op.log_softmax(shifted(x)) end, all)
rounding("log_of_softmax", function(x) return op.log(op.softmax(x)) end, "")
rounding("log_sum_exp", function(x) return op.log(op.exp(shifted(x)):sum(last)) end, wide)
rounding("log_sum_exp", function(x) return op.log(op.exp(x):sum(last)) end, "")
rounding("logsumexp_lift", function(x) return op.log(op.exp(shifted(x)):sum(last)) + op.max(x, last) end, wide)
rounding("sub_logsumexp", function(x) return x - op.logsumexp(x, last) end, all)
local function class(x) return op.arange(x.shape[1]) % 6 end
rounding("picked_loss", function(x, t) return op.log_softmax(x):gather(t:unsqueeze(-1), { axis = -1 }) end, all, { class })
rounding("one_hot_loss", function(x, t) return (op.log_softmax(x) * op.one_hot(t, { classes = 6, dtype = x.dtype })):sum(-1) end, wide, { class })
rounding("cast_rows", function(x) return op.softmax(x:cast "f32"):cast(x.dtype) end, "f16 bf16")

-- ---- norms
local function mean(x) return x:mean(last) end
local function var(x) local c = x - mean(x) return mean(c * c) end
rounding("moments_var", function(x) return mean(op.square(x)) - op.square(mean(x)) end, "")
rounding("centred_var", function(x) return op.square(x - mean(x)):mean { axis = -1 } end, "")
rounding("norm_div", function(x) return (x - mean(x)) / op.sqrt(var(x) + 1e-5) end, wide)
rounding("norm_mul", function(x) return (x - mean(x)) * op.rsqrt(var(x) + 1e-5) end, wide)
rounding("norm_div", function(x) return (x - mean(x)) / op.sqrt(var(x)) end, "f32 f64")
rounding("norm_div", function(x) return (x - mean(x)) / op.std(x, last) end, "f32 f64")
rounding("norm_div", function(x) return (x - mean(x)) / op.sqrt(op.var(x, last) + 1e-5) end, wide)
rounding("norm_div", function(x) return x / op.sqrt(mean(x * x)) end, "f32 f64")
rounding("norm_mul", function(x) return x * op.rsqrt(mean(x * x) + 1e-6) end, wide)
rounding("norm_weight", function(x, w) return op.layernorm(x) * w end, all, { weight })
rounding("norm_weight", function(x, w) return op.rmsnorm(x) * w end, all, { weight })
rounding("norm_bias", function(x, w, b) return op.layernorm(x, w) + b end, wide, { weight, weight })
rounding("sum_mean", function(x) return x:sum(last) / 6 end, wide)
rounding("sum_mean_mul", function(x) return x:sum(last) * (1 / 6) end, wide)

-- ---- gates, powers of what is known
local root = math.sqrt(2 / math.pi)
rounding("gelu", function(x) return 0.5 * x * (1 + op.tanh(root * (x + 0.044715 * x ^ 3))) end, all)
rounding("gelu", function(x) return 0.5 * x * (1 + op.erf(x / math.sqrt(2))) end, all)
rounding("silu", function(x) return x * op.sigmoid(x) end, all)
rounding("sigmoid_exp", function(x) return 1 / (1 + op.exp(-x)) end, all)
rounding("pow_half", function(x) return op.abs(x) ^ 0.5 end, all)
rounding("pow_half", function(x) return op.sqrt(x) ^ 0.5 end, "")
rounding("pow_half", function(x) return (1 / op.sqrt(x)) ^ 0.5 end, "")
rounding("pow_minus_half", function(x) return (mean(x * x) + 1e-3) ^ -0.5 end, all)
rounding("pow_minus_half", function(x) return op.relu(x) ^ -0.5 end, all)
rounding("exp_log", function(x) return op.exp(op.log(x)) end, "")
rounding("log_exp", function(x) return op.log(op.exp(x)) end, "")
rounding("sqrt_square", function(x) return op.sqrt(x * x) end, "")
rounding("log1p_exp", function(x) return op.log(1 + op.exp(x)) end, "")
rounding("log_sigmoid", function(x) return op.log(op.sigmoid(x)) end, "")

-- ---- factors: where both ways overflow alike
rounding("mul_mul", function(x) return x * 0.5 * 3 end, all)
rounding("mul_mul", function(x) return x * 3 * 5 end, all)
rounding("mul_mul", function(x) return x * 3 * 0.5 end, "")
rounding("div_div", function(x) return x / 3 / 0.7 end, all)
rounding("div_div", function(x) return x / 0.7 / 3 end, "")
rounding("div_mul", function(x) return x * 3 / 0.7 end, all)
rounding("div_mul", function(x) return x * 3 / 1.7 end, "")
rounding("mul_div", function(x) return x / 3 * 0.7 end, all)
rounding("mul_div", function(x) return x / 0.3 * 0.7 end, "")
table.concat(failures, "\n") -->

-- ---- attention: rows of queries, keys and values with special numbers, and masks that hide a row
failures = {}
local function attention(name, mask, on, extra)
  local function f(q, k, v, m)
    return op.matmul(op.softmax(mask(op.matmul(q, k:transpose(-2, -1)) * 0.5, m)), v)
  end
  for _, place in ipairs { "q", "k", "v", "" } do
    for _, d in ipairs { "f16", "bf16", "f32", "f64" } do
      local special = rows(d)
      local n = special.shape[1]
      local function operand(seed, own)
        local x = op.normal({ n, 5, 6 }, { seed = seed, stream = 1 }):cast(d)
        if own ~= place then return x end
        return op.concat({ x:narrow(1, 0, 3), special:unsqueeze(1), x:narrow(1, 4, 1) }, { axis = 1 })
      end
      local q, k, v = operand(1, "q"), operand(2, "k"), operand(3, "v")
      local g = graph.module("f", f)
      local before, after = f(q, k, v, extra), g(q, k, v, extra)
      -- Of parameters only those are promised anything that are finite and no very large numbers.
      local function good(x) return x:abs():lt(S.largest[d] / 1024):all { axis = { 1, 2 }, keepdims = true } end
      local inputs = good(q):logical_and(good(k)):logical_and(good(v))
      local wrong, first = S.turned(op.where(inputs, before, op.zeros_like(before)), op.where(inputs, after, op.zeros_like(after)))
      if wrong > 0 then fail(name, place, d, wrong, first) end
      local fires = S.fired(g, "softmax_attention")
      if fires ~= ((" " .. on .. " "):find(" " .. d .. " ", 1, true) ~= nil) then fail(name, d, fires and "fires" or "does not fire") end
      -- What is not finite before it is an input.
      before, after = S.both("deterministic", S.finite_inputs(function(q, k, v) return f(q, k, v, extra) end, q, k, v))
      wrong, first = S.turned(before, after)
      if wrong > 0 then fail(name, place, d, "from finite inputs", wrong, first) end
    end
  end
end
local seen = op.arange(25):reshape(5, 5) % 3
seen = seen:ne(0):logical_and(op.arange(5):ne(2):unsqueeze(1)) -- row 2 sees nothing
local lower = op.tril(op.ones { 5, 5 }):ne(0)
attention("no mask", function(s) return s end, wide)
attention("seen", function(s, m) return op.where(m, s, -inf) end, wide, seen)
attention("hidden", function(s, m) return s:masked_fill(m, -inf) end, wide, seen)
attention("far", function(s, m) return op.where(m, s, -3e38) end, wide, seen)
attention("added", function(s, m) return s + op.where(m, op.zeros({ 5, 5 }, { dtype = s.dtype }), -inf) end, wide, seen)
attention("causal", function(s) return op.where(op.tril(op.ones { 5, 5 }):ne(0), s, -inf) end, wide)
attention("causal and seen", function(s, m) return op.where(op.tril(op.ones { 5, 5 }):ne(0), op.where(m, s, -inf), -inf) end, wide, seen)
table.concat(failures, "\n") -->

-- A mask that is given hides whole rows as well; those are NaN, and so is the gradient by v.
local q, k, v = op.normal({ 5, 6 }, { seed = 1, stream = 1 }), op.normal({ 5, 6 }, { seed = 2, stream = 1 }), op.normal({ 5, 6 }, { seed = 3, stream = 1 })
local function written(q, k, v, m) return op.matmul(op.softmax(op.matmul(q, k:T()) + m), v) end
local added = op.where(seen, op.zeros { 5, 5 }, -inf)
local f = graph.module("f", written)
f(q, k, v, added):isnan():all(1):cast "i64" --> [0 0 1 0 0]
--> i64[5]
rules.fired(written, q, k, v, added):match "softmax_attention" --> softmax_attention
local gradient = graph.grad(function(v, m) return written(q, k, v, m):sum() end)
gradient(v, added):isnan():all():item() --> true

-- ---- movement, casts, joining: every bit of every type, and of nothing
failures = {}
local moves = {
  squeeze = function(x) return x:unsqueeze(1):squeeze() end,
  flatten = function(x) return x:flatten():reshape(x.shape) end,
  permutes = function(x) return x:T():T():permute(1, 0) end,
  narrow_cast = function(x) return x:cast "f32":narrow(1, 1, 1) end,
  cast_there_and_back = function(x) return x:cast "f64":T():cast(x.dtype) end,
  casts = function(x) return x:cast "i64":cast "f32" end,
  small_casts = function(x) return x:cast "i16":cast(x.dtype) end,
  cast_narrow = function(x) return x:cast "bf16":cast "f16" end,
  expand = function(x) return x:unsqueeze(0):broadcast_to({ 3, x.shape[1], x.shape[2] }):cast "f64" end,
  concat = function(x) return op.concat({ op.concat({ x, x }, { axis = 1 }), x }, { axis = 1 }):narrow(1, 2, 3) end,
  filled = function(x) return x:broadcast_to { 2, x.shape[1], x.shape[2] } + op.full({ 2, x.shape[1], x.shape[2] }, 1, { dtype = x.dtype }) end,
  filled_compare = function(x) return op.full_like(x, 1, { dtype = "f32" }):lt(x) end,
  filled_where = function(x) return op.where(x:ne(0), x, op.full(x.shape, 1, { dtype = x.dtype })) end,
  filled_parts = function(x) return op.full_like(x, 1):T():narrow(0, 0, 1):T() + x:narrow(1, 0, 1) end,
  rows = function(x) return x:cast "f32":index_select(op.arange(x.shape[1])["0:1"]) end,
  unary = function(x) return x:unsqueeze(0):broadcast_to({ 3, x.shape[1], x.shape[2] }):isnan() end,
  select = function(x) return op.concat({ x, x }, { axis = 1 }):select(1, 3) end,
  pads = function(x) return x:pad({ pads = { 0, 2 } }) + x:pad({ pads = { 2, 0 } }) end,
  down = function(x) return (x:cast "f32" * 3 + x:cast "f32"):cast(x.dtype) end,
}
for name, f in pairs(moves) do
  for _, d in ipairs(S.dtypes) do
    local x = S.values(d)
    local n = x.numel - x.numel % 2
    x = x["0:" .. n]:reshape(n / 2, 2)
    for _, y in ipairs { x, x["0:0"] } do
      local before, after, _, why, why_not = S.both("strict", f, y)
      local wrong = S.differ(before, after, why, why_not)
      if wrong then fail(name, d, y.numel, wrong) end
    end
  end
end
table.concat(failures, "\n") -->
