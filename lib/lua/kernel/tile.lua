-- Tiles in Lua: values of a kernel that is being written (lib/lua/kernel.lua). Arithmetic on them
-- becomes lines of Tile IR, which the kernel's builder t holds.

local core = require "tessera.core"
local named = require "tessera.named"
local same_shape = require "tessera.same_shape"

local Value, Memory = {}, {}

-- ---- places and errors: the line of the program that calls
local function place()
  for level = 3, 60 do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if not info.source:find "^=tessera" and info.what ~= "C" and info.currentline > 0 then
      return ("%s:%d"):format(info.short_src, info.currentline)
    end
  end
end

local function fail(...)
  local at = place()
  error((at and at .. ": " or "") .. string.format(...), 0)
end

-- ---- types: {dtype =, shape =}, sizes are numbers or names
local widths = { fp8_e4m3 = true, fp8_e5m2 = true, f16 = true, bf16 = true }
local kinds = { f32 = "float", f64 = "float" }
for name in pairs(widths) do kinds[name] = "float" end
for _, name in ipairs { "i8", "u8", "i16", "i32", "i64" } do kinds[name] = "integer" end
kinds.bool = "bool"

local function type_text(v) return v.dtype .. "[" .. table.concat(v.shape, ",") .. "]" end

local function size_text(t, d, what)
  if getmetatable(d) == Value and d.size then return d.size end
  if type(d) == "string" and t.symbols[d] then return d end
  if type(d) == "number" and d >= 0 and d == math.floor(d) then return d end
  fail("%s: a size is a whole number or one of the kernel's sizes, not %s", what, tostring(d))
end

