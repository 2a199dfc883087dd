-- Messages of common mistakes: they name the operator and the shapes, and help.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
local T = tessera.tensor
local x = op.zeros(2, 3)
local i = op.arange(3)

-- ---- shapes
x:matmul(x)                                  --! matmul: inner sizes differ (3 vs 2): f32[2,3] x f32[2,3]
x:matmul(op.zeros(4, 3))                     --! the second operand fits transposed
x:matmul(T(2))                               --! a scalar is no matrix
op.grouped_matmul(i, x, i)                   --! grouped_matmul: x must be a matrix [t, k], not i64[3]
op.grouped_matmul(x, x, i)                   --! grouped_matmul: w must be a matrix for each group [g, k, n], not f32[2,3]
op.grouped_matmul(x, op.zeros(3, 4, 5), i)   --! grouped_matmul: inner sizes differ (3 vs 4): f32[2,3] x f32[3,4,5]
op.grouped_matmul(x, op.zeros(3, 4, 3), i)   --! the matrices fit transposed: w:T()
op.grouped_matmul(x, op.zeros(2, 3, 4), i)   --! grouped_matmul: one size for each matrix is needed: f32[2,3,4] x i64[3]
op.grouped_matmul(x, op.zeros(2, 3, 4), op.zeros(2))  --! grouped_matmul: sizes must be integers, not f32
op.grouped_matmul(x, op.zeros(2, 3, 4), op.zeros({2, 1}, {dtype = "i64"}))  --! grouped_matmul: sizes must be a vector [g], the rows of each group, not i64[2,1]
op.grouped_matmul_weight_grad(x, x:T(), i)   --! grouped_matmul_weight_grad: rows differ (2 vs 3): f32[2,3] x f32[3,2]
op.grouped_matmul_weight_grad(x, op.zeros(2), i)  --! grouped_matmul_weight_grad: g must be a matrix [t, n], not f32[2]
op.grouped_matmul_weight_grad(x, x, x)       --! grouped_matmul_weight_grad: sizes must be integers, not f32
op.grouped_matmul(op.zeros(2, 4, 3), op.zeros(3, 3, 5), i)  --! grouped_matmul: rows of each group are needed: f32[2,4,3] x i64[3]
op.grouped_matmul_weight_grad(op.zeros(3, 4, 3), x, i)  --! grouped_matmul_weight_grad: g must be as x, [g, c, n], not f32[2,3]
op.router(x, 4)                              --! router: k = 4 of 3 experts
op.router(T(2), 1)                           --! router: logits must be [.., experts], not f32[]
op.router(x, 2, {noise = -1})                --! router: noise = -1 is no deviation
op.moe_places(i, 0)                          --! moe_places: 0 experts
op.moe_places(i, 3, -1)                      --! moe_places: -1 rows of an expert
op.moe_places(i, 1e12, 1e12)                 --! moe_places
op.moe_dispatch(x, i, 3)                     --! moe_dispatch: x [.., d] and index [.., k] do not fit: f32[2,3] x i64[3]
op.moe_dispatch(x, x, 3)                     --! moe_dispatch: takes integers, not f32[2,3]
op.moe_combine(x, i, i, x)                   --! moe_combine: a weight for each choice is needed: i64[3] x f32[2,3]
op.moe_combine{x, place = i}                 --! moe_combine: place and source go together
op.moe(x, x, op.zeros({2, 3}, {dtype = "i64"}), x, x)  --! moe: up [experts, d, h] and down [experts, h, d] do not fit: f32[2,3] x f32[2,3]
op.route_rows(x, i, i)                       --! route_rows: source has to say where 2 rows went, not i64[3]
op.route_rows(x, x, i)                       --! route_rows: place must be integers, not f32
op.load_balance_loss(x, i)                   --! load_balance_loss: logits [.., experts] and index [.., k] do not fit: f32[2,3] x i64[3]
op.csr_rows(x, 3)                            --! csr_rows: takes integers, not f32[2,3]
op.csr_rows(op.zeros({2, 3}, {dtype = "i64"}), 3)  --! csr_rows: offsets must be [m + 1], not i64[2,3]
op.csr_rows(i, -1)                           --! csr_rows: -1 entries
op.spmm_csr(T{1, 2, 3}, i, i, op.zeros(2, 2, 2))  --! spmm_csr: x must be a matrix [k, n] or a vector [k], not f32[2,2,2]
op.spmm_csr(x, i, i, x)                      --! spmm_csr: values must be a vector, not f32[2,3]
op.spmm_csr(T{1, 2}, i, i, x)                --! spmm_csr: one value for each entry is needed: f32[2] x i64[3]
op.spmm_csr(T{1, 2, 3}, x, i, x)             --! spmm_csr: offsets must be integers, not f32
op.spmm_coo(T{1, 2, 3}, i, op.arange(2), x, {rows = 3})  --! spmm_coo: one number for each entry is needed: i64[3] x i64[2]
op.spmm_coo(op.zeros(3, 2, 2), i, i, x, {rows = 3})  --! spmm_coo: x must be [k, q, n], as values are blocks, not f32[2,3]
op.spmm_coo(op.zeros(3, 2, 2), i, i, op.zeros(4, 3, 2), {rows = 3})  --! spmm_coo: blocks have another width than those of x: f32[3,2,2] x f32[4,3,2]
op.spmm_coo(T{1, 2, 3}, i, i, x, {rows = -3})  --! spmm_coo: rows = -3
op.spmm_coo(T{1, 2, 3}, i, i, x)             --! spmm_coo
op.sddmm(x, x, i, i)                         --! sddmm: inner sizes differ: f32[2,3] x f32[2,3]
op.sddmm(x, x:T(), i, i, x)                  --! sddmm: values must be a vector, not f32[2,3]
op.bsmm(x, i, i, x)                          --! bsmm: blocks must be [e, p, q], not f32[2,3]
op.bsmm(op.zeros(3, 2, 2), i, op.arange(2), x)  --! bsmm: one column for each block is needed: f32[3,2,2] x i64[2]
op.bsmm(op.zeros(3, 2, 4), i, i, x)          --! bsmm: rows of x are no multiple of the columns of a block: f32[3,2,4] x f32[2,3]
op.quantize(x, {to = "i2"})                  --! quantize
op.quantize(x, {block = {1, 0}})             --! quantize: block has the size 0
op.quantize(x, {block = {1, 1, 3}})          --! quantize: block has 3 sizes for 2 axes
op.quantize(x, {to = "i4"})                  --! quantize: two numbers of 4 bits are a byte, and x is f32[2,3]
op.quantize(op.zeros(0, 2))                  --! quantize: no elements: f32[0,2]
op.dequantize(x, x["0:1"], {block = {2, 2}})  --! dequantize: one number for each block is needed: f32[2,3] x f32[1,3]
op.dequantize(x, op.zeros(4, 1, 1))          --! dequantize: scales do not broadcast to the numbers: f32[2,3] x f32[4,1,1]
op.dequantize(x, 1, {packed = true})         --! dequantize: packed numbers are bytes of i8 or u8, not f32[2,3]
op.scaled_linear(i, x, 1)                    --! scaled_linear: x must be floats, not i64
op.scaled_linear(x, op.zeros(4, 4), 1)       --! scaled_linear: x [.., in] does not fit w [out, in]: f32[2,3] x f32[4,4]
x + op.zeros(4)                              --! f32[2,3]
x + op.zeros(4)                              --! f32[4]
x - op.zeros(2)                              --! sub
op.where(op.ones({2}, {dtype = "bool"}), x, x)  --! where
op.where(x, x, x)                            --! where: the condition must be bool, not f32[2,3]
x:reshape(7)                                 --! reshape
x:reshape(4, -1)                             --! reshape
x:reshape(-1, -1)                            --! reshape
op.concat{x, op.zeros(3, 2)}                 --! concat
op.concat{x, op.zeros(2)}                    --! concat
op.stack{x, op.zeros(3, 2)}                  --! stack
op.stack{}                                   --! stack
op.dot(x, x)                                 --! dot: needs two vectors of one length: f32[2,3] x f32[2,3]
op.linear(x, op.zeros(4, 4))                 --! linear
op.outer(x, x)                               --! outer
x:expand(5, 3)                               --! expand
x:broadcast_to(3)                            --! broadcast_to
x:squeeze(0)                                 --! squeeze
x:permute(0, 0)                              --! permute
x:permute(0)                                 --! permute
op.cholesky(x)                               --! cholesky: a must be square
op.solve(op.eye(2), op.zeros(3, 1))          --! rows of b and size of a differ
op.inv(op.zeros(2, 2))                       --! singular
op.cholesky(-op.eye(2))                      --! positive definite
op.einsum("ij,jk->ik", x, x)                 --! einsum
op.einsum("ij,jk->iz", x, x:T())             --! einsum
op.einsum("ij->", x, x)                      --! einsum
op.einsum("i1->i", x)                        --! einsum
op.fft(op.zeros(0))                          --! fft
op.irfft(op.zeros(1))                        --! give the length
op.d(x, {order = 3})                         --! order must be 1 or 2
op.div(x)                                    --! divergence
op.curl(x)                                   --! curl
op.unfold(x, 0, 5)                           --! unfold
op.pad(x, {pads = {1}})                      --! pad
op.pad(x, {pads = {5, 5}, mode = "reflect"}) --! pad
op.tril(op.zeros(3))                         --! tril

