-- Special values of every type, and what a rule of ir/rules/rules.def says of them: programs made of the
-- rule's pattern, and the comparison of what they give eagerly and captured. Library of this folder.
local tessera = require "tessera"
local core = require "tessera.core"
local graph = require "tessera.graph"
local numerics = require "tessera.numerics"
local op = tessera.op
local S = {}

S.floats = { "fp8_e4m3", "fp8_e5m2", "f16", "bf16", "f32", "f64" }
S.dtypes = { "bool", "u8", "i8", "i16", "i32", "i64", "fp8_e4m3", "fp8_e5m2", "f16", "bf16", "f32", "f64", "complex64", "complex128" }
local letter = { bool = "B", u8 = "U", complex64 = "C", complex128 = "C" }
for _, d in ipairs { "i8", "i16", "i32", "i64" } do letter[d] = "I" end
for _, d in ipairs(S.floats) do letter[d] = "F" end
local wide = { bf16 = true, f32 = true, f64 = true }

-- Largest, smallest normal and smallest number of each float type.
local range = {
  fp8_e4m3 = { 448, 2 ^ -6, 2 ^ -9 }, fp8_e5m2 = { 57344, 2 ^ -14, 2 ^ -16 }, f16 = { 65504, 2 ^ -14, 2 ^ -24 },
  bf16 = { 2 ^ 127 * (2 - 2 ^ -7), 2 ^ -126, 2 ^ -133 }, f32 = { 2 ^ 127 * (2 - 2 ^ -23), 2 ^ -126, 2 ^ -149 },
  f64 = { 2 ^ 1023 * (2 - 2 ^ -52), 2 ^ -1022, 2 ^ -1074 },
}
S.largest = {}
for d, r in pairs(range) do S.largest[d] = r[1] end
local nan, inf = 0 / 0, 1 / 0

