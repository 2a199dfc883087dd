-- Where a text stands in a grammar: a set of stacks, of which each has a state on top and below it the states that rules return
-- to. Stacks share their lower parts, and are one object where they are equal, as sets are, so that what was found of one is found
-- again. Nobody keeps what no text stands in: the tables that find them hold them weakly.

local core = require "tessera.core"

local Stacks = {}
Stacks.__index = Stacks

local MOST = 4096 -- stacks of a set
local WEAK = { __mode = "v" }

--- Of an automaton (automaton.lua).
function Stacks.new(auto, what)
  return setmetatable({ states = auto.states, first = auto.first, what = what, count = 0, roots = setmetatable({}, WEAK),
    sets = setmetatable({}, WEAK) }, Stacks)
end

-- The stack with a state on top of another; false: of none, behind which the grammar ends.
function Stacks:stack(state, below)
  local kids = self.roots
  if below then
    kids = below.kids
    if not kids then
      kids = setmetatable({}, WEAK)
      below.kids = kids
    end
  end
  local s = kids[state]
  if not s then
    self.count = self.count + 1
    s = { state = state, below = below, number = self.count }
    kids[state] = s
  end
  return s
end

-- Whether nothing but its rule's end is behind a state.
local function only_ends(s) return s.ends and #s.bytes == 0 and #s.none == 0 and #s.calls == 0 end

-- All that a stack becomes without a byte, into found: stacks whose top has edges for bytes, and whether the end is reached.
function Stacks:close(state, below, found)
  local key = self:stack(state, below)
  if found.seen[key] then return end
  found.seen[key] = true
  local s = self.states[state]
  if #s.bytes > 0 and not found.has[key] then
    found.has[key], found[#found + 1] = true, key
    if #found > MOST then core.fail(("%s: it is too ambiguous: a text can be read in more than %d ways at once"):format(self.what, MOST)) end
  end
  for _, to in ipairs(s.none) do self:close(to, below, found) end
  for _, c in ipairs(s.calls) do
    -- A rule that stands last in another returns to where that one does.
    if only_ends(self.states[c[2]]) then
      self:close(c[1], below, found)
    else
      self:close(c[1], self:stack(c[2], below), found)
    end
  end
  if s.ends then
    if below then self:close(below.state, below.below, found) else found.ended = true end
  end
end

local function new_found() return { seen = {}, has = {}, ended = false } end

-- The set of what was found; false: there is no way on.
function Stacks:set(found)
  if #found == 0 and not found.ended then return false end
  table.sort(found, function(a, b) return a.number < b.number end)
  local words = { found.ended and "e" or "" }
  for i, s in ipairs(found) do words[i + 1] = s.number end
  local key = table.concat(words, " ")
  local set = self.sets[key]
  if not set then
    set = { ended = found.ended, next = {} }
    for i, s in ipairs(found) do set[i] = s end
    self.sets[key] = set
  end
  return set
end

--- Where texts begin.
function Stacks:start()
  local found = new_found()
  self:close(self.first, false, found)
  return self:set(found)
end

--- Where the rule above a stack has returned to it.
function Stacks:returned(below)
  if not below.returned then
    local found = new_found()
    self:close(below.state, below.below, found)
    below.returned = self:set(found)
  end
  return below.returned
end

--- A state on top of nothing, as a set.
function Stacks:alone(state) return self:set { self:stack(state, false), ended = false } end

--- Behind a byte more; false: it cannot stand there.
function Stacks:step(set, byte)
  local next_ = set.next[byte]
  if next_ ~= nil then return next_ end
  local found = new_found()
  for _, s in ipairs(set) do
    for _, e in ipairs(self.states[s.state].bytes) do
      if byte >= e[1] and byte <= e[2] then self:close(e[3], s.below, found) end
    end
  end
  next_ = self:set(found)
  set.next[byte] = next_
  return next_
end

--- Behind the bytes of a text.
function Stacks:read(set, text)
  for i = 1, #text do
    set = self:step(set, text:byte(i))
    if not set then return false, i end
  end
  return set
end

return Stacks