-- ---- axes and indices
x:sum(2)                                     --! sum: axis 2 is out of range
x:sum{axis = -3}                             --! axis -3
x:sum{axis = {0, 0}}                         --! sum
op.max(op.zeros(0))                          --! max: of no elements: f32[0]
op.argmax(op.zeros(0, 3), {axis = 0})        --! argmax: of no elements
op.topk(x, 4)                                --! topk: k = 4 of 3 elements on axis 1
op.select(x, 0, 2)                           --! select
x[2]                                         --! 2
x[-3]                                        --! -3
x[0.5]                                       --! index: 0.5 is not an integer
x["0,0,0"]                                   --! names 3 axes of 2
x["a"]                                       --! cannot read the slice
x["1:2:3:4"]                                 --! cannot read the slice
x["...,..."]                                 --! cannot read the slice
x["::0"]                                     --! step
x[true]                                      --! a tensor is not indexed by a boolean
x[{1}]                                       --! a tensor is not indexed by a table
op.take(x, T({9}, {dtype = "i64"}))          --! take
op.index_select(x, T({-9}, {dtype = "i64"})) --! index_select
op.gather(x, x)                              --! gather
op.gather(x, T({{5, 0, 0}}, {dtype = "i64"}), {axis = 0})  --! gather
op.embedding(x, T({2}, {dtype = "i64"}))     --! embedding
op.one_hot(T({3}, {dtype = "i64"}), 3)       --! one_hot
op.narrow(x, 0, 1, 2)                        --! narrow
op.segment_reduce(x, T({0, 5}, {dtype = "i64"}), 2)  --! segment_reduce
op.grouped_matmul(x, op.zeros(2, 3, 4), T({0, -1}, {dtype = "i64"}))  --! grouped_matmul: group 1 has -1 rows, x has 2
op.grouped_matmul(x, op.zeros(2, 3, 0), T({3, 0}, {dtype = "u8"}))    --! grouped_matmul: group 0 has 3 rows, x has 2
op.grouped_matmul_weight_grad(x, x, T({1, 2, 3}, {dtype = "i32"}))    --! grouped_matmul_weight_grad: group 2 has 3 rows, x has 2
op.moe_places(i, 2)                          --! moe_places: expert 2 is out of range for 2 experts
op.moe_places(op.neg(i), 3)                  --! moe_places: expert -1 is out of range for 3 experts
op.route_rows(x, i, T({0, 1}, {dtype = "u8"}))  --! route_rows: place 2 is out of range for 2 rows
op.moe_dispatch(x, T({{0}, {7}}, {dtype = "i16"}), 3)  --! moe_dispatch: expert 7 is out of range for 3 experts
op.csr_rows(T({0, 2, 1}, {dtype = "i32"}), 1)  --! csr_rows: row 1 begins at entry 2 and ends at 1
op.csr_rows(i, 3)                            --! csr_rows: offsets end at 2, of 3 entries
op.csr_rows(i + 1, 3)                        --! csr_rows: offsets begin at 1, not 0
op.spmm_csr(T{1, 2}, i, T({0, 2}, {dtype = "u8"}), x)  --! spmm_csr: index 2 is out of range for axis 0 of f32[2,3], of size 2
op.spmm_csr(T{1, 2, 3}, i, i, x)             --! spmm_csr: offsets end at 2, of 3 entries
op.spmm_coo(T{1, 2, 3}, i, i - 1, x, {rows = 2})  --! spmm_coo: index 2 is out of range for axis 0 of f32[2,3], of size 2
op.sddmm(x, x:T(), i, i - 1)                 --! sddmm: index 2 is out of range for axis 0 of f32[2,3], of size 2
op.bsmm(op.zeros(2, 2, 1), i, i["1:"], x)    --! bsmm: index 2 is out of range for axis 0 of f32[2,1,3], of size 2
op.masked_select(x, x)                       --! masked_select
op.split(x, {size = {1, 5}, axis = 1})       --! split
op.chunk(x, 0)                               --! chunk

