-- Who has which page. A page holds the keys and values of `size` positions in all layers of a group; a group are the layers that see
-- the same window, and has pages of its own. A text has a table for each group: the page of each of its stretches of `size`
-- positions, 0 where it has none. Pages have no contents here: store.lua has the tensors.
--
-- Prefixes. A page that is full and whose text is known stands in a tree: its node is found by the node before it and the page's own
-- tokens, all of them, so two texts meet in it exactly if they are the same from the beginning on. Its keys and values are a
-- function of these tokens, so a text that begins alike takes the page as it is, with the bits that it would have computed.
-- Nobody writes into a page with a node: texts write behind their last full page only.
--
-- Windows. Layers of a group with a window forget pages that no later query sees; so a text holds as many as its window and the
-- positions that come at once fill. Of a prefix only those near its end are needed.
--
-- Tables of texts are the truth of who holds what: `recount` makes all else of them again, after work that was broken off.

local Pages = {}
Pages.__index = Pages

--- new(groups, {size, share, grow}): groups = a list of {window, count, most}, window 0: all positions; of `most` pages, if that is given, count
--- are there, and more when grow(group, count) has come back. share: whether prefixes are found again.
function Pages.new(groups, o)
  local self = setmetatable({ size = o.size, share = o.share, grow = o.grow, groups = {}, index = {}, serial = 0, clock = 0,
    told = { hits = 0, misses = 0, reused = 0, dropped = 0, preempted = 0 } }, Pages)
  for g, row in ipairs(groups) do
    self.groups[g] = { window = row.window, count = row.count, most = row.most or row.count, refs = {}, node = {}, stamp = {} }
  end
  self:recount {}
  return self
end

-- ---- pages of a group

