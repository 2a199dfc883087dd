-- Statements of templates as a tree; expressions are of expressions.lua. A node is {t = what it is, line, ..}.

local lexer = require "tessera.hf.jinja.lexer"
local Parser = require "tessera.hf.jinja.expressions"

local scopes = require "tessera.hf.jinja.scopes"

local statements = {}

-- Statements up to a block that begins with one of the words, which is current then.
function Parser:body(words, of)
  self:expect "block_end"
  local nodes = self:subparse(words)
  if self:kind() == "eof" then
    self:fail("Unexpected end of template. Jinja was looking for %s of the block '%s'", self.names(words), of)
  end
  return nodes
end

function Parser.names(words)
  local list = {}
  for word in pairs(words) do list[#list + 1] = "'" .. word .. "'" end
  table.sort(list)
  return table.concat(list, " or ")
end

function Parser:body_to(word, of)
  local nodes = self:body({ [word] = true }, of)
  self:next()
  return nodes
end

statements["for"] = function(self)
  local node = { t = "For", target = self:target({ ["in"] = true }) }
  self:need_name "in"
  node.iter = self:tuple { no_condition = true, stop = { recursive = true } }
  if self:skip_name "if" then node.test = self:expression() end
  node.recursive = self:skip_name "recursive"
  self.loops = self.loops + 1
  node.body = self:body({ endfor = true, ["else"] = true }, "for")
  self.loops = self.loops - 1
  if self:next().value == "else" then node.otherwise = self:body_to("endfor", "for") end
  node.names_loop = true
  return node
end

statements["if"] = function(self)
  local node = { t = "If", branches = {} }
  while true do
    local soft = self.soft
    self.soft = true
    local test = self:tuple { no_condition = true }
    local body = self:body({ ["elif"] = true, ["else"] = true, endif = true }, "if")
    node.branches[#node.branches + 1] = { test = test, body = body }
    local word = self:next().value
    if word == "else" then node.otherwise = self:body_to("endif", "if") end
    self.soft = soft
    if word ~= "elif" then return node end
  end
end

function statements.set(self)
  local target = self:target(nil, true)
  if self:skip "assign" then return { t = "Set", target = target, value = self:tuple {} } end
  local filter
  self.soft = false -- a scope of its own
  if self:kind() == "pipe" then filter = self:filter(nil) end
  return { t = "SetBlock", target = target, filter = filter, body = self:body_to("endset", "set") }
end

-- Names of parameters with their defaults.
function Parser:signature(node)
  node.args, node.defaults = {}, {}
  self:expect "lparen"
  while self:kind() ~= "rparen" do
    if #node.args > 0 then self:expect "comma" end
    local name = self:expect "name".value
    self:check_name(name)
    if self:skip "assign" then
      node.defaults[#node.args + 1] = self:expression()
    elseif next(node.defaults) then
      self:fail "non-default argument follows default argument"
    end
    node.args[#node.args + 1] = name
  end
  self:expect "rparen"
end

function statements.macro(self)
  local node = { t = "Macro", name = self:expect "name".value }
  self:check_name(node.name)
  self:signature(node)
  local used, loops = self.used, self.loops
  self.used, self.loops = {}, 0
  node.body = self:body_to("endmacro", "macro")
  node.used, self.used, self.loops = self.used, used, loops
  for word in pairs(node.used) do used[word] = true end
  return node
end

function statements.call(self)
  local node = { t = "CallBlock", args = {}, defaults = {} }
  if self:kind() == "lparen" then self:signature(node) end
  node.call = self:expression()
  if node.call.t ~= "Call" then self:fail "expected call" end
  local used, loops = self.used, self.loops
  self.used, self.loops = {}, 0
  node.body = self:body_to("endcall", "call")
  node.used, self.used, self.loops = self.used, used, loops
  for word in pairs(node.used) do used[word] = true end
  return node
end

function statements.filter(self)
  local filter = self:filter(nil, true)
  return { t = "FilterBlock", filter = filter, body = self:body_to("endfilter", "filter") }
end

statements["with"] = function(self)
  local node = { t = "With", targets = {}, values = {} }
  while self:kind() ~= "block_end" do
    if #node.targets > 0 then self:expect "comma" end
    node.targets[#node.targets + 1] = self:target()
    self:expect "assign"
    node.values[#node.values + 1] = self:expression()
  end
  node.body = self:body_to("endwith", "with")
  return node
end

function statements.generation(self)
  return { t = "Generation", body = self:body_to("endgeneration", "generation") }
end

function statements.block(self)
  local name = self:expect "name".value
  if self.blocks[name] then self:fail("block '%s' defined twice", name) end
  self.blocks[name] = true
  self:skip_name "scoped"
  local node = { t = "Block", body = self:body_to("endblock", "block") }
  self:skip_name(name)
  return node
end

function statements.print(self)
  local list = {}
  while self:kind() ~= "block_end" do
    if #list > 0 then self:expect "comma" end
    list[#list + 1] = self:expression()
  end
  return { t = "Output", list = list }
end

statements["break"] = function(self)
  if self.loops == 0 then self:fail "'break' stands outside of a loop" end
  return { t = "Break" }
end

function statements.continue(self)
  if self.loops == 0 then self:fail "'continue' stands outside of a loop" end
  return { t = "Continue" }
end

local OTHER_FILES = { include = true, import = true, from = true, extends = true }

function Parser:statement()
  local token = self:expect "name"
  local make = statements[token.value]
  if OTHER_FILES[token.value] then self:fail("'%s': a chat template has no other templates", token.value) end
  if token.value == "autoescape" then self:fail "'autoescape' is not read: nothing is escaped in chat templates" end
  if not make then self:fail("Encountered unknown tag '%s'.", token.value) end
  local soft = self.soft
  if token.value ~= "if" and token.value ~= "set" and token.value ~= "print" then self.soft = false end
  self:deeper()
  local node = make(self)
  self:shallower()
  self.soft = soft
  node.line = token.line
  return node
end

function Parser:subparse(words)
  local list = {}
  while true do
    local token = self.tokens[self.at]
    if token.type == "eof" then return list end
    self:next()
    if token.type == "data" then
      list[#list + 1] = { t = "Data", text = token.value, line = token.line }
    elseif token.type == "variable_begin" then
      list[#list + 1] = { t = "Output", list = { self:tuple {} }, line = token.line }
      self:expect "variable_end"
    else
      local now = self.tokens[self.at]
      if words and now.type == "name" and words[now.value] then return list end
      list[#list + 1] = self:statement()
      self:expect "block_end"
    end
  end
end

--- The tree of a template's text.
return function(source)
  local self = setmetatable({ tokens = lexer(source), at = 1, depth = 0, loops = 0, used = {}, blocks = {}, unknown = {}, soft = false }, Parser)
  local tree = self:subparse()
  local first = self.unknown[1]
  if first then error({ jinja = true, line = first.line, message = first.message }, 0) end
  scopes(tree)
  return tree
end
