-- A small byte-level vocabulary, random texts of a grammar by its masks, and a generator of numbers.
local tessera = require "tessera"
local bit = require "bit"
local of_json = require("tessera.hf.tokenizer").of_json
local tools = {}

local function utf8(c) return require("tessera.hf.grammar.sets").utf8(c) end

-- GPT-2's character of each byte.
local function alphabet()
  local chars, n = {}, 0
  for b = 0, 255 do
    local own = (b >= 33 and b <= 126) or (b >= 161 and b <= 172) or b >= 174
    chars[b] = utf8(own and b or 256 + n)
    n = n + (own and 0 or 1)
  end
  return chars
end

local WORDS = { '"}', '":', '", "', '": "', ' "', '{"', '[]', '{}', "},", "], ", "true", "false", "null", "tru", "12", "1.", "e+", "\\u", "\\n", "\\\"",
  "name", "na", "äö", "ö\"", "\195", "\164\"", "日本", "abc", "ab", " {", "}}", "\"]", "0,", "-1", "\n  ", "20", "T1", ":0", "€", "a\":" }

--- Bytes, words of JSON and parts of characters as tokens; the last one, whose id is the second result, ends a text.
function tools.tokenizer()
  local chars, words, seen = alphabet(), {}, {}
  local json = tessera.core.open_json()
  local function add(bytes)
    if seen[bytes] then return end
    seen[bytes] = true
    local s = bytes:gsub(".", function(b) return chars[b:byte()] end)
    words[#words + 1] = ("%s: %d"):format(json.encode(s), #words)
  end
  for b = 0, 255 do add(string.char(b)) end
  for _, w in ipairs(WORDS) do add(w) end
  local n = #words
  return of_json(([[{"added_tokens": [{"id": %d, "content": "<end>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
    "normalized": false}], "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(n,
    table.concat(words, ", "))), n
end

--- random(n): a whole number below n, always the same ones in turn.
function tools.random(seed)
  local state = seed * 2654435761 % 2 ^ 32 + 1
  return function(n)
    state = bit.bxor(state, bit.lshift(state, 13))
    state = bit.bxor(state, bit.rshift(state, 17))
    state = bit.bxor(state, bit.lshift(state, 5))
    return state % n
  end
end

--- A random text of a grammar by its masks alone; nil where it got longer than `most` tokens. Behind half of these what ends a text
--- is taken where it may be, and short ways are preferred.
function tools.text(g, tok, over, random, most)
  local place, parts, ends = g:place(tok, over + 1), {}, { [over] = true }
  for n = 1, most do
    if place:has_ended() then return table.concat(parts), place end
    local mask, list = place:mask(ends, "cpu"):totable()[1], {}
    for id = 0, over do
      if mask[id + 1] then list[#list + 1] = id end
    end
    if mask[over + 1] and (n > most / 2 or random(4) == 0) then return table.concat(parts), place end
    local id = list[random(#list) + 1]
    if n > most / 3 then -- closing ones, if there are
      for _, other in ipairs(list) do
        if random(3) > 0 and tok:bytes_of(other):find '^["}%]]' then id = other end
      end
    end
    if id == over then return table.concat(parts), place end
    parts[#parts + 1] = tok:bytes_of(id)
    place:accept(id)
  end
end

return tools
