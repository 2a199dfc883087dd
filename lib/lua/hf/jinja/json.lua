-- JSON as Python's json.dumps writes it, and read with the order of its names kept.

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local strings = require "tessera.hf.jinja.strings"

local json = {}
local fail = values.fail
local DEEPEST = 200

local SHORT = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f" }

local function quoted(s, ascii)
  s = s:gsub('[%z\1-\31"\\]', function(c) return SHORT[c] or ("\\u%04x"):format(c:byte()) end)
  if ascii then
    s = s:gsub("\127", "\127"):gsub("[\194-\244][\128-\191]+", function(c)
      local code = strings.code(c)
      if code < 0x10000 then return ("\\u%04x"):format(code) end
      code = code - 0x10000
      return ("\\u%04x\\u%04x"):format(0xd800 + math.floor(code / 1024), 0xdc00 + code % 1024)
    end)
  end
  return '"' .. s .. '"'
end

local function float(v)
  if v ~= v then return "NaN" end
  if math.abs(v) == math.huge then return v > 0 and "Infinity" or "-Infinity" end
  return print_.float(v)
end

-- The name of an entry as JSON has it.
local function name_of(key)
  local k = values.kind(key)
  if k == "str" then return key end
  if k == "int" then return ("%.0f"):format(key) elseif k == "bool" then return key and "true" or "false" end
  if k == "none" then return "null" elseif k == "float" then return float(key.v) end
  fail("keys must be str, int, float, bool or None, not %s", values.type_name(key))
end

--- o: {ascii, indent (text of one step), item (between items), colon, sort}
function json.write(env, v, o)
  local out, n, size = {}, 0, 0
  local function put(s)
    n = n + 1
    out[n] = s
    size = size + #s
    env:spend(1 + #s / 16)
    if size > 2 ^ 20 and n % 256 == 1 then env:room(size) end
  end
  local function text(s)
    env:grows(s, o.ascii and '[%c"\\\127-\255]' or '[%c"\\]', 5)
    return quoted(s, o.ascii)
  end
  local write
  local function group(open, close, count, depth, each)
    if count == 0 then return put(open .. close) end
    if o.indent then env:room(#o.indent * depth) end
    local line = o.indent and "\n" .. o.indent:rep(depth) or ""
    put(open)
    put(line)
    for i = 1, count do
      if i > 1 then
        put(o.item)
        put(line)
      end
      each(i)
    end
    if o.indent then put("\n" .. o.indent:rep(depth - 1)) end
    put(close)
  end
  function write(x, depth)
    if depth > DEEPEST then fail "maximum recursion depth exceeded while encoding a JSON object" end
    local k = values.kind(x)
    if k == "str" or k == "markup" then put(text(k == "str" and x or x.s))
    elseif k == "int" then put(("%.0f"):format(x))
    elseif k == "bool" then put(x and "true" or "false")
    elseif k == "none" then put "null"
    elseif k == "float" then put(float(x.v))
    elseif k == "list" or k == "tuple" then
      group("[", "]", x.n, depth, function(i) write(x[i], depth + 1) end)
    elseif k == "dict" then
      local keys = {}
      env:spend(x.n)
      for i = 1, x.n do keys[i] = x.keys[i] end
      if o.sort then table.sort(keys, function(a, b) return values.less(a, b) end) end
      group("{", "}", x.n, depth, function(i)
        put(text(name_of(keys[i])))
        put(o.colon)
        write(values.get(x, keys[i]), depth + 1)
      end)
    else
      fail("Object of type %s is not JSON serializable", values.type_name(x))
    end
  end
  write(v, 1)
  env:room(size)
  return table.concat(out)
end

-- ---- reading
local LITERAL = { ["true"] = true, ["false"] = false, null = values.NONE, NaN = values.float(0 / 0), Infinity = values.float(math.huge) }
local ESCAPE = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

--- The value of a text; what fails is an error with its byte.
function json.read(text, what)
  local at = 1
  local value
  local function bad(why) fail("%s: no JSON: %s at byte %d", what or "json", why, at - 1) end
  local function space() at = text:find("[^ \t\r\n]", at) or #text + 1 end
  local function string()
    local parts = {}
    at = at + 1
    while true do
      local i = text:find('["\\%z\1-\31]', at)
      if not i then bad "a text has no end" end
      parts[#parts + 1] = text:sub(at, i - 1)
      local c = text:sub(i, i)
      at = i
      if c == '"' then
        at = i + 1
        return table.concat(parts)
      end
      if c ~= "\\" then bad "a control character" end
      local e = text:sub(i + 1, i + 1)
      if e == "u" then
        local code = tonumber(text:match("^%x%x%x%x", i + 2) or bad "four hexadecimal digits are needed", 16)
        at = i + 6
        if code >= 0xd800 and code < 0xdc00 then
          local low = tonumber(text:match("^\\u(%x%x%x%x)", at) or "0", 16)
          if low < 0xdc00 or low > 0xdfff then bad "half a character" end
          code = 0x10000 + (code - 0xd800) * 1024 + low - 0xdc00
          at = at + 6
        elseif code >= 0xdc00 and code < 0xe000 then bad "half a character" end
        parts[#parts + 1] = strings.char(code)
      else
        parts[#parts + 1] = ESCAPE[e] or bad "an unknown escape"
        at = i + 2
      end
    end
  end
  local function group(close, one)
    at = at + 1
    space()
    if text:sub(at, at) == close then
      at = at + 1
      return
    end
    while true do
      one()
      space()
      local c = text:sub(at, at)
      if c ~= "," and c ~= close then bad("',' or '" .. close .. "' is missing") end
      at = at + 1
      if c == close then return end
    end
  end
  function value(depth)
    if depth > DEEPEST then bad "arrays and objects stand too deep" end
    space()
    local c = text:sub(at, at)
    if c == '"' then return string() end
    if c == "[" then
      local list, n = {}, 0
      group("]", function()
        n = n + 1
        list[n] = value(depth + 1)
      end)
      list.n = n
      return values.list(list)
    elseif c == "{" then
      local d = values.dict()
      group("}", function()
        space()
        if text:sub(at, at) ~= '"' then bad "a name is missing" end
        local key = string()
        space()
        if text:sub(at, at) ~= ":" then bad "':' is missing" end
        at = at + 1
        values.set(d, key, value(depth + 1))
      end)
      return d
    end
    local word = text:match("^[%a]+", at)
    if word then
      if LITERAL[word] == nil then bad "an unknown word" end
      at = at + #word
      return LITERAL[word]
    end
    local int, frac, exp = text:match("^(-?%d+)(%.?%d*)([eE]?[-+]?%d*)", at)
    if not int or int:find "^-?0%d" then bad "a value is missing" end
    if not frac:find "^%.%d" then frac = "" end
    if frac == "" then exp = text:match("^[eE][-+]?%d+", at + #int) or "" elseif not exp:find "%d" then exp = "" end
    at = at + #int + #frac + #exp
    local v = strings.number(int .. frac .. exp)
    if frac ~= "" or exp ~= "" or math.abs(v) > 2 ^ 53 then return values.float(v) end
    return v + 0
  end
  local v = value(1)
  space()
  if at <= #text then bad "something stands behind the value" end
  return v
end

return json
