-- Numbers as the dtypes hold them, in plain Lua: what the model of the programs computes with. Nothing
-- of
-- the program that is tested is used.
local ffi = require "ffi"
local M = {}

local one_f32 = ffi.new "float[1]"
local function f32(v)
  one_f32[0] = v
  return tonumber(one_f32[0])
end

-- To p bits of a significand, exponents from least on, by halves to even.
local function narrow(v, p, least, most)
  if v ~= v or v == 0 or v == 1 / 0 or v == -1 / 0 then return v end
  local _, e = math.frexp(v) -- |v| in [2^(e-1), 2^e)
  local unit = 2 ^ (math.max(e - 1, least) - p + 1)
  local q = v / unit
  local low = math.floor(q)
  local rest = q - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then low = low + 1 end
  local r = low * unit
  if r == 0 then return v < 0 and -0.0 or 0 end
  if math.abs(r) > most then return r > 0 and 1 / 0 or -1 / 0 end
  return r
end

local bits = { u8 = 8, i8 = 8, i16 = 16, i32 = 32, i64 = 64 }
M.bits = bits
function M.is_float(d) return d == "f64" or d == "f32" or d == "f16" or d == "bf16" end
function M.is_whole(d) return bits[d] ~= nil end

function M.least(d) return d == "u8" and 0 or -2 ^ (bits[d] - 1) end
function M.most(d) return d == "u8" and 255 or 2 ^ (bits[d] - 1) - 1 end

-- A whole number modulo the width; nil where a double does not hold the answer for sure.
local function wrap(v, d)
  if d == "i64" then
    if v == 2 ^ 63 then return -2 ^ 63 end
    if v == -2 ^ 63 then return v end
    return math.abs(v) <= 2 ^ 53 and v + 0 or nil
  end
  if math.abs(v) > 2 ^ 53 then return nil end
  local m = v % 2 ^ bits[d]
  if d ~= "u8" and m >= 2 ^ (bits[d] - 1) then m = m - 2 ^ bits[d] end
  return m
end

--- The result of arithmetic as the dtype holds it.
function M.round(v, d)
  if d == "f64" then return v end
  if d == "f32" then return f32(v) end
  if d == "f16" then return narrow(v, 11, -14, 65504) end
  if d == "bf16" then return narrow(v, 8, -126, 3.38953138925153547590470800371487867e38) end
  return wrap(v, d)
end

--- v, of dtype from, cast to dtype to.
function M.cast(v, from, to)
  if from == "bool" then
    if to == "bool" then return v end
    return v and 1 or 0
  end
  if to == "bool" then return v ~= 0 end
  if M.is_float(to) then return M.round(v, to) end
  if M.is_whole(from) then return wrap(v, to) end
  if v ~= v then return 0 end
  v = v < 0 and math.ceil(v) or math.floor(v)
  if v < M.least(to) then return M.least(to) end
  if to == "i64" and v >= 2 ^ 63 then return nil end -- the greatest i64 is no double
  return math.min(v, M.most(to)) + 0
end

--- As Lua text, to the bit.
function M.text(v)
  if type(v) == "boolean" then return tostring(v) end
  if v ~= v then return "0/0" end
  if v == 1 / 0 then return "1/0" end
  if v == -1 / 0 then return "-1/0" end
  if v == 0 then return 1 / v < 0 and "-0.0" or "0" end
  return ("%.17g"):format(v)
end

function M.less(a, b) -- the order of max and min: -0 below +0
  return a < b or (a == b and a == 0 and 1 / a < 1 / b)
end

return M
