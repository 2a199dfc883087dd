-- Which operators the CPU runs for a device: every row with the cases of tests/vectors. The list
-- below has how many cases of a row may fall back; more are an error, fewer are told, so that the
-- list shrinks. CENSUS=1 prints the cases.
package.path = "tests/agree/?.lua;tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core = tessera.core
local cases = require "_cases"
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

-- Of a pointwise row that is not in the list: one of each 8-bit type.
local usual, known = {}, {}
for _, o in ipairs(core.operators()) do usual[o.name] = o.class == "pointwise" and 2 or 0 end
for row, n in ([[
 abs=4 adafactor_step=20 all=12 angle=4 any=12 attention=57 attention_grad=4 batch_norm=4 bce=14
 bce_with_logits=14 beta=2 bincount=1 bsmm=14 cast=49 categorical=7 cdist=4 celu=4 cholesky=48 clamp=5
 clip=4 cofactor=30 conv1d=6 conv2d=12 conv3d=2 conv_fft=12 conv_transpose=16 conv_weight_grad=19
 cos=4 cosh=4 cosine_similarity=4 count_nonzero=12 cross=7 cross_entropy=18 cross_entropy_grad=13
 cummin=4 cumprod=2 cumsum=2 curl=4 d=4 dct=4 depthwise_conv2d=6 dequantize=74 det=36 diag=4 diag_embed=4
 digamma=2 div=4 divergence=4 dot=5 dropout=4 eig=24 eigh=24 eigvals=24 einsum=23 elu=4 embedding=5 exp=4
 exponential=4 eye=4 factorized_matmul=2 fft=4 fft2=2 fftn=2 fold=65 fused_mlp=4 gamma=4 gather=2
 gelu=4 gelu_erf_grad=4 gelu_tanh_grad=4 gemm=6 grid_sample=4 group_norm=4 grouped_matmul=86
 grouped_matmul_weight_grad=92 huber=12 idct=4 ifft=4 ifft2=2 ifftn=2 im2col=2 index_add=14
 index_select=6 inv=24 irfft=4 isfinite=4 isinf=4 isnan=4 kl_divergence=4 kron=4
 l1=10 laplacian=4 layernorm=10 layernorm_grad=23 leaky_relu=4 lgamma=2 linear_scan=12 log=4
 log_softmax=7 log_softmax_grad=7 logcumsumexp=28 logical_and=4 logical_not=4 logical_or=4
 logical_xor=4 logsumexp=1 lstm=4 lstm_grad=20 lstsq=43 lu=36 masked_fill=8 masked_scatter=2 matmul=63 matrix_exp=26
 max=14 mean=15 median_indices=4 min=14 moe=21 moe_combine=28 moe_dispatch=32
 moe_places=8 mse=10 multinomial=5 nan_to_num=4 nanmean=11 nansum=11 nll=8
 norm=7 normal=4 one_hot=2 pad=9 pinv=44 poisson=2 pow=4 prelu=4 prod=10 qkv_projection=4 qr=70 quantize=37
 reciprocal=4 repeat_counts=22 repeat_interleave=2 rfft=4 rmsnorm=10 rmsnorm_grad=16
 roll=2 route_rows=29 router=11 scaled_linear=50 scatter=1 scatter_add=7 segment_reduce=22 selu=2 sign=4 silu_grad=4 sin=4 sinh=4
 slice_add=6 slice_update=3 sddmm=20 slogdet=48 smooth_l1=16 softmax=7 softmax_grad=7 softplus=6 solve=40
 spectral_filter=24 spmm_coo=14 spmm_csr=18 sqrt=4 sum=38 svd=70 take=4 tanh=4 tensordot=24 trace=17 trapezoid=14
 tri_solve=162 tril=5 triu=5 truncated_normal=12 uniform=8 weighted_cross_entropy=4 where=4
]]):gmatch "([%w_]+)=(%d+)" do known[row] = tonumber(n) end

local seen, fell, wrong = {}, {}, {}
local number, each = 0, tonumber(os.getenv "SAMPLE") or os.getenv "LONG" and 1 or 2 -- cases; what is too much shows with a part, too
for c in cases.each() do
  number = number + 1
  if number % each ~= 0 then goto next_case end
  local x = cases.inputs(c)
  local moved = {}
  for i, t in ipairs(x or {}) do moved[i] = t and t:to(name) end
  local before = core.jit_device()
  local ok, why
  if #c.x > 0 then
    ok, why = pcall(cases.call, c, moved)
  else
    ok, why = pcall(tessera.device, name, cases.call, c, moved)
  end
  if not ok and pcall(cases.call, c, x or {}) then wrong[#wrong + 1] = ("%s: %s"):format(cases.name(c), tostring(why)) end
  local after = core.jit_device()
  local s = seen[c.row] or { calls = 0, fallback = 0, cases = 0 }
  seen[c.row] = s
  s.cases = s.cases + 1
  s.calls = s.calls + after.calls - before.calls
  s.fallback = s.fallback + after.fallback - before.fallback
  if after.fallback > before.fallback then
    fell[c.row] = (fell[c.row] or 0) + 1
    if os.getenv "CENSUS" then print(c.row, cases.name(c)) end
  end
  ::next_case::
end

local all, new, gone = {}, {}, {}
for row, n in pairs(fell) do
  all[#all + 1] = ("%s(%d of %d)"):format(row, n, seen[row].cases)
  if n > (known[row] or usual[row]) then new[#new + 1] = row end
end
for row, n in pairs(known) do
  if (fell[row] or 0) < n then gone[#gone + 1] = ("%s=%d"):format(row, fell[row] or 0) end
end
table.sort(all)
table.sort(new)
table.sort(gone)
io.stderr:write(#all, " rows have cases that the CPU runs: ", table.concat(all, " "), "\n")
if #gone > 0 and each == 1 then io.stderr:write("fewer: ", table.concat(gone, " "), "\n") end
-- What docs/devices.md says of them: these have none, and with all cases nobody else is without.
local named, text = {}, io.open("docs/devices.md"):read "*a"
for row in text:match("%- Without a kernel on any GPU.-%. Others"):gmatch "`([%w_]+)`" do
  named[row] = true
  if seen[row] and each == 1 then assert(fell[row], "docs/devices.md: " .. row .. " has a kernel") end
end
for row, n in pairs(fell) do
  local without = n == seen[row].cases and n > 4 and each == 1 and device.unit
  assert(not without or named[row], "docs/devices.md does not name " .. row .. ", which has no kernel")
end
assert(#wrong == 0, "errors that the CPU does not have:\n" .. table.concat(wrong, "\n"))
if not device.unit then return end -- the list is of a GPU with a matrix unit for all of 16 bits
assert(#new == 0, "fall back, and did not: " .. table.concat(new, " "))
