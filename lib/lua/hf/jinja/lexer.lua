-- Templates as tokens, with white space removed as transformers sets it: the first newline behind a block, and what stands in front
-- of a block on its line. What {%- and -%} say comes first.

local values = require "tessera.hf.jinja.values"
local strings = require "tessera.hf.jinja.strings"

local OPERATOR = { ["+"] = "add", ["-"] = "sub", ["/"] = "div", ["//"] = "floordiv", ["*"] = "mul", ["%"] = "mod", ["**"] = "pow",
  ["~"] = "tilde", ["["] = "lbracket", ["]"] = "rbracket", ["("] = "lparen", [")"] = "rparen", ["{"] = "lbrace", ["}"] = "rbrace",
  ["=="] = "eq", ["!="] = "ne", [">"] = "gt", [">="] = "gteq", ["<"] = "lt", ["<="] = "lteq", ["="] = "assign", ["."] = "dot",
  [":"] = "colon", ["|"] = "pipe", [","] = "comma", [";"] = "semicolon" }
local CLOSES = { ["("] = ")", ["["] = "]", ["{"] = "}" }
local OPENS = { [")"] = true, ["]"] = true, ["}"] = true }
local ESCAPE = { a = "\a", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v", ["\\"] = "\\", ["'"] = "'", ['"'] = '"', ["\n"] = "" }
local HEX = { x = 2, u = 4, U = 8 }

local function fail(line, what, ...) error({ jinja = true, line = line, message = select("#", ...) > 0 and what:format(...) or what }, 0) end

local function unescape(s, line)
  if not s:find("\\", 1, true) then return s end
  local out, at = {}, 1
  while true do
    local i = s:find("\\", at, true)
    if not i then break end
    out[#out + 1] = s:sub(at, i - 1)
    local c = s:sub(i + 1, i + 1)
    local digits = HEX[c]
    at = i + 2
    if digits then
      local hex = s:match("^%x+", at) or ""
      if #hex < digits then fail(line, "a character \\%s needs %d hexadecimal digits", c, digits) end
      local code = tonumber(hex:sub(1, digits), 16)
      if code > 0x10ffff or (code >= 0xd800 and code < 0xe000) then fail(line, "\\%s%s is no character", c, hex:sub(1, digits)) end
      out[#out + 1] = strings.char(code)
      at = at + digits
    elseif c:find "[0-7]" then
      local oct = s:match("^[0-7][0-7]?[0-7]?", i + 1)
      out[#out + 1] = strings.char(tonumber(oct, 8))
      at = i + 1 + #oct
    elseif c == "N" then
      fail(line, "characters by their names (\\N) are not read")
    else
      out[#out + 1] = ESCAPE[c] or "\\" .. c
    end
  end
  out[#out + 1] = s:sub(at)
  return table.concat(out)
end

local function count(s)
  local _, n = s:gsub("\n", "")
  return n
end

local function number(s, at)
  local function digits(i)
    local _, e = s:find("^%d[%d_]*", i)
    if not e then return nil end
    while s:sub(e, e) == "_" do e = e - 1 end
    return e
  end
  local e = digits(at)
  local float = false
  if s:sub(at - 1, at - 1) ~= "." then
    local f = s:sub(e + 1, e + 1) == "." and digits(e + 2)
    local last = f or e
    if f then float = true end
    local _, x = s:find("^[eE][+-]?", last + 1)
    local p = x and digits(x + 1)
    if p then last, float = p, true end
    if float then return "float", values.float(strings.number((s:sub(at, last):gsub("_", "")))), last end
  end
  local prefix = s:match("^0[xXbBoO]", at)
  if prefix then
    local base = ({ x = 16, b = 2, o = 8 })[prefix:sub(2):lower()]
    local _, p = s:find(base == 16 and "^[%x_]+" or base == 2 and "^[01_]+" or "^[0-7_]+", at + 2)
    if p then return "integer", tonumber((s:sub(at + 2, p):gsub("_", "")), base), p end
  end
  if s:sub(at, at) == "0" then e = select(2, s:find("^0[0_]*", at)) end
  return "integer", tonumber((s:sub(at, e):gsub("_", ""))), e
end

--- The tokens of a template: {type, value, line}, the last of type "eof".
return function(source)
  local src = source:gsub("\r\n", "\n"):gsub("\r", "\n")
  if src:sub(-1) == "\n" then src = src:sub(1, -2) end
  local tokens, line, at, size = {}, 1, 1, #src
  local line_start = true -- whether what was last read ends a line
  local function add(kind, value) tokens[#tokens + 1] = { type = kind, value = value, line = line } end

  -- Text in front of a tag, and what its sign and place remove of it.
  local function text_before(text, sign, strips)
    if sign == "-" then return strings.rstrip(text) end
    if sign ~= "+" and strips then
      local tail = text:match "[^\n]*$"
      local whole = #tail == #text
      if (not whole or line_start) and tail ~= "" and strings.lstrip(tail) == "" then return text:sub(1, #text - #tail) end
    end
    return text
  end
  -- Behind %} or #} at `from`, whose sign stands before.
  local function skip_after(sign, from, newline)
    if sign == "-" then
      local rest = from
      while true do
        local c = src:match("^[%z\1-\127\194-\244][\128-\191]*", rest)
        if not c or not strings.SPACE[c] then break end
        rest = rest + #c
      end
      return rest
    end
    if newline and sign ~= "+" and src:sub(from, from) == "\n" then return from + 1 end
    return from
  end
  local function advance(to)
    line = line + count(src:sub(at, to - 1))
    line_start = src:sub(to - 1, to - 1) == "\n"
    at = to
  end

  -- What stands inside of {{ }} or {% %}.
  local function inside(close, kind, newline)
    local stack = {}
    while true do
      if at > size then
        return add("eof")
      end
      local _, e = src:find("^%s+", at)
      if e then
        advance(e + 1)
      else
        local c, two = src:sub(at, at), src:sub(at, at + 1)
        local sign = (c == "-" or (c == "+" and newline)) and src:sub(at + 1, at + 2) == close and c
        if #stack == 0 and (sign or two == close) then
          add(kind)
          local from = at + #close + (sign and 1 or 0)
          return advance(skip_after(sign or "", from, newline))
        elseif c:find "%d" then
          local t, v, last = number(src, at)
          if t == "integer" and math.abs(v) > 2 ^ 53 then fail(line, "a whole number beyond 2^53 is not computed here") end
          add(t, v)
          advance(last + 1)
        elseif c:find "[%a_\128-\255]" then
          local word = src:match("^[%w_\128-\255]+", at)
          add("name", word)
          advance(at + #word)
        elseif c == "'" or c == '"' then
          local i = at + 1
          while true do
            i = src:find("[\\" .. c .. "]", i)
            if not i then fail(line, "unexpected char '%s': a text has no end", c) end
            if src:sub(i, i) == c then break end
            i = i + 2
          end
          add("string", unescape(src:sub(at + 1, i - 1), line))
          advance(i + 1)
        else
          local op = OPERATOR[two] and two or OPERATOR[c] and c
          if not op then fail(line, "unexpected char '%s'", src:match("^[%z\1-\127\194-\244][\128-\191]*", at) or c) end
          if CLOSES[op] then stack[#stack + 1] = CLOSES[op]
          elseif OPENS[op] then
            local want = table.remove(stack)
            if not want then fail(line, "unexpected '%s'", op) end
            if want ~= op then fail(line, "unexpected '%s', expected '%s'", op, want) end
          end
          add(OPERATOR[op])
          advance(at + #op)
        end
      end
    end
  end

  local function raw(from)
    at = from
    local search = from
    while true do
      local i, e, s1, s2 = src:find("{%%([-+]?)%s*endraw%s*([-+]?)%%}", search)
      if not i then fail(line, "Missing end of raw directive") end
      local text = src:sub(at, i - 1)
      add("data", text_before(text, s1, true))
      return advance(skip_after(s2, e + 1, true))
    end
  end

  while at <= size do
    local i = src:find("{[{%%#]", at)
    if not i then
      add("data", src:sub(at))
      break
    end
    local tag = src:sub(i + 1, i + 1)
    local sign = src:match("^[-+]", i + 2) or ""
    local text = text_before(src:sub(at, i - 1), sign, tag ~= "{")
    if text ~= "" then add("data", text) end
    local body = i + 2 + #sign
    local _, e, s2 = src:find("^%s*raw%s*(-?)%%}", body)
    advance(i)
    if tag == "#" then
      local stop = src:find("#}", body, true)
      if not stop then fail(line, "Missing end of comment tag") end
      local s = stop > body and src:match("[-+]", stop - 1)
      s = s and src:sub(stop - 1, stop - 1) == s and s or ""
      advance(skip_after(s, stop + 2, true))
    elseif tag == "%" and e then
      line_start = false
      advance(e + 1)
      raw(skip_after(s2, e + 1, false))
    elseif tag == "%" then
      add "block_begin"
      advance(body)
      inside("%}", "block_end", true)
    else
      add "variable_begin"
      advance(body)
      inside("}}", "variable_end", false)
    end
  end
  add "eof"
  return tokens
end
