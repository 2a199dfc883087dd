-- Text that is safe: what `safe` and `e` give. It is text like any other until plain text is joined to it by `+`, `%`, or a method, and that is
-- escaped then, as markupsafe does. A value {kind = "markup", s}; whoever does not know it is given the text (markup.text).

local values = require "tessera.hf.jinja.values"

local markup = {}

local HTML = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&#39;", ['"'] = "&#34;" }

function markup.of(s) return { kind = "markup", s = s } end
function markup.is(v) return type(v) == "table" and v.kind == "markup" end

--- The text of safe text; all else as it is.
function markup.text(v)
  if type(v) == "table" and v.kind == "markup" then return v.s end
  return v
end

--- A text as it stands among safe ones, by how the caller makes text of a value.
function markup.escape(v, str)
  if markup.is(v) then return v.s end
  return ((str and str(v) or v):gsub("[&<>'\"]", HTML))
end

local DEEPEST = 200

-- A value whose text is escaped; numbers and the like have nothing to escape.
local function escaped(v, depth)
  depth = (depth or 0) + 1
  if depth > DEEPEST then values.fail "maximum recursion depth exceeded" end
  if type(v) == "string" then
    values.room(#v * 5)
    return markup.escape(v)
  end
  values.spend(1 + (type(v) == "table" and v.n or 0))
  if type(v) == "table" and (v.kind == "list" or v.kind == "tuple") then
    local out = { n = v.n }
    for i = 1, v.n do out[i] = escaped(v[i], depth) end
    return values.list(out, v.kind)
  end
  if type(v) == "table" and v.kind == "dict" then
    local d = values.dict()
    for i = 1, v.n do values.set(d, v.keys[i], escaped(values.get(v, v.keys[i]), depth)) end
    return d
  end
  return markup.text(v)
end
markup.escaped = escaped

local function again(v) return type(v) == "string" and markup.of(v) or v end

--- a op b, of which one is safe, by what the operator is for plain values.
function markup.binary(env, op, a, b, plain)
  local x, y = markup.text(a), markup.text(b)
  if op == "+" and type(x) == "string" and type(y) == "string" then
    return markup.of(plain(env, op, markup.escape(a), markup.escape(b)))
  end
  if op == "%" and markup.is(a) then return again(plain(env, op, x, escaped(b))) end
  local v = plain(env, op, x, y)
  return op == "*" and again(v) or v
end

local KEEPS, ESCAPES = {}, { join = true, format = true, format_map = true }
for word in ("capitalize title lower upper strip lstrip rstrip ljust rjust center zfill expandtabs swapcase casefold removeprefix removesuffix"):gmatch "%S+" do
  KEEPS[word] = true
end
local LISTS = { split = true, rsplit = true, splitlines = true, partition = true, rpartition = true }

--- A method of safe text, of the one of its text.
function markup.method(name, method)
  if type(method) ~= "table" or not method.call then return method end
  return { kind = "method", name = name, call = function(env, args, named)
    local own, list = { n = args.n }, {}
    for i = 1, args.n do
      own[i] = (ESCAPES[name] or name == "replace" and i == 2) and escaped(args[i]) or markup.text(args[i])
    end
    for i, p in ipairs(named) do list[i] = { p[1], ESCAPES[name] and escaped(p[2]) or markup.text(p[2]) } end
    local v = method.call(env, own, list)
    if KEEPS[name] or ESCAPES[name] or name == "replace" then return again(v) end
    if LISTS[name] then
      local out = { n = v.n }
      for i = 1, v.n do out[i] = again(v[i]) end
      return values.list(out, v.kind)
    end
    return v
  end }
end

-- Filters whose text stays safe, and those that give what they were given.
local STAYS, GIVES = {}, { default = true, d = true }
for word in ("string trim upper lower capitalize center indent reverse format truncate"):gmatch "%S+" do STAYS[word] = true end

--- A filter over a value, which or whose arguments may be safe. str: how text is made of a value.
function markup.filter(name, f, env, v, args, named, str)
  if name == "safe" then return markup.of(markup.text(str(v, env))) end
  if name == "e" or name == "escape" then return markup.is(v) and v or markup.of(f(env, v, args, named)) end
  if name == "forceescape" then return markup.of(f(env, markup.text(v), args, named)) end
  if GIVES[name] then return f(env, v, args, named) end
  local safe = markup.is(v)
  local own, list = { n = args.n }, {}
  for i = 1, args.n do own[i] = safe and name == "format" and escaped(args[i]) or markup.text(args[i]) end
  for i, p in ipairs(named) do list[i] = { p[1], safe and name == "format" and escaped(p[2]) or markup.text(p[2]) } end
  local out = f(env, markup.text(v), own, list)
  return safe and STAYS[name] and again(out) or out
end

return markup
