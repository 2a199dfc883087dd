-- Values as Python's str and repr print them.

local values = require "tessera.hf.jinja.values"
local kind, fail = values.kind, values.fail
local print_ = {}

local DEEPEST = 200

--- The shortest text that reads as v, as Python's repr has it.
function print_.float(v)
  if v ~= v then return "nan" elseif v == math.huge then return "inf" elseif v == -math.huge then return "-inf" end
  if v == 0 then return 1 / v < 0 and "-0.0" or "0.0" end
  local text
  for p = 0, 16 do
    text = ("%." .. p .. "e"):format(v)
    if tonumber(text) == v then break end
  end
  local sign, digits, exponent = text:match "^(-?)([%d.]+)e([-+]%d+)$"
  digits, exponent = digits:gsub("%.", ""), tonumber(exponent)
  digits = digits:gsub("0+$", "")
  if digits == "" then digits = "0" end
  if exponent < -4 or exponent >= 16 then
    local rest = digits:sub(2)
    return ("%s%s%se%s%02d"):format(sign, digits:sub(1, 1), rest ~= "" and "." .. rest or "", exponent < 0 and "-" or "+", math.abs(exponent))
  end
  if exponent < 0 then return sign .. "0." .. ("0"):rep(-exponent - 1) .. digits end
  if #digits <= exponent + 1 then return sign .. digits .. ("0"):rep(exponent + 1 - #digits) .. ".0" end
  return sign .. digits:sub(1, exponent + 1) .. "." .. digits:sub(exponent + 2)
end

-- Code points that repr does not print as they are, beside those below 160.
local HIDDEN = { { 0xa0, 0xa0 }, { 0xad, 0xad }, { 0x600, 0x605 }, { 0x61c, 0x61c }, { 0x6dd, 0x6dd }, { 0x70f, 0x70f }, { 0x1680, 0x1680 },
  { 0x180e, 0x180e }, { 0x2000, 0x200f }, { 0x2028, 0x202f }, { 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0xd800, 0xf8ff }, { 0xfeff, 0xfeff },
  { 0xfff0, 0xfffb }, { 0xfffe, 0xffff }, { 0xe0000, 0xe00ff }, { 0xf0000, 0x10ffff } }

local function is_hidden(code)
  if code < 160 then return true end
  for _, r in ipairs(HIDDEN) do
    if code >= r[1] and code <= r[2] then return true end
  end
  return false
end

local SHORT = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\" }

function print_.quoted(s)
  local quote = s:find("'", 1, true) and not s:find('"', 1, true) and '"' or "'"
  local out = s:gsub("[%c\\'\127]", function(c)
    if c == "'" then return quote == "'" and "\\'" or c end
    return SHORT[c] or ("\\x%02x"):format(c:byte())
  end)
  if out:find "[\128-\255]" then
    local strings = require "tessera.hf.jinja.strings"
    out = out:gsub("[\194-\244][\128-\191]+", function(c)
      local code = strings.code(c)
      if not is_hidden(code) then return c end
      return (code < 256 and "\\x%02x" or code < 65536 and "\\u%04x" or "\\U%08x"):format(code)
    end)
  end
  return quote .. out .. quote
end

local repr

local function concat(parts)
  local size = 0
  for _, s in ipairs(parts) do size = size + #s + 2 end
  values.room(size)
  return table.concat(parts, ", ")
end

local function joined(v, env, depth)
  local parts = {}
  for i = 1, v.n do
    parts[i] = repr(v[i], env, depth)
  end
  return concat(parts)
end

function repr(v, env, depth)
  depth = (depth or 0) + 1
  if depth > DEEPEST then fail("maximum recursion depth exceeded while getting the repr of an object") end
  if env then env:spend(1) end
  local k = kind(v)
  if k == "str" then
    if env then env:grows(v, "[%c\\'\127-\255]", 3) end
    return print_.quoted(v)
  end
  if k == "markup" then return "Markup(" .. repr(v.s, env, depth) .. ")" end
  if k == "int" then return ("%.0f"):format(v) end
  if k == "bool" then return v and "True" or "False" end
  if k == "none" then return "None" end
  if k == "float" then return print_.float(v.v) end
  if k == "undefined" then return "Undefined" end
  if k == "list" then return "[" .. joined(v, env, depth) .. "]" end
  if k == "tuple" then return "(" .. joined(v, env, depth) .. (v.n == 1 and ",)" or ")") end
  if k == "dict" then
    local parts = {}
    for i = 1, v.n do parts[i] = repr(v.keys[i], env, depth) .. ": " .. repr(values.get(v, v.keys[i]), env, depth) end
    return "{" .. concat(parts) .. "}"
  end
  if k == "dict_keys" or k == "dict_values" or k == "dict_items" then return k .. "([" .. joined(v, env, depth) .. "])" end
  if k == "range" then
    return v.step == 1 and ("range(%.0f, %.0f)"):format(v.start, v.stop) or ("range(%.0f, %.0f, %.0f)"):format(v.start, v.stop, v.step)
  end
  if k == "namespace" then return "<Namespace " .. repr(v.dict, env, depth) .. ">" end
  if k == "macro" then return v.name and ("<Macro %s>"):format(print_.quoted(v.name)) or "<Macro anonymous>" end
  if k == "loop" then return ("<LoopContext %d/%d>"):format(v.at, v.items.n) end
  -- With a place in memory in Python, which has no meaning.
  return ("<%s%s>"):format(values.type_name(v), v.name and " " .. v.name or "")
end
print_.repr = repr

function print_.str(v, env)
  if type(v) == "string" then return v end
  if type(v) == "table" and v.kind == "undefined" then return "" end
  if type(v) == "table" and v.kind == "markup" then return v.s end
  local text = repr(v, env)
  if env then env:spend(#text / 16) end
  return text
end

return print_
