-- Pointwise operators whose inner axis is short, in every layout of operands and results, give the
-- bits that they give of contiguous operands of one shape.
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
tessera.jit.off()

-- Tensors of the shape {a, b, n}, each lying otherwise.
local function layouts(a, b, n, dtype, stream)
  local function of(...)
    stream = stream + 1
    return (rng.normal({ ... }, { seed = 9, stream = stream }) * 8):cast(dtype)
  end
  return {
    dense = of(a, b, n),
    inner = of(a, b, 1),
    row = of(n),
    outer = of(1, b, n),
    middle = of(a, 1, n),
    column = of(1, b, 1),
    narrowed = of(a, b, n + 3):narrow(2, 1, n),
    reversed = of(a, b, n)["..., ::-1"],
    upwards = of(a, b, n)["::-1, ::-1"],
    strided = of(a, 2 * b, 2 * n)[":, ::2, 1::2"],
    turned = of(b, a, n):permute(1, 0, 2),
    flat = of(n, b, a):permute(2, 1, 0),
    column_step = of(a, 2 * b, 1)[":, ::2"],
  }
end

local function same(x, y) return x.dtype == y.dtype and x:hash() == y:hash() end

local wrong, count = {}, 0
local function check(a, b, n, dtype)
  local all = layouts(a, b, n, dtype, n * 100)
  local names, whole = {}, {}
  for name, t in pairs(all) do
    names[#names + 1] = name
    whole[name] = t:broadcast_to { a, b, n }:clone()
  end
  table.sort(names)
  for i, x in ipairs(names) do
    local y = names[(i * 5 + n) % #names + 1]
    local got, wanted = { all[x]:broadcast_to { a, b, n } + all[y] }, { whole[x] + whole[y] }
    if not dtype:match "^complex" then
      got[2] = op.where(all[x]:gt(0), all[x]:broadcast_to { a, b, n }, all[y])
      wanted[2] = op.where(whole[x]:gt(0), whole[x], whole[y])
    end
    -- Results in places of other layouts.
    for _, place in ipairs { "narrowed", "strided", "turned", "reversed" } do
      local into = layouts(a, b, n, dtype, 0)[place]
      into:copy_(0)
      into:add_(all[x]):add_(all[y])
      got[#got + 1], wanted[#wanted + 1] = into, (whole[x] * 0 + whole[x]) + whole[y]
    end
    for k = 1, #got do
      count = count + 1
      if not same(got[k]:clone(), wanted[k]) then
        wrong[#wrong + 1] = ("%s %s + %s [%d,%d,%d]: %d"):format(dtype, x, y, a, b, n, k)
      end
    end
  end
end

for n = 2, 7 do check(5, 9, n, "f32") end
for _, n in ipairs { 12, 31, 63, 64, 65 } do check(3, 7, n, "f32") end
for _, dtype in ipairs { "f16", "bf16", "f64", "i32", "u8", "complex64" } do
  for _, n in ipairs { 3, 6, 33 } do check(4, 11, n, dtype) end
end
check(90, 150, 3, "f32") -- more than a block, and than one thread takes
check(31, 70, 30, "f16")
table.concat(wrong, "; ", 1, math.min(#wrong, 5)) --> 
count > 1000 --> true

-- Results that go past the caches.
for _, case in ipairs { { "f32", 33 }, { "f32", 3 }, { "f16", 63 }, { "f64", 16 } } do
  local dtype, n = case[1], case[2]
  local a = math.floor(7000000 / n) + 3
  local x, y = rng.normal({ a, n }):cast(dtype), rng.normal({ a, 1 }):cast(dtype)
  if not same(x * y, x * y:broadcast_to({ a, n }):clone()) then wrong[#wrong + 1] = dtype .. n end
end
#wrong --> 0
