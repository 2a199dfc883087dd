-- Movement: reshapes, permutations, casts, parts that are joined.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local rules = dofile "tests/ir/rules/_rules.lua"
local check, ops, line = rules.check, rules.ops, rules.line
-- Views of an argument that come out share its bytes and stay as they are: these are read.
local function read(f) return f and function(...) return f(...):clone() end end
local function check_view(name, yes, no, ...) return check(name, read(yes), read(no), ...) end
local x = op.normal({ 4, 6 }, { seed = 4, stream = 1 })
local y = op.normal({ 2, 3, 4 }, { seed = 4, stream = 2 })
local h = x:cast "bf16"
local index = op.randint({ 3 }, { low = 0, high = 4, seed = 4, stream = 3 })

-- ---- one form
check_view("reshape_same", function(x) return x:reshape(4, 6) end, function(x) return x:reshape(6, 4) end, x) --> ok
check_view("expand_same", function(x) return op.broadcast_to(x, { 4, 6 }) end, function(x) return op.broadcast_to(x, { 2, 4, 6 }) end, x) --> ok
check("cast_same", function(x) return x:cast "f32" end, function(x) return x:cast "f64" end, x) --> ok
check_view("contiguous_contiguous", function(x) return x:T():contiguous():contiguous() end, function(x) return x:T():contiguous() end, x) --> ok
check_view("squeeze_reshape", function(x) return x:reshape(4, 1, 6):squeeze(1) end, nil, x) --> ok
check_view("unsqueeze_reshape", function(x) return x:unsqueeze(1) end, nil, x) --> ok
check_view("flatten_reshape", function(x) return op.flatten(x) end, nil, x) --> ok
check_view("expand_broadcast", function(x) return op.expand(x, { 2, -1, -1 }) end, nil, x) --> ok
check_view("reshape_reshape", function(x) return x:reshape(24):reshape(2, 12) end, function(x) return x:reshape(2, 12) end, x) --> ok
check_view("expand_expand", function(x) return op.broadcast_to(op.broadcast_to(x, { 1, 4, 6 }), { 3, 4, 6 }) end, nil, x) --> ok
check("reduce_reshape", function(x) return x:sum({ axis = 1, keepdims = true }):squeeze(1) end, function(x) local s = x:sum { axis = 1, keepdims = true } return s:squeeze(1), x / s end, x) --> ok
ops(function(x) return op.argmax(x, { axis = 1 }):unsqueeze(1) end, x) --> argmax
ops(function(x) return x:sum({ axis = 1, keepdims = true }):reshape(2, 2) end, x) --> sum reshape

-- ---- permutations
check_view("transpose_transpose", function(x) return x:T():T() end, function(y) return y:reshape(2, 3, 4):transpose(0, 1):transpose(1, 2) end, y) --> ok
check_view("transpose_other", function(y) return y:transpose(0, 1):transpose(1, 2) end, function(y) return y:transpose(0, 1):transpose(1, 0) end, y) --> ok
check_view("permute_permute", function(y) return y:permute(2, 0, 1):permute(2, 0, 1) end, function(y) return y:permute(2, 0, 1) end, y) --> ok
check_view("permute_none", function(y) return y:permute(0, 1, 2) end, function(y) return y:permute(0, 2, 1) end, y) --> ok
check_view("permute_transpose", function(y) return y:transpose(0, 1):permute(1, 0, 2) end, nil, y) --> ok
check_view("transpose_permute", function(y) return y:permute(1, 0, 2):transpose(1, 2) end, nil, y) --> ok
line(function(y) return y:transpose(0, 1):permute(2, 0, 1):clone() end, "permute", y) --> permute %y {perm=[2,1,0]} : f32[4,3,2]
ops(function(y) return op.exp(y:transpose(0, 1):permute(1, 0, 2)) end, y) --> exp

-- ---- what is filled
check("permute_filled", function(y) return y:permute(2, 0, 1) + op.full({ 2, 3, 4 }, 0.1):permute(2, 0, 1) end, nil, y) --> ok
check("transpose_filled", function(x) return op.matmul(x, op.full({ 5, 6 }, 0.1):T()) end, nil, x) --> ok
check("narrow_filled", function(x) return op.matmul(x, op.full({ 8, 6 }, 0.1):narrow(0, 2, 6)) end, nil, x) --> ok
check("slice_filled", function(x) return op.matmul(x, op.full({ 8, 6 }, 0.1)["2:8"]) end, nil, x) --> ok
check("select_filled", function(x) return op.matmul(x, op.full({ 8, 6 }, 0.1)[2]) end, nil, x) --> ok