-- ---- dtypes
x:cast("f33")                                --! there is no dtype 'f33'
op.zeros({2}, {dtype = "float"}).dtype       --> f32
op.zeros({2}, {dtype = "mxfp4"})             --! mxfp4
op.bitwise_and(x, x)                         --! bitwise_and
op.sqrt(x:cast "complex64").dtype            --> complex64
op.floor(x:cast "complex64")                 --! floor
op.lt(x:cast "complex64", x)                 --! lt
op.matmul(i, i, {accumulate = "u8"})         --! cannot accumulate i64 in u8
op.grouped_matmul(x, op.zeros(3, 3, 2), i, {accumulate = "bf16"})  --! grouped_matmul: cannot accumulate f32 in bf16
op.shift_left(x, x)                          --! shift_left
x:add_(x:cast "complex64")                   --! add
i:add_(0.5)                                  --! add

-- ---- arguments
op.softmax(x, {axsi = 0})                    --! did you mean 'axis'?
op.softmax(x, {axis = "last"})               --! softmax: option 'axis' must be an integer, not string
op.softmax(x, {axis = 0.5})                  --! must be an integer, not 0.5
op.softmax()                                 --! softmax
op.softmax(x, x)                             --! softmax: too many tensors, takes x
op.add(x)                                    --! add
op.add(x, print)                             --! add: a tensor cannot hold a function
x:add_(print)                                --! add: a tensor cannot hold a function
op.linear(x, x, {bias = print})               --! linear: a tensor cannot hold a function
x:copy_(print)                               --! copy_: a tensor cannot hold a function
op.add(x, "1")                               --! add: no place for the string in argument 2
op.sum(x, {keepdims = 1})                    --! sum: option 'keepdims' must be a boolean, not number
op.mse(x, x, {reduction = "max"})            --! mse: option 'reduction' cannot be 'max'
op.mse(x, x, {reduction = "max"})            --! one of mean|sum|none
op.add(x, x, {x = x})                        --! two values for input 'x'
op.full({2})                                 --! value
op.arange()                                  --! start
op.arange(0, 1, 0)                           --! arange
op.zeros(-1)                                 --! zeros
op.zeros(1e9, 1e9, 1e9)                      --! zeros
op.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)  --! axes
x:sotfmax()                                  --! did you mean 'softmax'?
op.mse_loss(x, x)                            --! op.mse(x, y)
x.shap                                       --! did you mean 'shape'?
x.shape = 1                                  --! cannot be assigned
x < x                                        --! write x:lt(y)
x:item()                                     --! item: f32[2,3] does not have exactly one element
#T(1)                                        --! a scalar has no length
x:to "gpu17"                                 --! gpu17
op.matmul(x, x:T(), {epilogue = "bias"})     --! bias
op.matmul(x, x:T(), {epilogue = "tanh"})     --! tanh
op.matmul(x, x:T(), x:sum(), nil, {epilogue = "bias_bias"}) --! the epilogue names bias twice

