-- What models that read a whole text have in common: the arguments of a call, its mask, positions by padding, positions relative
-- to each other.

local core = require "tessera.core"
local decoder = require "tessera.hf.decoder"
local options = require "tessera.options"
local op = core.op

local encoder = {}

local read = options.of("the model", { ids = decoder.tokens, mask = options.tensor, types = options.tensor, positions = options.tensor })

--- m(ids, {mask, types, positions}) or m{ids = .., ..}: ids [B, S]; o.seen: the mask as attention takes it, or nil.
function encoder.arguments(ids, o)
  o = decoder.arguments(ids, o, read)
  o.seen = decoder.key_mask(o.mask, o.ids.shape[1], o.ids.shape[2])
  return o
end

--- Positions from 0 on.
function encoder.count(ids) return op.arange(ids.shape[2]):to(ids.device) end

--- Positions of what is no padding, from padding + 1 on; padding itself stays there.
function encoder.count_behind(ids, padding)
  local text = ids:ne(padding):cast "i64"
  return op.cumsum(text, { axis = 1 }) * text + padding
end

--- Numbers of buckets of distances [S, T] from queries at offset.. to keys: exact up to half of them, by the logarithm up to
--- `most`. Both ways have buckets of their own if `both`, else later keys are at distance 0.
function encoder.buckets(s, t, offset, o)
  local distance = op.arange(t):unsqueeze(0) - op.arange(offset, offset + s):unsqueeze(1)
  local n, base = o.buckets, 0
  if o.both then
    n = n / 2
    base = distance:gt(0):cast "i64" * n
    distance = distance:abs()
  else
    distance = op.neg(op.minimum(distance, 0))
  end
  local exact = math.floor(n / 2)
  local far = (op.log(op.maximum(distance, 1):cast "f32" / exact) / math.log(o.most / exact) * (n - exact)):cast "i64" + exact
  return op.where(distance:lt(exact), distance, op.minimum(far, n - 1)) + base
end

--- What is added to scores, [1, H, S, T], by a table [buckets, H].
function encoder.bias(table_, s, t, offset, o)
  local buckets = encoder.buckets(s, t, offset, o)
  return op.embedding(table_, buckets:to(table_.device)):permute(2, 0, 1):unsqueeze(0)
end

--- A mask of what is seen and what is added to scores, as one.
function encoder.added(seen, bias)
  if not seen then return bias end
  return op.where(seen, bias, -math.huge)
end

return encoder