-- ---- pairs around a pointwise operator
check("transpose_pair", function(x) return op.exp(x:T()):T() end, function(x) local e = op.exp(x:T()) return e:T(), e * 2 end, x) --> ok
check("permute_pair", function(y) return (y:permute(2, 0, 1) * 3):permute(1, 2, 0) end, function(y) return (y:permute(2, 0, 1) * 3):permute(0, 2, 1) end, y) --> ok
check("reshape_pair", function(x) return op.tanh(x:reshape(24)):reshape(4, 6) end, function(x) return op.tanh(x:reshape(24)):reshape(6, 4) end, x) --> ok
ops(function(x, z) return (x:T() * z:T() ):T() end, x, x * 2) --> mul
ops(function(x, w) return (x:T() * w):T() end, x, op.ones { 4 }) --> transpose mul transpose
check("unary_expand", function(x) return op.exp(op.broadcast_to(x, { 3, 4, 6 })) end, function(x) return op.sum(op.broadcast_to(x, { 3, 4, 6 })) end, x) --> ok
check("binary_expand", function(x, y) return x + op.broadcast_to(y, { 4, 6 }) end, function(x, y) return y + op.broadcast_to(y, { 4, 6 }) end, x, x[0]) --> ok

-- ---- casts
check("cast_cast", function(h) return h:cast("f32"):cast("bf16") end, function(h) return h:cast("f32"):cast("i64") end, h) --> ok
ops(function(x) return x:cast("bf16"):cast("f32") end, x) --> cast cast
check("cast_moved", function(h) return h:cast("f32"):T():reshape(3, 8):cast("bf16") end, function(h) return h:cast("f32"):T():reshape(3, 8):cast("f16") end, h) --> ok
check("cast_expand", function(h) return op.broadcast_to(h, { 3, 4, 6 }):cast "f32" end, nil, h) --> ok
line(function(h) return op.broadcast_to(h, { 3, 4, 6 }):cast "f32" end, "cast", h) --> cast %h {dtype=f32} : f32[4,6]
check("narrow_cast", function(h) return h:cast("f32"):narrow(0, 1, 2) end, function(h) local c = h:cast "f32" return c:narrow(0, 1, 2), c * 2 end, h) --> ok
check("slice_cast", function(h) return h:cast("f32")["::2"] end, function(h) return h:cast("f32") end, h) --> ok
check("select_cast", function(h) return h:cast("f32")[1] end, function(h) return h:cast("f32") end, h) --> ok
check("embedding_cast", function(h, i) return op.embedding(h:cast "f32", i) end, function(h, i) return op.embedding(h:cast "f32", op.concat { i, i, i }) end, h, index) --> ok
check("rows_cast", function(h, i) return op.index_select(h:cast "f32", i) end, function(h, i) return op.index_select(h:cast "f32", op.concat { i, i }) end, h, index) --> ok
check("gather_cast", function(h, i) return op.gather(h:cast "f32", i, { axis = 0 }) end, function(h, i) return h:cast "f32", i + 1 end, h, index:reshape(3, 1)) --> ok
check("cast_pointwise", function(h) return (h:cast "f32" * h:T():T():cast "f32"):cast "bf16" end, function(h) return (h:cast "f32" * 0.1):cast "bf16" end, h) --> ok
ops(function(h) return (h:cast "f32" * 2 + 1):cast "bf16" end, h) --> cast mul add cast
ops(function(h) return op.relu(h:cast "f32" + h:cast "f32"):cast "bf16" end, h):match "cast" --> cast

-- ---- joined parts
local function parts(x, a, b, c)
  local function pad(t, l, r) return op.pad(t, { l, r }) end
  return pad(x["..., 0:2"] * 2, a, 6 - 2 - a) + pad(x["..., 2:4"], b, 6 - 2 - b) + pad(op.exp(x["..., 4:6"]), c, 6 - 2 - c)
