-- Kernels of Tile IR written in Lua: op.kernel. A kernel is built as text by calls that look like
-- arithmetic, and from then on is what the compiler's own kernels are: checked, compiled for the
-- processor's vectors, kept on disk, shown at every level.
--
--   local norm = op.kernel("norm", { x = "f32[M,N]", w = "f32[N]" }, { y = "f32[M,N]" },
--     function(t, x, w, y)
--       for r in t:rows(x) do
--         local a = x[r]
--         y[r] = a * ((a * a):mean() + 1e-6):rsqrt() * w:load()
--       end
--     end)
--   norm(x, w)           -- as any operator: at once, or in a captured function
--   norm:ir "explicit"   -- also "tile", "llvm", "asm"
--
-- The Lua function runs once, on symbols. ir/tile.h says what a kernel is, docs/kernels.md how
-- one is written.

local core = require "tessera.core"
local foreign = require "tessera.foreign"
local op = core.op

local kernels = {}
local Builder, Value, Memory, Kernel = {}, {}, {}, {}
local this_file = debug.getinfo(1, "S").source

-- ---- places and errors: the line of the program that calls
local function place()
  for level = 3, 60 do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if info.source ~= this_file and info.what ~= "C" and info.currentline > 0 then
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

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
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

-- Attributes of a row that are operands, with what they are if they are not given.
local trailing = { clamp = { -math.huge, math.huge }, leaky_relu = { 0.01 }, elu = { 1 } }

