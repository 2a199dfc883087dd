local tessera = require "tessera"
-- matmul: what follows the sum, and sizes that are dealt out to several workers.
local op, rng = tessera.op, tessera.rng

local function same(a, b) return not op.ne(a, b):any():item() end

-- ---- epilogues of integers and of complex numbers
local a = op.full({2, 2}, 1, {dtype = "i32"})
op.matmul(a, -a, nil, nil, {epilogue = "relu"}) :sum():item() --> 0
op.matmul(a, -a, a, nil, {epilogue = "relu_bias"}) :sum():item() --> 4
op.matmul(a, a, nil, nil, {epilogue = "gelu"}) --! integer numbers have no gelu
op.matmul(a, a, nil, nil, {epilogue = "silu"}) --! integer numbers have no silu
local z = op.full({2, 2}, 1, {dtype = "complex64"})
assert(same(op.matmul(z, z, z, z), z * 4))
op.matmul(z, z, nil, nil, {epilogue = "relu"}) --! complex numbers have no activation
do -- a wider sum is that of the operands widened
  local x = op.complex(rng.normal({5, 70}, {seed = 3}), rng.normal({5, 70}, {seed = 4}))
  local y, wide = x:T():conj(), {accumulate = "complex128"}
  assert(same(op.matmul(x, y, wide), x:cast("complex128"):matmul(y:cast "complex128")))
  op.matmul(x, y, x:matmul(y), nil, wide).dtype --> complex128
end

-- ---- rows in place or packed, one worker or two, whole or in parts: the same chains
for _, size in ipairs {{300, 512, 400}, {130, 700, 300}, {300, 1100, 260}, {5, 300, 4200}} do
  local m, k, n = size[1], size[2], size[3]
  local x, y = rng.normal({m, k}, {seed = 1}), rng.normal({k, n}, {seed = 2})
  tessera.threads(1)
  local one = op.matmul(x, y)
  tessera.threads(2)
  assert(same(op.matmul(x, y), one))
  assert(same(op.matmul(x:T():contiguous():T(), y), one))
  assert(same(op.matmul(x["3:, :"], y), one["3:, :"]))
  assert(same(op.matmul(x, y[":, :33"]), one[":, :33"]))
end

-- One and two rows against columns that lie straight, which are asked for stretch by stretch: the bits
-- of the same matrix turned, with part columns at the end, k beyond one packed piece, any threads.
do
  local core, rng = require "tessera.core", require("tessera").rng
  local threads = core.threads()
  for _, k in ipairs { 255, 256, 512, 2048, 2304, 8192 + 256 } do
    for _, n in ipairs { 1, 16, 47, 100 } do
      local b = rng.normal { n, k }
      local turned = b:T():contiguous()
      for m = 1, 3 do
        local a = rng.normal { m, k }
        local want = a:matmul(turned):hash()
        for t = 1, 2 do
          core.threads(t)
          assert(a:matmul(b:T()):hash() == want, ("%d x %d x %d, %d threads"):format(m, k, n, t))
        end
      end
    end
  end
  core.threads(threads)
end

-- One and two rows by columns that lie side by side: stretches of 256 steps, the upper half of a group of 16 columns
-- behind the lower, sums that go on after 8192 steps, columns and steps that are left over.
do
  local differ = 0
  for _, m in ipairs { 1, 2 } do
    for _, n in ipairs { 15, 16, 17, 48, 90, 1030 } do
      for _, k in ipairs { 255, 256, 257, 512, 1280, 8448 } do
        local x, turned = rng.normal { m, k }, rng.normal { n, k }
        local w = op.clone(turned:T())
        if not same(op.matmul(x, turned:T()), op.matmul(x, w)) then differ = differ + 1 end
      end
    end
  end
  print(differ) --> 0
end
