-- JSON's values as nodes (nodes.lua), and values of schemas as their text. White space is what people write and no more: one space, or
-- a line with up to 20 spaces; numbers have at most 15 digits; a character of a text that is written by its number is none of
-- the halves of others.

local nodes = require "tessera.hf.grammar.nodes"
local sets = require "tessera.hf.grammar.sets"

local values = {}
local text, set, seq, alt, rep, ref, maybe = nodes.text, nodes.set, nodes.seq, nodes.alt, nodes.rep, nodes.ref, nodes.maybe

local SPACES = sets.chars(" \t")
local DIGIT, FROM_ONE = sets.chars { 48, 57 }, sets.chars { 49, 57 }
local HEX = sets.chars({ 48, 57 }, { 65, 70 }, { 97, 102 })
local CONTROL = sets.chars { 0, 31 }

function values.space() return maybe(alt { text " ", seq { text "\n", rep(set(SPACES), 0, 20) } }) end

-- ---- texts

--- Characters that stand in a text as they are.
values.plain = sets.complement(sets.union(CONTROL, sets.chars '"\\'))
local SHORT = { [8] = "\\b", [9] = "\\t", [10] = "\\n", [12] = "\\f", [13] = "\\r", [34] = '\\"', [92] = "\\\\" }

--- A character of a set as it stands in a text of JSON.
function values.char(own)
  local list = {}
  local direct = sets.both(own, values.plain)
  if #direct > 0 then list[1] = set(direct) end
  for _, r in ipairs(sets.minus(own, values.plain)) do
    for c = r[1], math.min(r[2], 92) do list[#list + 1] = text(SHORT[c] or ("\\u%04x"):format(c)) end
  end
  return alt(list)
end

-- Any character, also by its number.
local function any_char()
  local escapes = seq { text "\\", alt { set(sets.chars '"\\/bfnrt'), seq { text "u", alt {
    seq { set(sets.minus(HEX, sets.chars "dD")), rep(set(HEX), 3, 3) },
    seq { set(sets.chars "dD"), set(sets.chars { 48, 55 }), rep(set(HEX), 2, 2) } } } } }
  return alt { set(values.plain), escapes }
end

--- A text of so many characters.
function values.string(least, most) return seq { text '"', rep(any_char(), least or 0, most), text '"' } end

--- The nodes of an expression (regex.lua) as they stand in a text.
function values.inside(node)
  if node.kind == "set" then return values.char(node.set) end
  if node.kind == "rep" then return rep(values.inside(node.node), node.least, node.most) end
  local list = { kind = node.kind }
  for i, part in ipairs(node) do list[i] = values.inside(part) end
  return list
end

--- A text whose characters stand as they are, and which is none of a list.
function values.other_than(names)
  local root = { kids = {} }
  for _, name in ipairs(names) do
    local at = root
    for _, c in ipairs(sets.codes(name)) do
      at.kids[c] = at.kids[c] or { kids = {} }
      at = at.kids[c]
    end
    at.is = true
  end
  local function around(at)
    local codes, list = {}, {}
    for c in pairs(at.kids) do codes[#codes + 1] = c end
    table.sort(codes)
    for i, c in ipairs(codes) do
      local one = sets.both(sets.chars(c), values.plain)
      if #one > 0 then list[#list + 1] = seq { set(one), around(at.kids[c]) } end
      codes[i] = { c, c }
    end
    list[#list + 1] = seq { set(sets.minus(values.plain, sets.of(codes))), rep(set(values.plain), 0) }
    if not at.is then list[#list + 1] = seq {} end
    return alt(list)
  end
  return seq { text '"', around(root), text '"' }
end

-- ---- numbers

local function digits(least, most) return rep(set(DIGIT), least, most) end

--- Digits behind the point.
function values.fraction() return seq { text ".", digits(1, 15) } end

function values.integer()
  return seq { maybe(text "-"), alt { text "0", seq { set(FROM_ONE), digits(0, 14) } } }
end

function values.number()
  local exponent = seq { set(sets.chars "eE"), maybe(set(sets.chars "+-")), digits(1, 2) }
  return seq { values.integer(), maybe(values.fraction()), maybe(exponent) }
end

-- Whole numbers of `count` digits from a to b as products of ranges of digits.
local function divide(a, b, count, out)
  for i = 1, count - 1 do
    local size = 10 ^ i
    if math.floor(a / size) ~= math.floor(b / size) then
      local cut = a % size ~= 0 and a - a % size + size or b % size ~= size - 1 and b - b % size
      if cut then
        divide(a, cut - 1, count, out)
        return divide(cut, b, count, out)
      end
    end
  end
  local x, y, list = ("%.0f"):format(a), ("%.0f"):format(b), {}
  for i = 1, count do list[i] = set { { x:byte(i), y:byte(i) } } end
  out[#out + 1] = seq(list)
end

--- The whole numbers from a to b, 0 <= a <= b < 10^15; nil: there are none.
function values.range(a, b)
  local out = {}
  for count = 1, 15 do
    local from, to = math.max(a, count == 1 and 0 or 10 ^ (count - 1)), math.min(b, 10 ^ count - 1)
    if from <= to then divide(from, to, count, out) end
  end
  return #out > 0 and alt(out) or nil
end

-- ---- lists and objects

--- Items between brackets with commas: least to most of them.
function values.list(open, close, item, least, most)
  local space = values.space()
  if most == 0 then return seq { text(open), space, text(close) } end
  local more = rep(seq { space, text ",", space, item }, math.max(0, least - 1), most and most - 1)
  local some = seq { item, more, space }
  return seq { text(open), space, least == 0 and maybe(some) or some, text(close) }
end

--- The rules of any value: "value", "object", "array".
function values.rules(rules)
  local pair = seq { values.string(), text ":", values.space(), ref "value" }
  rules.object = values.list("{", "}", pair, 0)
  rules.array = values.list("[", "]", ref "value", 0)
  rules.value = alt { ref "object", ref "array", values.string(), values.number(), text "true", text "false", text "null" }
end

return values
