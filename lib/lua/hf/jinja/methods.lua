-- Methods of text, lists and dictionaries that change nothing: each of (env, value, arguments, named ones).

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local strings = require "tessera.hf.jinja.strings"
local read = require "tessera.hf.jinja.arguments"

local fail, number = values.fail, values.number
local str, list, dict = {}, {}, {}
local NONE = values.NONE

local function text(what, v)
  if type(v) ~= "string" then fail("%s() argument must be str, not %s", what, values.type_name(v)) end
  return v
end

local function whole(v, default)
  if v == nil or v == NONE then return default end
  local n, float = number(values.defined(v))
  if not n or float then fail("'%s' object cannot be interpreted as an integer", values.type_name(v)) end
  return n
end

local function pieces(env, parts)
  env:spend(#parts)
  return values.list(parts)
end

-- ---- text
for name, f in pairs { upper = strings.upper, lower = strings.lower, title = strings.title, capitalize = strings.capitalize, casefold = strings.lower } do
  str[name] = function(env, s, args)
    if args.n > 0 then fail("str.%s() takes no arguments (%d given)", name, args.n) end
    env:spend(#s / 4)
    return f(s)
  end
end

for name, f in pairs { strip = strings.strip, lstrip = strings.lstrip, rstrip = strings.rstrip } do
  str[name] = function(_, s, args, named)
    local chars = read(name, args, named, { "chars" })
    if chars ~= nil and chars ~= NONE and type(chars) ~= "string" then fail("%s arg must be None or str", name) end
    return f(s, type(chars) == "string" and chars or nil)
  end
end

-- Text between separators, `most` cuts from the left.
local function cut(env, s, sep, most)
  local parts, at, n = {}, 1, 0
  while most < 0 or n < most do
    local i, e = strings.find(s, sep, at)
    if not i then break end
    n = n + 1
    env:spend(1)
    parts[n] = s:sub(at, i - 1)
    at = e + 1
  end
  parts[n + 1] = s:sub(at)
  return pieces(env, parts)
end

-- The first white space at or behind a byte: where it begins and ends.
local function space_at(s, at)
  local i = at
  while i <= #s do
    local c = s:match("^[%z\1-\127\194-\244][\128-\191]*", i) or s:sub(i, i)
    if strings.SPACE[c] then return i, i + #c - 1 end
    i = i + #c
  end
end

local function words(env, s, most)
  local parts, n = {}, 0
  local rest = strings.lstrip(s)
  env:spend(#s / 4)
  while rest ~= "" and (most < 0 or n < most) do
    local i = space_at(rest, 1)
    if not i then break end
    n = n + 1
    parts[n] = rest:sub(1, i - 1)
    rest = strings.lstrip(rest:sub(i))
    env:spend(#rest / 64)
  end
  if rest ~= "" then parts[n + 1] = most >= 0 and n >= most and rest or strings.rstrip(rest) end
  return pieces(env, parts)
end

function str.split(env, s, args, named)
  local sep, most = read("split", args, named, { "sep", "maxsplit" })
  most = whole(most, -1)
  if sep == nil or sep == NONE then return words(env, s, most) end
  if type(sep) ~= "string" then fail("must be str or None, not %s", values.type_name(sep)) end
  if sep == "" then fail "empty separator" end
  return cut(env, s, sep, most)
end

function str.rsplit(env, s, args, named)
  local sep, most = read("rsplit", args, named, { "sep", "maxsplit" })
  most = whole(most, -1)
  if sep == nil or sep == NONE then
    local all = words(env, s, -1)
    if most < 0 or all.n <= most + 1 then return all end
    local parts, rest = {}, strings.rstrip(s)
    for i = all.n, all.n - most + 1, -1 do
      env:spend(#rest / 16)
      parts[most - all.n + i + 1] = all[i]
      rest = strings.rstrip(rest:sub(1, #rest - #all[i]))
    end
    parts[1] = rest
    return pieces(env, parts)
  end
  if type(sep) ~= "string" then fail("must be str or None, not %s", values.type_name(sep)) end
  if sep == "" then fail "empty separator" end
  -- Cut from the right, where separators that overlap are found from: as the text backwards is cut from the left.
  env:spend(#s / 4)
  local parts = cut(env, s:reverse(), sep:reverse(), most)
  local turned = {}
  for i = parts.n, 1, -1 do turned[#turned + 1] = parts[i]:reverse() end
  return pieces(env, turned)
end

function str.splitlines(env, s, args, named)
  local keep = read("splitlines", args, named, { "keepends" })
  return pieces(env, strings.lines(s, keep ~= nil and values.truth(keep)))
end

local function affix(name, matches)
  return function(_, s, args)
    local first = args[1]
    if args.n < 1 then fail("%s() takes at least 1 argument (0 given)", name) end
    local from, to = whole(args[2], 0), whole(args[3], nil)
    if args.n > 1 then
      local n = strings.length(s)
      if from < 0 then from = math.max(0, from + n) end
      to = to == nil and n or to < 0 and math.max(0, to + n) or math.min(to, n)
      if from > n or from > to then return false end
      s = strings.slice(s, from, to, 1)
    end
    if type(first) == "table" and first.kind == "tuple" then
      for i = 1, first.n do
        if type(first[i]) ~= "string" then fail("tuple for %s must only contain str, not %s", name, values.type_name(first[i])) end
        if matches(s, first[i]) then return true end
      end
      return false
    end
    if type(first) ~= "string" then fail("%s first arg must be str or a tuple of str, not %s", name, values.type_name(first)) end
    return matches(s, first)
  end
end
str.startswith = affix("startswith", function(s, a) return s:sub(1, #a) == a end)
str.endswith = affix("endswith", function(s, a) return a == "" or s:sub(-#a) == a end)

function str.removeprefix(_, s, args)
  local a = text("removeprefix", args[1] == nil and NONE or args[1])
  return s:sub(1, #a) == a and s:sub(#a + 1) or s
end
function str.removesuffix(_, s, args)
  local a = text("removesuffix", args[1] == nil and NONE or args[1])
  return a ~= "" and s:sub(-#a) == a and s:sub(1, -#a - 1) or s
end

--- s with `old` replaced, `most` times at most.
local function replace(env, s, old, new, most)
  if old == "" then
    local out, n = {}, 0
    env:spend(#s)
    for c in s:gmatch "[%z\1-\127\194-\244][\128-\191]*" do
      if most < 0 or n < most then
        out[#out + 1] = new
        n = n + 1
      end
      out[#out + 1] = c
    end
    if most < 0 or n < most then out[#out + 1] = new end
    env:room(#s + #out * #new)
    return table.concat(out)
  end
  local out, at, n, size = {}, 1, 0, 0
  while most < 0 or n < most do
    local i, e = strings.find(s, old, at)
    if not i then break end
    n = n + 1
    size = size + i - at + #new
    env:spend(1)
    if size > 2 ^ 20 and n % 4096 == 1 then env:room(size) end
    out[#out + 1] = s:sub(at, i - 1)
    out[#out + 1] = new
    at = e + 1
  end
  out[#out + 1] = s:sub(at)
  env:room(size + #s)
  return table.concat(out)
end

function str.replace(env, s, args, named)
  local old, new, most = read("replace", args, named, { "old", "new", "count" }, 2)
  return replace(env, s, text("replace", old), text("replace", new), whole(most, -1))
end

function str.join(env, s, args)
  local items = values.items(args[1] == nil and NONE or args[1], env)
  local size = 0
  for i = 1, items.n do
    if type(items[i]) ~= "string" then fail("sequence item %d: expected str instance, %s found", i - 1, values.type_name(items[i])) end
    size = size + #items[i] + #s
  end
  env:spend(items.n)
  env:room(size)
  return table.concat(items, s, 1, items.n)
end

-- Where a text is found, in characters, or -1.
local function find(s, args, name, last)
  local what = text(name, args[1] == nil and NONE or args[1])
  local n = strings.length(s)
  local function place(v, default)
    local i = whole(v, default)
    return i < 0 and math.max(0, i + n) or i
  end
  local from, to = place(args[2], 0), math.min(place(args[3], n), n)
  if from > to then return -1 end
  local part = strings.slice(s, from, to, 1)
  local at = strings.find(part, what)
  while last and at do
    local more = strings.find(part, what, at + 1)
    if not more then break end
    values.spend(1)
    at = more
  end
  if not at then return -1 end
  return from + strings.length(part:sub(1, at - 1))
end
function str.find(_, s, args) return find(s, args, "find") end
function str.rfind(_, s, args) return find(s, args, "rfind", true) end
function str.index(_, s, args)
  local i = find(s, args, "index")
  if i < 0 then fail "substring not found" end
  return i
end
function str.rindex(_, s, args)
  local i = find(s, args, "rindex", true)
  if i < 0 then fail "substring not found" end
  return i
end

function str.count(_, s, args)
  local what = text("count", args[1] == nil and NONE or args[1])
  if what == "" then return strings.length(s) + 1 end
  local n, at = 0, 1
  while true do
    local i, e = strings.find(s, what, at)
    if not i then return n end
    values.spend(1)
    n, at = n + 1, e + 1
  end
end

local function parted(s, args, last)
  local sep = text("partition", args[1] == nil and NONE or args[1])
  if sep == "" then fail "empty separator" end
  local i, e = strings.find(s, sep)
  while last and i do
    local a, b = strings.find(s, sep, i + 1)
    if not a then break end
    values.spend(1)
    i, e = a, b
  end
  if not i then return last and values.tuple("", "", s) or values.tuple(s, "", "") end
  return values.tuple(s:sub(1, i - 1), sep, s:sub(e + 1))
end
function str.partition(_, s, args) return parted(s, args, false) end
function str.rpartition(_, s, args) return parted(s, args, true) end

local function side(name, left, right)
  str[name] = function(env, s, args)
    local width, fill = whole(args[1], nil), args[2] or " "
    if not width then fail("%s expected at least 1 argument, got 0", name) end
    if type(fill) ~= "string" or strings.length(fill) ~= 1 then fail "The fill character must be exactly one character long" end
    local n = width - strings.length(s)
    if n <= 0 then return s end
    env:room(n * #fill)
    local a = left and right and math.floor(n / 2) + (n % 2 == 1 and width % 2 == 1 and 1 or 0) or left and n or 0
    return fill:rep(a) .. s .. fill:rep(n - a)
  end
end
side("ljust", false, true)
side("rjust", true, false)
side("center", true, true)

function str.zfill(env, s, args)
  local n = whole(args[1], 0) - strings.length(s)
  if n <= 0 then return s end
  env:room(n)
  local sign = s:match "^[-+]" or ""
  return sign .. ("0"):rep(n) .. s:sub(#sign + 1)
end

function str.swapcase(_, s)
  return (s:gsub("[%z\1-\127\194-\244][\128-\191]*", function(c) return strings.upper(c) ~= c and strings.upper(c) or strings.lower(c) end))
end

-- What a text is, of characters all alike.
local function all(pattern, wide)
  return function(_, s)
    if s == "" then return false end
    for c in s:gmatch "[%z\1-\127\194-\244][\128-\191]*" do
      if #c == 1 and not c:find(pattern) or #c > 1 and not (wide and wide(c)) then return false end
    end
    return true
  end
end
str.isdigit = all "%d"
str.isdecimal = all "%d"
str.isnumeric = all "%d"
str.isalpha = all("%a", strings.is_letter)
str.isalnum = all("%w", strings.is_letter)
function str.isspace(_, s) return s ~= "" and strings.strip(s) == "" end
function str.isascii(_, s) return strings.is_ascii(s) end
function str.islower(_, s) return strings.lower(s) == s and strings.upper(s) ~= s end
function str.isupper(_, s) return strings.upper(s) == s and strings.lower(s) ~= s end
function str.format(env, s, args, named) return require("tessera.hf.jinja.format").braces(env, s, args, named) end
function str.format_map(env, s, args)
  local named = {}
  local d = args[1]
  if type(d) ~= "table" or d.kind ~= "dict" then fail "format_map() needs a mapping" end
  for i = 1, d.n do named[i] = { d.keys[i], values.get(d, d.keys[i]) } end
  return require("tessera.hf.jinja.format").braces(env, s, { n = 0 }, named)
end

-- ---- lists and tuples
function list.index(_, l, args)
  for i = 1, l.n do
    if values.equal(l[i], args[1]) then return i - 1 end
  end
  if l.kind == "tuple" then fail "tuple.index(x): x not in tuple" end
  fail("%s is not in list", print_.repr(args[1] == nil and NONE or args[1]))
end
function list.count(_, l, args)
  local n = 0
  for i = 1, l.n do
    if values.equal(l[i], args[1]) then n = n + 1 end
  end
  return n
end
function list.copy(_, l) return l end

-- ---- dictionaries
local function view(d, k, each)
  local out = { n = d.n }
  for i = 1, d.n do out[i] = each(d.keys[i]) end
  return values.list(out, k)
end
function dict.items(env, d)
  env:spend(d.n)
  return view(d, "dict_items", function(key) return values.tuple(key, values.get(d, key)) end)
end
function dict.keys(env, d)
  env:spend(d.n)
  return view(d, "dict_keys", function(key) return key end)
end
function dict.values(env, d)
  env:spend(d.n)
  return view(d, "dict_values", function(key) return values.get(d, key) end)
end
function dict.get(_, d, args, named)
  if #named > 0 then fail "dict.get() takes no keyword arguments" end
  if args.n < 1 or args.n > 2 then fail("get expected at %s, got %d", args.n < 1 and "least 1 argument" or "most 2 arguments", args.n) end
  local v = values.get(d, args[1])
  if v ~= nil then return v end
  return args[2] == nil and NONE or args[2]
end
function dict.copy(_, d) return d end

return { str = str, list = list, tuple = { index = list.index, count = list.count }, dict = dict, range = { index = list.index, count = list.count }, replace = replace,
  cycler = {
    next = function(_, c)
      local v = c[c.at]
      c.at = c.at % c.n + 1
      return v
    end,
    reset = function(_, c)
      c.at = 1
      return NONE
    end,
  } }