-- free: a list; idle: pages that nobody holds and that have a node, as {page, stamp} in the order in which they were left. A
-- row whose stamp is no longer the page's is none.
local function compact(g)
  local rows = {}
  for k = g.first, g.last do
    if g.stamp[g.idle[k][1]] == g.idle[k][2] then rows[#rows + 1] = g.idle[k] end
  end
  g.idle, g.first, g.last = rows, 1, #rows
end

local function leave(self, g, page)
  if g.node[page] then
    self.clock = self.clock + 1
    g.stamp[page] = self.clock
    if g.last - g.first > 2 * g.count + 64 then compact(g) end
    g.last = g.last + 1
    g.idle[g.last] = { page, self.clock }
    g.nidle = g.nidle + 1
  else
    g.free[#g.free + 1] = page
  end
end

local function give_back(self, g, page)
  g.refs[page] = g.refs[page] - 1
  if g.refs[page] == 0 then leave(self, g, page) end
end

local function hold(g, page)
  if g.refs[page] == 0 then
    g.stamp[page] = 0
    g.nidle = g.nidle - 1
  end
  g.refs[page] = g.refs[page] + 1
end

-- A node goes when none of its pages is left, no text stands on it and nothing begins with it.
local function prune(self, node)
  while node and node.users == 0 and node.kids == 0 and next(node.pages) == nil do
    self.index[node.key] = nil
    node = node.up
    if node then node.kids = node.kids - 1 end
  end
end

local function stand_on(text, page, node)
  text.nodes[page] = node
  node.users = node.users + 1
end

local function forget(self, i, page)
  local g = self.groups[i]
  local node = g.node[page]
  node.pages[i], g.node[page] = nil, nil
  prune(self, node)
end

-- The page that was left first.
local function take_idle(self, i)
  local g = self.groups[i]
  while g.first <= g.last do
    local page, stamp = unpack(g.idle[g.first])
    g.idle[g.first] = nil
    g.first = g.first + 1
    if g.stamp[page] == stamp then
      g.stamp[page], g.nidle = 0, g.nidle - 1
      forget(self, i, page)
      self.told.dropped = self.told.dropped + 1
      return page
    end
  end
end

-- Twice as many pages, before one goes that somebody may ask for again. Nothing is changed if there is no memory for them.
local function extend(self, i)
  local g = self.groups[i]
  local count = math.min(g.most, 2 * g.count)
  self.grow(i, count)
  for page = count, g.count + 1, -1 do
    g.free[#g.free + 1], g.refs[page] = page, 0
  end
  g.count = count
end

local function take(self, i)
  local g = self.groups[i]
  if #g.free == 0 and g.count < g.most then extend(self, i) end
  local n = #g.free
  local page = g.free[n]
  if page then g.free[n] = nil else page = take_idle(self, i) end
  if page then g.refs[page] = 1 end
  return page
end

-- ---- texts

--- open(root): what a new text holds, nothing. root: a word for what else keys depend on; texts of several words share none.
function Pages:open(root)
  local text = { root = tostring(root), tables = {}, nodes = {} }
  for i in ipairs(self.groups) do text.tables[i] = {} end
  return text
end

local function key_of(self, before, tokens, page)
  return before .. ":" .. table.concat(tokens, " ", (page - 1) * self.size + 1, page * self.size)
end

-- The first page, from 1 on, that a query at position n sees.
local function first_seen(self, g, n)
  return g.window == 0 and 1 or math.floor(math.max(0, n - g.window + 1) / self.size) + 1
end

-- How many of the nodes can be taken: of each group the pages that the next query sees are there.
local function usable(self, nodes)
  local n = #nodes
  local function missing()
    for i, g in ipairs(self.groups) do
      for page = first_seen(self, g, n * self.size), n do
        if not nodes[page].pages[i] then return g.window == 0 and page or n end
      end
    end
  end
  while n > 0 do
    local page = missing()
    if not page then return n end
    n = page - 1
  end
  return 0
end

--- match(text, tokens, most): the new text takes pages of its first positions, `most` of them at most, that others left; how many
--- positions that are.
function Pages:match(text, tokens, most)
  if not self.share then return 0 end
  local nodes, before = {}, text.root
  for page = 1, math.floor(most / self.size) do
    local node = self.index[key_of(self, before, tokens, page)]
    if not node then break end
    nodes[page], before = node, node.id
  end
  local n = usable(self, nodes)
  for page = 1, n do
    for i, g in ipairs(self.groups) do
      local own = page >= first_seen(self, g, n * self.size) and nodes[page].pages[i] or 0
      text.tables[i][page] = own
      if own ~= 0 then hold(g, own) end
    end
    stand_on(text, page, nodes[page])
  end
  return n * self.size
end

--- tell(found, most): so many positions of a text were found, of so many, for statistics.
function Pages:tell(found, most)
  if not self.share then return end
  local told, n = self.told, found / self.size
  told.hits, told.misses, told.reused = told.hits + n, told.misses + math.floor(most / self.size) - n, told.reused + found
end

--- How many pages of group i the text holds.
function Pages:held(text, i)
  local n = 0
  for _, page in ipairs(text.tables[i]) do n = n + (page ~= 0 and 1 or 0) end
  return n
end

--- reserve(text, from, to): pages for the positions up to `to`, where queries begin at `from`; those that no query sees any more are
--- given back. False if there are too few: what the text has got it keeps.
function Pages:reserve(text, from, to)
  local last = math.ceil(to / self.size)
  for i, g in ipairs(self.groups) do
    local own, first = text.tables[i], first_seen(self, g, from)
    for page = 1, math.min(first - 1, #own) do
      local old = own[page]
      if old ~= 0 then
        own[page] = 0
        give_back(self, g, old)
      end
    end
    for page = #own + 1, last do
      local new = page < first and 0 or take(self, i)
      if not new then return false end
      own[page] = new
    end
  end
  return true
end

--- note(text, tokens, n): the first n positions are written; pages that are full are found from here on.
function Pages:note(text, tokens, n)
  if not self.share then return end
  for page = #text.nodes + 1, math.floor(n / self.size) do
    local up = text.nodes[page - 1]
    local key = key_of(self, up and up.id or text.root, tokens, page)
    local node = self.index[key]
    if not node then
      self.serial = self.serial + 1
      node = { id = "#" .. self.serial, key = key, up = up, pages = {}, kids = 0, users = 0 }
      self.index[key] = node
      if up then up.kids = up.kids + 1 end
    end
    for i, g in ipairs(self.groups) do
      local own = text.tables[i][page] or 0
      if own ~= 0 and not node.pages[i] and not g.node[own] then node.pages[i], g.node[own] = own, node end
    end
    stand_on(text, page, node)
  end
end

--- The text holds nothing from here on. Its last pages are left first, so that they go before those that more texts begin with.
function Pages:close(text)
  for i, g in ipairs(self.groups) do
    local own = text.tables[i]
    text.tables[i] = {}
    for page = #own, 1, -1 do
      if own[page] ~= 0 then give_back(self, g, own[page]) end
    end
  end
  local nodes = text.nodes
  text.nodes = {}
  for page = #nodes, 1, -1 do
    nodes[page].users = nodes[page].users - 1
    prune(self, nodes[page])
  end
end

--- Whether so many pages of group i can be had.
function Pages:has(i, n)
  local g = self.groups[i]
  return #g.free + g.nidle + g.most - g.count >= n
end

--- How many pages of group i a text with `length` positions holds at most, of which `step` come at once.
function Pages.most(window, size, length, step)
  local all = math.ceil(length / size)
  if window == 0 then return all end
  return math.min(all, math.ceil((window - 1 + step) / size) + 1)
end

--- recount(texts): free and idle pages, and counts, as the tables of these texts say.
function Pages:recount(texts)
  for _, node in pairs(self.index) do node.users, node.kids = 0, 0 end
  for _, node in pairs(self.index) do
    if node.up then node.up.kids = node.up.kids + 1 end
  end
  for _, text in ipairs(texts) do
    for _, node in ipairs(text.nodes) do node.users = node.users + 1 end
  end
  for i, g in ipairs(self.groups) do
    local idle = {}
    for page = 1, g.count do g.refs[page] = 0 end
    for _, text in ipairs(texts) do
      for _, page in ipairs(text.tables[i]) do
        if page ~= 0 then g.refs[page] = g.refs[page] + 1 end
      end
    end
    g.free, g.idle, g.first, g.last, g.nidle = {}, {}, 1, 0, 0
    for page = g.count, 1, -1 do
      if g.refs[page] == 0 then
        if g.node[page] then idle[#idle + 1] = page else g.free[#g.free + 1] = page end
      end
    end
    table.sort(idle, function(a, b) return (g.stamp[a] or 0) < (g.stamp[b] or 0) end)
    for _, page in ipairs(idle) do leave(self, g, page) end
  end
end

--- {size, pages, most, used, idle, free, hits, misses, reused, dropped, preempted}: pages in all groups, how many there may be, those that
--- texts hold, that are kept for prefixes, and that are empty; full pages of prompts that were found, and that were not; positions that were not
--- computed again; pages that made room for others; texts that had to wait again.
function Pages:statistics()
  local s = { size = self.size, pages = 0, most = 0, used = 0, idle = 0, free = 0 }
  for _, g in ipairs(self.groups) do
    s.pages, s.most, s.idle, s.free = s.pages + g.count, s.most + g.most, s.idle + g.nidle, s.free + #g.free
  end
  s.used = s.pages - s.idle - s.free
  for k, v in pairs(self.told) do s[k] = v end
  return s
end

return Pages