-- ---- names that people bring along
x:cuda()                                     --! hint: x:to "cuda:0" moves it
x:cpu()                                      --! hint: x:to "cpu" moves it
x:numpy()                                    --! x:totable() gives a table; tessera.save("x.npy", x)
x:float()                                    --! hint: x:cast("f32")
x:view(6)                                    --! hint: x:reshape
x:view_as_real()                             --! hint: x:real_view()
x:fill_(3)                                   --! hint: x:copy_(1)

-- ---- what a hint says helps
local leaf = op.ones { 4, 3 }
leaf.requires_grad = true
leaf[0] = 5                                  --! tessera.no_grad(function() ... end), or a copy of it, y = x:clone()
tessera.graph.module("f", function(v) v:detach()[0] = 5 return v end)(op.ones { 4, 3 }) --! op.slice_update(x, part, {0}, {1})
tessera.graph.module("f", function(v) v:unsqueeze(0):expand(2, 4, 3)[1] = 5 return v end)(op.ones { 4, 3 }) --! op.slice_update(x, part, {0}, {1})
op.map(function(u) u[0] = 5 return u end, op.ones { 4, 3 }) --! op.slice_update(x, part, {0}, {1})
op.slice_update(op.ones { 2, 2 }, op.zeros { 1, 2 }, { 0 }, { 1 }) --> [[0. 0.]
-->  [1. 1.]]
--> f32[2,2]
local y = op.ones { 2, 2 }
y[y:gt(0)] = op.arange(4)                    --! x = op.masked_scatter(x, mask, values)
op.masked_scatter(y, y:gt(0), op.arange(4):cast "f32") --> [[0. 1.]
-->  [2. 3.]]
--> f32[2,2]
T{y[0], y[1]}                                --! hint: op.stack{x, y} makes one tensor of several
T{{y[0]}, {y[1]}}                            --! tensor: a table of numbers holds no tensor
op.stack{y[0], y[1]}.shape[2]                --> 2
x:cast("complex64"):lt(x)                    --! the parts x:real() and x:imag(), and the absolute value x:abs()
x:cast("complex64"):max()                    --! x:real()
x:real_view()                                --! hint: convert with x:cast("complex64") first
x:bitwise_not()                              --! hint: convert with x:cast("i64") first
i:real_view()                                --! complex64

