-- Runs the tree of a template. An environment bounds what a template may do: work, in which every node and every 16 bytes of text
-- count, calls in calls, bytes of a text, and memory: while the work goes on, what Lua holds is looked at.

local values = require "tessera.hf.jinja.values"
local operators = require "tessera.hf.jinja.operators"
local print_ = require "tessera.hf.jinja.print"
local globals = require "tessera.hf.jinja.globals"
local markup = require "tessera.hf.jinja.markup"

local fail, truth = values.fail, values.truth
local NONE = values.NONE

local Env = {}
Env.__index = Env

local MOST_WORK = 30e6
local MOST_BYTES = 64 * 1024 * 1024
local MOST_MEMORY = 160 * 1024 -- KiB beside what was there
local DEEPEST = 150 -- calls of macros in calls of macros
local LOOK = 50000 -- steps from look to look
local OFTEN = 32 * 1024 -- KiB between collections of garbage

-- Whether there is room for so many KiB more. Garbage is collected where it seems to be little.
local function look(self, kib)
  local held = collectgarbage "count" + kib
  if held < self.collect then return end
  collectgarbage()
  held = collectgarbage "count" + kib
  if held > self.memory then fail("the template takes more than %d MiB", MOST_MEMORY / 1024) end
  self.collect = math.max(self.memory, held + OFTEN)
end

-- Work has come to where something is looked at.
local function reached(self)
  if self.work > MOST_WORK then fail("the template takes more than %d million steps", MOST_WORK / 1e6) end
  look(self, 0)
  self.stop = math.min(self.work + LOOK, MOST_WORK)
end

function Env:spend(n)
  self.work = self.work + n
  if self.work > self.stop then reached(self) end
  if n > LOOK then look(self, n / 64) end -- a list of so many items
end

--- Before a text of n bytes is made.
function Env:room(n)
  if n > MOST_BYTES then fail("a text of %.0f bytes is made, %d MiB are the most", n, MOST_BYTES / 2 ^ 20) end
  self:spend(n / 16)
  if n > 2 ^ 20 then look(self, n / 1024) end
end

