-- Text with places for values: Python's %, str.format, and dates.

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local strings = require "tessera.hf.jinja.strings"

local format = {}
local fail, number = values.fail, values.number

local function padded(env, text, width, left, zero)
  local n = width - strings.length(text)
  if n <= 0 then return text end
  env:room(n)
  if left then return text .. (" "):rep(n) end
  if zero then
    local sign = text:match "^[-+]" or ""
    return sign .. ("0"):rep(n) .. text:sub(#sign + 1)
  end
  return (" "):rep(n) .. text
end

local function whole(text)
  local n = tonumber(text ~= "" and text or "0")
  if n > 1e6 then fail "a width is too large" end
  return n
end

-- Pieces of a text, whose length is known before it is made.
local function pieces(env)
  local out, n, size = {}, 0, 0
  local function put(s)
    n, size = n + 1, size + #s
    out[n] = s
    env:spend(1)
  end
  return put, function()
    env:room(size)
    return table.concat(out)
  end
end

--- text % values: args a tuple; is_tuple: whether it was one; map: a dictionary, for %(name)s.
function format.percent(env, text, args, is_tuple, map)
  local put, whole_text = pieces(env)
  local at, used = 1, 0
  local function take()
    used = used + 1
    if used > args.n then fail "not enough arguments for format string" end
    return args[used]
  end
  while true do
    local i = text:find("%", at, true)
    if not i then break end
    put(text:sub(at, i - 1))
    local name, from = text:match("^%%%(([^)]*)%)()", i)
    local flags, width, precision, conv, stop = text:match("^([-+ #0]*)(%d*)(%.?%d*)[hlL]?(.)()", from or i + 1)
    if not conv then fail "incomplete format" end
    at = stop
    if conv == "%" then
      put("%")
    else
      local v
      if name then
        if not map then fail "format requires a mapping" end
        v = values.get(map, name)
        if v == nil then fail("%s", print_.quoted(name)) end
      else
        v = take()
      end
      local left, plus = flags:find("-", 1, true), flags:find("+", 1, true)
      local digits = precision ~= "" and whole(precision:sub(2)) or nil
      local s
      if conv == "s" or conv == "r" or conv == "a" then
        s = conv == "s" and print_.str(v, env) or print_.repr(v, env)
        if digits then s = strings.slice(s, 0, math.min(digits, strings.length(s)), 1) end
        s = padded(env, s, whole(width), left)
      elseif ("diuxXofFeEgG"):find(conv, 1, true) then
        local n, float = number(values.defined(v))
        if not n then
          fail(("diu"):find(conv, 1, true) and "%%%s format: a real number is required, not %s" or ("xXo"):find(conv, 1, true) and "%%%s format: an integer is required, not %s" or "must be real number, not %s%s",
            ("feEgGF"):find(conv, 1, true) and "" or conv, values.type_name(v))
        end
        if ("diu"):find(conv, 1, true) then
          n = n < 0 and math.ceil(n) or math.floor(n)
          s = ("%.0f"):format(math.abs(n))
          if digits then s = ("0"):rep(digits - #s) .. s end
          s = (n < 0 and "-" or plus and "+" or flags:find " " and " " or "") .. s
        elseif ("xXo"):find(conv, 1, true) then
          if float then fail("%%%s format: an integer is required, not float", conv) end
          s = (n < 0 and "-" or plus and "+" or "") .. ("%" .. conv):format(math.abs(n))
        else
          if digits and digits > 90 then fail "a precision is too large" end
          s = ("%" .. (plus and "+" or flags:find " " and " " or "") .. "." .. (digits or 6) .. conv):format(n)
        end
        s = padded(env, s, whole(width), left, flags:find("0", 1, true))
      elseif conv == "c" then
        s = padded(env, type(v) == "number" and strings.char(v) or print_.str(v), whole(width), left)
      else
        fail("unsupported format character '%s' (0x%x) at index %d", conv, conv:byte(), stop - 2)
      end
      put(s)
    end
  end
  put(text:sub(at))
  -- A list stands for a mapping as well, of which nothing need be taken.
  if not is_tuple and args.n == 1 and values.kind(args[1]) == "list" then map = args[1] end
  if not map and used < args.n then fail "not all arguments converted during string formatting" end
  return whole_text()
end

local function grouped(digits)
  local s = digits:reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (s:gsub("^,", ""))
end

-- A value as what stands behind the colon of a field says.
local function one(env, v, spec)
  if spec == "" then return print_.str(v, env) end
  local fill, align, rest = spec:match "^([%z\1-\127\194-\244][\128-\191]*)([<>=^])(.*)$"
  if not fill then
    align, rest = spec:match "^([<>=^]?)(.*)$"
    fill = " "
  end
  local sign, alternate, zero, width, comma, precision, conv = rest:match "^([-+ ]?)(#?)(0?)(%d*)(,?)(%.?%d*)(%a?%%?)$"
  if not sign or alternate ~= "" then fail "Invalid format specifier" end
  local n, float = number(v)
  local s
  if type(v) == "string" then
    if conv ~= "" and conv ~= "s" then fail("Unknown format code '%s' for object of type 'str'", conv) end
    s = precision ~= "" and strings.slice(v, 0, math.min(whole(precision:sub(2)), strings.length(v)), 1) or v
    if align == "" then align = "<" end
  elseif n and type(v) ~= "boolean" then
    local p = precision ~= "" and whole(precision:sub(2)) or nil
    if p and p > 90 then fail "a precision is too large" end
    local a = math.abs(n)
    if conv == "d" or (conv == "" and not float) then
      if float then fail "Unknown format code 'd' for object of type 'float'" end
      s = ("%.0f"):format(a)
    elseif conv == "x" or conv == "X" or conv == "o" then s = ("%" .. conv):format(a)
    elseif conv == "%" then s = ("%." .. (p or 6) .. "f%%"):format(a * 100)
    elseif conv == "" then s = p and ("%." .. p .. "g"):format(a) or print_.float(a)
    elseif ("feEgGF"):find(conv, 1, true) then s = ("%." .. (p or 6) .. conv):format(a)
    else fail("Unknown format code '%s'", conv) end
    if comma ~= "" then s = s:gsub("^%d+", grouped) end
    s = (n < 0 and "-" or sign ~= "-" and sign or "") .. s
    if align == "" then align = zero ~= "" and "=" or ">" end
    if zero ~= "" and fill == " " then fill = "0" end
  else
    fail("unsupported format string passed to %s.__format__", values.type_name(v))
  end
  local room = whole(width) - strings.length(s)
  if room <= 0 then return s end
  env:room(room * #fill)
  if align == "<" then return s .. fill:rep(room) end
  if align == "^" then return fill:rep(math.floor(room / 2)) .. s .. fill:rep(room - math.floor(room / 2)) end
  if align == "=" then
    local mark = s:match "^[-+ ]" or ""
    return mark .. fill:rep(room) .. s:sub(#mark + 1)
  end
  return fill:rep(room) .. s
end

--- str.format
function format.braces(env, text, args, named)
  local operators = require "tessera.hf.jinja.operators"
  local put, whole_text = pieces(env)
  local by_name, auto, at = {}, 0, 1
  for _, p in ipairs(named) do by_name[p[1]] = p[2] end
  while true do
    local i = text:find("[{}]", at)
    if not i then break end
    put(text:sub(at, i - 1))
    local c, two = text:sub(i, i), text:sub(i, i + 1)
    if two == "{{" or two == "}}" then
      put(c)
      at = i + 2
    elseif c == "}" then
      fail "Single '}' encountered in format string"
    else
      local field, stop = text:match("^{([^{}]*)}()", i)
      if not field then fail "a field of a format has no end" end
      at = stop
      local name, conv, spec = field:match "^([^!:]*)(!?[^:]*):?(.*)$"
      local first, rest = name:match "^([^.%[]*)(.*)$"
      local v
      if first == "" or first:find "^%d+$" then
        local k = first == "" and auto or tonumber(first)
        auto = auto + 1
        v = k < args.n and args[k + 1]
        if k >= args.n then fail "Replacement index %d out of range for positional args tuple" end
      else
        v = by_name[first]
        if v == nil then fail("%s", print_.quoted(first)) end
      end
      for dot, attr, item in rest:gmatch "(%.?)([^.%[%]]*)%[?([^.%[%]]*)%]?" do
        if dot ~= "" and attr ~= "" then v = operators.attribute(env, v, attr) end
        if item ~= "" then v = operators.item(env, v, tonumber(item) or item) end
      end
      if conv == "!r" then v = print_.repr(v, env) elseif conv == "!s" then v = print_.str(v, env) end
      put(one(env, v, spec))
    end
  end
  put(text:sub(at))
  return whole_text()
end

--- The time of the render, as strftime has it.
function format.time(env, form)
  env:grows(form, "%%.", 64)
  local known = "aAbBcdDeFgGhHIjklmMnpPrRsSTtuUVwWxXyYzZ%"
  local text = form:gsub("%%(%-?)(.)", function(minus, c)
    if c == "f" then return "000000" end
    if not known:find(c, 1, true) then return "%" .. minus .. c end
    local s = os.date("%" .. c, env.now)
    if minus == "-" then s = s:gsub("^[0 ]+(.)", "%1") end
    return s
  end)
  env:room(#text)
  return text
end

return format
