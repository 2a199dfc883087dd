-- Regular expressions as nodes (nodes.lua): what ECMA and Python have in common, without what looks around or back. Classes as \d
-- are of ASCII, and what is outside of them is of ASCII too where others differ in it, so what is made matches for all.

local core = require "tessera.core"
local nodes = require "tessera.hf.grammar.nodes"
local sets = require "tessera.hf.grammar.sets"
local times = require "tessera.hf.grammar.times"

local DEEPEST = 200

local ASCII = { { 0, 127 } }
local DIGIT = { { 48, 57 } }
local WORD = sets.of { { 48, 57 }, { 65, 90 }, { 97, 122 }, { 95, 95 } }
local SPACE = sets.of { { 9, 13 }, { 32, 32 } }
-- White space of Unicode, which \S must not be for anyone.
local WIDE = sets.of { { 9, 13 }, { 28, 32 }, { 0x85, 0x85 }, { 0xA0, 0xA0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 },
  { 0x202F, 0x202F }, { 0x205F, 0x205F }, { 0x3000, 0x3000 }, { 0xFEFF, 0xFEFF } }
local LINE = sets.of { { 10, 10 }, { 13, 13 }, { 0x2028, 0x2029 } }
local CLASS = { d = DIGIT, w = WORD, s = SPACE, D = sets.minus(ASCII, DIGIT), W = sets.minus(ASCII, WORD), S = sets.complement(WIDE) }
-- What must not be in a class that is negated beside one of them.
local AROUND = { d = sets.complement(sets.minus(ASCII, DIGIT)), w = sets.complement(sets.minus(ASCII, WORD)), s = WIDE, D = DIGIT, W = WORD,
  S = sets.complement(SPACE) }
AROUND.D, AROUND.W = sets.complement(DIGIT), sets.complement(WORD)
local ESCAPE = { n = 10, r = 13, t = 9, f = 12, v = 11, ["0"] = 0 }

local Reader = {}
Reader.__index = Reader

function Reader:fail(why, ...)
  core.fail(("%s: at character %d of '%s': %s"):format(self.what, self.at, core.shown(self.text, 60), select("#", ...) > 0 and why:format(...) or why))
end

function Reader:peek() return self.text:sub(self.at, self.at) end

function Reader:hex(n)
  local hex = self.text:match("^" .. ("%x"):rep(n), self.at)
  if not hex then self:fail("%d hexadecimal digits are needed", n) end
  self.at = self.at + n
  local code = tonumber(hex, 16)
  if code >= 0xD800 and code <= 0xDFFF then self:fail "half a character" end
  return code
end

-- Behind a backslash: a set, and what a negated class must not have of it.
function Reader:escape(in_class)
  local c = self:peek()
  self.at = self.at + 1
  if CLASS[c] then return CLASS[c], AROUND[c] end
  local code
  if c == "x" then code = self:hex(2)
  elseif c == "u" and self:peek() == "{" then
    local hex = self.text:match("^{(%x+)}", self.at)
    code = hex and tonumber(hex, 16)
    if not code or code > 0x10FFFF then self:fail "no character" end
    self.at = self.at + #hex + 2
  elseif c == "u" then code = self:hex(4)
  elseif ESCAPE[c] and not (c == "0" and self:peek():find "%d") then code = ESCAPE[c]
  elseif c == "b" and in_class then code = 8
  elseif c:find "[%p ]" then code = c:byte()
  else
    self.at = self.at - 1
    self:fail("'\\%s' is not read%s", core.shown(c), c:find "[bB%dkpPAZz]" and ", as nothing is that looks around, back or into Unicode's classes" or "")
  end
  local set = sets.chars(code)
  return set, set
end

function Reader:char_code()
  local ch = self.text:match("^[%z\1-\127\192-\255][\128-\191]*", self.at)
  self.at = self.at + #ch
  return sets.codes(ch)[1]
end

