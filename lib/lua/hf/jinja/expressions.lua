-- Expressions of templates as a tree: Python's operators with the precedence that Jinja gives them (a filter binds before all).

local values = require "tessera.hf.jinja.values"

local Parser = {}
Parser.__index = Parser

local DEEPEST = 180 -- expressions in expressions, blocks in blocks

function Parser:kind() return self.tokens[self.at].type end
function Parser:line() return self.tokens[self.at].line end

function Parser:fail(what, ...)
  error({ jinja = true, line = self:line(), message = select("#", ...) > 0 and what:format(...) or what }, 0)
end

function Parser:next()
  local token = self.tokens[self.at]
  if token.type ~= "eof" then self.at = self.at + 1 end
  return token
end

local TEXT = { block_end = "%}", variable_end = "}}", block_begin = "{%", variable_begin = "{{", eof = "end of template", add = "+", sub = "-",
  div = "/", floordiv = "//", mul = "*", mod = "%", pow = "**", tilde = "~", lbracket = "[", rbracket = "]", lparen = "(", rparen = ")",
  lbrace = "{", rbrace = "}", eq = "==", ne = "!=", gt = ">", gteq = ">=", lt = "<", lteq = "<=", assign = "=", dot = ".", colon = ":",
  pipe = "|", comma = ",", semicolon = ";" }

local function describe(token) return TEXT[token.type] or token.type == "name" and token.value or token.type end

function Parser:expect(kind)
  local token = self.tokens[self.at]
  if token.type ~= kind then
    self:fail(token.type == "eof" and "unexpected end of template, expected '%s'." or "expected token '%s', got '%s'", TEXT[kind] or kind, describe(token))
  end
  return self:next()
end

function Parser:skip(kind)
  if self:kind() ~= kind then return false end
  self:next()
  return true
end

function Parser:is_name(word, ahead)
  local token = self.tokens[self.at + (ahead or 0)]
  return token ~= nil and token.type == "name" and token.value == word
end

function Parser:skip_name(word)
  if not self:is_name(word) then return false end
  self:next()
  return true
end

function Parser:need_name(word)
  if not self:skip_name(word) then self:fail("expected token '%s', got '%s'", word, describe(self.tokens[self.at])) end
end

function Parser:deeper()
  self.depth = self.depth + 1
  if self.depth > DEEPEST then self:fail("expressions and blocks stand more than %d deep", DEEPEST) end
end
function Parser:shallower() self.depth = self.depth - 1 end

-- ---- targets of assignments
local CONSTANT = { ["true"] = true, ["True"] = true, ["false"] = false, ["False"] = false }
local RESERVED = { ["true"] = 1, ["True"] = 1, ["false"] = 1, ["False"] = 1, none = 1, None = 1 }

function Parser:check_name(name)
  if RESERVED[name] then self:fail("can't assign to '%s'", name) end
end

local function one_target(self, with_namespace)
  if self:skip "lparen" then
    local t = self:target_list({}, "rparen", with_namespace)
    self:expect "rparen"
    return t
  end
  if self:kind() ~= "name" then self:fail("can't assign to '%s'", describe(self.tokens[self.at])) end
  local name = self:next().value
  if with_namespace and self:skip "dot" then return { t = "NamespaceTarget", name = name, attr = self:expect "name".value } end
  if RESERVED[name] then self:fail "can't assign to 'const'" end
  return { t = "NameTarget", name = name }
end