--- Before signs of a text that the pattern has become `more` bytes longer each.
function Env:grows(s, pattern, more)
  if #s < 2 ^ 16 then return self:spend(#s / 16) end
  local _, n = s:gsub(pattern, "")
  self:room(#s + n * more)
end

-- ---- scopes: variables by name, and the scope around
local UNSET = {} -- of a name that a scope will set (scopes.lua)

local function inner(scope, unset)
  local vars = {}
  for _, name in ipairs(unset or {}) do vars[name] = UNSET end
  return { vars = vars, parent = scope }
end

local function lookup(env, scope, name)
  while scope do
    local v = scope.vars[name]
    if v == UNSET then return values.undefined(name) end
    if v ~= nil then return v end
    scope = scope.parent
  end
  local v = env.context[name]
  if v == nil then v = globals[name] end
  if v == nil then return values.undefined(name) end
  return v
end

-- ---- output: pieces of a text
local function buffer() return { n = 0, bytes = 0 } end

local function write(env, out, text)
  if text == "" then return end
  out.n = out.n + 1
  out[out.n] = text
  out.bytes = out.bytes + #text
  if out.bytes > MOST_BYTES then fail("a text of more than %d MiB is made", MOST_BYTES / 2 ^ 20) end
  env:spend(#text / 16)
end

local function text_of(out)
  values.room(out.bytes)
  return table.concat(out, "", 1, out.n)
end

-- ---- expressions
local E = {} -- by kind of node: value
local run -- statements

local function eval(env, node, scope)
  env.work = env.work + 1
  if env.work > env.stop then reached(env) end
  local line = env.line
  env.line = node.line or line
  local v = E[node.t](env, node, scope)
  env.line = line
  return v
end

function E.Const(_, node) return node.value end
function E.Name(env, node, scope) return lookup(env, scope, node.name) end
function E.Binary(env, node, scope)
  local a = eval(env, node[1], scope)
  return operators.binary(env, node.op, a, eval(env, node[2], scope))
end
function E.Unary(env, node, scope) return operators.unary(node.op, eval(env, node[1], scope)) end
function E.Not(env, node, scope) return not env.truth(eval(env, node[1], scope)) end

function E.And(env, node, scope)
  local a = eval(env, node[1], scope)
  if not env.truth(a) then return a end
  return eval(env, node[2], scope)
end
function E.Or(env, node, scope)
  local a = eval(env, node[1], scope)
  if env.truth(a) then return a end
  return eval(env, node[2], scope)
end

function E.Compare(env, node, scope)
  local a = eval(env, node.first, scope)
  for _, op in ipairs(node.ops) do
    local b = eval(env, op[2], scope)
    if not operators.compare(env, op[1], a, b) then return false end
    a = b
  end
  return true
end

function E.Condition(env, node, scope)
  if env.truth(eval(env, node.test, scope)) then return eval(env, node.yes, scope) end
  if node.no then return eval(env, node.no, scope) end
  local why = "the inline if-expression on line " .. (node.line or 0) .. " evaluated to false and no else section was defined."
  return values.undefined("", why)
end

function E.Concat(env, node, scope)
  local parts, n = {}, 0
  for i, part in ipairs(node) do
    parts[i] = print_.str(eval(env, part, scope), env)
    n = n + #parts[i]
  end
  env:room(n)
  return table.concat(parts)
end

local function items(env, node, scope)
  local out = { n = #node }
  for i, item in ipairs(node) do out[i] = eval(env, item, scope) end
  return out
end
function E.List(env, node, scope) return values.list(items(env, node, scope)) end
function E.Tuple(env, node, scope) return values.list(items(env, node, scope), "tuple") end
function E.Dict(env, node, scope)
  local d = values.dict()
  for _, pair in ipairs(node) do
    local key = eval(env, pair[1], scope)
    values.set(d, key, eval(env, pair[2], scope))
  end
  return d
end

function E.Attribute(env, node, scope) return operators.attribute(env, eval(env, node.of, scope), node.name) end
function E.Item(env, node, scope)
  local v = eval(env, node.of, scope)
  local key = node.key
  if key.t == "Slice" then
    return operators.slice(env, v, key.from and eval(env, key.from, scope), key.to and eval(env, key.to, scope), key.step and eval(env, key.step, scope))
  end
  return operators.item(env, v, eval(env, key, scope))
end

-- Arguments: a list with its length, and a list of {name, value}.
local function arguments(env, a, scope)
  local args, named = { n = #a }, {}
  for i, node in ipairs(a) do args[i] = eval(env, node, scope) end
  if a.rest then
    local more = values.items(eval(env, a.rest, scope), env)
    for i = 1, more.n do args[args.n + i] = more[i] end
    args.n = args.n + more.n
  end
  for i, p in ipairs(a.named) do named[i] = { p[1], eval(env, p[2], scope) } end
  if a.rest_named then
    local more = eval(env, a.rest_named, scope)
    if type(more) ~= "table" or more.kind ~= "dict" then fail("argument after ** must be a mapping, not %s", values.type_name(more)) end
    for i = 1, more.n do
      if type(more.keys[i]) ~= "string" then fail "keywords must be strings" end
      named[#named + 1] = { more.keys[i], values.get(more, more.keys[i]) }
    end
  end
  return args, named
end

--- Calls a value with arguments.
function Env:call(f, args, named)
  if type(f) == "table" then
    if f.kind == "undefined" then values.missing(f) end
    if f.call then
      self.depth = self.depth + 1
      if self.depth > DEEPEST then fail "maximum recursion depth exceeded" end
      if f.kind == "function" or f.kind == "dict_class" then
        for i = 1, args.n do args[i] = markup.text(args[i]) end
      end
      local v = f.call(self, args, named)
      self.depth = self.depth - 1
      return v
    end
  end
  fail("'%s' object is not callable", values.type_name(f))
end

function E.Call(env, node, scope)
  local f = eval(env, node.of, scope)
  local args, named = arguments(env, node.args, scope)
  return env:call(f, args, named)
end

--- The filter by its name, with a value in front.
function Env:filter(name, v, args, named)
  local f = require("tessera.hf.jinja.filters")[name]
  if not f then fail("No filter named '%s'.", name) end
  if type(v) == "string" then self:spend(#v / 16) end
  return markup.filter(name, f, self, v, args, named, print_.str)
end
function Env:test(name, v, args, named)
  local f = require("tessera.hf.jinja.tests")[name]
  if not f then fail("No test named '%s'.", name) end
  if name == "escaped" then return markup.is(v) end -- all others see a text
  local own = { n = args.n }
  for i = 1, args.n do own[i] = markup.text(args[i]) end
  return truth(f(self, markup.text(v), own, named))
end

function E.Filter(env, node, scope)
  local v
  if node.of then v = eval(env, node.of, scope) else v = env.block_text end
  local args, named = arguments(env, node.args, scope)
  return env:filter(node.name, v, args, named)
end
function E.Test(env, node, scope)
  local v = eval(env, node.of, scope)
  local args, named = arguments(env, node.args, scope)
  return env:test(node.name, v, args, named)
end

-- A filter over the text of a block.
local function filter_text(env, filter, text, scope)
  local before = env.block_text
  env.block_text = text
  local v = eval(env, filter, scope)
  env.block_text = before
  return v
end

-- ---- assignment
local function assign(env, target, v, scope)
  if target.t == "NameTarget" then
    scope.vars[target.name] = v
  elseif target.t == "NamespaceTarget" then
    local ns = lookup(env, scope, target.name)
    if type(ns) ~= "table" or ns.kind ~= "namespace" then fail "cannot assign attribute on non-namespace object" end
    globals.check_attribute(target.attr)
    values.set(ns.dict, target.attr, v)
  else
    local list = values.items(v, env)
    local n = #target.list
    if list.n < n then fail("not enough values to unpack (expected %d, got %d)", n, list.n) end
    if list.n > n then fail("too many values to unpack (expected %d)", n) end
    for i, t in ipairs(target.list) do assign(env, t, list[i], scope) end
  end
end

-- ---- statements: each gives nil, "break" or "continue"
local S = {}

function S.Data(env, node, _, out) write(env, out, node.text) end
function S.Output(env, node, scope, out)
  for _, e in ipairs(node.list) do write(env, out, print_.str(eval(env, e, scope), env)) end
end

function S.If(env, node, scope, out)
  for _, branch in ipairs(node.branches) do
    if env.truth(eval(env, branch.test, scope)) then return run(env, branch.body, scope, out) end
  end
  if node.otherwise then return run(env, node.otherwise, scope, out) end
end

function S.Set(env, node, scope) assign(env, node.target, eval(env, node.value, scope), scope) end

function S.SetBlock(env, node, scope)
  local text = buffer()
  run(env, node.body, inner(scope, node.unset), text)
  local v = text_of(text)
  if node.filter then v = filter_text(env, node.filter, v, scope) end
  assign(env, node.target, v, scope)
end

function S.FilterBlock(env, node, scope, out)
  local text = buffer()
  run(env, node.body, inner(scope, node.unset), text)
  write(env, out, print_.str(filter_text(env, node.filter, text_of(text), scope), env))
end

function S.With(env, node, scope, out)
  local new, list = inner(scope, node.unset), {}
  for i, e in ipairs(node.values) do list[i] = eval(env, e, scope) end
  for i, t in ipairs(node.targets) do assign(env, t, list[i], new) end
  return run(env, node.body, new, out)
end

-- What the body of the template gives is known from where to where.
function S.Generation(env, node, scope, out)
  local text = buffer()
  run(env, node.body, inner(scope, node.unset), text)
  local whole = text_of(text)
  local from = env.root.bytes
  env.generated[#env.generated + 1] = { from + 1, from + #whole }
  write(env, out, whole)
end

function S.Block(env, node, _, out) return run(env, node.body, inner(env.top, node.unset), out) end
function S.Break() return "break" end
function S.Continue() return "continue" end

-- Items that the condition of a loop lets through.
local function chosen(env, node, list, scope)
  if not node.test then return list end
  local out, n = {}, 0
  for i = 1, list.n do
    local new = inner(scope)
    assign(env, node.target, list[i], new)
    if env.truth(eval(env, node.test, new)) then
      n = n + 1
      out[n] = list[i]
    end
  end
  out.n = n
  return values.list(out)
end

local function walk(env, node, over, scope, out, depth)
  local list = chosen(env, node, values.items(over, env), scope)
  local loop = { kind = "loop", items = list, at = 0, depth = depth }
  if node.recursive then
    loop.call = function(e, args)
      local text = buffer()
      walk(e, node, args[1], scope, text, depth + 1)
      return text_of(text)
    end
  end
  for i = 1, list.n do
    loop.at = i
    local new = inner(scope, node.unset)
    new.vars.loop = loop
    assign(env, node.target, list[i], new)
    env:spend(1)
    if run(env, node.body, new, out) == "break" then return end
  end
  if list.n == 0 and node.otherwise then return run(env, node.otherwise, inner(scope, node.otherwise_unset), out) end
end

function S.For(env, node, scope, out)
  local over = eval(env, node.iter, scope)
  return walk(env, node, over, scope, out, 1)
end

-- A macro: what is not given has its default, which may speak of parameters before it.
local function macro(node, scope, name)
  local function call(env, args, named)
    local new = inner(scope, node.unset)
    local by_name, rest = {}, values.dict()
    for _, p in ipairs(named) do
      if by_name[p[1]] ~= nil then fail("got multiple values for keyword argument '%s'", p[1]) end
      by_name[p[1]] = p[2]
    end
    local n = #node.args
    local given = {}
    for i, arg in ipairs(node.args) do
      if i <= args.n then
        given[i] = args[i]
        if by_name[arg] ~= nil and not node.used.kwargs then fail("macro '%s' takes no keyword argument '%s'", name or "None", arg) end
      else
        given[i], by_name[arg] = by_name[arg], nil
      end
    end
    if node.used.caller then
      local has_own = false
      for _, arg in ipairs(node.args) do has_own = has_own or arg == "caller" end
      if not has_own then
        new.vars.caller = by_name.caller or values.undefined("caller", "No caller defined")
        by_name.caller = nil
      end
    end
    for _, p in ipairs(named) do
      if by_name[p[1]] ~= nil then
        if not node.used.kwargs then fail("macro '%s' takes no keyword argument '%s'", name or "None", p[1]) end
        values.set(rest, p[1], p[2])
      end
    end
    if args.n > n and not node.used.varargs then fail("macro '%s' takes not more than %d argument(s)", name or "None", n) end
    if node.used.kwargs then new.vars.kwargs = rest end
    if node.used.varargs then
      local more = { n = math.max(0, args.n - n) }
      for i = 1, more.n do more[i] = args[n + i] end
      new.vars.varargs = values.list(more, "tuple")
    end
    for i, arg in ipairs(node.args) do
      local v = given[i]
      if v == nil and node.defaults[i] then v = eval(env, node.defaults[i], new) end
      if v == nil then
        local why = ("parameter '%s' was not provided"):format(arg)
        v = values.undefined(arg, why)
      end
      new.vars[arg] = v
    end
    local text = buffer()
    run(env, node.body, new, text)
    return text_of(text)
  end
  return { kind = "macro", name = name, call = call }
end

function S.Macro(_, node, scope) scope.vars[node.name] = macro(node, scope, node.name) end

function S.CallBlock(env, node, scope, out)
  local f = eval(env, node.call.of, scope)
  local args, named = arguments(env, node.call.args, scope)
  named[#named + 1] = { "caller", macro(node, scope, "caller") }
  write(env, out, print_.str(env:call(f, args, named), env))
end

function run(env, list, scope, out)
  for i = 1, #list do
    local node = list[i]
    env.work = env.work + 1
    if env.work > env.stop then reached(env) end
    env.line = node.line or env.line
    local leave = S[node.t](env, node, scope, out)
    if leave then return leave end
  end
end

-- Whether the render before has left much garbage, which is none of the next one's.
local heavy = false

--- Renders a tree: context is variables by name. Gives the text, and {from, to} of what stood in generation blocks.
return function(tree, context, now)
  local out = buffer()
  if heavy then collectgarbage() end
  local held = collectgarbage "count"
  local env = setmetatable({ work = 0, stop = LOOK, memory = held + MOST_MEMORY, collect = held + MOST_MEMORY, depth = 0, line = 1, context = context, generated = {}, root = out, top = inner(nil, tree.unset), now = now }, Env)
  env.truth = truth
  local before = values.enter(env)
  local ok, why = pcall(run, env, tree, env.top, out)
  values.enter(before)
  heavy = collectgarbage "count" > held + OFTEN
  if not ok and type(why) == "string" and why:find "stack overflow" then why = { jinja = true, message = "maximum recursion depth exceeded" } end
  if not ok then
    if type(why) == "table" and why.jinja and not why.line then why.line = env.line end
    error(why, 0)
  end
  return text_of(out), env.generated
end
