-- Keys and values in pages, as tensors: of each layer all pages one behind the other, [heads, pages * positions, width], of which page 0
-- is nobody's. A call sees them as a cache (decoder.lua): `view` of some texts, each of which brings the same number of positions. Where texts
-- stand, and their tables, are tensors of the device, so that a call's operators are the same from step to step.

local attention = require "tessera.hf.attention"
local core = require "tessera.core"
local fp8 = require "tessera.hf.fp8"
local Pages = require "tessera.hf.batching.pages"
local op = core.op

local Store = {}
Store.__index = Store

--- Layers by their window: a list of {window, layers}, window 0 for those that see everything.
function Store.groups_of(model)
  local windows, groups, of = model:cache_windows(), {}, {}
  for i = 1, #model:cache_sizes() do
    local w = windows[i] or 0
    if not of[w] then
      of[w] = { window = w, layers = {} }
      groups[#groups + 1] = of[w]
    end
    table.insert(of[w].layers, i)
  end
  return groups
end

--- How many pages each group has, a list. o = {pages, size, length, chunk, texts}: pages of layers that see everything; of those
--- with a window as many as texts hold at most, and half as many again for prefixes, if that is less.
function Store.counts(groups, o)
  local list = {}
  for g, group in ipairs(groups) do
    local most = Pages.most(group.window, o.size, o.length, o.chunk)
    list[g] = group.window == 0 and o.pages or math.min(o.pages, math.ceil(1.5 * o.texts * most))
  end
  return list
end

local function bytes_of(dtype)
  for _, d in ipairs(core.dtypes()) do
    if d.name == dtype then return d.nbytes end
  end
end

--- Bytes of pages of a model, with those of page 0. o: as of counts, and dtype.
function Store.nbytes(model, o)
  local groups, sizes, sum = Store.groups_of(model), model:cache_sizes(), 0
  local counts = Store.counts(groups, o)
  local scale = fp8.is(o.dtype) and 2 * fp8.scale_bytes or 0
  for g, group in ipairs(groups) do
    for _, i in ipairs(group.layers) do
      local heads, keys, values = unpack(sizes[i])
      sum = sum + heads * (counts[g] + 1) * o.size * ((keys + values) * bytes_of(o.dtype) + scale)
    end
  end
  return sum
end

-- Zeros as o says: pages of a layer.
local function zeros(o, shape, dtype) return op.zeros(shape, { dtype = dtype }):to(o.device) end

-- Takes pages of a group that are there as first ones of `count`: each layer by itself, so that what fails in between has lost nothing.
-- Layers that have as many are left as they are.
local function stretch(self, g, count)
  local n = (count + 1) * self.size
  for _, i in ipairs(self.groups[g].layers) do
    for _, pools in ipairs { self.k, self.v, self.ks, self.vs } do
      local old = pools[i]
      if old and old.shape[2] < n then
        local shape = { unpack(old.shape) }
        shape[2] = n
        local new = zeros(self, shape, old.dtype)
        new:narrow(1, 0, old.shape[2]):copy_(old)
        pools[i], self.nbytes = new, self.nbytes + new.nbytes - old.nbytes
      end
    end
  end
end

--- Pages of group g become `count`; those that are there stay.
function Store:grow(g, count)
  core.no_grad(stretch, self, g, count)
  self.counts[g] = count
end

--- new(model, {pages, size, length, chunk, texts, dtype, device, first}): first: how many pages of a group there are in the beginning.
function Store.new(model, o)
  local self = setmetatable({ size = o.size, device = o.device, dtype = o.dtype, groups = Store.groups_of(model), group = {}, k = {}, v = {},
    ks = {}, vs = {}, nbytes = 0 }, Store)
  self.most, self.counts = Store.counts(self.groups, o), {}
  for g, most in ipairs(self.most) do self.counts[g] = math.min(most, o.first or most) end
  local sizes = model:cache_sizes()
  local function pool(heads, n, width, dtype)
    local t = zeros(o, { heads, n * o.size, width }, dtype)
    self.nbytes = self.nbytes + t.nbytes
    return t
  end
  for g, group in ipairs(self.groups) do
    for _, i in ipairs(group.layers) do
      local heads, keys, values = unpack(sizes[i])
      local n = self.counts[g] + 1
      self.group[i] = g
      self.k[i], self.v[i] = pool(heads, n, keys, o.dtype), pool(heads, n, values, o.dtype)
      if fp8.is(o.dtype) then self.ks[i], self.vs[i] = pool(heads, n, nil, "f32"), pool(heads, n, nil, "f32") end
    end
  end
  return self
end

--- A tensor of pages as [heads, pages, positions, ..].
function Store:pages_of(x) return x:reshape(x.shape[1], x.shape[2] / self.size, self.size, x.shape[3]) end

-- ---- what a call sees

local View = {}
View.__index = View

local function integers(rows, device) return core.tensor(rows, { dtype = "i64", device = device }) end

-- Tables of texts as a tensor: as many pages as the longest text has, up to a power of two.
local function table_of(texts, g, count, device)
  local rows, width = {}, 1
  while width < count do width = 2 * width end
  for b, text in ipairs(texts) do
    rows[b] = {}
    for page = 1, width do rows[b][page] = text and text.tables[g][page] or 0 end
  end
  return integers(rows, device)
end

-- Runs of positions that lie in one page: {text from 0 on, first of the call, count, place among those of all pages}.
local function runs_of(self, texts, starts, count, g)
  local runs, size = {}, self.size
  for b, text in ipairs(texts) do
    local n = 0
    while text and n < count do
      local at = starts[b] + n
      local place = at % size
      local some = math.min(count - n, size - place)
      runs[#runs + 1] = { b - 1, n, some, text.tables[g][(at - place) / size + 1] * size + place }
      n = n + some
    end
  end
  return runs
end

-- Tables of all groups, and where texts stand, as tensors.
local function place(self, texts, starts, count)
  local rows, most, tables = {}, 0, {}
  for b, start in ipairs(starts) do
    rows[b] = {}
    for i = 1, count do rows[b][i] = start + i - 1 end
    most = math.max(most, start + count)
  end
  for g in ipairs(self.groups) do tables[g] = table_of(texts, g, math.ceil(most / self.size), self.device) end
  return integers(rows, self.device), integers(starts, self.device), tables
end

--- view(texts, starts, count, room): a cache for texts that bring `count` positions each, behind `starts` of them; pages are there. A
--- text may be false: a row that is nobody's. room: the length for which positions are scaled.
function Store:view(texts, starts, count, room)
  local rows, start, tables = place(self, texts, starts, count)
  local runs = {}
  for g in ipairs(self.groups) do runs[g] = runs_of(self, texts, starts, count, g) end
  return setmetatable({ store = self, room = room, length = 0, count = count, rows = rows, start = start, tables = tables, runs = runs }, View)
end

--- The same for texts that bring one position each, as what a captured function takes (captured.lua): rows, start, tables, and slots,
--- where among all positions of all pages what comes is written.
function Store:arguments(texts, starts)
  local rows, start, tables = place(self, texts, starts, 1)
  local slots = {}
  for g in ipairs(self.groups) do
    local own = {}
    for b, at in ipairs(starts) do
      own[b] = texts[b] and texts[b].tables[g][math.floor(at / self.size) + 1] * self.size + at % self.size or 0
    end
    slots[g] = integers(own, self.device)
  end
  return rows, start, tables, slots
end

--- The view within such a function: pools = {k, v, ks, vs}, lists by layer.
function Store:view_of(pools, room, rows, start, tables, slots)
  local store = setmetatable({ k = pools.k, v = pools.v, ks = pools.ks, vs = pools.vs }, { __index = self })
  return setmetatable({ store = store, room = room, length = 0, count = 1, rows = rows, start = start, tables = tables, slots = slots }, View)
end

function View:need() end
function View:advance() end

-- Rows [B, H, S, D] into their pages.
local function put(pool, x, runs)
  for _, r in ipairs(runs) do
    local b, first, n, place = unpack(r)
    pool:narrow(1, place, n):copy_(x:select(0, b):narrow(1, first, n))
  end
end

-- The same of rows that bring one position each, wherever a tensor says: in place, in captured functions.
local function scatter(pool, x, slots)
  x = x:narrow(2, 0, 1):squeeze { axis = 2 }:transpose(0, 1):contiguous()
  local n = slots.shape[1]
  local index = x.ndim == 3 and slots:reshape(1, n, 1) or slots:reshape(1, n)
  pool:scatter_(index:broadcast_to(x.shape):contiguous(), x, { axis = 1 })
end

function View:write(i, k, v)
  local s, g = self.store, self.store.group[i]
  local function write(pool, x)
    if x.dtype ~= pool.dtype then x = x:cast(pool.dtype) end
    if self.slots then scatter(pool, x, self.slots[g]) else put(pool, x, self.runs[g]) end
  end
  if s.ks[i] then
    local scale
    k, scale = fp8.narrow(k, s.dtype)
    write(s.ks[i], scale)
    v, scale = fp8.narrow(v, s.dtype)
    write(s.vs[i], scale)
  end
  write(s.k[i], k)
  write(s.v[i], v)
end

-- All positions of the texts one behind the other, [B, H, T, D]; zeros where no query looks.
local function together(self, i, pool, scale, dtype, window)
  pool, scale = self.store:pages_of(pool), scale and self.store:pages_of(scale)
  local index = self.tables[self.store.group[i]]
  local y = op.index_select(pool, index, { axis = 1 })
  if scale then y = fp8.wide(y, op.index_select(scale, index, { axis = 1 }), dtype) elseif y.dtype ~= dtype then y = y:cast(dtype) end
  local h, b, m, size, d = unpack(y.shape)
  y = y:reshape(h, b, m * size, d):permute(1, 0, 2, 3)
  local keys, start = op.arange(m * size):to(self.start.device), self.start:unsqueeze(1)
  local read = keys:lt(start + self.count)
  if window then read = read:logical_and(keys:gt(start - window)) end
  return op.where(read:unsqueeze(1):unsqueeze(-1), y, op.zeros_like(y))
end

--- Keys and values behind those of the layer; all of them so far.
function View:append(i, k, v)
  local s = self.store
  self:write(i, k, v)
  local window = s.groups[s.group[i]].window
  window = window > 0 and window or nil
  return together(self, i, s.k[i], s.ks[i], k.dtype, window), together(self, i, s.v[i], s.vs[i], v.dtype, window)
end

--- What queries make of keys and values, which are written behind those of the layer: [B, H, S, E]. o: as of attention.attend.
function View:attend(i, q, k, v, o, at)
  if o.softcap then
    k, v = self:append(i, k, v)
    local asked = attention.asked(at, k.shape[3], o.window)
    return attention.attend(q, k, v, { mask = asked.mask, scale = o.scale, softcap = o.softcap, sink = o.sink })
  end
  local s = self.store
  self:write(i, k, v)
  local ks, vs = s.ks[i] and s:pages_of(s.ks[i]), s.vs[i] and s:pages_of(s.vs[i])
  return op.paged_attention(q, s:pages_of(s.k[i]), s:pages_of(s.v[i]), self.tables[s.group[i]], self.start, o.sink, ks, vs,
    { window = o.window, scale = o.scale })
end

return Store
