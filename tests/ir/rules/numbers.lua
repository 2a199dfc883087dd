-- Identities, constants, and functions by other names.
local tessera = require "tessera"
local op = tessera.op
local rules = dofile "tests/ir/rules/_rules.lua"
local check = rules.check
local x = op.normal({ 5, 7 }, { seed = 1, stream = 1 })
local y = op.normal({ 5, 7 }, { seed = 1, stream = 2 })
local p = op.uniform({ 5, 7 }, { low = 0.1, high = 3, seed = 1, stream = 3 })
local i = op.randint({ 5, 7 }, { low = -9, high = 9, seed = 1, stream = 4 })

-- ---- identities
check("mul_one", function(x) return x * 1 end, function(x) return x * 2 end, x) --> ok
check("div_one", function(x) return x / 1 end, function(x) return 1 / x end, x) --> ok
check("pow_one", function(x) return x ^ 1 end, function(x) return x ^ 4 end, x) --> ok
check("pow_two", function(x) return x ^ 2 end, function(x) return x ^ 4 end, x) --> ok
check("pow_three", function(x) return x ^ 3 end, function(x) return x ^ 4 end, x) --> ok
check("pow_half", function(x) return op.square(x) ^ 0.5 end, function(x) return op.exp(x) ^ 0.25 end, x) --> ok
rules.fired(function(x) return x ^ 0.5 end, x):find "pow_half" --> nil
check("pow_minus_half", function(x) return op.exp(x) ^ -0.5 end, function(x) return op.exp(x) ^ -0.25 end, x) --> ok
check("pow_minus_one", function(x) return x ^ -1 end, function(x) return op.exp(x) ^ -0.25 end, p) --> ok
check("one_over", function(x) return 1 / x end, function(x) return 2 / x end, p) --> ok
rules.fired(function(i) return 1 / i end, i + 20):find "one_over" --> nil
check("one_over_sqrt", function(x) return 1 / op.sqrt(x) end, function(x) return 2 / op.sqrt(x) end, p) --> ok
check("sub_zero", function(x) return x - 0 end, function(x) return 0 - x end, x) --> ok
check("add_zero", function(x) return x + 0 end, function(x) return x + 1 end, i) --> ok
rules.fired(function(x) return x + 0 end, x) -->
check("neg_neg", function(x) return -(-x) end, function(x) return -x end, x) --> ok
check("mul_minus", function(x) return x * -1 end, function(x) return x * -2 end, x) --> ok
check("add_neg", function(x, y) return x + -y end, function(x, y) return x * -y end, x, y) --> ok
check("sub_neg", function(x, y) return x - -y end, function(x, y) return -y - x end, x, y) --> ok
check("neg_sub", function(x, y) return -(x - y) end, function(x, y) return -(x + y) end, x, y) --> ok
check("mul_negs", function(x, y) return -x * -y end, function(x, y) return -x * y end, x, y) --> ok
check("mul_self", function(x) return x * x end, function(x, y) return x * y end, x, y) --> ok
check("not_not", function(x) return op.logical_not(op.logical_not(x:gt(0))) end, function(x) return op.logical_not(op.logical_not(x)) end, x) --> ok
check("conj_conj", function(x) return op.conj(op.conj(x)) end, function(x) return op.conj(x) end, op.complex(x, y)) --> ok
check("abs_neg", function(x) return op.abs(-x) end, function(x) return op.abs(x) end, x) --> ok
check("square_neg", function(x) return op.square(-x) end, function(x) return op.square(x) end, x) --> ok
check("relu_relu", function(x) return op.relu(op.relu(x)) end, function(x) return op.relu(-x) end, x) --> ok

-- ---- inverse functions
check("exp_log", function(x) return op.exp(op.log(x)) end, function(x) return op.exp(op.log2(x)) end, p) --> ok
check("log_exp", function(x) return op.log(op.exp(x)) end, function(x) return op.log(op.exp2(x)) end, p) --> ok
check("sqrt_square", function(x) return op.sqrt(op.square(x)) end, function(x) return op.sqrt(op.square(x) + 1) end, x) --> ok

