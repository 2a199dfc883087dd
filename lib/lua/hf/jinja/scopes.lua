-- Which names a scope has for itself from its begin on. Where a scope sets a name before it reads it, and no scope around has it, the name
-- is undefined in it until it is set, also for scopes within that are run before; else it is the render's until then. A name that
-- is set within an 'if' counts as read. Nodes with a body get `unset`, a list of such names, and `otherwise_unset`.

local scopes = {}

local function new(parent) return { refs = {}, loads = {}, stores = {}, parent = parent } end

local function find(s, name)
  while s do
    if s.refs[name] then return true end
    s = s.parent
  end
  return false
end

local function define(s, name, load)
  s.refs[name], s.loads[name] = true, load
end

local function load(s, name)
  if not find(s, name) then define(s, name, "resolve") end
end

local function store(s, name)
  s.stores[name] = true
  if s.refs[name] then return end
  define(s, name, s.parent and find(s.parent, name) and "alias" or "undefined")
end

local function parameter(s, name)
  s.stores[name] = true
  define(s, name, "parameter")
end

-- Names in an expression, all of which are read.
local function read(s, node)
  if node.t == "Name" then return load(s, node.name) end
  if node.t == "Const" then return end
  for _, part in pairs(node) do
    if type(part) == "table" then read(s, part) end
  end
end

local function target(s, node, set)
  if node.t == "NameTarget" then set(s, node.name)
  elseif node.t == "NamespaceTarget" then load(s, node.name)
  else
    for _, t in ipairs(node.list) do target(s, t, set) end
  end
end

-- ---- a scope's own statements, in order
local visit = {}

local function visit_all(s, list)
  for _, node in ipairs(list) do
    if visit[node.t] then visit[node.t](s, node) end
  end
end

function visit.Output(s, node)
  for _, e in ipairs(node.list) do read(s, e) end
end
function visit.Set(s, node)
  read(s, node.value)
  target(s, node.target, store)
end
function visit.SetBlock(s, node)
  target(s, node.target, store)
  if node.filter then read(s, node.filter) end
end
function visit.FilterBlock(s, node) read(s, node.filter) end
function visit.With(s, node)
  for _, e in ipairs(node.values) do read(s, e) end
end
function visit.For(s, node) read(s, node.iter) end
function visit.Macro(s, node) store(s, node.name) end
function visit.CallBlock(s, node) read(s, node.call) end

local function copy(t)
  local out = {}
  for k, v in pairs(t) do out[k] = v end
  return out
end

-- What a part of an 'if' makes of the scope, in a copy.
local function part(s, visit_part)
  local own = { refs = copy(s.refs), loads = copy(s.loads), stores = copy(s.stores), parent = s.parent }
  visit_part(own)
  return own
end

-- The body, all that begins with 'elif', and 'else' are three parts; an 'elif' is an 'if' of its own.
local function visit_if(s, node, first, alone)
  local branches = node.branches
  read(s, branches[first].test)
  local parts = { part(s, function(own) visit_all(own, branches[first].body) end), part(s, function(own)
    for i = first + 1, alone and first or #branches do visit_if(own, node, i, true) end
  end), part(s, function(own)
    if not alone and node.otherwise then visit_all(own, node.otherwise) end
  end) }
  local some = {}
  for _, p in ipairs(parts) do
    for name in pairs(p.stores) do
      if not s.stores[name] then some[name] = true end
    end
  end
  for _, p in ipairs(parts) do
    for _, kind in ipairs { "refs", "loads", "stores" } do
      for name, v in pairs(p[kind]) do s[kind][name] = v end
    end
  end
  for name in pairs(some) do s.loads[name] = s.parent and find(s.parent, name) and "alias" or "resolve" end
end

function visit.If(s, node) visit_if(s, node, 1, false) end

-- ---- scopes within, when all of the one around is known
local within

local function unset_of(s)
  local list
  for name, how in pairs(s.loads) do
    if how == "undefined" then
      list = list or {}
      list[#list + 1] = name
    end
  end
  return list
end

-- A scope with a body: prepare says what is there before it.
local function scope(parent, body, prepare)
  local s = new(parent)
  if prepare then prepare(s) end
  visit_all(s, body)
  within(s, body)
  return unset_of(s)
end

local function signature(node)
  return function(s)
    for _, name in ipairs(node.args) do parameter(s, name) end
    for _, e in pairs(node.defaults) do read(s, e) end
    for _, name in ipairs { "caller", "kwargs", "varargs" } do
      if node.used[name] then parameter(s, name) end
    end
  end
end

local inner = {}

local function plain(s, node) node.unset = scope(s, node.body) end
inner.SetBlock, inner.Generation = plain, plain

function inner.FilterBlock(s, node)
  node.unset = scope(s, node.body, function(own) read(own, node.filter) end)
end

function inner.With(s, node)
  node.unset = scope(s, node.body, function(own)
    for _, t in ipairs(node.targets) do target(own, t, parameter) end
  end)
end

function inner.For(s, node)
  node.unset = scope(s, node.body, function(own)
    parameter(own, "loop")
    target(own, node.target, parameter)
  end)
  if node.otherwise then node.otherwise_unset = scope(s, node.otherwise) end
end

function inner.Macro(s, node) node.unset = scope(s, node.body, signature(node)) end
function inner.CallBlock(s, node) node.unset = scope(s, node.body, signature(node)) end
function inner.Block(_, node) node.unset = scope(nil, node.body) end

function inner.If(s, node)
  for _, branch in ipairs(node.branches) do within(s, branch.body) end
  if node.otherwise then within(s, node.otherwise) end
end

function within(s, list)
  for _, node in ipairs(list) do
    if inner[node.t] then inner[node.t](s, node) end
  end
end

--- Notes on all scopes of a tree what they have for themselves.
return function(tree) tree.unset = scope(nil, tree) end
