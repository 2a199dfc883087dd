-- Filters: each of (env, value, arguments, named ones). Those of lists stand in list_filters.lua.

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local strings = require "tessera.hf.jinja.strings"
local read = require "tessera.hf.jinja.arguments"
local methods = require "tessera.hf.jinja.methods"

local filters = {}
local fail, number, kind = values.fail, values.number, values.kind
local NONE = values.NONE
local str = print_.str

local function given(v, default)
  if v == nil then return default end
  return v
end

function filters.tojson(env, v, args, named)
  local ascii, indent, separators, sort = read("tojson", args, named, { "ensure_ascii", "indent", "separators", "sort_keys" })
  local o = { ascii = values.truth(given(ascii, false)), sort = values.truth(given(sort, false)), colon = ": " }
  if indent ~= nil and indent ~= NONE then
    local n = number(indent)
    if n and n > 100 then fail "an indent of more than 100 is not written" end
    o.indent = type(indent) == "string" and indent or n and (" "):rep(n) or fail("can't multiply sequence by non-int of type '%s'", values.type_name(indent))
  end
  o.item = o.indent and "," or ", "
  if separators ~= nil and separators ~= NONE then
    local list = values.items(separators, env)
    if list.n ~= 2 or type(list[1]) ~= "string" or type(list[2]) ~= "string" then fail "separators are two texts" end
    o.item, o.colon = list[1], list[2]
  end
  return require("tessera.hf.jinja.json").write(env, v, o)
end

function filters.trim(env, v, args, named)
  local chars = read("trim", args, named, { "chars" })
  return strings.strip(str(v, env), type(chars) == "string" and chars or nil)
end

