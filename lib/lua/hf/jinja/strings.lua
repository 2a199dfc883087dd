-- Text by code points, as Python counts it: text that is ASCII alone takes the short way.

local ffi = require "ffi"
local core = require "tessera.core"
local values = require "tessera.hf.jinja.values"
local strings = {}

ffi.cdef "void *memmem(const void *in, size_t nin, const void *what, size_t nwhat);"

local CHAR = "[%z\1-\127\194-\244][\128-\191]*"

local function is_ascii(s) return not s:find "[\128-\255]" end
strings.is_ascii = is_ascii

function strings.code(c)
  local a, b, d, e = c:byte(1, 4)
  if a < 0x80 then return a end
  if a < 0xe0 then return (a - 0xc0) * 64 + b - 128 end
  if a < 0xf0 then return ((a - 0xe0) * 64 + b - 128) * 64 + d - 128 end
  return (((a - 0xf0) * 64 + b - 128) * 64 + d - 128) * 64 + e - 128
end

function strings.char(code)
  local floor, char = math.floor, string.char
  if code < 0x80 then return char(code) end
  if code < 0x800 then return char(0xc0 + floor(code / 64), 128 + code % 64) end
  if code < 0x10000 then return char(0xe0 + floor(code / 4096), 128 + floor(code / 64) % 64, 128 + code % 64) end
  return char(0xf0 + floor(code / 262144), 128 + floor(code / 4096) % 64, 128 + floor(code / 64) % 64, 128 + code % 64)
end

function strings.length(s)
  if is_ascii(s) then return #s end
  local _, n = s:gsub("[^\128-\191]", "")
  return n
end

function strings.chars(s, env)
  if env then env:spend(#s) end
  local out, n = {}, 0
  for c in s:gmatch(CHAR) do
    n = n + 1
    out[n] = c
  end
  out.n = n
  return values.list(out)
end

-- ---- white space
local SPACE = {}
for code in ("9 10 11 12 13 28 29 30 31 32 133 160 5760 8192 8193 8194 8195 8196 8197 8198 8199 8200 8201 8202 8232 8233 8239 8287 12288"):gmatch "%d+" do
  SPACE[strings.char(tonumber(code))] = true
end
strings.SPACE = SPACE

-- The last character, or "".
local function last(s)
  local n = #s
  local i = n
  while i > 1 and s:byte(i) >= 128 and s:byte(i) < 192 do i = i - 1 end
  return s:sub(i, n)
end

local function set_of(chars)
  if not chars then return SPACE end
  local set = {}
  for c in chars:gmatch(CHAR) do set[c] = true end
  return set
end

function strings.lstrip(s, chars)
  local set, at = set_of(chars), 1
  while at <= #s do
    local c = s:match(CHAR, at)
    if not c or not set[c] then break end
    at = at + #c
  end
  return s:sub(at)
end

function strings.rstrip(s, chars)
  local set, n = set_of(chars), #s
  while n > 0 do
    local i = n
    while i > 1 and s:byte(i) >= 128 and s:byte(i) < 192 do i = i - 1 end
    if not set[s:sub(i, n)] then break end
    n = i - 1
  end
  return s:sub(1, n)
end

function strings.strip(s, chars) return strings.rstrip(strings.lstrip(s, chars), chars) end
strings.last = last

--- Where a text stands in another, from byte `at` on: its first and last byte, or nothing. string.find compares all of a long text at each place.
function strings.find(s, what, at)
  at = at or 1
  if #what < 32 then return s:find(what, at, true) end
  if at > #s then return nil end
  local from = ffi.cast("const char *", s)
  local found = ffi.C.memmem(from + at - 1, #s - at + 1, what, #what)
  if found == nil then return nil end
  local i = tonumber(ffi.cast("const char *", found) - from) + 1
  return i, i + #what - 1
end

-- ---- cases
function strings.lower(s) return is_ascii(s) and s:lower() or core.text_case(s, "lower") end
function strings.upper(s) return is_ascii(s) and s:upper() or core.text_case(s, "upper") end
local function first_upper(c) return is_ascii(c) and c:upper() or core.text_case(c, "title") end

function strings.capitalize(s)
  local c = s:match(CHAR) or ""
  return first_upper(c) .. strings.lower(s:sub(#c + 1))
end

function strings.is_letter(c) return #c == 1 and c:find "%a" ~= nil or #c > 1 and (strings.upper(c) ~= c or strings.lower(c) ~= c) end

--- str.title: letters behind letters are small.
function strings.title(s)
  local out, inside = {}, false
  for c in s:gmatch(CHAR) do
    out[#out + 1] = inside and strings.lower(c) or first_upper(c)
    inside = strings.is_letter(c)
  end
  return table.concat(out)
end

--- Lines without their ends, as str.splitlines; with them if `keep`.
function strings.lines(s, keep)
  local out, line = {}, {}
  local at, n, from = 1, #s, 1
  local _ = line
  while at <= n do
    local c = s:match("^\r\n", at) or s:match("^[\n\r\11\12\28\29\30]", at) or s:match("^\194\133", at) or s:match("^\226\128[\168\169]", at)
    if c then
      out[#out + 1] = s:sub(from, at - 1 + (keep and #c or 0))
      at = at + #c
      from = at
    else
      at = (s:find("[\n\r\11\12\28\29\30\194\226]", at + 1)) or n + 1
    end
  end
  if from <= n then out[#out + 1] = s:sub(from) end
  return out
end

--- From code point `from` (0 on) to before `to`, in steps: `index` of a list of characters.
function strings.slice(s, from, to, step, n)
  if step == 1 and is_ascii(s) then return s:sub(from + 1, math.max(to, from)) end
  values.spend(#s)
  local out, chars = {}, strings.chars(s)
  local i = from
  while (step > 0 and i < to) or (step < 0 and i > to) do
    out[#out + 1] = chars[i + 1]
    i = i + step
  end
  return table.concat(out), n
end

--- The number that a text is, as tonumber has it, which does not read exponents of many digits.
function strings.number(text)
  return tonumber((text:gsub("([eE][-+]?)%d%d%d%d%d+$", "%19999")))
end

return strings