-- ---- tensors from tables
T{{1, 2}, {3}}                               --! tensor: uneven table: axis 1 has 2 elements in one place, 1 in another
T{{1, 2}, 3}                                 --! tensor: uneven table
T{1, {2}}                                    --! tensor
T{1, "a"}                                    --! tensor: a tensor cannot hold a string
T{print}                                     --! tensor: a tensor cannot hold a function
T(print)                                     --! tensor: a tensor cannot hold a function
T()                                          --! tensor
T({1}, {dtype = "f33"})                      --! there is no dtype 'f33'
T{{{{{{{{{{{{{{{{{{1}}}}}}}}}}}}}}}}}}        --! nested deeper
local t = {}
t[1] = t
T(t)                                         --! nested deeper

-- ---- types as texts
local function typed(text) return op.custom("t", { forward = function() return op.zeros { 2, 3 } end, infer = text })(x) end
typed("f32[2,3]").shape[2]                   --> 3
typed(" f32[2,3]")                           --! is no type such as "f32[2,3]"
typed("f32[ 2 , 3 ]").shape[2]               --> 3
typed("f32[2,,3]")                           --! t: 'f32[2,,3]' is no type such as "f32[2,3]"
typed("f32[2,3,]")                           --! is no type such as "f32[2,3]"
typed("f32[2 3]")                            --! is no type such as "f32[2,3]"
typed("f32[02,3]")                           --! is no type such as "f32[2,3]"
typed("f32[-2,3]")                           --! is no type such as "f32[2,3]"