function Reader:class()
  self.at = self.at + 1
  local negated = self:peek() == "^"
  if negated then self.at = self.at + 1 end
  local set, around, first = {}, {}, true
  while first or self:peek() ~= "]" do
    if self.at > #self.text then self:fail "a class has no end" end
    if first and self:peek() == "]" then self:fail "a class is empty" end
    first = false
    if self.text:find("^%[[:.=]", self.at) then self:fail "classes of POSIX are not read" end
    local own, out, code
    if self:peek() == "\\" then
      self.at = self.at + 1
      own, out = self:escape(true)
      if #own == 1 and own[1][1] == own[1][2] then code = own[1][1] end
    else
      code = self:char_code()
      own = sets.chars(code)
      out = own
    end
    if code and self:peek() == "-" and self.text:sub(self.at + 1, self.at + 1) ~= "]" and self.at < #self.text then
      self.at = self.at + 1
      local to
      if self:peek() == "\\" then
        self.at = self.at + 1
        local other = self:escape(true)
        to = #other == 1 and other[1][1] == other[1][2] and other[1][1] or self:fail "a range ends with a class"
      else
        to = self:char_code()
      end
      if to < code then self:fail "a range of a class goes backwards" end
      own = sets.of { { code, to } }
      out = own
    end
    set, around = sets.union(set, own), sets.union(around, out)
  end
  self.at = self.at + 1
  if negated then set = sets.complement(around) end
  if #set == 0 then self:fail "a class has no characters" end
  return nodes.set(set)
end

function Reader:times(node)
  local least, most = times.read(self, "^{(%d+)(,?)(%d*)}()")
  if not least then return node end
  if self:peek() == "?" then self.at = self.at + 1 end -- as few as possible: the same texts
  if self:peek():find "^[*+]$" then self:fail "a repetition of a repetition" end
  return nodes.rep(node, least, most)
end

function Reader:group(depth)
  if depth > DEEPEST then self:fail("groups stand more than %d deep", DEEPEST) end
  self.at = self.at + 1
  if self:peek() == "?" then
    local name = self.text:match("^%?:", self.at) or self.text:match("^%?P?<[%a_][%w_]*>", self.at)
    if not name then self:fail "groups that look around, or set options, are not read" end
    self.at = self.at + #name
  end
  local node = self:alternatives(depth + 1)
  if self:peek() ~= ")" then self:fail "')' is missing" end
  self.at = self.at + 1
  return node
end

function Reader:part(depth)
  local c = self:peek()
  if c == "" or c == "|" or c == ")" then return nil end
  if c == "(" then return self:group(depth) end
  if c == "[" then return self:class() end
  if c == "^" or c == "$" then self:fail("'%s' stands at the ends of the whole alone", c) end
  if c:find "^[*+?]$" then self:fail("nothing is in front of '%s'", c) end
  if c == "." then
    self.at = self.at + 1
    return nodes.set(sets.complement(LINE))
  end
  if c == "\\" then
    self.at = self.at + 1
    if self.at > #self.text then self:fail "nothing is behind '\\'" end
    return nodes.set((self:escape(false)))
  end
  return nodes.set(sets.chars(self:char_code()))
end

function Reader:alternatives(depth)
  local list, parts = {}, {}
  while true do
    local node = self:part(depth)
    if node then
      parts[#parts + 1] = self:times(node)
    else
      list[#list + 1] = nodes.seq(parts)
      if self:peek() ~= "|" then return nodes.alt(list), #list end
      self.at, parts = self.at + 1, {}
    end
  end
end

--- A node, and whether the expression says where a text begins and ends ('^', '$'). what: how errors call it.
return function(text, what)
  what = what or "regex"
  if type(text) ~= "string" then core.fail(("%s: a text is needed, not a %s"):format(what, type(text))) end
  if not core.is_utf8(text) then core.fail(what .. ": it is no UTF-8") end
  local begins = text:sub(1, 1) == "^"
  local body = begins and text:sub(2) or text
  -- Of backslashes in front of '$' an even number stand for themselves.
  local ends = body:sub(-1) == "$" and #body:match "(\\*)%$$" % 2 == 0
  if ends then body = body:sub(1, -2) end
  local self = setmetatable({ text = body, at = 1, what = what }, Reader)
  local node, count = self:alternatives(0)
  if self.at <= #body then self:fail("'%s' is too many", core.shown(self:peek())) end
  if (begins or ends) and count > 1 then
    self.at = 1
    self:fail "'^' and '$' are of one alternative alone\n  hint: ^(?:a|b)$"
  end
  return node, begins, ends
end
