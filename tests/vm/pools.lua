-- Pools of planes of every size, with ties and NaN, beside loops over their windows.
local tessera = require "tessera"
local op, rng, tensor = tessera.op, tessera.rng, tessera.tensor

-- Largest, its place, and the sum of the elements of a window, in row-major order.
local function look(plane, h, w, y, x, o)
  local best, place, sum
  for b = 0, o.window[1] - 1 do
    for k = 0, o.window[2] - 1 do
      local r, c = y * o.stride[1] + b * o.dilation[1] - o.padding[1], x * o.stride[2] + k * o.dilation[2] - o.padding[2]
      if r >= 0 and r < h and c >= 0 and c < w then
        local v = plane[r * w + c + 1]
        sum = (sum or 0) + v
        if not best or v > best or (v ~= v and best == best) then best, place = v, r * w + c end
      end
    end
  end
  return best, place, sum
end

local function expected(values, shape, out, o)
  local n, c, h, w = unpack(shape)
  local best, place, sum = {}, {}, {}
  for p = 0, n * c - 1 do
    local plane = {}
    for i = 1, h * w do plane[i] = values[p * h * w + i] end
    for y = 0, out[3] - 1 do
      for x = 0, out[4] - 1 do
        local i = #best + 1
        best[i], place[i], sum[i] = look(plane, h, w, y, x, o)
        sum[i] = sum[i] / (o.window[1] * o.window[2])
      end
    end
  end
  local function as(list, dtype) return tensor(list, { dtype = dtype }):reshape(out) end
  return as(best, "f64"), as(place, "i64"), as(sum, "f64")
end

local function same(a, b) return a:cast("f64"):hash() == b:cast("f64"):hash() end

local wrong, count, draw = {}, 0, 0
local function number(low, high)
  draw = draw + 1
  return rng.randint({}, { low = low, high = high + 1, seed = 4, stream = draw }):item()
end

local function check(dtype, shape, o)
  -- A few whole numbers: ties, and sums that are exact.
  local x = rng.randint(shape, { low = -3, high = 4, seed = 8, stream = draw }):cast(dtype)
  if dtype:match "^f" or dtype == "bf16" then
    local lost = op.eq(rng.randint(shape, { low = 0, high = 9, seed = 9, stream = draw }), 0)
    x = number(0, 1) == 0 and op.where(lost, 0 / 0, x):cast(dtype) or x
  end
  local options = { window = o.window, stride = o.stride, padding = o.padding, dilation = o.dilation }
  local got = op.max_pool(x, options)
  local best, place, sum = expected(x:cast("f64"):flatten():totable(), shape, got.shape, o)
  local said = ("%s [%s] window %s stride %s padding %s dilation %s"):format(dtype, table.concat(shape, ","),
    table.concat(o.window, ","), table.concat(o.stride, ","), table.concat(o.padding, ","), table.concat(o.dilation, ","))
  local function expect(what, a, b)
    count = count + 1
    if not same(a, b) then wrong[#wrong + 1] = what .. " " .. said end
  end
  expect("max", got, best)
  expect("index", op.max_pool_index(x, options), place)
  if dtype == "f64" then expect("mean", op.avg_pool(x, options), sum) end
  options.layout = "nhwc"
  local last = x:permute(0, 2, 3, 1):contiguous()
  expect("max, channels last", op.max_pool(last, options):permute(0, 3, 1, 2):contiguous(), best)
  expect("index, channels last", op.max_pool_index(last, options):permute(0, 3, 1, 2):contiguous(), place)
end

local one, none = { 1, 1 }, { 0, 0 }
for i = 1, 60 do
  local window = { number(1, 4), number(1, 4) }
  local o = {
    window = window, stride = { number(1, 3), number(1, 3) }, dilation = { number(1, 2), number(1, 2) },
    padding = { number(0, math.floor(window[1] / 2)), number(0, math.floor(window[2] / 2)) },
  }
  local dtype = ({ "f32", "f64", "f16", "bf16", "i32", "i16", "i64" })[i % 7 + 1]
  check(dtype, { number(1, 2), number(1, 3), number(8, 13), number(8, 13) }, o)
end
-- More rows than are worked on at once, rows that are long, and windows of many elements.
check("f64", { 1, 1, 700, 4 }, { window = { 2, 2 }, stride = { 2, 2 }, dilation = one, padding = none })
check("f32", { 1, 2, 5, 300 }, { window = { 3, 3 }, stride = { 2, 2 }, dilation = one, padding = one })
check("f64", { 1, 1, 4, 2100 }, { window = { 2, 2 }, stride = one, dilation = one, padding = none })
check("f32", { 1, 2, 30, 30 }, { window = { 20, 21 }, stride = { 3, 2 }, dilation = one, padding = { 4, 7 } })
table.concat(wrong, "; ", 1, math.min(#wrong, 5)) --> 
count > 250 --> true
