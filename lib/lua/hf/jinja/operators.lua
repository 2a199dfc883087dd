-- What operators, attributes and subscripts of templates give, as Python has them within its sandbox, where nothing may be changed.

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local strings = require "tessera.hf.jinja.strings"
local markup = require "tessera.hf.jinja.markup"

local operators = {}
local fail, kind, number, defined = values.fail, values.kind, values.number, values.defined

local function unsupported(op, a, b)
  fail("unsupported operand type(s) for %s: '%s' and '%s'", op == "**" and "** or pow()" or op, values.type_name(a), values.type_name(b))
end

local function copies(env, v, n)
  n = math.max(0, n)
  if type(v) == "string" then
    env:room(#v * n)
    return v:rep(n)
  end
  env:spend(v.n * n)
  local out = { n = v.n * n }
  for i = 1, n do
    for j = 1, v.n do out[(i - 1) * v.n + j] = v[j] end
  end
  return values.list(out, v.kind)
end

local arithmetic = {}
arithmetic["+"] = function(x, y) return x + y end
arithmetic["-"] = function(x, y) return x - y end
arithmetic["*"] = function(x, y) return x * y end
arithmetic["//"] = function(x, y, float)
  if y == 0 then fail(float and "float floor division by zero" or "integer division or modulo by zero") end
  return math.floor(x / y)
end
arithmetic["%"] = function(x, y, float)
  if y == 0 then fail(float and "float modulo" or "integer modulo by zero") end
  local r = math.fmod(x, y)
  if r ~= 0 and (r < 0) ~= (y < 0) then r = r + y end
  return r
end

local function power(x, y, float)
  if x == 0 and y < 0 then fail "0.0 cannot be raised to a negative power" end
  if x < 0 and y % 1 ~= 0 then fail "complex numbers are not computed here" end
  local v = x ^ y
  if math.abs(v) == math.huge and math.abs(x) ~= math.huge then fail "(34, 'Numerical result out of range')" end
  return (float or y < 0) and values.float(v) or values.int(v)
end

function operators.binary(env, op, a, b)
  if markup.is(a) or markup.is(b) then return markup.binary(env, op, a, b, operators.binary) end
  defined(a)
  if not (op == "%" and type(a) == "string") then defined(b) end
  local x, xf = number(a)
  local y, yf = number(b)
  if x and y then
    local float = xf or yf
    if op == "/" then
      if y == 0 then fail(float and "float division by zero" or "division by zero") end
      return values.float(x / y)
    end
    if op == "**" then return power(x, y, float) end
    local v = arithmetic[op](x, y, float)
    return float and values.float(v) or values.int(v)
  end
  local ka, kb = kind(a), kind(b)
  if op == "+" and ka == kb then
    if ka == "str" then
      env:room(#a + #b)
      return a .. b
    elseif ka == "list" or ka == "tuple" then
      env:spend(a.n + b.n)
      local out = { n = a.n + b.n }
      for i = 1, a.n do out[i] = a[i] end
      for i = 1, b.n do out[a.n + i] = b[i] end
      return values.list(out, ka)
    end
  elseif op == "*" then
    if (ka == "str" or ka == "list" or ka == "tuple") and y and not yf then return copies(env, a, y) end
    if (kb == "str" or kb == "list" or kb == "tuple") and x and not xf then return copies(env, b, x) end
    if ka == "str" or ka == "list" or ka == "tuple" then fail("can't multiply sequence by non-int of type '%s'", values.type_name(b)) end
    if kb == "str" or kb == "list" or kb == "tuple" then fail("can't multiply sequence by non-int of type '%s'", values.type_name(a)) end
  elseif op == "%" and ka == "str" then
    return require("tessera.hf.jinja.format").percent(env, a, kb == "tuple" and b or values.tuple(b), kb == "tuple", kb == "dict" and b)
  end
  if op == "+" and ka == "str" then fail('can only concatenate str (not "%s") to str', values.type_name(b)) end
  if op == "+" and (ka == "list" or ka == "tuple") then fail('can only concatenate %s (not "%s") to %s', ka, values.type_name(b), ka) end
  unsupported(op, a, b)
end

function operators.unary(op, a)
  defined(a)
  local x, float = number(a)
  if not x then fail("bad operand type for unary %s: '%s'", op, values.type_name(a)) end
  local v = op == "-" and -x or x
  return float and values.float(v) or v + 0
end

function operators.contains(env, item, of)
  local k = kind(of)
  if k == "str" then
    if type(item) ~= "string" then fail("'in <string>' requires string as left operand, not %s", values.type_name(item)) end
    env:spend(#of / 16)
    return strings.find(of, item) ~= nil
  elseif k == "dict" then return values.get(of, item) ~= nil
  elseif k == "undefined" then
    return false
  elseif values.SEQUENCE[k] then
    local list = values.items(of, env)
    for i = 1, list.n do
      if values.equal(list[i], item) then return true end
    end
    env:spend(list.n)
    return false
  end
  fail("argument of type '%s' is not iterable", values.type_name(of))
end

function operators.compare(env, op, a, b)
  a, b = markup.text(a), markup.text(b)
  if op == "==" then return values.equal(a, b)
  elseif op == "!=" then return not values.equal(a, b)
  elseif op == "<" then return values.less(a, b, "<")
  elseif op == ">" then return values.less(b, a, ">") and true
  elseif op == "in" then return operators.contains(env, a, b)
  elseif op == "not in" then return not operators.contains(env, a, b) end
  -- NaN is neither less nor equal.
  if op == "<=" then return values.less(a, b, "<=") or values.equal(a, b) end
  return values.less(b, a, ">=") or values.equal(a, b)
end

-- ---- attributes
local UNSAFE = {
  list = { append = 1, clear = 1, pop = 1, reverse = 1, insert = 1, sort = 1, extend = 1, remove = 1 },
  dict = { clear = 1, pop = 1, popitem = 1, setdefault = 1, update = 1 },
}

local function unsafe(of, name)
  return values.undefined(name, ("access to attribute '%s' of '%s' object is unsafe."):format(name, values.type_name(of)))
end

-- A method of v, what stands for one that may not be called, or nil.
local function method(env, v, name)
  local k = kind(v)
  if name:sub(1, 2) == "__" then return unsafe(v, name) end
  if UNSAFE[k] and UNSAFE[k][name] then return unsafe(v, name) end
  local methods = require("tessera.hf.jinja.methods")[k]
  local call = methods and methods[name]
  return call and { kind = "method", name = name, call = function(e, args, named)
    if k == "str" then e:spend(#v / 16) end
    for i = 1, args.n do
      if type(args[i]) == "string" then e:spend(#args[i] / 16) end
    end
    return call(e, v, args, named)
  end }
end

local function entry(env, v, name)
  local k = v.kind
  if k == "namespace" then return values.get(v.dict, name) end
  if k == "loop" then return require("tessera.hf.jinja.loop").attribute(env, v, name) end
  if k == "macro" and name == "name" then return v.name or values.NONE end
  if k == "range" and (name == "start" or name == "stop" or name == "step") then return v[name] end
  if k == "group" then return v[name] end
  if k == "cycler" and name == "current" then return v[1] and v[v.at] end
end

local function attribute_only(env, v, name)
  if type(v) == "table" then
    local found = entry(env, v, name)
    if found ~= nil then return found end
    if v.kind == "tuple" and v.named and v.named[name] then return v[v.named[name]] end
  end
  return method(env, v, name)
end

local DUNDER_OF_UNDEFINED = "^__.*__$"

function operators.attribute(env, v, name)
  if markup.is(v) then return markup.method(name, operators.attribute(env, v.s, name)) end
  if type(v) == "table" and v.kind == "undefined" and not name:find(DUNDER_OF_UNDEFINED) then values.missing(v) end
  local found = attribute_only(env, v, name)
  if found ~= nil then return found end
  if type(v) == "table" and v.kind == "dict" then
    found = values.get(v, name)
    if found ~= nil then return found end
  end
  return values.undefined(name, v)
end

local function index_of(i, n)
  if i < 0 then i = i + n end
  return i >= 0 and i < n and i or nil
end

-- A part of safe text is safe.
local function part(v) return type(v) == "string" and markup.of(v) or v end

function operators.item(env, v, key)
  key = markup.text(key)
  if markup.is(v) then
    local own = operators.item(env, v.s, key)
    return type(own) == "table" and own.kind == "method" and markup.method(own.name, own) or part(own)
  end
  if type(v) == "table" and v.kind == "undefined" then values.missing(v) end
  local k = kind(v)
  local i, float = number(key)
  if k == "dict" then
    local unhashable = type(key) == "table" and (key.kind == "list" or key.kind == "dict")
    local found = not unhashable and values.get(v, key)
    if found ~= nil and not unhashable then return found end
  elseif k == "str" and i and not float then
    env:spend(#v / 16)
    local n = strings.length(v)
    local at = index_of(i, n)
    if at then
      return strings.slice(v, at, at + 1, 1)
    end
  elseif (k == "list" or k == "tuple" or k == "range") and i and not float then
    local at = index_of(i, v.n)
    if at then return v[at + 1] end
  end
  if type(key) == "string" then
    local found = attribute_only(env, v, key)
    if found ~= nil then return found end
  end
  return values.undefined(key, v)
end

local function bound(v, n, low, high, default)
  if v == nil or v == values.NONE then return default end
  local i, float = number(defined(v))
  if not i or float then fail "slice indices must be integers or None or have an __index__ method" end
  if i < 0 then i = i + n end
  return math.max(low, math.min(high, i))
end

function operators.slice(env, v, from, to, step)
  if markup.is(v) then return part(operators.slice(env, v.s, from, to, step)) end
  if type(v) == "table" and v.kind == "undefined" then values.missing(v) end
  local k = kind(v)
  if k ~= "str" and k ~= "list" and k ~= "tuple" and k ~= "range" then
    fail(k == "dict" and "unhashable type: 'slice'" or "'%s' object is not subscriptable", values.type_name(v))
  end
  local s = 1
  if step ~= nil and step ~= values.NONE then
    local float
    s, float = number(defined(step))
    if not s or float then fail "slice indices must be integers or None or have an __index__ method" end
    if s == 0 then fail "slice step cannot be zero" end
  end
  local n = k == "str" and strings.length(v) or v.n
  local low, high = s < 0 and -1 or 0, s < 0 and n - 1 or n
  from = bound(from, n, low, high, s < 0 and n - 1 or 0)
  to = bound(to, n, low, high, s < 0 and -1 or n)
  if k == "str" then
    env:spend(#v / 8)
    return (strings.slice(v, from, to, s))
  end
  env:spend(math.max(0, (to - from) / s))
  local out, i, count = {}, from, 0
  while (s > 0 and i < to) or (s < 0 and i > to) do
    count = count + 1
    out[count] = v[i + 1]
    i = i + s
  end
  out.n = count
  if k == "range" then
    out.start, out.stop, out.step = v.start + from * v.step, v.start + to * v.step, v.step * s
  end
  return values.list(out, k)
end

operators.str = print_.str
return operators