for name, f in pairs { upper = strings.upper, lower = strings.lower, capitalize = strings.capitalize } do
  filters[name] = function(env, v)
    local s = str(v, env)
    env:spend(#s / 4)
    return f(s)
  end
end

-- Words begin behind white space, hyphens and opening brackets.
function filters.title(env, v)
  local s, out, start = str(v, env), {}, true
  env:spend(#s)
  for c in s:gmatch "[%z\1-\127\194-\244][\128-\191]*" do
    local breaks = c:find "^[-%(%{%[<]$" or strings.SPACE[c]
    out[#out + 1] = breaks and c or start and strings.upper(c) or strings.lower(c)
    start = breaks and true or false
  end
  return table.concat(out)
end

function filters.default(_, v, args, named)
  local default, boolean = read("default", args, named, { "default_value", "boolean" })
  if kind(v) == "undefined" or (values.truth(given(boolean, false)) and not values.truth(v)) then return given(default, "") end
  return v
end
filters.d = filters.default

function filters.length(_, v)
  local k = kind(v)
  if k == "str" then return strings.length(v) end
  if k == "undefined" then return 0 end
  if k ~= "generator" and (values.SEQUENCE[k] or k == "dict") then return v.n end
  if k == "loop" then return v.items.n end
  fail("object of type '%s' has no len()", values.type_name(v))
end
filters.count = filters.length

function filters.string(env, v) return str(v, env) end
function filters.safe(env, v) return str(v, env) end

function filters.replace(env, v, args, named)
  local old, new, count = read("replace", args, named, { "old", "new", "count" }, 2)
  local n = count ~= nil and count ~= NONE and number(count) or -1
  return methods.replace(env, str(v, env), str(old, env), str(new, env), n)
end

-- The number a text is, as Python reads it, or nil.
local function read_float(s)
  s = strings.strip(s):gsub("(%d)_(%d)", "%1%2")
  local behind = s:match "^[-+]?%.?%d[%d.]*()" -- of one pattern for all, every digit would be tried in two places
  if behind and s:find("^[eE]?[-+]?%d*$", behind) then return strings.number((s:gsub("^%+", ""))) end
  local sign, word = s:lower():match "^([-+]?)(%a+)$"
  if word == "inf" or word == "infinity" then return sign == "-" and -math.huge or math.huge end
  if word == "nan" then return 0 / 0 end
end

function filters.int(_, v, args, named)
  local default, base = read("int", args, named, { "default", "base" })
  default = given(default, 0)
  base = base == nil and 10 or number(base)
  values.defined(v)
  if type(v) == "string" then
    local s = strings.strip(v):gsub("(%d)_(%d)", "%1%2")
    local sign, prefix, digits = s:match "^([-+]?)(0?[xXbBoO]?)(%w+)$"
    if base == 10 then
      sign, digits = s:match "^([-+]?)(%d+)$"
    elseif prefix and #prefix < 2 then
      digits = prefix .. digits
    end
    local n = digits and base >= 2 and base <= 36 and tonumber(digits, base)
    if n then return values.int(sign == "-" and -n or n) + 0 end
    local f = read_float(v)
    if f and f == f and math.abs(f) ~= math.huge then return values.int(f < 0 and math.ceil(f) or math.floor(f)) end
    return default
  end
  local n = number(v)
  if not n or n ~= n then return default end
  if math.abs(n) == math.huge then return default end
  return values.int(n < 0 and math.ceil(n) or math.floor(n))
end

function filters.float(_, v, args, named)
  local default = read("float", args, named, { "default" })
  local n = number(values.defined(v))
  if type(v) == "string" then n = read_float(v) end
  if n then return values.float(n) end
  return given(default, values.float(0))
end

function filters.abs(_, v)
  local n, float = number(values.defined(v))
  if not n then fail("bad operand type for abs(): '%s'", values.type_name(v)) end
  return float and values.float(math.abs(n)) or math.abs(n)
end

-- Half to even, of what the digits of v are.
local function rounded(v, digits)
  local scale = 10 ^ digits
  if digits > 0 and digits < 17 then return tonumber(("%." .. digits .. "f"):format(v)) end
  local x = v * scale
  local low = math.floor(x)
  local rest = x - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then low = low + 1 end
  return low / scale
end

function filters.round(_, v, args, named)
  local precision, method = read("round", args, named, { "precision", "method" })
  local digits = precision == nil and 0 or number(precision)
  method = given(method, "common")
  if method ~= "common" and method ~= "ceil" and method ~= "floor" then fail "method must be common, ceil or floor" end
  local n, float = number(values.defined(v))
  if not n then fail("type %s doesn't define __round__ method", values.type_name(v)) end
  if not digits or math.abs(digits) > 300 then fail "a precision is a number up to 300" end
  if method == "common" then
    local r = rounded(n, digits)
    return float and values.float(r) or values.int(r)
  end
  local scale = 10 ^ digits
  return values.float(math[method](n * scale) / scale)
end

function filters.indent(env, v, args, named)
  local width, first, blank = read("indent", args, named, { "width", "first", "blank" })
  width = given(width, 4)
  local step
  if type(width) == "string" then
    step = width
  else
    local n = number(width) or fail "a width is a number or a text"
    env:room(math.max(n, 0))
    step = (" "):rep(n)
  end
  if type(values.defined(v)) ~= "string" then fail("'%s' object cannot be indented: it is no text", values.type_name(v)) end
  local lines = strings.lines(v .. "\n")
  env:spend(#lines)
  env:room(#lines * #step + #v)
  local out = {}
  for i, line in ipairs(lines) do
    out[i] = (i > 1 and (line ~= "" or values.truth(given(blank, false)))) and step .. line or line
  end
  local text = table.concat(out, "\n")
  env:spend(#text / 16)
  return values.truth(given(first, false)) and step .. text or text
end

function filters.center(env, v, args, named)
  local width = read("center", args, named, { "width" })
  return methods.str.center(env, str(v, env), { n = 1, width == nil and 80 or width })
end

function filters.format(env, v, args, named)
  if args.n > 0 and #named > 0 then fail "can't handle positional and keyword arguments at the same time" end
  local format = require "tessera.hf.jinja.format"
  if #named == 0 then return format.percent(env, str(v, env), values.list(args, "tuple"), true) end
  local d = values.dict()
  for _, p in ipairs(named) do values.set(d, p[1], p[2]) end
  return format.percent(env, str(v, env), values.tuple(d), false, d)
end

function filters.truncate(env, v, args, named)
  local length, all, tail, leeway = read("truncate", args, named, { "length", "killwords", "end", "leeway" })
  local n = number(given(length, 255)) or fail "a length is a number"
  tail = given(tail, "...")
  local slack = number(given(leeway, 5)) or 5
  if filters.length(env, v) <= n + slack then return v end
  if type(v) ~= "string" then fail("'%s' object has no attribute 'rsplit'", values.type_name(v)) end
  local cut = strings.slice(v, 0, math.max(0, n - strings.length(tail)), 1)
  if not values.truth(given(all, false)) then cut = cut:match "^(.*) " or cut end
  return cut .. tail
end

function filters.wordcount(env, v)
  local n = 0
  local s = str(v, env)
  env:spend(#s)
  for _ in s:gmatch "[%w_\128-\255]+" do n = n + 1 end
  return n
end

function filters.escape(env, v)
  local s = str(v, env)
  env:grows(s, "[&<>'\"]", 4)
  return require("tessera.hf.jinja.markup").escape(s)
end
filters.e, filters.forceescape = filters.escape, filters.escape

function filters.attr(env, v, args)
  local name = args[1]
  if type(name) ~= "string" then fail "attr() needs a name" end
  if kind(v) == "undefined" then values.missing(v) end
  if type(v) == "table" and v.kind == "dict" and not methods.dict[name] then return values.undefined(name, v) end
  return require("tessera.hf.jinja.operators").attribute(env, v, name)
end

function filters.urlencode(env, v)
  local s = str(v, env)
  env:grows(s, "[^%w_.%-~/]", 2)
  return (s:gsub("[^%w_.%-~/]", function(c) return ("%%%02X"):format(c:byte()) end))
end

require "tessera.hf.jinja.list_filters"(filters)
return filters
