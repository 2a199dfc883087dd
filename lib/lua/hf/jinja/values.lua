-- Values of templates as Python has them: text is a string of Lua, a whole number a number, True and False booleans; all else is
-- a table with its kind. Nothing is changed once it is made, but for namespaces.

local values = {}

local NONE = { kind = "none" }
values.NONE = NONE

--- What a template fails with: text, without the place, which the interpreter adds.
function values.fail(what, ...) error({ jinja = true, message = select("#", ...) > 0 and what:format(...) or what }, 0) end
local fail = values.fail

-- Names of Python's types, for messages.
local NAMES = { none = "NoneType", undefined = "Undefined", namespace = "Namespace", loop = "LoopContext", macro = "Macro",
  dict_class = "TemplateDict", method = "builtin_function_or_method", markup = "Markup" }

-- ---- work: what comparing, copying and finding takes counts for the template that is rendered
local current

--- The environment (interpreter.lua) whose work it is from now on, or nil; gives the one before.
function values.enter(env)
  local before = current
  current = env
  return before
end

function values.spend(n)
  if current then current:spend(n) end
end

--- Before a text of n bytes is made.
function values.room(n)
  if current then current:room(n) end
end
local spend = values.spend

local function nothing() end
--- An environment for texts that no template makes.
values.UNBOUNDED = { spend = nothing, room = nothing, grows = nothing }

function values.kind(v)
  local t = type(v)
  if t == "string" then return "str" elseif t == "number" then return "int" elseif t == "boolean" then return "bool" end
  return v.kind
end
local kind = values.kind

function values.type_name(v)
  local k = kind(v)
  return NAMES[k] or k
end

function values.float(v) return { kind = "float", v = v } end
function values.undefined(name, of)
  if type(of) == "string" then return { kind = "undefined", name = name, message = of } end
  return { kind = "undefined", name = name, of = of }
end

local WHOLE = 2 ^ 53
function values.int(v)
  if v ~= v or math.abs(v) > WHOLE then fail("a whole number beyond 2^53 is not computed here") end
  return v + 0
end

function values.list(items, k)
  items.kind, items.n = k or "list", items.n or #items
  return items
end
function values.tuple(...) return { kind = "tuple", n = select("#", ...), ... } end
function values.func(name, call) return { kind = "function", name = name, call = call } end

local SEQUENCE = { list = true, tuple = true, range = true, generator = true, dict_keys = true, dict_values = true, dict_items = true }
values.SEQUENCE = SEQUENCE

--- The number that v is in arithmetic, or nil, and whether it is a float.
function values.number(v)
  local t = type(v)
  if t == "number" then return v, false end
  if t == "boolean" then return v and 1 or 0, false end
  if t == "table" and v.kind == "float" then return v.v, true end
end
local number = values.number

-- ---- dictionaries: keys in their order, and a map by what is equal
function values.dict() return { kind = "dict", keys = {}, map = {}, n = 0 } end

local DEEPEST = 200

-- A tuple's parts have their lengths in front, so that no other tuple has the same text.
local function key_of(k, depth)
  if type(k) == "table" and k.kind == "markup" then k = k.s end
  if type(k) == "string" then return k end
  local n = number(k)
  if n then return n == n and n or k end
  if k.kind == "list" or k.kind == "dict" then fail("unhashable type: '%s'", k.kind) end
  if k.kind == "tuple" then
    depth = (depth or 0) + 1
    if depth > DEEPEST then fail("maximum recursion depth exceeded while calling a Python object") end
    local parts, size = { "\0tuple" }, 0
    spend(k.n)
    for i = 1, k.n do
      local p = key_of(k[i], depth)
      local s = tostring(p)
      parts[i + 1] = type(p) .. #s .. ":" .. s
      size = size + #parts[i + 1]
    end
    values.room(size)
    return table.concat(parts)
  end
  return k
end
values.key_of = key_of

function values.set(d, k, v)
  local key = key_of(k)
  if d.map[key] == nil then
    d.n = d.n + 1
    d.keys[d.n] = k
  end
  d.map[key] = v
end
function values.get(d, k) return d.map[key_of(k)] end

