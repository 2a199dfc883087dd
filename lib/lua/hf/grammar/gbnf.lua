-- Grammars in GBNF, the notation of llama.cpp, as rules (nodes.lua): name ::= "text" | [a-z]+ | ( other ){2,3}

local core = require "tessera.core"
local nodes = require "tessera.hf.grammar.nodes"
local sets = require "tessera.hf.grammar.sets"
local times = require "tessera.hf.grammar.times"

local DEEPEST, MOST_BYTES = 200, 2 ^ 20

local Reader = {}
Reader.__index = Reader

function Reader:fail(why, ...)
  local line = 1
  for _ in self.text:sub(1, self.at - 1):gmatch "\n" do line = line + 1 end
  core.fail(("grammar: line %d: %s"):format(line, select("#", ...) > 0 and why:format(...) or why))
end

function Reader:space(lines)
  while true do
    self.at = self.text:find(lines and "[^ \t\r\n]" or "[^ \t]", self.at) or #self.text + 1
    if self.text:sub(self.at, self.at) ~= "#" then return end
    self.at = self.text:find("\n", self.at, true) or #self.text + 1
  end
end

function Reader:peek() return self.text:sub(self.at, self.at) end

local ESCAPE = { n = 10, r = 13, t = 9, ["\\"] = 92, ['"'] = 34, ["["] = 91, ["]"] = 93, ["-"] = 45, ["^"] = 94 }
local DIGITS = { x = 2, u = 4, U = 8 }

-- The character at the place, as a number.
function Reader:char()
  local c = self:peek()
  if c == "" or c == "\n" then self:fail "a text or a class has no end" end
  if c ~= "\\" then
    local ch = self.text:match("^[%z\1-\127\192-\255][\128-\191]*", self.at)
    self.at = self.at + #ch
    return sets.codes(ch)[1]
  end
  local e = self.text:sub(self.at + 1, self.at + 1)
  self.at = self.at + 2
  if ESCAPE[e] then return ESCAPE[e] end
  local n = DIGITS[e]
  if not n then self:fail("the escape '\\%s' is unknown", core.shown(e)) end
  local hex = self.text:match("^" .. ("%x"):rep(n), self.at)
  if not hex then self:fail("'\\%s' needs %d hexadecimal digits", e, n) end
  self.at = self.at + n
  local code = tonumber(hex, 16)
  if code > 0x10FFFF or (code >= 0xD800 and code <= 0xDFFF) then self:fail("%s is no character", hex) end
  return code
end

function Reader:literal()
  self.at = self.at + 1
  local parts = {}
  while self:peek() ~= '"' do parts[#parts + 1] = sets.utf8(self:char()) end
  self.at = self.at + 1
  return nodes.text(table.concat(parts))
end

function Reader:class()
  self.at = self.at + 1
  local negated = self:peek() == "^"
  if negated then self.at = self.at + 1 end
  local list = {}
  while self:peek() ~= "]" do
    local from = self:char()
    local to = from
    if self:peek() == "-" and self.text:sub(self.at + 1, self.at + 1) ~= "]" then
      self.at = self.at + 1
      to = self:char()
      if to < from then self:fail "a range of a class goes backwards" end
    end
    list[#list + 1] = { from, to }
  end
  self.at = self.at + 1
  local set = sets.of(list)
  if negated then set = sets.complement(set) end
  if #set == 0 then self:fail "a class has no characters" end
  return nodes.set(set)
end

local NAME = "^[%w_%-]+"

function Reader:name()
  local name = self.text:match(NAME, self.at)
  if not name then self:fail("a name of a rule is needed, not '%s'", core.shown(self:peek())) end
  self.at = self.at + #name
  return name
end

-- * + ? {n} {n,} {n,m} behind a part.
function Reader:times(node)
  local least, most = times.read(self, "^{%s*(%d+)%s*(,?)%s*(%d*)%s*}()")
  if least then return self:times(nodes.rep(node, least, most)) end
  if self:peek() == "{" then self:fail "repetitions are {n}, {n,} or {n,m}" end
  return node
end

function Reader:part(depth)
  local c = self:peek()
  if c == '"' then return self:literal() end
  if c == "[" then return self:class() end
  if c == "." then
    self.at = self.at + 1
    return nodes.set(sets.all)
  end
  if c == "(" then
    if depth > DEEPEST then self:fail("groups stand more than %d deep", DEEPEST) end
    self.at = self.at + 1
    self:space(true)
    local node = self:alternatives(depth + 1)
    if self:peek() ~= ")" then self:fail "')' is missing" end
    self.at = self.at + 1
    return node
  end
  if self.text:find(NAME, self.at) then return nodes.ref(self:name()) end
end

function Reader:sequence(depth)
  local list = {}
  while true do
    self:space(depth > 0)
    local node = self:part(depth)
    if not node then return nodes.seq(list) end
    list[#list + 1] = self:times(node)
  end
end

-- A line that begins with '|' goes on with the one before.
function Reader:goes_on(depth)
  local at = self.at
  self:space(true)
  if self:peek() == "|" then return true end
  if depth == 0 then self.at = at end
  return false
end

function Reader:alternatives(depth)
  local list = { self:sequence(depth) }
  while self:goes_on(depth) do
    self.at = self.at + 1
    self:space(true)
    list[#list + 1] = self:sequence(depth)
  end
  return nodes.alt(list)
end

--- The rules of a text by name; 'root' is where a text begins.
return function(text)
  if type(text) ~= "string" then core.fail(("grammar: a text in GBNF is needed, not a %s"):format(type(text))) end
  if #text > MOST_BYTES then core.fail "grammar: it has more than 1 MiB" end
  if not core.is_utf8(text) then core.fail "grammar: it is no UTF-8" end
  local self, rules = setmetatable({ text = text, at = 1 }, Reader), {}
  self:space(true)
  while self.at <= #text do
    local name = self:name()
    self:space(false)
    if self.text:sub(self.at, self.at + 2) ~= "::=" then self:fail("'::=' is missing behind '%s'", core.shown(name, 40)) end
    if rules[name] then self:fail("the rule '%s' stands twice", core.shown(name, 40)) end
    self.at = self.at + 3
    self:space(true)
    rules[name] = self:alternatives(0)
    self:space(false)
    if self.at <= #text and not self:peek():find "[\r\n]" then self:fail("'%s' is not understood", core.shown(self:peek())) end
    self:space(true)
  end
  if not rules.root then core.fail "grammar: there is no rule 'root'" end
  return rules, "root"
end
