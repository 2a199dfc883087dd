-- pages_of(keys of each text [K,T,D], size): pages [K,N,size,D] that lie in no order, and of each text the list of its own. Page 0, with
-- which lists that are shorter end, is in no text; what nobody looks at is NaN.
local tessera = require "tessera"
local op = tessera.op

return function(texts, size)
  local count = 1
  for _, k in ipairs(texts) do count = count + math.ceil(k.shape[2] / size) end
  local heads, d = texts[1].shape[1], texts[1].shape[3]
  local pool = op.full({ heads, count, size, d }, 0 / 0):cast(texts[1].dtype)
  local lists, longest, free = {}, 0, count - 1
  for b, k in ipairs(texts) do
    lists[b] = {}
    for at = 0, k.shape[2] - 1, size do
      local n = math.min(size, k.shape[2] - at)
      pool:select(1, free):narrow(1, 0, n):copy_(k:narrow(1, at, n))
      lists[b][#lists[b] + 1], free = free, free - 1
    end
    longest = math.max(longest, #lists[b])
  end
  for _, list in ipairs(lists) do
    while #list < longest + 1 do list[#list + 1] = 0 end
  end
  return pool, lists
end
