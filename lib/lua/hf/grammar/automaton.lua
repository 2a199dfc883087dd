-- Rules as a pushdown automaton over bytes: states with edges for bytes, for nothing, and for rules, behind which a state is
-- returned to. Rules that do not come back to themselves are put where they are named, so that the stack grows by what is
-- nested alone. Each rule can end, and none begins with itself; else it is an error, and a grammar that passes has a way on from
-- each state.

local core = require "tessera.core"
local nodes = require "tessera.hf.grammar.nodes"
local sets = require "tessera.hf.grammar.sets"

local automaton = {}

local MOST_STATES = 400000
local INLINE = 4000 -- states of a rule that is put where it is named
local DEEPEST = 200

-- ---- what rules there are

local function need_rules(rules, root, what)
  local missing, seen = {}, {}
  local function look(name, from)
    if not rules[name] then
      if not seen[name] then missing[#missing + 1] = ("'%s'%s"):format(core.shown(name, 40), from and " in '" .. core.shown(from, 40) .. "'" or "") end
      seen[name] = true
      return
    end
    if seen[name] then return end
    seen[name] = true
    nodes.each_ref(rules[name], function(other) look(other, name) end)
  end
  look(root)
  table.sort(missing)
  if missing[1] then core.fail(("%s: rules are missing: %s"):format(what, table.concat(missing, ", "))) end
  return seen
end

-- Rules that come back to themselves: by Tarjan's algorithm, without a stack of calls.
local function recursive_rules(rules, used)
  local index, low, on, stack, found, n = {}, {}, {}, {}, {}, 0
  local function refs_of(name)
    local list, seen = {}, {}
    nodes.each_ref(rules[name], function(other)
      if not seen[other] then seen[other], list[#list + 1] = true, other end
    end)
    return list, seen
  end
  for start in pairs(used) do
    local work = not index[start] and { { name = start } } or {}
    while work[1] do
      local w = work[#work]
      if not w.refs then
        n = n + 1
        index[w.name], low[w.name], on[w.name] = n, n, true
        stack[#stack + 1] = w.name
        local itself
        w.refs, itself = refs_of(w.name)
        w.at = 0
        if itself[w.name] then found[w.name] = true end
      end
      w.at = w.at + 1
      local other = w.refs[w.at]
      if other and not index[other] then
        work[#work + 1] = { name = other }
      elseif other then
        if on[other] then low[w.name] = math.min(low[w.name], index[other]) end
      else
        work[#work] = nil
        if work[1] then low[work[#work].name] = math.min(low[work[#work].name], low[w.name]) end
        if low[w.name] == index[w.name] then
          local group = {}
          repeat
            local name = table.remove(stack)
            on[name], group[#group + 1] = nil, name
          until name == w.name
          if #group > 1 then
            for _, name in ipairs(group) do found[name] = true end
          end
        end
      end
    end
  end
  return found
end

-- About how many states a node becomes, with rules that do not come back to themselves in place.
local function sizes(rules, recursive)
  local known = {}
  local function size(node, depth)
    if depth > DEEPEST * 4 then return math.huge end
    if node.kind == "text" then return #node.text end
    if node.kind == "set" then return 4 end
    if node.kind == "rep" then return size(node.node, depth + 1) * math.max(1, node.most or node.least + 1) end
    if node.kind == "ref" then
      if recursive[node.name] then return 1 end
      known[node.name] = known[node.name] or size(rules[node.name], depth + 1)
      return known[node.name]
    end
    local n = 1
    for _, part in ipairs(node) do n = n + size(part, depth + 1) end
    return n
  end
  return function(name) return size(nodes.ref(name), 0) end
end

-- ---- states

local Builder = {}
Builder.__index = Builder

function Builder:state()
  local n = #self.states + 1
  if n > MOST_STATES then core.fail(("%s: it has more than %d states\n  hint: fewer repetitions"):format(self.what, MOST_STATES)) end
  self.states[n] = { bytes = {}, none = {}, calls = {} }
  return n
end

function Builder:byte(from, lo, hi, to)
  local list = self.states[from].bytes
  list[#list + 1] = { lo, hi, to }
end

function Builder:none(from, to)
  local list = self.states[from].none
  list[#list + 1] = to
end

-- Characters whose last bytes are alike share their states.
function Builder:set(node, from, to)
  local shared, any = {}, false
  for _, seq in ipairs(sets.sequences(node.set)) do
    local target, key = to, ""
    any = true
    for i = #seq, 2, -1 do
      key = ("%d-%d "):format(seq[i][1], seq[i][2]) .. key
      if not shared[key] then
        shared[key] = self:state()
        self:byte(shared[key], seq[i][1], seq[i][2], target)
      end
      target = shared[key]
    end
    self:byte(from, seq[1][1], seq[1][2], target)
  end
  if not any then core.fail(self.what .. ": a set of characters is empty, so nothing can stand there") end
end

function Builder:rep(node, from, to, depth)
  local at = from
  for _ = 1, node.least do
    local next_ = self:state()
    self:add(node.node, at, next_, depth)
    at = next_
  end
  if node.most then
    for _ = node.least + 1, node.most do
      local begin, next_ = self:state(), self:state()
      self:none(at, begin)
      self:none(at, to)
      self:add(node.node, begin, next_, depth)
      at = next_
    end
    return self:none(at, to)
  end
  local loop, back = self:state(), self:state()
  self:none(at, loop)
  self:none(loop, to)
  self:add(node.node, loop, back, depth)
  self:none(back, loop)
end

function Builder:add(node, from, to, depth)
  if depth > DEEPEST * 4 then core.fail(("%s: it is nested more than %d deep"):format(self.what, DEEPEST)) end
  local kind = node.kind
  if kind == "text" then
    for i = 1, #node.text do
      local next_ = i == #node.text and to or self:state()
      self:byte(from, node.text:byte(i), node.text:byte(i), next_)
      from = next_
    end
    if node.text == "" then self:none(from, to) end
  elseif kind == "set" then
    self:set(node, from, to)
  elseif kind == "seq" then
    for i, part in ipairs(node) do
      local next_ = i == #node and to or self:state()
      self:add(part, from, next_, depth + 1)
      from = next_
    end
    if #node == 0 then self:none(from, to) end
  elseif kind == "alt" then
    for _, part in ipairs(node) do self:add(part, from, to, depth + 1) end
  elseif kind == "rep" then
    self:rep(node, from, to, depth + 1)
  elseif not self.recursive[node.name] and self.size(node.name) <= INLINE then
    self:add(self.rules[node.name], from, to, depth + 1)
  else
    local calls = self.states[from].calls
    calls[#calls + 1] = { node.name, to }
    self.wanted[#self.wanted + 1] = node.name
  end
end

-- ---- what must not be

-- Which states can reach the end of their rule; rules that have none are an error.
local function need_ends(self)
  local states, ends = self.states, {}
  for _, s in pairs(self.last) do ends[s] = true end
  local changed = true
  while changed do
    changed = false
    for i = #states, 1, -1 do
      if not ends[i] then
        local s, good = states[i], false
        for _, to in ipairs(s.none) do good = good or ends[to] end
        for _, e in ipairs(s.bytes) do good = good or ends[e[3]] end
        for _, c in ipairs(s.calls) do good = good or (ends[self.first[c[1]]] and ends[c[2]]) end
        if good then ends[i], changed = true, true end
      end
    end
  end
  local bad = {}
  for name, s in pairs(self.first) do
    if not ends[s] then bad[#bad + 1] = "'" .. core.shown(name, 40) .. "'" end
  end
  table.sort(bad)
  if bad[1] then core.fail(("%s: rules never end: %s"):format(self.what, table.concat(bad, ", "))) end
end

-- States that nothing leads from their rule's begin to, and the rules that are called there; `empty` are rules that can be nothing.
local function reach(self, name, empty)
  local seen, work, calls, ends = {}, { self.first[name] }, {}, false
  while work[1] do
    local i = table.remove(work)
    if not seen[i] then
      seen[i] = true
      ends = ends or i == self.last[name]
      for _, to in ipairs(self.states[i].none) do work[#work + 1] = to end
      for _, c in ipairs(self.states[i].calls) do
        calls[c[1]] = true
        if empty[c[1]] then work[#work + 1] = c[2] end
      end
    end
  end
  return ends, calls
end

local function need_progress(self)
  local empty, changed, calls = {}, true, {}
  while changed do
    changed = false
    for name in pairs(self.first) do
      local ends, own = reach(self, name, empty)
      calls[name] = own
      if ends and not empty[name] then empty[name], changed = true, true end
    end
  end
  local state = {}
  local function look(name, depth)
    if state[name] == "open" or depth > MOST_STATES then core.fail(("%s: rule '%s' begins with itself"):format(self.what, core.shown(name, 40))) end
    if state[name] then return end
    state[name] = "open"
    for other in pairs(calls[name]) do look(other, depth + 1) end
    state[name] = "done"
  end
  local ok, why = pcall(function()
    for name in pairs(self.first) do look(name, 0) end
  end)
  if not ok then error(why, 0) end
end

--- {states, first}: states are {bytes = {{from, to, state}, ..}, none = {state, ..}, calls = {{first state, state}, ..}, ends};
--- what: how errors call the grammar.
function automaton.build(rules, root, what)
  local used = need_rules(rules, root, what)
  local recursive = recursive_rules(rules, used)
  local self = setmetatable({ rules = rules, what = what, recursive = recursive, states = {}, first = {}, last = {}, wanted = { root } }, Builder)
  self.size = sizes(rules, recursive)
  while self.wanted[1] do
    local name = table.remove(self.wanted)
    if not self.first[name] then
      self.first[name], self.last[name] = self:state(), self:state()
      self:add(rules[name], self.first[name], self.last[name], 0)
    end
  end
  need_ends(self)
  need_progress(self)
  for _, i in pairs(self.last) do self.states[i].ends = true end
  for _, s in ipairs(self.states) do
    for _, c in ipairs(s.calls) do c[1] = self.first[c[1]] end
  end
  return { states = self.states, first = self.first[root] }
end

return automaton