local function pointwise(t, row, nin, ...)
  local list, n = { ... }, select("#", ...)
  local more = trailing[row] or {}
  if n < nin or n > nin + #more then fail("%s: %d operands, not %d", row, nin, n) end
  for i = n + 1, nin + #more do list[i] = more[i - nin] end
  local dtypes, from = {}, row == "where" and 2 or 1
  local dtype, shape = unite(t, row, list, nin + #more, from)
  for i = 1, nin do dtypes[i] = list[i].dtype end
  local result = core.tile_result(row, dtypes)
  return emit(t, row .. " " .. names(list, nin + #more), result, shape)
end

-- Rows of integers that elementary functions use: of ir/tile.def.
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
  local result, nin = core.tile_result(row, {})
  if not result then return nil end
  return function(t, ...) return pointwise(t, row, nin, ...) end
end

local rows = setmetatable({}, { __index = function(found, row)
  local f = row_method(row) or false
  found[row] = f
  return f
end })

-- ---- values
local value = {}

function Value.__index(v, key)
  if value[key] then return value[key] end
  if kinds[key] then return function(x) return cast(x, key) end end
  local row = rows[key]
  if row then return function(x, ...) return row(x.t, x, ...) end end
  if type(key) == "string" and key ~= "size" then fail("a tile has no method '%s'", key) end
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

--- The sum over an axis divided by its size.
function value.mean(v, axis)
  axis = axis_of(v, axis, "mean")
  local n = v.shape[axis + 1]
  return v:sum(axis) / (type(n) == "string" and v.t[n] or n)
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

-- ---- positions
local function position_text(t, v, what)
  if type(v) == "number" and v == math.floor(v) then return ("%d"):format(v) end
  if is_value(v) and v.dtype == "i64" and #v.shape == 0 then return v.name end
  fail("%s: a position is a whole number or i64[], not %s", what, describe(v))
end

local function positions(m, at, what)
  local list = at == nil and {} or type(at) == "table" and not is_value(at) and at or { at }
  if #list > #m.shape then fail("%s: %d positions in %s", what, #list, type_text(m)) end
  local parts = {}
  for i = 1, #m.shape do parts[i] = list[i] and position_text(m.t, list[i], what) or "0" end
  return "[" .. table.concat(parts, ", ") .. "]", #list
end

local function options_text(options, known, what)
  local parts = {}
  for key in pairs(options or {}) do
    if not known[key] then fail("%s: there is no option '%s'", what, tostring(key)) end
  end
  for _, key in ipairs(known) do
    local v = options and options[key]
    if type(v) == "table" then v = "[" .. list_text(v) .. "]" end
    if type(v) == "number" then v = number_text(v) end
    if v ~= nil and v ~= false then parts[#parts + 1] = key .. "=" .. tostring(v) end
  end
  return #parts > 0 and " {" .. table.concat(parts, " ") .. "}" or ""
end

local function option_set(...)
  local set = { ... }
  for _, key in ipairs { ... } do set[key] = true end
  return set
end

local load_options = option_set("axes", "edge", "fill", "stream")
local store_options = option_set("axes", "edge", "stream")
local gather_options = option_set("axis", "edge", "fill")

local function rest(m, n)
  local shape = {}
  for i = n + 1, #m.shape do shape[#shape + 1] = m.shape[i] end
  return shape
end

-- ---- memory
local memory = {}

-- Floats narrower than f32 are computed with as f32.
local function widened(v) return widths[v.dtype] and cast(v, "f32") or v end

--- The tile at a position: x:load({r, 0}, {4, 256}, {edge = true}). Without a shape, all of the
--- axes that have no position. 16-bit floats become f32.
function memory.load(m, at, shape, options)
  local text, n = positions(m, at, "load")
  local what = shape and sizes_of(m.t, shape, "load") or rest(m, n)
  return widened(emit(m.t, ("load %s%s%s"):format(m.name, text,
    options_text(options, load_options, "load")), m.dtype, what))
end

local function fitting(m, v, shape, what)
  local t = m.t
  if type(v) == "number" then return const(t, v, m.dtype, shape or {}) end
  if not is_value(v) then fail("%s: what is stored is %s", what, describe(v)) end
  if widths[m.dtype] and v.dtype == "f32" then v = cast(v, m.dtype) end
  if v.dtype ~= m.dtype then fail("%s: %s into memory %s; x:%s() casts", what, type_text(v),
    type_text(m), m.dtype) end
  if shape and #v.shape < #shape then v = spread(v, shape, what) end
  if shape and not same_shape(v.shape, shape) then
    fail("%s: %s into memory %s, of which [%s] is meant", what, type_text(v), type_text(m), list_text(shape))
  end
  return v
end

local function store(m, at, v, options, whole)
  if not m.written then fail("store: %s is an input", m.name) end
  local text, n = positions(m, at, "store")
  v = fitting(m, v, whole and rest(m, n), "store")
  put(m.t, ("store %s%s = %s%s"):format(m.name, text, v.name, options_text(options, store_options, "store")))
end

--- Writes a tile, along the last axes, at a position: y:store({r, 0}, v, {edge = true}).
function memory.store(m, at, v, options) store(m, at, v, options, false) end

--- Of memory of one axis, the elements at the positions in an i64 tile.
function memory.gather(m, at, options)
  return widened(emit(m.t, ("gather %s[%s]%s"):format(m.name, at.name,
    options_text(options, gather_options, "gather")), m.dtype, at.shape))
end

function memory.scatter(m, at, v)
  v = fitting(m, v, at.shape, "scatter")
  put(m.t, ("scatter %s[%s] = %s"):format(m.name, at.name, v.name))
end

-- x[r], x[{r, c}]: all of the axes behind.
function Memory.__index(m, key)
  if type(key) == "string" then return memory[key] end
  return memory.load(m, key)
end
function Memory.__newindex(m, key, v) store(m, key, v, nil, true) end
function Memory.__tostring(m) return type_text(m) end
local function no_arithmetic() fail "memory is no tile: load it first, x[r] or x:load(position, shape)" end
for _, name in ipairs { "__add", "__sub", "__mul", "__div", "__mod", "__pow", "__unm" } do
  Memory[name] = no_arithmetic
end

local function new_memory(t, name, type, written)
  return setmetatable({ t = t, name = name, dtype = type.dtype, shape = type.shape,
    written = written }, Memory)
end

-- ---- loops
local builder = {}

local function open_loop(t, lo, hi, step, words, results, carry)
  if step and not (type(step) == "number" and step >= 1 and step == math.floor(step)) then
    fail("a loop's step is a whole number above zero, not %s", tostring(step))
  end
  local i = fresh(t, "i64", {})
  put(t, ("%sfor %s in %s..%s%s%s%s {"):format(results or "", i.name, position_text(t, lo, "loop"),
    position_text(t, hi, "loop"), step and step ~= 1 and " step " .. ("%d"):format(step) or "",
    words, carry or ""))
  t.open[#t.open + 1] = i
  return i
end

local function close_loop(t, i)
  if t.open[#t.open] ~= i then fail "a loop of a kernel was left by break, return or an error" end
  t.open[#t.open] = nil
  put(t, "}", true)
end

-- The for statement calls this twice: the loop is opened, its body runs, the loop is closed.
local function once(t, lo, hi, step, words)
  local i
  return function()
    if i then return close_loop(t, i) end
    i = open_loop(t, lo, hi, step, words)
    return i
  end
end

local function bounds(lo, hi, step)
  if hi == nil then return 0, lo, step end
  return lo, hi, step
end

--- for r in t:parallel(hi) do, t:parallel(lo, hi, step): rounds in any order, on all threads.
function builder.parallel(t, lo, hi, step)
  lo, hi, step = bounds(lo, hi, step)
  return once(t, lo, hi, step, " parallel")
end

--- for r in t:rows(x) do: t:parallel over the first axis of memory.
function builder.rows(t, m, step)
  if not is_memory(m) or #m.shape == 0 then fail("rows: memory with an axis, not %s", describe(m)) end
  local n = m.shape[1]
  return once(t, 0, type(n) == "string" and t[n] or n, step, " parallel")
end

--- for i in t:range(lo, hi, step) do: one round after the other.
function builder.range(t, lo, hi, step)
  lo, hi, step = bounds(lo, hi, step)
  return once(t, lo, hi, step, "")
end

local function as_value(t, v, what)
  if type(v) == "number" then return const(t, v, "f32", {}) end
  if not is_value(v) then fail("%s: %s is no tile", what, describe(v)) end
  return v
end

local function yield(t, types, given, n, what)
  if n ~= #types then fail("%s: %d values are returned, not %d", what, n, #types) end
  local list = {}
  for i = 1, n do
    local v = given[i]
    if type(v) == "number" then v = const(t, v, types[i].dtype, types[i].shape) end
    v = as_value(t, v, what)
    if v.dtype ~= types[i].dtype or not same_shape(v.shape, types[i].shape) then
      fail("%s: value %d is %s, before the loop it is %s", what, i, type_text(v), type_text(types[i]))
    end
    list[i] = v
  end
  if n > 0 then put(t, "yield " .. names(list, n)) end
end

local function results_of(t, types)
  local list = {}
  for i, v in ipairs(types) do list[i] = fresh(t, v.dtype, v.shape) end
  return list
end

local function texts(list)
  local parts = {}
  for i, v in ipairs(list) do parts[i] = type_text(v) end
  return table.concat(parts, ", ")
end

--- A loop that carries values: local s, n = t:fold({lo, hi, step}, {s0, n0}, function(i, s, n)
--- return s + .., n + 1 end).
function builder.fold(t, range, start, f)
  local first, carried, parts = {}, {}, {}
  for i, v in ipairs(start) do first[i] = as_value(t, v, "fold") end
  if #first == 0 then fail "fold: no values are carried; t:range is a loop without them" end
  local results = results_of(t, first)
  for i, v in ipairs(first) do
    carried[i] = fresh(t, v.dtype, v.shape)
    parts[i] = ("%s = %s"):format(carried[i].name, v.name)
  end
  local lo, hi, step = bounds(unpack(range, 1, 3))
  local i = open_loop(t, lo, hi, step, "", names(results, #results) .. " = ",
    (" carry %s : %s"):format(table.concat(parts, ", "), texts(first)))
  local out = { f(i, unpack(carried)) }
  yield(t, first, out, #out, "fold")
  close_loop(t, i)
  return unpack(results)
end

--- local v = t:when(condition, function() return a end, function() return b end): only one of
--- them runs. x:where is for tiles.
function builder.when(t, condition, yes, no)
  if not is_value(condition) or condition.dtype ~= "bool" or #condition.shape > 0 then
    fail("when: the condition is bool[], not %s", describe(condition))
  end
  local head = put(t, "")
  t.open[#t.open + 1] = head
  local out = { yes() }
  for i, v in ipairs(out) do out[i] = as_value(t, v, "when") end
  yield(t, out, out, #out, "when")
  close_loop(t, head)
  t.lines[#t.lines] = t.lines[#t.lines] .. " else {"
  t.open[#t.open + 1] = head
  local other = no and { no() } or {}
  yield(t, out, other, #other, "when, else")
  close_loop(t, head)
  local results = results_of(t, out)
  local line = t.lines[head]:gsub("^( *)", function(indent)
    return indent .. (#out > 0 and names(results, #results) .. " = " or "") .. "if " ..
      condition.name .. (#out > 0 and " : " .. texts(out) or "") .. " {"
  end)
  t.lines[head] = line
  return unpack(results)
end

-- ---- values from nothing, and of several
--- A tile of one value: t:full("f32[64]", 0).
function builder.full(t, text, v)
  local type = parse_type(t, text, "full")
  return const(t, v or 0, type.dtype, type.shape)
end

--- Every element is its index along axis: t:iota("i64[64]").
function builder.iota(t, text, axis)
  local type = parse_type(t, text, "iota")
  return emit(t, ("iota {axis=%d}"):format(axis or 0), type.dtype, type.shape)
end

function builder.join(t, list, axis)
  axis = axis or 0
  local shape, total = { unpack(list[1].shape) }, 0
  for _, v in ipairs(list) do total = total + (tonumber(v.shape[axis + 1]) or fail "join: sizes are numbers") end
  shape[axis + 1] = total
  return emit(t, ("join %s {axis=%d}"):format(names(list, #list), axis), list[1].dtype, shape)
end

--- acc + a b: a[m,k], b[k,n], acc[m,n], zero if it is not given.
function builder.mma(t, a, b, acc)
  acc = acc or const(t, 0, a.dtype == "f64" and "f64" or "f32", { a.shape[1], b.shape[2] })
  return emit(t, "mma " .. names({ a, b, acc }, 3), acc.dtype, acc.shape)
end

--- acc + a b of vectors: a[m], b[n], acc[m,n].
function builder.outer(t, a, b, acc)
  return emit(t, "outer " .. names({ a, b, acc }, 3), acc.dtype, acc.shape)
end

local stages = { load = true, wait = true, mma = true, epilogue = true, store = true, other = true }

--- A stage of the kernel for profiles: local a = t:stage("load", function() return x[r] end), or with
--- a few words behind the name. Elsewhere it costs nothing.
function builder.stage(t, name, what, f)
  if core.callable(what) then what, f = nil, what end
  if not stages[name] then fail("stage: load, wait, mma, epilogue, store or other, not '%s'", tostring(name)) end
  if what and (type(what) ~= "string" or what:find '[%c"\\]') then fail "stage: words behind the name" end
  local words = what and (' what="%s"'):format(what) or ""
  put(t, ("mark {stage=%s%s}"):format(name, words))
  local out = { f() }
  put(t, ("mark {stage=%s end=true%s}"):format(name, words))
  return unpack(out)
end

local function alloc(t, text, space)
  local type = parse_type(t, text, space)
  t.count = t.count + 1
  local m = new_memory(t, "%" .. t.count, type, true)
  put(t, ("%s = alloc : %s @%s"):format(m.name, type_text(m), space))
  return m
end

--- Memory of the round: t:memory("f32[64]"). t:scratch: of the kernel, outside of the loops.
function builder.memory(t, text) return alloc(t, text, "local") end
function builder.scratch(t, text) return alloc(t, text, "scratch") end

function Builder.__index(t, key)
  if builder[key] then return builder[key] end
  local symbol = t.symbols[key]
  if symbol then
    t.used[key] = true
    return symbol
  end
  local row = rows[key]
  if row then return function(self, ...) return row(self, ...) end end
  fail("there is neither a size nor an operation '%s' in the kernel", tostring(key))
end

-- ---- a kernel from a function
local function collect_symbols(t, types, order)
  for _, name in ipairs(order) do
    for word in tostring(types[name]):gsub("^[^%[]*", ""):gmatch "[%a_][%w_]*" do
      if not t.symbols[word] then
        t.symbol_list[#t.symbol_list + 1] = word
        t.symbols[word] = setmetatable({ t = t, name = "%" .. word, dtype = "i64", shape = {}, size = word }, Value)
      end
    end
  end
end

-- The function's parameters, behind the builder, in their order: inputs, then results.
local function parameters(name, inputs, outputs, f)
  local order, nin, seen = {}, 0, {}
  local n = debug.getinfo(f, "u").nparams
  for i = 2, n do
    local word = debug.getlocal(f, i)
    local into = inputs[word] and inputs or outputs[word] and outputs
    if not into then
      fail("%s: parameter '%s' of the function is neither an input nor a result", name, word)
    end
    if into == inputs and #order > nin then
      fail("%s: input '%s' of the function stands behind a result", name, word)
    end
    order[#order + 1], seen[word] = word, true
    if into == inputs then nin = nin + 1 end
  end
  for _, types in ipairs { inputs, outputs } do
    for word in pairs(types) do
      if not seen[word] then fail("%s: '%s' is no parameter of the function", name, tostring(word)) end
    end
  end
  return order, nin
end

local function head_of(t, name, order, nin)
  local read, written, args = {}, {}, {}
  for i, word in ipairs(order) do
    local type = parse_type(t, t.types[word], word)
    args[i] = new_memory(t, "%" .. word, type, i > nin)
    local into = i > nin and written or read
    into[#into + 1] = ("%%%s: %s"):format(word, type_text(type))
  end
  local sizes = #t.symbol_list > 0 and "<" .. table.concat(t.symbol_list, ", ") .. ">" or ""
  return ("tile @%s%s(%s) -> (%s) {"):format(name, sizes, table.concat(read, ", "),
    table.concat(written, ", ")), args
end

local function size_lines(t)
  local lines = {}
  for i, word in ipairs(t.symbol_list) do
    if t.used[word] then lines[#lines + 1] = ("  %%%s = dim {index=%d} : i64[]"):format(word, i - 1) end
  end
  return lines
end

local function build(name, inputs, outputs, f)
  if not name:match "^[%a_][%w_]*$" then fail("op.kernel: '%s' is no name", name) end
  local t = { lines = {}, open = {}, count = 0, symbols = {}, symbol_list = {}, used = {}, types = {} }
  local order, nin = parameters(name, inputs, outputs, f)
  for _, types in ipairs { inputs, outputs } do
    for word, text in pairs(types) do t.types[word] = text end
  end
  collect_symbols(t, t.types, order)
  for _, word in ipairs(order) do
    if t.symbols[word] then fail("%s: '%s' is both a parameter and a size", name, word) end
  end
  setmetatable(t, Builder)
  local head, args = head_of(t, name, order, nin)
  f(t, unpack(args))
  if #t.open > 0 then fail("%s: a loop was left by break or return", name) end
  local lines = size_lines(t)
  table.insert(lines, 1, head)
  for _, line in ipairs(t.lines) do lines[#lines + 1] = line end
  lines[#lines + 1] = "}\n"
  return table.concat(lines, "\n")
end

-- ---- calls
local kernel = {}
Kernel.__index = kernel
function Kernel.__tostring(k) return ("kernel %s, %s"):format(k.name, (k.handle:status())) end

-- Sizes that a call gives, by index, and their text.
local function given_sizes(k, options)
  local list, parts, known = {}, {}, {}
  for i, name in ipairs(k.sizes) do
    local v = options[name]
    if v ~= nil and (type(v) ~= "number" or v < 0 or v ~= math.floor(v)) then
      error(("%s: the size %s is a whole number, not %s"):format(k.name, name, tostring(v)), 3)
    end
    list[i], known[name] = v or false, true
    if v then parts[#parts + 1] = ("%s = %d"):format(name, v) end
  end
  for name in pairs(options) do
    if not known[name] then error(("%s: the kernel has no size '%s'"):format(k.name, tostring(name)), 3) end
  end
  return list, table.concat(parts, ", ")
end

-- Tensors, and sizes behind them.
local function arguments(k, ...)
  local n, inputs, options = select("#", ...), { ... }, {}
  local last = inputs[n]
  if n == k.ninputs + 1 and type(last) == "table" and not core.is_tensor(last) then
    options, n = last, n - 1
    inputs[n + 1] = nil
  end
  for i = 1, n do
    if type(inputs[i]) == "number" and k.params[i] then
      inputs[i] = core.tensor(inputs[i], { dtype = k.params[i].dtype })
    elseif not core.is_tensor(inputs[i]) then
      error(("%s: argument %d is a %s, not a tensor"):format(k.name, i, type(inputs[i])), 3)
    end
  end
  return inputs, n, options
end

function Kernel.__call(k, ...)
  local inputs, n, options = arguments(k, ...)
  local specs = {}
  for i = 1, n do specs[i] = { kind = "tensor", at = i } end
  local sizes, key = given_sizes(k, options)
  local types = k.handle:infer(inputs, sizes)
  local adjoint = foreign.adjoint_of(k.def, specs, { options }, 1)
  local name = key == "" and k.name or ("%s {%s}"):format(k.name, key)
  local f = core.custom(name, foreign.identity_of(k.def, key), { adjoint = adjoint }, k.handle, sizes)
  return core.custom_call(f, inputs, types)
end

--- The kernel as text: "tile" as it was written, "explicit" in the processor's vectors, "llvm",
--- "asm".
function kernel.ir(k, level) return k.handle:text(tostring(level or "tile")) end

--- Measures what could be chosen for it on these arguments, and runs the best from then on;
--- tessera.autotune.tune gives the times.
function kernel.tune(k, ...)
  local inputs, _, options = arguments(k, ...)
  k.handle:tune(inputs, (given_sizes(k, options)))
end

--- How the last call ran: "compiled", "from disk" or "interpreted", and why it is interpreted.
function kernel.status(k) return k.handle:status() end

--- A kernel of Tile IR as an operator: op.kernel(text [, options]), or built by a Lua function:
--- op.kernel(name, {x = "f32[M,N]"}, {y = "f32[M]"}, function(t, x, y) .. end [, options]).
--- Letters are sizes, solved from the arguments; those that no argument has are given by the
--- call: k(x, {K = 5}). Options: interpret, run by the interpreter, which finds positions outside
--- of memory; adjoint, a function (inputs.., results.., gradients.., sizes) that returns a
--- gradient for each input.
function kernels.kernel(name, inputs, outputs, f, options)
  local text = name
  if type(name) ~= "string" then error("op.kernel: the first argument is a name or a text", 2) end
  if type(outputs) == "table" then
    if type(inputs) ~= "table" or type(f) ~= "function" then
      error("op.kernel: name, inputs, results and a function are needed", 2)
    end
    text = build(name, inputs, outputs, f)
  else
    options = inputs
  end
  options = options or {}
  for key in pairs(options) do
    if key ~= "interpret" and key ~= "adjoint" then
      error(("op.kernel: there is no option '%s'"):format(tostring(key)), 2)
    end
  end
  if options.adjoint ~= nil and not core.callable(options.adjoint) then
    error(("op.kernel: adjoint is a function, not a %s"):format(type(options.adjoint)), 2)
  end
  local ok, handle, title = pcall(core.kernel, text, options.interpret or false)
  if not ok then
    error((handle:gsub("^[^\n]-: (@.-), at ([^\n]-:%d+)\n", "%2: %1\n")), 0) -- it has its place
  end
  local sizes, params, ninputs = handle:describe()
  return core.keep_line(setmetatable({ name = title, handle = handle, sizes = sizes, params = params,
    ninputs = ninputs, def = foreign.define(title, { adjoint = options.adjoint }) }, Kernel))
end

rawset(op, "kernel", core.keep_line(kernels.kernel))
return kernels
