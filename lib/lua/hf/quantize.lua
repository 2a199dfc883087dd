-- Numbers as blocks by the reference rules of GGUF's formats, with which published files are written. A cast (op.cast) rounds the scale
-- first and takes the nearest codes; these take codes of the scale before it is rounded, or, in formats that a cast has no bits
-- for, look for the scale and the least number whose codes are the best. Codes of 32 are bit for bit those of the Python package
-- gguf; sums of searches are added up in the order of op.sum.

local core = require "tessera.core"
local graph = require "tessera.graph"
local op = core.op

local quantize = {}

-- Elements at once, and of what is left behind the last such piece: with zeros it is as many, too, so that a captured function of either is all.
local PIECE, SHORT = 2 ^ 20, 2 ^ 17

local function bytes_of(x) return x:bitcast "u8" end
local function half_bytes(x) return bytes_of(x:cast "f16") end
local function u8(x) return x:cast "u8" end
local function inverse(x) return op.where(x:eq(0), 0, 1 / x) end
local function clamped(x, least, most) return op.clip(x, least, most) end
local function most_of(x) return x:max { axis = -1, keepdims = true } end
local function least_of(x) return x:min { axis = -1, keepdims = true } end
local function sum(x) return x:sum { axis = -1, keepdims = true } end
-- Of the largest magnitude, with its sign; the first of equals.
local function farthest(x) return op.gather(x, x:abs():argmax { axis = -1, keepdims = true }, { axis = -1 }) end

-- Codes [n, 32] as 16 bytes, the first 16 below; their fifth bits as four bytes.
local function fours(q)
  return q:narrow(1, 0, 16):bitwise_and(15):bitwise_or(q:narrow(1, 16, 16):bitwise_and(15):shift_left(4))
end
local function fifths(q)
  local bits = q:shift_right(4):bitwise_and(1):reshape { q.shape[1], 4, 8 }
  local by = core.tensor({ 1, 2, 4, 8, 16, 32, 64, 128 }, { dtype = "u8" })
  return u8((bits * by):sum { axis = -1 })
end

-- ---- blocks of 32
local rule = {}

local function around(x, half)
  local d = farthest(x) / -half
  return d, u8(clamped(op.trunc(x * inverse(d) + (half + 0.5)), 0, 2 * half - 1))
end
local function above(x, most)
  local least = least_of(x)
  local d = (most_of(x) - least) / most
  return d, least, u8(clamped(op.trunc((x - least) * inverse(d) + 0.5), 0, most))
end

function rule.q4_0(x)
  local d, q = around(x, 8)
  return { half_bytes(d), fours(q) }
end
function rule.q4_1(x)
  local d, least, q = above(x, 15)
  return { half_bytes(d), half_bytes(least), fours(q) }
end
function rule.q5_0(x)
  local d, q = around(x, 16)
  return { half_bytes(d), fifths(q), fours(q) }
end
function rule.q5_1(x)
  local d, least, q = above(x, 31)
  return { half_bytes(d), half_bytes(least), fifths(q), fours(q) }
end

-- Of ties the one away from zero.
function rule.q8_0(x)
  local d = most_of(x:abs()) / 127
  local y = x * inverse(d)
  local size = y:abs()
  local whole = op.floor(size)
  return { half_bytes(d), bytes_of((op.sign(y) * (whole + op.floor((size - whole) * 2))):cast "i8") }
end