-- ---- constants
check("div_power", function(x) return x / 8 end, function(x) return x / 6 end, x) --> ok
check("div_power", function(x) return x / -0.25 end, function(x) return x / 3 end, p) --> ok
rules.fired(function(i) return i / 4 end, i) -->
check("neg_mul", function(x) return -(x * 3) end, function(x) local t = x * 3 return -t, t + 1 end, x) --> ok
check("neg_div", function(x) return -(x / 3) end, function(x) local t = x / 3 return -t, t + 1 end, x) --> ok
check("mul_mul", function(x) return x * 0.3 * 0.7 end, function(x) local t = x * 0.3 return t * 0.7, t + 1 end, x) --> ok
-- Where the first step may overflow and the second bring that back, they stay two.
rules.fast.check("mul_mul", function(x) return x * 3 * 0.7 end, function(x) local t = x * 3 return t * 0.7, t + 1 end, x) --> ok
rules.fast.check("div_div", function(x) return x / 0.7 / 3 end, function(x) return x / (x / 3) end, p) --> ok
rules.fast.check("div_mul", function(x) return x * 3 / 2.7 end, function(x) return x * 0 / 2.7 end, x) --> ok
rules.fast.check("mul_div", function(x) return x / 0.3 * 0.7 end, function(x) return 3 / x * 0.7 end, p) --> ok
rules.fired(function(x) return x * 1e30 * 1e30 end, x) -->
rules.fired(function(i) return i * 3 * 5 end, i) -->
check("div_div", function(x) return x / 3 / 0.7 end, function(x) return x / (x / 3) end, p) --> ok
check("div_mul", function(x) return x * 3 / 0.7 end, function(x) return x * 0 / 0.7 end, x) --> ok
check("mul_div", function(x) return x / 3 * 0.7 end, function(x) return 3 / x * 0.7 end, p) --> ok
check("sum_mean", function(x) return x:sum { axis = 1 } / 7 end, function(x) return x:sum { axis = 1 } / 6 end, x) --> ok
check("sum_mean_mul", function(x) return x:sum { axis = 1 } * (1 / 7) end, function(x) return x:sum { axis = 1 } * 0.14 end, x) --> ok

-- ---- functions by their names
check("log_one_plus", function(x) return op.log(x + 1) end, function(x) return op.log(x + 2) end, p) --> ok
check("exp_minus_one", function(x) return op.exp(x) - 1 end, function(x) return 1 - op.exp(x) end, x) --> ok
check("log1p_exp", function(x) return op.log(1 + op.exp(x)) end, function(x) return op.log(1 + op.exp2(x)) end, x) --> ok
check("sigmoid_exp", function(x) return 1 / (1 + op.exp(-x)) end, function(x) return 1 / (1 + op.exp(x)) end, x) --> ok
check("silu", function(x) return x * op.sigmoid(x) end, function(x, y) return x * op.sigmoid(y) end, x, y) --> ok
-- gelu in the orders in which people write it, of values and of expressions; other constants.
local root = math.sqrt(2 / math.pi)
local function wide(x, c) return 0.5 * x * (1 + op.tanh(root * (x + (c or 0.044715) * x ^ 3))) end
check("gelu", wide, function(x) return wide(x, 0.045) end, x) --> ok
rules.ops(wide, x) --> gelu_tanh
rules.ops(function(x) return x * (1 + op.tanh(0.7978845608 * x * (1 + 0.044715 * x * x))) / 2 end, x) --> gelu_tanh
rules.ops(function(x, y) return wide(x * y) end, x, y) --> mul gelu_tanh
rules.ops(function(x) return x * 0.5 * (1 + op.erf(x / math.sqrt(2))) end, x) --> gelu_erf
rules.ops(function(x) return (op.erf(x * 2 ^ -0.5) + 1) * (0.5 * x) end, x) --> gelu_erf
rules.ops(function(x, y) return y * 0.5 * (1 + op.erf(x / math.sqrt(2))) end, x, y):find "gelu" --> nil
rules.ops(function(x) local f = op.erf(x / math.sqrt(2)) return x * 0.5 * (1 + f), f end, x):find "gelu" --> nil
check("log_sigmoid", function(x) return op.log(op.sigmoid(x)) end, function(x) return op.sigmoid(op.log(x)) end, p) --> ok

rules.ops(function(x) return x * 2 * 3 / 0.5 end, x) --> mul
rules.fast.line(function(x) return x * 2 * 3 / 12 end, "mul", x) --> mul %x, 0.5 : f32[5,7]
rules.ops(function(x) return x / (1 + op.exp(-x)) end, x) --> neg exp add div
-- Constants are computed, once for all runs.
rules.ops(function(x) return x * (op.full({ 5, 7 }, 2) + 3) end, x) --> mul
-- A tensor of one number is that number.
rules.line(function(x) return x * op.full({ 5, 1 }, 2) end, "mul", x) --> mul %x, 2 : f32[5,7]
rules.line(function(x) return x + op.full({ 5, 1 }, 2, { dtype = "f64" }) end, "add", x) --> add %x, %0 : f64[5,7]
-- Bools have products, but neither squares nor signs.
rules.ops(function(x) local b = x:cast "bool" return b * b end, x) --> cast mul
rules.ops(function(x) return x:cast "bool" * -1 end, x):find "neg" --> nil

-- ---- folding keeps the sign of zero
local function signed(y) return op.full({ 3 }, { value = 0, dtype = "f32" }) * -0.5 * 1.5 end
tessera.graph.module(signed)(x):hash() == signed(x):hash() --> true
