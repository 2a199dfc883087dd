-- tessera.fast: operators as functions that LuaJIT compiles, for loops whose calls are put off.
-- repl/lua_fast.c loads it when there is such a loop, and says which operators it has. Each gets a
-- function here that stands before the usual one: it makes a box for the result and lets the
-- tracer's next call be compared with this one, by a function of C that compiled code calls
-- directly. What is not put off goes to the usual function.

local core = require "tessera.core"
local ffi = require "ffi"
local jit = require "jit"

local box = ffi.typeof "struct { uint64_t tessera_key, tessera_word; }"
local meta, methods, ops, addresses = core.fast_tables()
local one = ffi.cast("int (*)(int, const void *, void *)", addresses[1])
local two = ffi.cast("int (*)(int, const void *, const void *, void *)", addresses[2])
local left = ffi.cast("int (*)(int, double, const void *, void *)", addresses[3])
local right = ffi.cast("int (*)(int, const void *, double, void *)", addresses[4])
local istype, type, select = ffi.istype, core.raw_type, select

local unary = [[
local box, istype, type, select, one, two, left, right, slow = ...
return function(...)
  local a = ...
  if select("#", ...) == 1 and (istype(box, a) or type(a) == "userdata") then
    local y = box()
    if one(OP, a, y) ~= 0 then return y end
  end
  return slow(...)
end]]

local binary = [[
local box, istype, type, select, one, two, left, right, slow = ...
return function(...)
  local a, b = ...
  if select("#", ...) ~= 2 then return slow(...) end
  local y
  if istype(box, a) or type(a) == "userdata" then
    if istype(box, b) or type(b) == "userdata" then
      y = box()
      if two(OP, a, b, y) ~= 0 then return y end
    elseif type(b) == "number" then
      y = box()
      if right(OP, a, b, y) ~= 0 then return y end
    end
  elseif type(a) == "number" and (istype(box, b) or type(b) == "userdata") then
    y = box()
    if left(OP, a, b, y) ~= 0 then return y end
  end
  return slow(a, b)
end]]

-- Without numbers, which may be options.
local tensors = [[
local box, istype, type, select, one, two, left, right, slow = ...
return function(...)
  local a, b = ...
  if select("#", ...) == 2 and (istype(box, a) or type(a) == "userdata") and
    (istype(box, b) or type(b) == "userdata") then
    local y = box()
    if two(OP, a, b, y) ~= 0 then return y end
  end
  return slow(...)
end]]

-- Lua gives a unary metamethod its operand twice.
local negation = [[
local box, istype, type, select, one, two, left, right, slow = ...
return function(a)
  local y = box()
  if one(OP, a, y) ~= 0 then return y end
  return slow(a, a)
end]]

-- Each operator's text is loaded by itself: compiled code sees the number as a constant.
local function made(text, id, slow)
  local chunk = assert(loadstring(text:gsub("OP", id), "=tessera.fast"))
  return chunk(box, istype, type, select, one, two, left, right, slow)
end

local function index_with(get)
  return function(x, key)
    local method = methods[key]
    if method ~= nil then return method end
    return get(x, key)
  end
end

local arithmetic = { add = "__add", sub = "__sub", mul = "__mul", div = "__div", mod = "__mod",
  pow = "__pow", neg = "__unm" }

-- Of boxes: as of other tensors, but for the functions above.
local light = {}
for name, f in pairs(meta) do
  if name ~= "__metatable" then light[name] = f end
end
light.__index = index_with(meta.__index)
for name, event in pairs(arithmetic) do
  light[event] = made(name == "neg" and negation or binary, core.fast_id(name), meta[event])
end
ffi.metatype(box, light)

local replaced = {} -- {table, key, before, now}

local function replace(t, key, now)
  replaced[#replaced + 1] = { t, key, t[key], now }
  rawset(t, key, now)
end

local fast = {}

function fast.is_box(x) return istype(box, x) end

function fast.make() return box() end

-- Which place in the interpreter calls functions of C: compiled code has another.
function fast.learn() return one(0, nil, nil) end
jit.off(fast.learn)

function fast.install(id, name, arity, numbers)
  if #replaced == 0 then replace(meta, "__index", light.__index) end
  local slow = rawget(ops, name)
  local now = made(arity == 1 and unary or numbers and binary or tensors, id, slow)
  if rawequal(methods[name], slow) then replace(methods, name, now) end
  replace(ops, name, now)
  if arithmetic[name] then replace(meta, arithmetic[name], light[arithmetic[name]]) end
end

-- Compiled code has the usual functions in it, at many ends.
fast.renew = jit.flush

-- What the program has put there since stays.
function fast.remove()
  for i = #replaced, 1, -1 do
    local t, key, before, now = unpack(replaced[i])
    if rawequal(rawget(t, key), now) then rawset(t, key, before) end
  end
  replaced = {}
  jit.flush()
end

return fast
