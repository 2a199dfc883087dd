-- tessera.fast: operators as functions that LuaJIT compiles, for loops whose calls are put off.
-- repl/lua/fast.c loads it when there is such a loop, and says which operators it has. Each gets a
-- function here that stands before the usual one: it lets the tracer's next call be compared with
-- this one, by a function of C that compiled code calls directly and that gives the place of the
-- result in a pool of tensors that were made beforehand. What is not put off goes to the usual
-- function, and so does every wrong call.

local core = require "tessera.core"
local ffi = require "ffi"
local jit = require "jit"

local meta, methods, ops, addresses, pool = core.fast_tables()
local one = ffi.cast("int (*)(int, const void *)", addresses[1])
local two = ffi.cast("int (*)(int, const void *, const void *)", addresses[2])
local left = ffi.cast("int (*)(int, double, const void *)", addresses[3])
local right = ffi.cast("int (*)(int, const void *, double)", addresses[4])
local type, select = type, select

local head = "local pool, type, select, one, two, left, right, slow = ...\n"

local unary = [[
return function(...)
  local a = ...
  if select("#", ...) == 1 and type(a) == "userdata" then
    local at = one(OP, a)
    if at ~= 0 then
      local y = pool[at]
      pool[at] = false
      return y
    end
  end
  return slow(...)
end]]

local binary = [[
return function(...)
  local a, b = ...
  if select("#", ...) ~= 2 then return slow(...) end
  local at = 0
  if type(a) == "userdata" then
    if type(b) == "userdata" then
      at = two(OP, a, b)
    elseif type(b) == "number" then
      at = right(OP, a, b)
    end
  elseif type(a) == "number" and type(b) == "userdata" then
    at = left(OP, a, b)
  end
  if at ~= 0 then
    local y = pool[at]
    pool[at] = false
    return y
  end
  return slow(a, b)
end]]

-- Without numbers, which may be options.
local tensors = [[
return function(...)
  local a, b = ...
  if select("#", ...) == 2 and type(a) == "userdata" and type(b) == "userdata" then
    local at = two(OP, a, b)
    if at ~= 0 then
      local y = pool[at]
      pool[at] = false
      return y
    end
  end
  return slow(...)
end]]

-- Lua gives a unary metamethod its operand twice.
local negation = [[
return function(a)
  local at = one(OP, a)
  if at ~= 0 then
    local y = pool[at]
    pool[at] = false
    return y
  end
  return slow(a, a)
end]]

-- Each operator's text is loaded by itself: compiled code sees the number as a constant.
local function made(text, id, slow)
  local chunk = assert(loadstring(head .. text:gsub("OP", id), "=tessera.fast"))
  return core.keep_line(chunk(pool, type, select, one, two, left, right, slow))
end

local arithmetic = { add = "__add", sub = "__sub", mul = "__mul", div = "__div", mod = "__mod",
  pow = "__pow", neg = "__unm" }

local replaced = {} -- {table, key, before, now}

local function replace(t, key, now)
  replaced[#replaced + 1] = { t, key, t[key], now }
  rawset(t, key, now)
end

-- What a program has put there is its own, and stays.
local function stand_before(t, key, id, text)
  local slow = rawget(t, key)
  if core.fast_is_usual(slow, id) then replace(t, key, made(text, id, slow)) end
end

local function index_before(get)
  return function(x, key)
    local method = methods[key]
    if method ~= nil then return method end
    return get(x, key)
  end
end

local fast = {}

-- Which place in the interpreter calls functions of C: compiled code has another.
function fast.learn() return one(0, nil) end
jit.off(fast.learn)

function fast.install(id, name, arity, numbers)
  local index = rawget(meta, "__index")
  if core.fast_is_usual(index) then replace(meta, "__index", index_before(index)) end
  local text = arity == 1 and unary or numbers and binary or tensors
  stand_before(methods, name, id, text)
  stand_before(ops, name, id, text)
  if arithmetic[name] then stand_before(meta, arithmetic[name], id, name == "neg" and negation or binary) end
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
