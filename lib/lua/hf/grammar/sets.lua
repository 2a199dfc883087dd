-- Sets of characters as sorted lists of {from, to}, and the sequences of bytes that they are in UTF-8.

local sets = {}

local MOST = 0x10FFFF
local CONTROL = { { 0xD800, 0xDFFF } } -- halves of characters, which UTF-8 does not have

--- In order, without overlaps.
function sets.of(ranges)
  local list, out = {}, {}
  for _, r in ipairs(ranges) do
    if r[1] <= r[2] then list[#list + 1] = { r[1], r[2] } end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for _, r in ipairs(list) do
    local last = out[#out]
    if last and r[1] <= last[2] + 1 then last[2] = math.max(last[2], r[2]) else out[#out + 1] = r end
  end
  return out
end

--- Of texts and numbers: a character, or {from, to}.
function sets.chars(...)
  local list = {}
  for i, v in ipairs { ... } do
    if type(v) == "string" then
      for c in v:gmatch "." do list[#list + 1] = { c:byte(), c:byte() } end
    else
      list[#list + 1] = type(v) == "table" and v or { v, v }
    end
  end
  return sets.of(list)
end

function sets.union(a, b)
  local list = {}
  for _, r in ipairs(a) do list[#list + 1] = r end
  for _, r in ipairs(b) do list[#list + 1] = r end
  return sets.of(list)
end

local function without(a, b)
  local out = {}
  for _, r in ipairs(a) do
    local from = r[1]
    for _, s in ipairs(b) do
      if s[1] > r[2] then break end
      if s[2] >= from then
        if s[1] > from then out[#out + 1] = { from, s[1] - 1 } end
        from = s[2] + 1
      end
    end
    if from <= r[2] then out[#out + 1] = { from, r[2] } end
  end
  return out
end

function sets.minus(a, b) return without(a, b) end
function sets.both(a, b) return without(a, without(a, b)) end

--- All characters.
sets.all = without({ { 0, MOST } }, CONTROL)
function sets.complement(a) return without(sets.all, a) end

-- ---- UTF-8

local function bytes_of(c, n)
  if n == 1 then return { c } end
  local list = {}
  for i = n, 2, -1 do
    list[i] = 0x80 + c % 64
    c = math.floor(c / 64)
  end
  list[1] = ({ [2] = 0xC0, [3] = 0xE0, [4] = 0xF0 })[n] + c
  return list
end

--- The bytes of a character.
function sets.utf8(c)
  local n = c < 0x80 and 1 or c < 0x800 and 2 or c < 0x10000 and 3 or 4
  return string.char(unpack(bytes_of(c, n)))
end

-- A range of characters of n bytes as products of ranges of bytes: it is cut where the last i bytes do not go through all that
-- they can be.
local function divide(from, to, n, out)
  for i = 1, n - 1 do
    local size = 64 ^ i
    if math.floor(from / size) ~= math.floor(to / size) then
      if from % size ~= 0 then
        local cut = from - from % size + size
        divide(from, cut - 1, n, out)
        return divide(cut, to, n, out)
      end
      if to % size ~= size - 1 then
        local cut = to - to % size
        divide(from, cut - 1, n, out)
        return divide(cut, to, n, out)
      end
    end
  end
  local a, b, one = bytes_of(from, n), bytes_of(to, n), {}
  for i = 1, n do one[i] = { a[i], b[i] } end
  out[#out + 1] = one
end

--- Lists of {from, to} of bytes, one of which a character of the set matches.
function sets.sequences(set)
  local out, from = {}, 0
  for n, most in ipairs { 0x7F, 0x7FF, 0xFFFF, MOST } do
    for _, r in ipairs(without(set, CONTROL)) do
      local a, b = math.max(r[1], from), math.min(r[2], most)
      if a <= b then divide(a, b, n, out) end
    end
    from = most + 1
  end
  return out
end

--- The characters of a text in UTF-8, as numbers.
function sets.codes(text)
  local list = {}
  for ch in text:gmatch "[%z\1-\127\192-\255][\128-\191]*" do
    local c = ch:byte()
    c = c < 0x80 and c or c < 0xE0 and c % 32 or c < 0xF0 and c % 16 or c % 8
    for i = 2, #ch do c = c * 64 + ch:byte(i) % 64 end
    list[#list + 1] = c
  end
  return list
end

return sets
