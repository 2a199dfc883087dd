-- Keys and values of earlier positions, in tensors of their whole length from the start, which are written in place: no
-- step of a generation makes them anew.

local core = require "tessera.core"
local fp8 = require "tessera.hf.fp8"
local options = require "tessera.options"
local op = core.op

local Cache = {}
Cache.__index = Cache
Cache.__tostring = function(c)
  return ("cache of %d layers, %d of %d positions, batch %d, %s"):format(#c.sizes, c.length, c.room, c.batch,
    require("tessera.units").size(c.nbytes))
end

--- new(sizes, {batch, length, dtype, device}): sizes = a list of {heads, width of keys, width of values} by layer.
function Cache.new(sizes, o)
  local self = setmetatable({ sizes = sizes, k = {}, v = {}, mk = {}, mv = {}, length = 0, room = o.length, batch = o.batch, nbytes = 0 }, Cache)
  local function zeros(shape, dtype)
    local t = op.zeros(shape, { dtype = dtype }):to(o.device)
    self.nbytes = self.nbytes + t.nbytes
    return t
  end
  if fp8.is(o.dtype) then self.ks, self.vs = {}, {} end
  for i, s in ipairs(sizes) do
    self.k[i], self.v[i] = zeros({ o.batch, s[1], o.length, s[2] }, o.dtype), zeros({ o.batch, s[1], o.length, s[3] }, o.dtype)
    if self.ks then self.ks[i], self.vs[i] = zeros({ o.batch, s[1], o.length }, "f32"), zeros({ o.batch, s[1], o.length }, "f32") end
  end
  return self
end

local COUNT = options.whole { least = 1 }
local read = options.of("m:cache", { batch = COUNT, length = COUNT, dtype = fp8.kind }, { batch = 1 })

--- The cache of a model by its options {batch, length, dtype}; w, a weight, says where it lies, and in which type, if that is
--- none of blocks.
function Cache.of(model, w, o)
  o = read(o)
  local blocks = require "tessera.hf.blocks"
  return Cache.new(model:cache_sizes(), { batch = o.batch, length = o.length or model:cache_length(),
    dtype = o.dtype or (blocks.in_blocks(w.dtype) and "f32" or w.dtype), device = w.device })
end

--- For a call with n more positions: an error where they have no room.
function Cache:need(batch, n)
  if self.lengths and n ~= 1 then core.fail "the cache has rows of several lengths, and takes one position more of each at a time" end
  if batch ~= self.batch then core.fail(("the cache is for a batch of %d, not %d"):format(self.batch, batch)) end
  if self.length + n > self.room then
    core.fail(("the cache has room for %d positions: %d are there and %d come\n  hint: m:cache{length = %d}"):format(self.room, self.length, n,
      self.length + n))
  end
end

--- Keys and values [B, H, S, D] behind those of the layer; all of them so far, of rows of several lengths as many as the longest
--- has, as numbers of the type that comes.
function Cache:append(i, k, v)
  local n, at, dtype = k.shape[3], self.length, k.dtype
  local function put(to, from)
    for row, own in ipairs(self.lengths or { at }) do
      if self.lengths then
        to:narrow(0, row - 1, 1):narrow(2, own, n):copy_(from:narrow(0, row - 1, 1))
      else
        to:narrow(2, own, n):copy_(from)
      end
    end
    return to:narrow(2, 0, at + n)
  end
  local function put_narrow(to, scales, from)
    local q, scale = fp8.narrow(from, to.dtype)
    return fp8.wide(put(to, q), put(scales, scale), from.dtype)
  end
  if self.ks then return put_narrow(self.k[i], self.ks[i], k), put_narrow(self.v[i], self.vs[i], v) end
  k, v = put(self.k[i], k), put(self.v[i], v)
  if k.dtype ~= dtype then return k:cast(dtype), v:cast(dtype) end
  return k, v
end

--- The cache of a row alone, which lies in this one.
function Cache:row(row)
  local own = setmetatable({ sizes = self.sizes, k = {}, v = {}, mk = {}, mv = {}, length = 0, room = self.room, batch = 1, nbytes = 0 }, Cache)
  for _, name in ipairs { "k", "v", "ks", "vs" } do
    if self[name] then
      own[name] = {}
      for i, t in ipairs(self[name]) do own[name][i] = t:narrow(0, row, 1) end
    end
  end
  return own
end

--- Rows have so many positions each, a list; calls behind it bring one more position for each row.
function Cache:set_lengths(lengths)
  self.lengths, self.length = lengths, 0
  for _, n in ipairs(lengths) do self.length = math.max(self.length, n) end
end

--- Rows become copies of others: the i-th that of rows[i], from 0 on; there may be more or fewer of them. Only positions that
--- count are moved.
function Cache:take(rows)
  local same = #rows == self.batch
  for i, row in ipairs(rows) do same = same and row == i - 1 end
  if same or #self.k == 0 then return self end
  local index = core.tensor(rows, { dtype = "i64", device = self.k[1].device })
  for _, name in ipairs { "k", "v", "ks", "vs" } do
    for i, t in ipairs(self[name] or {}) do
      local own = op.index_select(t:narrow(2, 0, self.length), index, { axis = 0 })
      if #rows ~= self.batch then
        local shape = t.shape
        shape[1] = #rows
        t = op.zeros(shape, { dtype = t.dtype }):to(t.device)
      end
      t:narrow(2, 0, self.length):copy_(own)
      self[name][i] = t
    end
  end
  for _, name in ipairs { "mk", "mv" } do
    for i, t in pairs(self[name]) do self[name][i] = op.index_select(t, index, { axis = 0 }) end
  end
  if self.lengths then
    local lengths = {}
    for i, row in ipairs(rows) do lengths[i] = self.lengths[row + 1] end
    self.lengths = lengths
  end
  self.nbytes = self.nbytes / self.batch * #rows
  self.batch = #rows
  return self
end

--- Of what another tensor gives once: an encoder's result.
function Cache:remember(i, k, v) self.mk[i], self.mv[i] = k, v end
function Cache:memory(i) return self.mk[i], self.mv[i] end

--- Behind a call: n more positions count.
function Cache:advance(n)
  self.length = self.length + n
  for i, own in ipairs(self.lengths or {}) do self.lengths[i] = own + n end
end

--- Forgets all positions but the first n, none if it is not given.
---   cache:reset()
function Cache:reset(n)
  n = options.argument("cache:reset", "the number of positions", options.whole { least = 0, most = self.length }, n or 0)
  self.length = n
  if n == 0 then
    self.mk, self.mv, self.lengths = {}, {}, nil
  else
    for i, own in ipairs(self.lengths or {}) do self.lengths[i] = math.min(own, n) end
  end
  return self
end

return Cache
