-- A kernel's text from a Lua function: memory, loops and what else the builder t makes, which the
-- function gets before its parameters. Tiles: lib/lua/kernel/tile.lua.

local core = require "tessera.core"
local tile = require "tessera.kernel.tile"
local fail, type_text, parse_type, put, is_value, emit, const, describe, names, Memory =
  tile.fail, tile.type_text, tile.parse_type, tile.put, tile.is_value, tile.emit, tile.const, tile.describe,
  tile.names, tile.Memory

local Builder = {}

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
    if type(v) == "table" then v = "[" .. tile.list_text(v) .. "]" end
    if type(v) == "number" then v = tile.number_text(v) end
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
local function widened(v) return tile.widths[v.dtype] and tile.cast(v, "f32") or v end

--- The tile at a position: x:load({r, 0}, {4, 256}, {edge = true}). Without a shape, all of the
--- axes that have no position. 16-bit floats become f32.
function memory.load(m, at, shape, options)
  local text, n = positions(m, at, "load")
  local what = shape and tile.sizes_of(m.t, shape, "load") or rest(m, n)
  return widened(emit(m.t, ("load %s%s%s"):format(m.name, text,
    options_text(options, load_options, "load")), m.dtype, what))
end

local function fitting(m, v, shape, what)
  local t = m.t
  if type(v) == "number" then return const(t, v, m.dtype, shape or {}) end
  if not is_value(v) then fail("%s: what is stored is %s", what, describe(v)) end
  if tile.widths[m.dtype] and v.dtype == "f32" then v = tile.cast(v, m.dtype) end
  if v.dtype ~= m.dtype then fail("%s: %s into memory %s; x:%s() casts", what, type_text(v),
    type_text(m), m.dtype) end
  if shape and #v.shape < #shape then v = tile.spread(v, shape, what) end
  if shape and not tile.same_shape(v.shape, shape) then
    fail("%s: %s into memory %s, of which [%s] is meant", what, type_text(v), type_text(m), tile.list_text(shape))
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
  local i = tile.fresh(t, "i64", {})
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
  if not tile.is_memory(m) or #m.shape == 0 then fail("rows: memory with an axis, not %s", describe(m)) end
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
    if v.dtype ~= types[i].dtype or not tile.same_shape(v.shape, types[i].shape) then
      fail("%s: value %d is %s, before the loop it is %s", what, i, type_text(v), type_text(types[i]))
    end
    list[i] = v
  end
  if n > 0 then put(t, "yield " .. names(list, n)) end
end

local function results_of(t, types)
  local list = {}
  for i, v in ipairs(types) do list[i] = tile.fresh(t, v.dtype, v.shape) end
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
    carried[i] = tile.fresh(t, v.dtype, v.shape)
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
  local row = tile.rows[key]
  if row then return core.keep_line(function(self, ...) return row(self, ...) end) end
  fail("there is neither a size nor an operation '%s' in the kernel", tostring(key))
end

-- ---- a kernel from a function
local function collect_symbols(t, types, order)
  for _, name in ipairs(order) do
    for word in tostring(types[name]):gsub("^[^%[]*", ""):gmatch "[%a_][%w_]*" do
      if not t.symbols[word] then
        t.symbol_list[#t.symbol_list + 1] = word
        t.symbols[word] = setmetatable({ t = t, name = "%" .. word, dtype = "i64", shape = {}, size = word }, tile.Value)
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

core.keep_line(builder, true)
core.keep_line(memory, true)
return build