-- ---- truth and equality
function values.truth(v)
  local t = type(v)
  if t == "boolean" then return v elseif t == "string" then return v ~= "" elseif t == "number" then return v ~= 0 end
  local k = v.kind
  if k == "none" or k == "undefined" then return false end
  if k == "markup" then return v.s ~= "" end
  if k == "float" then return v.v ~= 0 end
  if k == "generator" then return true end
  if SEQUENCE[k] or k == "dict" then return v.n > 0 end
  return true
end

-- Safe text is compared as text.
local function plain(v) return type(v) == "table" and v.kind == "markup" and v.s or v end

function values.equal(a, b, depth)
  a, b = plain(a), plain(b)
  if a == b and not (type(a) == "table" and a.kind == "float") then return true end
  depth = (depth or 0) + 1
  if depth > DEEPEST then fail("maximum recursion depth exceeded in comparison") end
  spend(1)
  local x, y = number(a), number(b)
  if x and y then return x == y end
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  if a.kind ~= b.kind then return false end
  if a.kind == "undefined" then return true end
  if a.kind == "list" or a.kind == "tuple" or a.kind == "range" then
    if a.n ~= b.n then return false end
    for i = 1, a.n do
      if not values.equal(a[i], b[i], depth) then return false end
    end
    return true
  end
  if a.kind == "dict" then
    if a.n ~= b.n then return false end
    for key, v in pairs(a.map) do
      local w = b.map[key]
      if w == nil or not values.equal(v, w, depth) then return false end
    end
    return true
  end
  return false
end

--- Whether a < b; op is what the message says.
function values.less(a, b, op, depth)
  op, depth = op or "<", (depth or 0) + 1
  spend(1)
  if depth > DEEPEST then fail("maximum recursion depth exceeded in comparison") end
  a, b = plain(values.defined(a)), plain(values.defined(b))
  local x, y = number(a), number(b)
  if x and y then return x < y end
  if type(a) == "string" and type(b) == "string" then
    -- Bytes of UTF-8 are in the order of code points; `<` of Lua follows the locale.
    for i = 1, math.min(#a, #b) do
      local p, q = a:byte(i), b:byte(i)
      if p ~= q then
        spend(i / 16)
        return p < q
      end
    end
    spend(math.min(#a, #b) / 16)
    return #a < #b
  end
  local k = kind(a)
  if k == kind(b) and (k == "list" or k == "tuple") then
    for i = 1, math.min(a.n, b.n) do
      if not values.equal(a[i], b[i]) then return values.less(a[i], b[i], op, depth) end
    end
    return a.n < b.n
  end
  fail("'%s' not supported between instances of '%s' and '%s'", op, values.type_name(a), values.type_name(b))
end

-- ---- what is not there
local function shown(v)
  local k = kind(v)
  return k == "none" and "None" or ("'%s object'"):format(k == "dict_class" and "TemplateDict" or NAMES[k] or k)
end

function values.missing(u)
  if u.message then fail("%s", u.message) end
  if u.of == nil then fail("'%s' is undefined", u.name) end
  if type(u.name) ~= "string" then
    fail("%s has no element %s", shown(u.of):gsub("^'(.*)'$", "%1"), require("tessera.hf.jinja.print").repr(u.name))
  end
  fail("%s has no attribute '%s'", shown(u.of), u.name)
end

function values.defined(v)
  if type(v) == "table" and v.kind == "undefined" then values.missing(v) end
  return v
end

-- ---- sequences
--- The items of what can be walked over, as a list; a generator gives them once. env counts work.
function values.items(v, env)
  local t = type(v)
  if t == "string" then return require("tessera.hf.jinja.strings").chars(v, env) end
  if t == "table" then
    local k = v.kind
    if k == "generator" then
      if v.spent then return values.list {} end
      v.spent = true
      return v
    end
    if SEQUENCE[k] then return v end
    if k == "dict" then
      spend(v.n)
      local keys = { n = v.n }
      for i = 1, v.n do keys[i] = v.keys[i] end
      return values.list(keys)
    end
    if k == "undefined" then return values.list {} end
    if k == "loop" then return v.items end
    if k == "markup" then return values.items(v.s, env) end
  end
  fail("'%s' object is not iterable", values.type_name(v))
end

return values
