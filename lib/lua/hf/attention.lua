-- Attention of all families: grouped heads, rotary positions, windows, limited scores, norms of queries and keys, sinks,
-- keys and values of a cache. What op.attention cannot do (limited scores, values of another width) is composed of operators,
-- whose sums have the same bits for any number of masked keys as well.

local core = require "tessera.core"
local blocks = require "tessera.hf.blocks"
local heads = require "tessera.nn.heads"
local side_by_side = require "tessera.hf.side_by_side"
local op = core.op

local attention = {}

--- [B, S, H D] as heads [B, H, S, D], and back.
attention.split, attention.join = heads.split, heads.join

local function composed(q, k, v, o)
  local n = q.shape[2]
  local wide = q.dtype == "f64" and "f64" or "f32"
  local scores = op.matmul(q, heads.repeated(k, n):T()):cast(wide) * o.scale
  if o.softcap then scores = op.tanh(scores / o.softcap) * o.softcap end
  local seen, mask = heads.seen(q.shape[3], k.shape[3], o, q.device), o.mask
  if mask and mask.dtype == "bool" then seen = seen and seen:logical_and(mask) or mask end
  if mask and mask.dtype ~= "bool" then scores = scores + mask:cast(wide) end
  if seen then scores = op.where(seen, scores, -math.huge) end
  return op.matmul(op.softmax(scores):cast(v.dtype), heads.repeated(v, n))
end

--- attend(q, k, v, {causal, window, scale, softcap, mask, sink}): heads q [B, H, S, D], k [B, K, T, D], v [B, K, T, E] ->
--- [B, H, S, E]. mask: bool, true where a key is seen, or added to scores.
function attention.attend(q, k, v, o)
  local d = q.shape[4]
  if o.softcap or v.shape[4] ~= d then
    return composed(q, k, v, { causal = o.causal, window = o.window, softcap = o.softcap, mask = o.mask, scale = o.scale or 1 / math.sqrt(d) })
  end
  local mask = o.mask
  if mask and mask.dtype ~= "bool" then mask = mask:cast(q.dtype == "f64" and "f64" or "f32") end
  return op.attention(q, k, v, mask, o.sink, { causal = o.causal, window = o.window, scale = o.scale })
end

local Attention = blocks.define "Attention"
attention.Attention = Attention

--- Attention(c, {heads, kv_heads, head_dim, width, bias, out_bias, out = "o_proj", rope, window, softcap, scale, sinks, norm,
--- whole_norm}, index): of decoders. norm(width) makes a norm of queries and keys, of each head, or, whole_norm, of all. index:
--- the layer's place in a cache.
function Attention:init(o, index)
  self.heads, self.kv_heads, self.head_dim, self.index = o.heads, o.kv_heads or o.heads, o.head_dim, index
  self.rope, self.window, self.softcap, self.scale, self.whole_norm = o.rope, o.window, o.softcap, o.scale, o.whole_norm
  self.out = o.out or "o_proj"
  local d, h, k = o.head_dim, self.heads, self.kv_heads
  self.q_proj = blocks.Linear(o.width, h * d, o.bias)
  self.k_proj = blocks.Linear(o.width, k * d, o.bias)
  self.v_proj = blocks.Linear(o.width, k * d, o.bias)
  self[self.out] = blocks.Linear(h * d, o.width, o.out_bias)
  if o.norm then self.q_norm, self.k_norm = o.norm(o.whole_norm and h * d or d), o.norm(o.whole_norm and k * d or d) end
  if o.sinks then self:want("sinks", { h }) end
end

-- Queries, keys and values as heads.
function Attention:project(x)
  local q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
  if self.whole_norm then q, k = self.q_norm(q), self.k_norm(k) end
  q, k, v = attention.split(q, self.heads), attention.split(k, self.kv_heads), attention.split(v, self.kv_heads)
  if self.q_norm and not self.whole_norm then q, k = self.q_norm(q), self.k_norm(k) end
  return q, k, v
end

--- Layers whose matrices may stand side by side (side_by_side.lua).
function Attention:beside() return self.q_proj and { self.q_proj, self.k_proj, self.v_proj } or {} end

-- Which heads turn, bool [H, 1, 1]; made once a call for each number of heads.
local function turning(at, all, count)
  local name = all .. " " .. count
  at.turning = at.turning or {}
  at.turning[name] = at.turning[name] or op.arange(all):to(at.device):lt(count):reshape { all, 1, 1 }
  return at.turning[name]
end

local function straight(x) return x.shape[1] * x.shape[3] > 1 and x:contiguous() or x end