end
check("add_pads", function(x) return parts(x, 0, 2, 4) end, function(x) return parts(x, 0, 1, 3) end, x) --> ok
ops(function(x) return parts(x, 0, 4, 2) end, x):match "concat$" --> concat
ops(function(x) return parts(x, 4, 0, 2) end, x):match "pad" --> nil
ops(function(x) return op.pad(x, { 1, 9 }) + op.pad(x, { 7, 3 }) end, x) --> concat pad
ops(function(x) return op.pad(x, { 1, 9 }) + op.pad(x, { 8, 2 }) end, x) --> pad pad add
ops(function(x) return op.pad(x, { 0, 6 }) + op.pad(x:reshape(2, 12), { 2, 0, 0, 0 }) end, x):match "concat" --> nil
ops(function(x) return op.pad(x, { 0, 6 }) + op.pad(x, { 6, 0 }, { value = 1 }) end, x) --> pad pad add
check("concat_concat", function(x, z) return op.concat { op.concat { x, z }, x } end, function(x, z) return op.concat({ op.concat { x, z }, op.concat { z, x } }, { axis = 1 }) end, x, x + 1) --> ok
check("permute_concat", function(x, z) return op.stack({ x, z }):permute(1, 0, 2) end, function(x, z) return op.stack({ x, z }):permute(1, 2, 0) end, x, x + 1) --> ok
check("select_concat", function(x, z) return op.concat({ x, z })[5] end, function(x, z) return op.concat({ x, z }, { axis = 1 })[3] end, x, x + 1) --> ok
check_view("select_reshape", function(x) return x:reshape(4, 1, 6):select(1, 0) end, function(x) return x:select(1, 0) end, x) --> ok
ops(function(x, z) return op.stack({ x, z })[1] * 2 end, x, x + 1) --> mul
check("narrow_concat", function(x, z) return op.concat({ x, z }):narrow(0, 4, 2) end, function(x, z) return op.concat({ x, z }):narrow(0, 3, 2) end, x, x + 1) --> ok

-- The gradient of a projection that is cut into queries, keys and values is joined once.
local w, e = op.normal({ 24, 8 }, { seed = 4, stream = 5 }), op.normal({ 2, 3, 8 }, { seed = 4, stream = 6 })
local function loss(x, w)
  local q, k, v = op.qkv_projection(x, w, { heads = 2 })
  return (q * k + op.exp(k) * op.tanh(v)):sum()
end
local slope = graph.grad(loss, { 1, 2 })
local list = ops(slope.body, e, w)
list:match "concat" --> concat
list:match "pad" --> nil
select(2, list:gsub("concat", "")) --> 1
local joined = slope(e, w)
local added = tessera.numerics.profile("strict", function() return (graph.grad(loss, { 1, 2 })(e, w)) end)
(joined - added):abs():max():item() < 1e-4 --> true
-- Many parts of one tensor: as many operands, not as many additions.
local function rows(x) local s = 0 for i = 0, 39 do s = s + (op.exp(x[i]) * i):sum() end return s end
list = ops(graph.grad(rows).body, op.ones { 40, 3 })
list:match "pad" --> nil
select(2, list:gsub("concat", "")) --> 1

-- ---- contractions
local a, b = op.normal({ 5, 6 }, { seed = 4, stream = 7 }), op.normal({ 6, 7 }, { seed = 4, stream = 8 })
local bias = op.normal({ 7 }, { seed = 4, stream = 9 })
check("transposed_product", function(a, b) return op.matmul(a, b):T() end, function(a, b) local p = op.matmul(a, b) return p:T(), p end, a, b) --> ok
check("product_bias", function(a, b, c) return op.matmul(a, b) + c end, function(a, b, c) local p = op.matmul(a, b) return p + c, p end, a, b, bias) --> ok
check("product_residual", function(a, b, c) return op.matmul(a, b) + op.broadcast_to(c, { 5, 7 }):contiguous() end, function(a, b, c) local p = op.matmul(a, b) return p + p end, a, b, bias) --> ok
check("product_activation", function(a, b) return op.relu(op.matmul(a, b)) end, function(a, b) return op.tanh(op.matmul(a, b)) end, a, b) --> ok
ops(function(a, b, c) return op.silu(op.matmul(a, b) + c) end, a, b, bias) --> matmul
ops(function(a, b, c) return op.relu(op.matmul(a, b) + c) end, a:cast "bf16", b:cast "bf16", bias:cast "bf16") --> matmul add relu