local IQ4 = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 }
-- Halfway between two of the numbers lie halves of whole numbers, so the whole part of 2 y says which is the nearest: its place in a
-- table of what is at -256 to 255.
local function iq4_table(of)
  local list, q = {}, 1
  for i = -256, 255 do
    while q < 16 and i >= IQ4[q] + IQ4[q + 1] do q = q + 1 end
    list[#list + 1] = of(q)
  end
  return core.tensor(list, { dtype = "f32" })
end
local function iq4_of(list, y)
  y = op.floor(y * 2)
  y = op.where(y:ge(-256), y, -256) -- of no number, too
  return op.take(list, op.minimum(y, 255):cast "i64" + 256)
end

-- The scale for which the codes' numbers, weighed by x^2, lie nearest to x: of several, where its codes are those of another scale.
local function search(x, values, first, tries)
  local w = x * x
  local function fit(by)
    local v = values(x * by)
    return sum(w * v * x), sum(w * v * v)
  end
  local xv, vv = fit(first)
  local d = xv * inverse(vv)
  local best = d * xv
  for _, by in ipairs(tries) do
    xv, vv = fit(by)
    local better = vv:gt(0):logical_and((xv * xv):gt(best * vv))
    d = op.where(better, xv * inverse(vv), d)
    best = op.where(better, xv * xv * inverse(vv), best)
  end
  return d
end

function rule.iq4_nl(x)
  local far = farthest(x)
  local over, tries = inverse(far), {}
  for i = -7, 7 do tries[#tries + 1] = over * (i + IQ4[1]) end
  local list = iq4_table(function(q) return IQ4[q] end)
  local function values(y) return iq4_of(list, y) end
  local d = search(x, values, over * -IQ4[1], tries)
  d = op.where(far:abs():lt(1e-15), 0, d)
  return { half_bytes(d), fours(u8(iq4_of(iq4_table(function(q) return q - 1 end), x * inverse(d)))) }
end

-- ---- blocks of 256
-- Step and least number, at most 0, of parts [n, 32] for codes 0..most: of several steps the one whose codes, with the step and the least
-- number that fit them best by least squares, leave the least. Errors weigh more where numbers are larger.
local function line(x, most, from, steps)
  local w = op.sqrt(sum(x * x) / 32) + x:abs()
  local least, top = op.minimum(least_of(x), 0), most_of(x)
  local range = top - least
  local over = inverse(range)
  local sw, sx = sum(w), sum(w * x)
  local function codes(by) return clamped(op.round((x - least) * by), 0, most) end
  local function left(q, step, low)
    local e = q * step + low - x
    return sum(w * e * e)
  end
  local scale, low = range / most, least
  local best = left(codes(over * most), scale, low)
  for i = 0, steps do
    local q = codes(over * (from + 0.1 * i + most))
    local wq = w * q
    local sq, sqq, sxq = sum(wq), sum(wq * q), sum(wq * x)
    local det = sw * sqq - sq * sq
    local step, under = (sw * sxq - sx * sq) * inverse(det), (sqq * sx - sq * sxq) * inverse(det)
    step = op.where(under:gt(0), sxq * inverse(sqq), step)
    under = op.minimum(under, 0)
    local e = left(q, step, under)
    local better = det:gt(0):logical_and(e:lt(best))
    scale, low, best = op.where(better, step, scale), op.where(better, under, low), op.where(better, e, best)
  end
  return op.where(range:eq(0), 0, scale), -low
end

local function read_half(x) return x:cast("f16"):cast "f32" end

-- Scales and least numbers as codes of 6 bits [n, 8] in 12 bytes.
local function six_bits(scale, least)
  local function part(t, i) return t:narrow(1, i, 4) end
  local function packed(t) return part(t, 0):bitwise_or(part(t, 4):shift_right(4):shift_left(6)) end
  local rest = part(scale, 4):bitwise_and(15):bitwise_or(part(least, 4):bitwise_and(15):shift_left(4))
  return { packed(scale), packed(least), rest }
end

-- {d, least, 12 bytes}, and codes [n, 8, 32].
local function lines(x, most, from, steps)
  local n = x.shape[1]
  local parts = x:reshape { n * 8, 32 }
  local scale, low = line(parts, most, from, steps)
  scale, low = scale:reshape { n, 8 }, low:reshape { n, 8 }
  local top, bottom = op.maximum(most_of(scale), 0), op.maximum(most_of(low), 0)
  local function six(t, by) return clamped(op.round(t * (inverse(by) * 63)), 0, 63) end
  local s, l = six(scale, top), six(low, bottom)
  local d, m = read_half(top / 63) * s, read_half(bottom / 63) * l
  d, m = d:unsqueeze(2), m:unsqueeze(2)
  local q = clamped(op.round((x:reshape { n, 8, 32 } + m) / op.where(d:eq(0), math.huge, d)), 0, most)
  local packed = six_bits(u8(s), u8(l))
  return { half_bytes(top / 63), half_bytes(bottom / 63), packed[1], packed[2], packed[3] }, u8(q)
end

-- Of 64 codes 32 bytes, the first 32 below.
local function pairs_of(q)
  local n = q.shape[1]
  local two = q:reshape { n, 4, 2, 32 }
  local y = two:select(2, 0):bitwise_and(15):bitwise_or(two:select(2, 1):bitwise_and(15):shift_left(4))
  return y:reshape { n, 128 }
end

function rule.q4_k(x)
  local head, q = lines(x, 15, -1, 20)
  head[#head + 1] = pairs_of(q)
  return head
end

function rule.q5_k(x)
  local head, q = lines(x, 31, -0.5, 15)
  local high
  for i = 0, 7 do
    local bit = q:select(1, i):shift_right(4):bitwise_and(1):shift_left(i)
    high = high and high:bitwise_or(bit) or bit
  end
  head[#head + 1], head[#head + 2] = high, pairs_of(q)
  return head
end

function rule.q6_k(x)
  local n = x.shape[1]
  local parts = x:reshape { n * 16, 16 }
  local far = farthest(parts)
  local over, tries = inverse(far), {}
  for i = -9, 9 do
    if i ~= 0 then tries[#tries + 1] = over * -(32 + 0.1 * i) end
  end
  local function values(y) return clamped(op.round(y), -32, 31) end
  local scale = search(parts, values, over * -32, tries)
  scale = op.where(far:abs():lt(1e-15), 0, scale):reshape { n, 16 }
  local top = farthest(scale)
  top = op.where(top:abs():lt(1e-15), 0, top)
  local by = clamped(op.round(scale * (inverse(top) * -128)), -128, 127)
  local d = (read_half(top / -128) * by):unsqueeze(2)
  local q = values(x:reshape { n, 16, 16 } / op.where(d:eq(0), math.huge, d))
  local code = u8(q + 32):reshape { n, 2, 4, 32 }
  local function part(i) return code:select(2, i) end
  local low = op.stack({ part(0):bitwise_and(15):bitwise_or(part(2):bitwise_and(15):shift_left(4)),
    part(1):bitwise_and(15):bitwise_or(part(3):bitwise_and(15):shift_left(4)) }, { axis = 2 })
  local high
  for i = 0, 3 do
    local bits = part(i):shift_right(4):shift_left(2 * i)
    high = high and high:bitwise_or(bits) or bits
  end
  return { low:reshape { n, 128 }, high:reshape { n, 64 }, bytes_of(by:cast "i8"), half_bytes(top / -128) }
end

local block_of, nbytes_of = {}, {}
for _, d in ipairs(core.dtypes()) do block_of[d.name], nbytes_of[d.name] = d.block, d.nbytes end

--- Whether there is a rule for a dtype.
function quantize.has(dtype) return rule[dtype] ~= nil end

local captured = {}

--- x [.., k] of f32, finite, k a multiple of the block, as dtype.
function quantize.blocks(x, dtype)
  local size, made = block_of[dtype], {}
  local rows = x:reshape { x.numel / size, size }
  captured[dtype] = captured[dtype] or graph.module("quantize", function(piece) return op.concat(rule[dtype](piece), { axis = 1 }) end)
  local at, n = 0, rows.shape[1]
  while at < n do
    local step = n - at >= PIECE / size and PIECE / size or SHORT / size
    local piece = rows:narrow(0, at, math.min(step, n - at)):contiguous()
    if piece.shape[1] < step then piece = op.concat({ piece, op.zeros { step - piece.shape[1], size } }, { axis = 0 }) end
    made[#made + 1], at = captured[dtype](piece):narrow(0, 0, math.min(step, n - at)), at + step
  end
  local shape = { unpack(x.shape) }
  shape[#shape] = shape[#shape] / size * nbytes_of[dtype]
  return op.concat(made, { axis = 0 }):reshape(shape):bitcast(dtype)
end

return quantize