-- The same of matrices side by side: heads of one tensor, of which queries and keys are turned at once. A step's cache takes keys and
-- values as they stand. Queries of several texts are laid straight, as attention of few queries takes them. nil: the matrices are apart.
function Attention:project_beside(x, at)
  local y = at.cache and self.q_proj and not self.q_norm and side_by_side.of(self, self:beside(), x)
  if not y then return nil end
  local h, k = self.heads, self.kv_heads
  local all = attention.split(y, h + 2 * k)
  if at.cache.is_pair and at.cache:is_pair(self.index) then
    if self.rope then all = op.where(turning(at, h + 2 * k, h + k), self.rope:turn(all, at), all) end
    return straight(all:narrow(1, 0, h)), all:narrow(1, h, 2 * k)
  end
  local turned = all:narrow(1, 0, h + k)
  if self.rope then turned = self.rope:turn(turned, at) end
  return straight(turned:narrow(1, 0, h)), straight(turned:narrow(1, h, k)), straight(all:narrow(1, h + k, k))
end

--- at: of the call (decoder.lua).
function Attention:forward(x, at)
  local q, k, v = self:project_beside(x, at)
  if not q then
    q, k, v = self:project(x)
    if self.rope then q, k = self.rope:turn(q, at), self.rope:turn(k, at) end
  end
  return self[self.out](attention.join(self:attend(q, k, v, at)))
end

-- Rows of several lengths see keys up to their own position, bool [B, 1, S, T]; made once a call for each window.
local function seen_by_rows(at, t, window)
  local name = window or 0
  at.seen = at.seen or {}
  if not at.seen[name] then
    local keys, rows = op.arange(t):to(at.device), at.rows:unsqueeze(-1)
    local seen = keys:le(rows)
    if window then seen = seen:logical_and(keys:gt(rows - window)) end
    at.seen[name] = seen:unsqueeze(1)
  end
  return at.seen[name]
end

--- What attention of a decoder is asked for: {causal, window, mask}.
function attention.asked(at, t, window)
  if at.rows then return { mask = seen_by_rows(at, t, window) } end
  return { causal = true, window = window, mask = at.mask }
end

--- Heads with those of the cache. v nil: k has keys and values, for append_beside.
function Attention:attend(q, k, v, at)
  if at.cache and at.cache.attend then -- of pages
    return at.cache:attend(self.index, q, k, v, { window = self.window, scale = self.scale, softcap = self.softcap, sink = self.sinks }, at)
  end
  if at.cache and not v then
    k, v = at.cache:append_beside(self.index, k)
  elseif at.cache then
    k, v = at.cache:append(self.index, k, v)
  end
  local o = attention.asked(at, k.shape[3], self.window)
  o.scale, o.softcap, o.sink = self.scale, self.softcap, self.sinks
  return attention.attend(q, k, v, o)
end

-- ---- of encoders, and of decoders to encoders

local Heads = blocks.define "Heads"
attention.Heads = Heads

--- Heads(width, heads, names, {bias, key_bias, out_bias, head_dim, scale, causal}): names = {q, k, v, out} of its linear
--- layers, a nil out is elsewhere. Called with (x, {mask, memory, cache, index}).
function Heads:init(width, heads, names, o)
  o = o or {}
  local d = o.head_dim or width / heads
  self.heads, self.names, self.causal, self.scale = heads, names, o.causal, o.scale
  local bias = o.bias ~= false
  local key_bias, out_bias = o.key_bias, o.out_bias
  if key_bias == nil then key_bias = bias end
  if out_bias == nil then out_bias = bias end
  self[names[1]] = blocks.Linear(width, heads * d, bias)
  self[names[2]] = blocks.Linear(width, heads * d, key_bias)
  self[names[3]] = blocks.Linear(width, heads * d, bias)
  if names[4] then self[names[4]] = blocks.Linear(heads * d, width, out_bias) end
end

function Heads:forward(x, o)
  local q = attention.split(self[self.names[1]](x), self.heads)
  local k, v
  if o.memory and o.cache then k, v = o.cache:memory(o.index) end
  if not k then
    local from = o.memory or x
    k, v = attention.split(self[self.names[2]](from), self.heads), attention.split(self[self.names[3]](from), self.heads)
    if o.memory and o.cache then o.cache:remember(o.index, k, v) end
    if not o.memory and o.cache then k, v = o.cache:append(o.index, k, v) end
  end
  local y = attention.join(attention.attend(q, k, v, { causal = self.causal, mask = o.mask, scale = self.scale }))
  return self.names[4] and self[self.names[4]](y) or y
end

return attention