local function float_list(d)
  local r = range[d]
  local list = { nan, inf, 0.0, 1, 2, 0.5, 3.75, 0.1, 1 + 2 ^ -10, 12, 90, 110, 800, r[1], r[2], r[3], r[1] / 4, r[1] ^ 0.5, r[1] ^ 0.5 * 4, r[2] ^ 0.5 / 4, r[1] ^ 0.34 * 2 }
  for i = 1, #list do
    local v = list[i]
    if v == v then list[#list + 1] = -v end
  end
  return list
end

local function int_list(d)
  if d == "bool" then return { 0, 1 } end
  if d == "u8" then return { 0, 1, 2, 3, 11, 127, 128, 200, 254, 255 } end
  local top = 2 ^ (tonumber(d:sub(2)) - 1)
  return { 0, 1, -1, 2, -2, 3, -7, 100, top - 1, top / 2, -top, -top + 1, -top / 2 }
end

--- The special values of a type as one tensor.
function S.values(d)
  if letter[d] == "C" then
    local few = { nan, inf, -inf, 0.0, -0.0, 1, -1, 0.3, 2, 1e30, 1e-40 }
    local re, im = {}, {}
    for _, a in ipairs(few) do
      for _, b in ipairs(few) do re[#re + 1], im[#im + 1] = a, b end
    end
    return op.complex(tessera.tensor(re, { dtype = "f64" }), tessera.tensor(im, { dtype = "f64" })):cast(d)
  end
  local list = letter[d] == "F" and float_list(d) or int_list(d)
  return tessera.tensor(list, { dtype = "f64" }):cast(d)
end

--- Each value of x with each of y, as two tensors.
function S.pairs(x, y)
  local n, m = x.numel, y.numel
  return x:reshape(n, 1):broadcast_to { n, m }:reshape(n * m):clone(), y:reshape(1, m):broadcast_to { n, m }:reshape(n * m):clone()
end

--- Whether the types column takes these types, of which the first is the root's.
function S.takes(column, list, fast)
  local deterministic, more = column:match "^([^|]*)|?(.*)$"
  local set = deterministic .. (fast and more or "")
  if set:find("*", 1, true) then return true end
  local root = list[1]
  for _, d in ipairs(list) do
    local k = letter[d]
    if k ~= letter[root] or not (set:find(k, 1, true) or (set:find("W", 1, true) and wide[d])) then return false end
    if d ~= root and k ~= "F" and k ~= "C" then return false end
  end
  return true
end

-- ---- programs from patterns
--- A pattern of operators, variables, numbers and constants as a Lua function of the variables and
--- the constants, or nil: operators of any kind, other operands, absent ones.
function S.program(pattern)
  if pattern:find("(*", 1, true) or pattern:find("...", 1, true) or pattern:find "%%" or pattern:find " _" then return end
  local vars, consts = {}, {}
  local function add(list, name)
    for _, v in ipairs(list) do if v == name then return name end end
    list[#list + 1] = name
    return name
  end
  local function read(at)
    at = pattern:match("^ *()", at)
    if pattern:sub(at, at) == "(" then
      local name, e = pattern:match("^%(([%w_]+)()", at)
      local args = {}
      at = e
      while true do
        at = pattern:match("^ *()", at)
        if pattern:sub(at, at) == ")" then break end
        args[#args + 1], at = read(at)
      end
      return ("op.%s(%s)"):format(name, table.concat(args, ", ")), at + 1
    end
    local sign, name, e = pattern:match("^([?#])(%l)()", at)
    if sign then return add(sign == "?" and vars or consts, name), e end
    return pattern:match("^([%d.-]+)()", at)
  end
  local text = read(1)
  if #vars == 0 then return end
  local arguments = table.concat(vars, ", ") .. (#consts > 0 and ", " .. table.concat(consts, ", ") or "")
  local f = loadstring("local op = ... return function(" .. arguments .. ") return " .. text .. " end")(op)
  return f, #vars, #consts, text
end

--- f of inputs that are finite, of which it makes the given ones: the rounding rules keep what is
--- finite for finite inputs, whatever is in between. Returns the function and its arguments.
function S.finite_inputs(f, ...)
  local args, n, given = {}, select("#", ...), { ... }
  for i = 1, n do
    local x = given[i]
    if core.is_tensor(x) and S.largest[x.dtype] then
      local finite = x:isfinite()
      args[2 * i - 1] = op.where(finite, x, op.where(x:isnan(), op.zeros_like(x), op.sign(x)))
      args[2 * i] = finite:cast(x.dtype)
    else
      args[2 * i - 1] = x
    end
  end
  local function program(...)
    local from, made = { ... }, {}
    for i = 1, n do made[i] = from[2 * i] and from[2 * i - 1] / from[2 * i] or from[2 * i - 1] end
    return f(unpack(made, 1, n))
  end
  return program, unpack(args, 1, 2 * n)
end

-- ---- comparing
local function outcome(f, ...)
  local r = { pcall(f, ...) }
  if not r[1] then return nil, tostring(r[2]):gsub("\n.*", ""):gsub("^.-:%d+: ", "") end
  return r[2]
end

--- f eagerly, and captured in the profile: both results and the captured function.
function S.both(profile, f, ...)
  local args, n = { ... }, select("#", ...)
  local before, why = outcome(f, ...)
  local g = graph.module("f", f)
  local after, why_not = numerics.profile(profile, function() return outcome(g, unpack(args, 1, n)) end)
  return before, after, g, why, why_not
end

function S.fired(g, name) return ("\n" .. g:rewrites()):find("\n" .. name .. "%f[^%w_]") ~= nil end

--- Other bits, another type, or an error on one side alone: what is wrong.
function S.differ(before, after, why, why_not)
  if (before == nil) ~= (after == nil) then return ("eagerly %s, captured %s"):format(why or "a value", why_not or "a value") end
  if before == nil then return end
  if core.type_text(before) ~= core.type_text(after) then return core.type_text(before) .. " became " .. core.type_text(after) end
  if before:hash() ~= after:hash() then return "other bits" end
end

local function parts(x)
  if x.dtype:match "^complex" then return op.stack { x:real():cast "f64", x:imag():cast "f64" } end
  return x:cast "f64"
end

--- Results of which one is finite and the other is not, but for those at the end of the range:
--- how many, and the first.
function S.turned(before, after)
  local top = S.largest[before.dtype == "complex64" and "f32" or before.dtype == "complex128" and "f64" or before.dtype]
  if not top or before.numel == 0 then return 0 end
  local x, y = parts(before), parts(after)
  local end_of_range = op.logical_or(x:isinf(), y:isinf()):logical_and(op.minimum(x:abs(), y:abs()):gt(top * 0.9))
  local bad = x:isfinite():ne(y:isfinite()):logical_and(end_of_range:logical_not()):reshape(-1)
  local n = bad:cast("i64"):sum():item()
  if n == 0 then return 0 end
  local at = bad:cast("i64"):argmax():item()
  return n, ("%g became %g at %d"):format(x:reshape(-1)[at]:item(), y:reshape(-1)[at]:item(), at)
end

return S