-- ---- rearrange
op.rearrange(x, "a b")                       --! has no ->
op.rearrange(x, "a b c -> a b c")            --! names 3 axes of [2,3]
op.rearrange(x, "a b -> a c")                --! 'c' is not on the left
op.rearrange(x, "a b -> a")                  --! both sides must have the same names
op.rearrange(x, "(a b) c -> a b c")          --! both unknown
op.rearrange(x, "(a b) c -> a b c", {a = 5}) --! cannot be split
op.rearrange(x, "(a (b)) -> a")              --! parentheses inside parentheses

-- ---- files
tessera.load "no-such-file.npy"              --! no-such-file.npy
tessera.load "x.txt"                         --! the name must end in .safetensors, .npy, .npz or .gguf
tessera.save("x.npy", 3)                     --! a number is not a tensor
tessera.save("no/such/folder.npy", x)        --! cannot write

-- ---- and the session goes on
x:sum():item()                               --> 0

-- Operators are not in the module itself.
require("tessera").ones { 2 } --! it is an operator: tessera.op.ones
require("tessera").nothing --! tessera has no 'nothing'

-- ---- words: a zero byte ends none of them
local k = op.kernel("k", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] * 2 end
end)
local f = tessera.graph.module("f", function(a) return a * 2 end)
f(x)
f:ir "tile\0x"                               --! there is no level 'tile\x00x'; levels are
f:ir("asm", {target = "sm_90a\0"})           --! there is no target 'sm_90a\x00'; targets are
k:ir "tile\0x"                               --! there is no level 'tile\x00x'; levels are
k:ir("asm", {target = "sm_90a\0"})           --! there is no target 'sm_90a\x00'; targets are
k:ir({})                                     --! k:ir: level must be a string, not an empty table
k:ir(false)                                  --! k:ir: level must be a string, not false
x:to "cpu:0\0x"                              --! there is no device 'cpu:0\x00x'
x:to "f64\0"                                 --! there is no device 'f64\x00'
x:cast "f64\0x"                              --! cast: there is no dtype 'f64\x00x'
T({2}, {dtype = "f64\0"})                    --! tensor: there is no dtype 'f64\x00'
T({2}, {device = "cpu\0"})                   --! there is no device 'cpu\x00'
op.full({2}, 1, {device = "cpu\0"})          --! there is no device 'cpu\x00'
op.pad(x, {pads = {1, 1}, mode = "reflect\0"})  --! pad: option 'mode' cannot be 'reflect\x00'
tessera.device "cpu\0"                       --! there is no device 'cpu\x00'
tessera.synchronize "cpu\0"                  --! there is no device 'cpu\x00'
x["0:1\0 junk"]                              --! cannot read the slice "0:1\x00 junk"
op.custom("c", {forward = function(a) return a end, dtype = "f32\0x"})(x)  --! c: result 1 has no dtype 'f32\x00x'
op.foreign("m", "j0\0x", "f64 (each f64 x)") --! j0\x00x
tessera.jit.ir("tile\0", op.relu, x)          --! not 'tile\x00'
