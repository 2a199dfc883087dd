-- Numbers of the program: taken in double precision and rounded once to the type of what they
-- become part of, or refused, alike in every mode. Wanted values are those of the standard:
-- doubles, and of 16-bit floats the nearest of the exact number.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local everywhere = require "_everywhere"
local op, tensor, core = tessera.op, tessera.tensor, tessera.core

local function zeros(d, n) return op.zeros({ n or 2 }, { dtype = d }) end
local function all(d) return op.ones({ 2 }, { dtype = d or "bool" }):ne(0) end

-- ---- in which ways a number v comes into x of zeros: each gives a tensor whose first element is v
local into = {
  copy_ = function(x, v) return x:copy_(v) end,
  mask = function(x, v)
    x[x:eq(0)] = v
    return x
  end,
  where = function(x, v) return op.where(x:eq(0), v, x) end,
  where_else = function(x, v) return op.where(x:ne(0), x, v) end,
  masked_fill = function(x, v) return x:masked_fill(x:eq(0), v) end,
  masked_fill_ = function(x, v) return x:masked_fill_(x:eq(0), v) end,
  full_like = function(x, v) return op.full_like(x, v) end,
  pad = function(x, v) return x:pad({ 1, 0 }, { value = v }) end,
  slice_update = function(x, v) return op.slice_update(x, v, { start = { 0 }, stop = { 1 } }) end,
  scatter = function(x, v) return x:scatter(op.zeros({ 1 }, { dtype = "i64" }), v) end,
}
-- These need an order, or arithmetic.
local ordered = {
  maximum = function(x, v) return op.maximum(x, v) end,
  minimum = function(x, v) return op.minimum(x + 100, v) end,
  clamp = function(x, v) return x:clamp(v, 1 / 0) end,
  clamp_ = function(x, v) return x:clamp_(v, 1 / 0) end,
}
local arithmetic = {
  add = function(x, v) return x + v end,
  add_ = function(x, v) return x:add_(v) end,
  sub = function(x, v) return -(x - v) end,
  scatter_add = function(x, v) return x:scatter_add(op.zeros({ 1 }, { dtype = "i64" }), v) end,
  slice_add = function(x, v) return op.slice_add(x, v, { start = { 0 }, stop = { 1 } }) end,
  fma = function(x, v) return op.fma(op.ones_like(x), v, x) end,
  mul = function(x, v) return (x + 1) * v end,
}
-- Eagerly: what a captured function refuses.
local eager = {
  select = function(x, v)
    x[0] = v
    return x
  end,
  slice = function(x, v)
    x["0:1"] = v
    return x
  end,
  table = function(x, v)
    x["0:2"] = { v, v }
    return x
  end,
  tensor = function(x, v) return tensor({ v }, { dtype = x.dtype }) end,
}

local function first(y) return y[0]:item() end

local function check(list, name, d, v, want, mode)
  for way, f in pairs(list) do
    local function body(x) return f(x, v) end
    local y = mode == "eager" and body(zeros(d)) or everywhere(body, zeros(d))
    local got = first(y)
    if y.dtype ~= d or got ~= want then
      print(("%s %s: %s %.17g, not %.17g"):format(name, way, y.dtype, got, want))
    end
  end
end

-- 0.1 of f64; a midpoint of f16 and bf16 that f32 would round to, from above.
local f16 = 1 + 2 ^ -11 + 2 ^ -40
local bf16 = 1 + 2 ^ -8 + 2 ^ -40
for _, c in ipairs { { "f64", 0.1, 0.1 }, { "f32", 0.1, tonumber(require "ffi".new("float", 0.1)) },
  { "f16", f16, 1 + 2 ^ -10 }, { "bf16", bf16, 1 + 2 ^ -7 }, { "i64", 2 ^ 24 + 1, 2 ^ 24 + 1 },
  { "i64", 2 ^ 53 - 1, 2 ^ 53 - 1 }, { "i32", 2 ^ 31 - 1, 2 ^ 31 - 1 } } do
  check(into, c[1], unpack(c))
  if c[2] < 100 then check(ordered, c[1], unpack(c)) end
  check(eager, c[1], c[1], c[2], c[3], "eager")
end
for _, c in ipairs { { "f64", 0.1, 0.1 }, { "i64", 2 ^ 53 - 1, 2 ^ 53 - 1 } } do
  for way, f in pairs(arithmetic) do
    if way ~= "fma" or c[1] == "f64" then check({ [way] = f }, c[1], unpack(c)) end
  end
end

-- Complex numbers are of the type of what is around them.
local z = zeros "complex128"
z[0] = 0.1
z[0]:real():item() == 0.1 --> true
z[1] = 0.1i
z[1]:imag():item() == 0.1 --> true
(zeros "complex128" + 0.1i)[0]:imag():item() == 0.1 --> true
(zeros "f64" * 0.1i).dtype --> complex128
(zeros "f32" * 0.1i).dtype --> complex64
-- Tables too.
(zeros "f64" + { 0.1, 0.2 })[0]:item() == 0.1 --> true
(zeros "f32" + { 0.1, 0.2 }).dtype --> f32

-- LuaJIT's 64-bit integers are themselves.
local t = zeros "i64"
t[0] = 9007199254740993LL
t[0]:item() --> 9007199254740993LL
(zeros "i64" + 9007199254740993LL)[0]:item() --> 9007199254740993LL
t:copy_(-9223372036854775807LL - 1)
t[1]:item() == -9223372036854775807LL - 1 --> true
tensor { 0xffffffffffffffffULL } --! 18446744073709551615 does not fit into i64

-- ---- what a type does not hold is an error, in every mode and alike
local places = {}
for _, list in ipairs { into, ordered, eager } do
  for way, f in pairs(list) do places[way] = f end
end
local graph = require "tessera.graph"
for _, c in ipairs { { "u8", 300 }, { "u8", -1 }, { "u8", 1.5 }, { "i32", 2 ^ 31 }, { "i64", 2 ^ 63 }, { "i8", 0 / 0 },
  { "bool", 2 }, { "i64", 1e300 } } do
  local d, v = unpack(c)
  for way, f in pairs(places) do
    local fraction = v ~= math.floor(v) or v ~= v or math.abs(v) >= 2 ^ 63
    local widens = (way:find "^where" or way == "maximum" or way == "minimum") and (fraction or d == "bool")
    if not widens and not (d == "bool" and ordered[way]) then
      local modes = { function() f(zeros(d), v) end, function() f(zeros(d):to "sim:0", v) end }
      if not eager[way] then
        modes[3] = function() graph.module("g", function(x) return f(x, v) end)(zeros(d)) end
      end
      for i, m in ipairs(modes) do
        local ok, e = pcall(m)
        if ok or not tostring(e):find("does not fit into " .. d, 1, true) then
          print(("%s %s %.17g, mode %d: %s"):format(way, d, v, i, ok and "no error" or tostring(e)))
        end
      end
    end
  end
end
tensor({ 256 }, { dtype = "u8" }) --! tensor: 256 does not fit into u8
tensor({ 0.5 }, { dtype = "i32" }) --! i32 holds whole numbers from -2147483648 to 2147483647
local r = zeros "f32"
r[0] = 1i --! does not fit into f32
zeros("u8"):clamp(0, 300) --! clamp: 300 does not fit into u8
zeros("u8"):clamp(0, 1 / 0)[0]:item() --> 0