local function parse_type(t, text, what)
  local dtype, sizes = tostring(text):match "^%s*([%w_]+)%s*%[([%w_,%s]*)%]%s*$"
  if not dtype then fail("%s: '%s' is no type such as \"f32[M,64]\"", what, tostring(text)) end
  if not kinds[dtype] then fail("%s: elements of a kernel are real numbers, not '%s'", what, dtype) end
  local shape = {}
  for word in sizes:gmatch "[^,%s]+" do shape[#shape + 1] = size_text(t, tonumber(word) or word, what) end
  return { dtype = dtype, shape = shape }
end

-- ---- lines of text
local function put(t, text, bare)
  local at = not bare and place()
  t.lines[#t.lines + 1] = ("  "):rep(#t.open + 1) .. text .. (at and "  // " .. at or "")
  return #t.lines
end

local function fresh(t, dtype, shape)
  t.count = t.count + 1
  return setmetatable({ t = t, name = "%" .. t.count, dtype = dtype, shape = shape, size = false }, Value)
end

local function is_value(v) return getmetatable(v) == Value end
local function is_memory(v) return getmetatable(v) == Memory end

local function number_text(v)
  if v ~= v then return "nan" end
  if v == math.huge then return "inf" end
  if v == -math.huge then return "-inf" end
  return ("%.17g"):format(v)
end

local function emit(t, text, dtype, shape)
  local y = fresh(t, dtype, shape)
  put(t, ("%s = %s : %s"):format(y.name, text, type_text(y)))
  return y
end

local function const(t, v, dtype, shape)
  if kinds[dtype] ~= "float" and v ~= math.floor(v) then
    fail("%s is no number of dtype %s", number_text(v), dtype)
  end
  return emit(t, ("const {value=%s}"):format(number_text(v)), dtype, shape)
end

local function cast(v, dtype)
  if v.dtype == dtype then return v end
  return emit(v.t, "cast " .. v.name, dtype, v.shape)
end

-- ---- operands of one shape and dtype
local function spread(v, shape, what)
  if same_shape(v.shape, shape) then return v end
  local axes, skip = {}, #shape - #v.shape
  for i, d in ipairs(v.shape) do
    if d ~= shape[skip + i] then
      fail("%s: %s does not lie along the last axes of [%s]; x:over(like, axis) says along which",
        what, type_text(v), table.concat(shape, ","))
    end
    axes[i] = skip + i - 1
  end
  return emit(v.t, ("broadcast %s {axes=[%s]}"):format(v.name, table.concat(axes, ",")), v.dtype, shape)
end

local function describe(v)
  if is_value(v) then return type_text(v) end
  if is_memory(v) then return "memory, which a load reads first" end
  return type(v) == "number" and "a number" or "a " .. type(v)
end

-- The operands from `from` on made one type: numbers take it, scalars and rows are repeated.
local function unite(t, row, list, n, from)
  local like, shape = nil, {}
  for i = 1, n do
    local v = list[i]
    if type(v) ~= "number" and not is_value(v) then fail("%s: operand %d is %s", row, i, describe(v)) end
    if type(v) ~= "number" then
      if v.t ~= t then fail("%s: operand %d belongs to another kernel", row, i) end
      if #v.shape > #shape then shape = v.shape end
      if i >= from and (not like or like.size) then like = v end
    end
  end
  local dtype = like and like.dtype or "f32"
  for i = 1, n do
    local v = list[i]
    if type(v) == "number" then v = const(t, v, i < from and "bool" or dtype, shape) end
    if i >= from and v.size and kinds[dtype] == "float" then v = cast(v, dtype) end
    if i >= from and v.dtype ~= dtype then
      fail("%s: operands of two types: %s and %s; x:%s() casts", row, type_text(like), type_text(v), dtype)
    end
    list[i] = v
  end
  for i = 1, n do list[i] = spread(list[i], shape, row) end
  return dtype, shape
end

local function names(list, n)
  local parts = {}
  for i = 1, n do parts[i] = list[i].name end
  return table.concat(parts, ", ")
end

-- Numbers among the attributes of a row are operands of a kernel's: by the row, what they are if they are not given.
local preset
local function presets_of(row)
  if not preset then
    preset = {}
    for _, o in ipairs(core.operators()) do
      local list = {}
      for number in o.attrs:gmatch ":f=(%S+)" do
        list[#list + 1] = number == "inf" and math.huge or number == "-inf" and -math.huge or tonumber(number)
      end
      preset[o.name] = list
    end
  end
  return preset[row]
end

local rows
local function pointwise(t, row, nin, ...)
  local list, n = { ... }, select("#", ...)
  local more = presets_of(row)
  if n < nin or n > nin + #more then fail("%s: %d operands, not %d", row, nin, n) end
  if row == "clamp" and is_value(list[1]) and kinds[list[1].dtype] == "integer" then
    local x, low, high = list[1], list[2], list[3] -- integers have no infinities
    if low ~= nil then x = rows.maximum(t, x, low) end
    if high ~= nil then x = rows.minimum(t, x, high) end
    return x
  end
  for i = n + 1, nin + #more do list[i] = more[i - nin] end
  local dtypes, from = {}, row == "where" and 2 or 1
  local dtype, shape = unite(t, row, list, nin, from)
  for i = 1, nin do dtypes[i] = list[i].dtype end
  local result = core.tile_result(row, dtypes)
  if result ~= dtype and kinds[result] ~= "bool" then -- as the operator does: exp of integers is that of floats
    for i = from, nin do list[i] = cast(list[i], result) end
  end
  if #more > 0 then shape = select(2, unite(t, row, list, nin + #more, from)) end
  return emit(t, row .. " " .. names(list, nin + #more), result, shape)
end

-- Rows of integers that elementary functions use: of ir/tile/tile.def.
local integer_rows = { shl = true, shr = true, sar = true, mulhi = true, ult = true }

-- The method of this name: a pointwise row, or nil.
local function row_method(row)
  if type(row) ~= "string" then return nil end
  if integer_rows[row] then
    return function(t, ...)
      local list = { ... }
      local dtype, shape = unite(t, row, list, 2, 1)
      return emit(t, row .. " " .. names(list, 2), row == "ult" and "bool" or dtype, shape)
    end
  end
  local nin = core.tile_result(row)
  if not nin then return nil end
  return function(t, ...) return pointwise(t, row, nin, ...) end
end

rows = setmetatable({}, { __index = function(found, row)
  local f = row_method(row) or false
  found[row] = f
  return f
end })

-- ---- values
local value = {}

-- What a tile can do by name: methods, conversions and operators of one element.
local function missing_method(key)
  local words = {}
  for _, row in ipairs(core.family "pointwise") do words[row] = rows[row] or nil end
  local hint = named.hint("tile", key, value, kinds, words)
  if hint == "" and rawget(core.op, key) then
    hint = "\n  hint: of operators a tile has those of one element and sum, max, min, mean along an axis"
  end
  fail("a tile has no method '%s'%s", key, hint)
end

function Value.__index(v, key)
  if value[key] then return value[key] end
  if kinds[key] then return core.keep_line(function(x) return cast(x, key) end) end
  local row = rows[key]
  if row then return core.keep_line(function(x, ...) return row(x.t, x, ...) end) end
  if type(key) == "string" and key ~= "size" then missing_method(key) end
end

local function metamethod(row)
  return function(a, b)
    local t = is_value(a) and a.t or b.t
    return rows[row](t, a, b)
  end
end

Value.__add, Value.__sub, Value.__mul = metamethod "add", metamethod "sub", metamethod "mul"
Value.__div, Value.__mod, Value.__pow = metamethod "div", metamethod "mod", metamethod "pow"
function Value.__unm(a) return rows.neg(a.t, a) end
function Value.__tostring(v) return type_text(v) end
local function no_order() fail "tiles are compared by x:lt(y), x:le(y), x:gt(y), x:ge(y)" end
Value.__lt, Value.__le = no_order, no_order

local function axis_of(v, axis, what)
  axis = axis or -1
  if axis < 0 then axis = axis + #v.shape end
  if axis ~= math.floor(axis) or axis < 0 or axis >= #v.shape then
    fail("%s: %s has no axis %s", what, type_text(v), tostring(axis))
  end
  return axis
end

local function reduction(row)
  return function(v, axis)
    axis = axis_of(v, axis, row)
    local shape, dtype = {}, v.dtype
    for i, d in ipairs(v.shape) do
      if i ~= axis + 1 then shape[#shape + 1] = d end
    end
    local adds = row == "sum" or row == "prod" or row == "pairs"
    if row:find "^arg" or (adds and kinds[dtype] ~= "float") then dtype = "i64" end
    return emit(v.t, ("%s %s {axis=%d}"):format(row, v.name, axis), dtype, shape)
  end
end
for _, row in ipairs { "sum", "pairs", "prod", "max", "min", "argmax", "argmin" } do
  value[row] = reduction(row)
end

--- The sum over an axis divided by its size; of integers f32, as the operator's.
function value.mean(v, axis)
  axis = axis_of(v, axis, "mean")
  local n, sum = v.shape[axis + 1], v:sum(axis)
  if kinds[v.dtype] ~= "float" then sum = cast(sum, "f32") end
  return sum / (type(n) == "string" and v.t[n] or n)
end

function value.cast(v, dtype)
  if not kinds[dtype] then fail("cast: there is no dtype '%s' in kernels", tostring(dtype)) end
  return cast(v, dtype)
end

function value.bitcast(v, dtype) return emit(v.t, "bitcast " .. v.name, dtype, v.shape) end

local function sizes_of(t, list, what)
  local shape = {}
  for i, d in ipairs(type(list) == "table" and not is_value(list) and list or { list }) do
    shape[i] = size_text(t, d, what)
  end
  return shape
end

local function list_text(list) return table.concat(list, ",") end

function value.reshape(v, shape)
  return emit(v.t, "reshape " .. v.name, v.dtype, sizes_of(v.t, shape, "reshape"))
end

--- Axis i of the result is axis perm[i]; without perm, axes in reverse.
function value.transpose(v, perm)
  local shape, n = {}, #v.shape
  if not perm then
    perm = {}
    for i = 1, n do perm[i] = n - i end
  end
  for i, a in ipairs(perm) do shape[i] = v.shape[a + 1] end
  return emit(v.t, ("transpose %s {perm=[%s]}"):format(v.name, list_text(perm)), v.dtype, shape)
end

--- The block of this shape that begins at start.
function value.part(v, start, shape)
  return emit(v.t, ("part %s {start=[%s]}"):format(v.name, list_text(start)), v.dtype,
    sizes_of(v.t, shape, "part"))
end

--- Repeated to the shape of like, so that v's axes are these axes of it.
function value.over(v, like, ...)
  local axes = { ... }
  return emit(v.t, ("broadcast %s {axes=[%s]}"):format(v.name, list_text(axes)), v.dtype, like.shape)
end

core.keep_line(value, true)
return {
  fail = fail, widths = widths, type_text = type_text, parse_type = parse_type, same_shape = same_shape,
  put = put, fresh = fresh, is_value = is_value, is_memory = is_memory, number_text = number_text, emit = emit,
  const = const, cast = cast, spread = spread, describe = describe, names = names, rows = rows,
  sizes_of = sizes_of, list_text = list_text, Value = Value, Memory = Memory,
}
