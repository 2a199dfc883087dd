-- Whole numbers >= 0 as the bytes of files, the least significant first. Exact up to 2^53.

local little = {}

--- v in n bytes; what does not fit is cut off.
function little.bytes(v, n)
  local out = {}
  for i = 1, n do
    out[i] = string.char(v % 256)
    v = math.floor(v / 256)
  end
  return table.concat(out)
end

--- The number that all bytes of s are.
function little.number(s)
  local v = 0
  for i = #s, 1, -1 do v = v * 256 + s:byte(i) end
  return v
end

return little