function Parser:target_list(stop, close, with_namespace)
  local list, is_tuple = {}, false
  while true do
    local token = self.tokens[self.at]
    if #list > 0 and (token.type == close or token.type == "block_end" or token.type == "assign" or (token.type == "name" and stop[token.value])) then break end
    list[#list + 1] = one_target(self, with_namespace)
    if not self:skip "comma" then break end
    is_tuple = true
  end
  return is_tuple and { t = "TupleTarget", list = list } or list[1]
end

function Parser:target(stop, with_namespace) return self:target_list(stop or {}, nil, with_namespace) end

-- ---- operators
function Parser:expression(no_condition)
  self:deeper()
  local node
  if no_condition then node = self:logic_or() else node = self:condition() end
  self:shallower()
  return node
end

function Parser:condition()
  local known = #self.unknown
  local node = self:logic_or()
  while self:is_name "if" do
    local line = self:next().line
    local test = self:logic_or()
    local other
    if self:skip_name "else" then
      self:deeper()
      other = self:condition()
      self:shallower()
    end
    node = { t = "Condition", test = test, yes = node, no = other, line = line }
    for i = #self.unknown, known + 1, -1 do self.unknown[i] = nil end
  end
  return node
end

function Parser:logic_or()
  local node = self:logic_and()
  while self:is_name "or" do
    local line = self:next().line
    node = { t = "Or", node, self:logic_and(), line = line }
  end
  return node
end

function Parser:logic_and()
  local node = self:logic_not()
  while self:is_name "and" do
    local line = self:next().line
    node = { t = "And", node, self:logic_not(), line = line }
  end
  return node
end

function Parser:logic_not()
  if not self:is_name "not" then return self:compare() end
  local line = self:next().line
  self:deeper()
  local node = { t = "Not", self:logic_not(), line = line }
  self:shallower()
  return node
end

local COMPARE = { eq = "==", ne = "!=", lt = "<", lteq = "<=", gt = ">", gteq = ">=" }

function Parser:compare()
  local line = self:line()
  local first, ops = self:sum(), {}
  while true do
    local op = COMPARE[self:kind()]
    if op then self:next()
    elseif self:skip_name "in" then op = "in"
    elseif self:is_name "not" and self:is_name("in", 1) then
      self:next()
      self:next()
      op = "not in"
    else break end
    ops[#ops + 1] = { op, self:sum() }
  end
  return #ops == 0 and first or { t = "Compare", first = first, ops = ops, line = line }
end

local SUM = { add = "+", sub = "-" }
local PRODUCT = { mul = "*", div = "/", floordiv = "//", mod = "%" }

function Parser:sum()
  local node = self:concat()
  while SUM[self:kind()] do
    local token = self:next()
    node = { t = "Binary", op = SUM[token.type], node, self:concat(), line = token.line }
  end
  return node
end

function Parser:concat()
  local node = self:product()
  if self:kind() ~= "tilde" then return node end
  local list = { t = "Concat", node, line = self:line() }
  while self:skip "tilde" do list[#list + 1] = self:product() end
  return list
end

function Parser:product()
  local node = self:power()
  while PRODUCT[self:kind()] do
    local token = self:next()
    node = { t = "Binary", op = PRODUCT[token.type], node, self:power(), line = token.line }
  end
  return node
end

function Parser:power()
  local node = self:unary(true)
  while self:kind() == "pow" do
    local token = self:next()
    node = { t = "Binary", op = "**", node, self:unary(true), line = token.line }
  end
  return node
end

function Parser:unary(with_filter)
  local token, node = self.tokens[self.at], nil
  if token.type == "sub" or token.type == "add" then
    self:next()
    self:deeper()
    node = { t = "Unary", op = token.type == "sub" and "-" or "+", self:unary(false), line = token.line }
    self:shallower()
  else
    node = self:primary()
  end
  node = self:postfix(node)
  if with_filter then node = self:filters_of(node) end
  return node
end

-- ---- values
function Parser:primary()
  local token = self:next()
  local kind, value, line = token.type, token.value, token.line
  if kind == "name" then
    if CONSTANT[value] ~= nil then return { t = "Const", value = CONSTANT[value], line = line } end
    if value == "none" or value == "None" then return { t = "Const", value = values.NONE, line = line } end
    self.used[value] = true
    return { t = "Name", name = value, line = line }
  elseif kind == "string" then
    local parts = { value }
    while self:kind() == "string" do parts[#parts + 1] = self:next().value end
    return { t = "Const", value = table.concat(parts), line = line }
  elseif kind == "integer" or kind == "float" then
    return { t = "Const", value = value, line = line }
  elseif kind == "lparen" then
    local node = self:tuple { explicit = true }
    self:expect "rparen"
    return node
  elseif kind == "lbracket" then
    local node = { t = "List", line = line }
    while self:kind() ~= "rbracket" do
      if #node > 0 then self:expect "comma" end
      if self:kind() == "rbracket" then break end
      node[#node + 1] = self:expression()
    end
    self:expect "rbracket"
    return node
  elseif kind == "lbrace" then
    local node = { t = "Dict", line = line }
    while self:kind() ~= "rbrace" do
      if #node > 0 then self:expect "comma" end
      if self:kind() == "rbrace" then break end
      local key = self:expression()
      self:expect "colon"
      node[#node + 1] = { key, self:expression() }
    end
    self:expect "rbrace"
    return node
  end
  self.at = math.max(1, kind == "eof" and self.at or self.at - 1)
  self:fail(kind == "eof" and "unexpected end of template" or "unexpected '%s'", describe(token))
end

--- One expression, or several with commas, which are a tuple.
function Parser:tuple(o)
  local list, is_tuple, line = {}, false, self:line()
  while true do
    local token = self.tokens[self.at]
    local kind = token.type
    if kind == "variable_end" or kind == "block_end" or kind == "rparen" or (o.stop and kind == "name" and o.stop[token.value]) then break end
    list[#list + 1] = self:expression(o.no_condition)
    if not self:skip "comma" then break end
    is_tuple = true
  end
  if not is_tuple then
    if list[1] then return list[1] end
    if not o.explicit then self:fail("Expected an expression, got '%s'", describe(self.tokens[self.at])) end
  end
  list.t, list.line = "Tuple", line
  return list
end

function Parser:postfix(node)
  while true do
    local kind = self:kind()
    if kind == "dot" or kind == "lbracket" then node = self:subscript(node)
    elseif kind == "lparen" then node = self:call(node)
    else return node end
  end
end

function Parser:filters_of(node)
  while true do
    local kind = self:kind()
    if kind == "pipe" then node = self:filter(node)
    elseif self:is_name "is" then node = self:test(node)
    elseif kind == "lparen" then node = self:call(node)
    else return node end
  end
end

local function slice(self)
  local node, has = { t = "Slice", line = self:line() }, false
  if self:kind() ~= "colon" then
    local first = self:expression()
    if self:kind() ~= "colon" then return first end
    node.from = first
  end
  self:next()
  local kind = self:kind()
  if kind ~= "colon" and kind ~= "rbracket" and kind ~= "comma" then node.to = self:expression() end
  has = self:skip "colon"
  kind = self:kind()
  if has and kind ~= "rbracket" and kind ~= "comma" then node.step = self:expression() end
  return node
end

function Parser:subscript(node)
  local token = self:next()
  if token.type == "dot" then
    local name = self:next()
    if name.type == "name" then return { t = "Attribute", of = node, name = name.value, line = token.line } end
    if name.type ~= "integer" then self:fail "expected name or number" end
    return { t = "Item", of = node, key = { t = "Const", value = name.value, line = name.line }, line = token.line }
  end
  local list = {}
  while self:kind() ~= "rbracket" do
    if #list > 0 then self:expect "comma" end
    list[#list + 1] = slice(self)
  end
  self:expect "rbracket"
  if #list ~= 1 then
    for _, n in ipairs(list) do
      if n.t == "Slice" then self:fail "slices of several axes are not read" end
    end
    list.t, list.line = "Tuple", token.line
    return { t = "Item", of = node, key = list, line = token.line }
  end
  return { t = "Item", of = node, key = list[1], line = token.line }
end

--- What stands in the parentheses of a call: {args, named = {{name, node}}, rest, rest_named}.
function Parser:arguments()
  self:expect "lparen"
  local a, first = { named = {} }, true
  local function ensure(ok)
    if not ok then self:fail "invalid syntax for function call expression" end
  end
  while self:kind() ~= "rparen" do
    if not first then
      self:expect "comma"
      if self:kind() == "rparen" then break end
    end
    first = false
    if self:skip "mul" then
      ensure(not a.rest and not a.rest_named)
      a.rest = self:expression()
    elseif self:skip "pow" then
      ensure(not a.rest_named)
      a.rest_named = self:expression()
    elseif self:kind() == "name" and self.tokens[self.at + 1].type == "assign" then
      ensure(not a.rest_named)
      local name = self:next().value
      self:next()
      for _, p in ipairs(a.named) do
        if p[1] == name then self:fail("keyword argument repeated: %s", name) end
      end
      a.named[#a.named + 1] = { name, self:expression() }
    else
      ensure(not a.rest and not a.rest_named and #a.named == 0)
      a[#a + 1] = self:expression()
    end
  end
  self:expect "rparen"
  return a
end

function Parser:call(node)
  local line = self:line()
  return { t = "Call", of = node, args = self:arguments(), line = line }
end

function Parser:dotted()
  local name = self:expect "name".value
  while self:skip "dot" do name = name .. "." .. self:expect "name".value end
  return name
end

function Parser:filter(node, inline)
  while inline or self:kind() == "pipe" do
    if not inline then self:next() end
    inline = false
    local line = self:line()
    local name = self:dotted()
    self:known("filter", name)
    local args = self:kind() == "lparen" and self:arguments() or { named = {} }
    node = { t = "Filter", of = node, name = name, args = args, line = line }
  end
  return node
end

-- A name that is not known is an error of the template, but within what may not be come to: `if`, and its expression.
function Parser:known(what, name)
  if self.soft then return end
  local all = require(what == "filter" and "tessera.hf.jinja.filters" or "tessera.hf.jinja.tests")
  if not all[name] then self.unknown[#self.unknown + 1] = { line = self:line(), message = ("No %s named '%s'."):format(what, name) } end
end

local ARGUMENT = { name = true, string = true, integer = true, float = true, lparen = true, lbracket = true, lbrace = true }

function Parser:test(node)
  local line = self:next().line
  local negated = self:skip_name "not"
  local name = self:dotted()
  self:known("test", name)
  local args = { named = {} }
  if self:kind() == "lparen" then
    args = self:arguments()
  elseif ARGUMENT[self:kind()] and not (self:is_name "else" or self:is_name "or" or self:is_name "and") then
    if self:is_name "is" then self:fail "You cannot chain multiple tests with is" end
    args[1] = self:postfix(self:primary())
  end
  node = { t = "Test", of = node, name = name, args = args, line = line }
  return negated and { t = "Not", node, line = line } or node
end

return Parser
