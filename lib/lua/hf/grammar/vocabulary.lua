-- The bytes of a vocabulary's tokens as a trie, in the order of a walk that goes down first: of each node its byte, its depth, where
-- its subtree ends and which tokens end there. Special tokens and those without bytes are not in it: no grammar has them.

local core = require "tessera.core"
local ffi = require "ffi"

local vocabulary = {}

-- Whether a token that begins with a space loses it at the begin of a text, as SentencePiece's do.
local function strips(tok, count)
  for id = 0, count - 1 do
    local s, special = tok:token(id)
    if s and not special then
      local bytes = tok:bytes_of(id)
      if bytes:match "^ %a+$" then return tok:decode({ id }) == bytes:sub(2) end
    end
  end
  return false
end

local function common(a, b)
  local n, most = 0, math.min(#a, #b)
  while n < most and a:byte(n + 1) == b:byte(n + 1) do n = n + 1 end
  return n
end

-- Of a list of {id, bytes}.
local function trie_of(list)
  table.sort(list, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[1] < b[1]
  end)
  local n, before = 1, ""
  for _, t in ipairs(list) do
    n = n + #t[2] - common(before, t[2])
    before = t[2]
  end
  local trie = { n = n, byte = ffi.new("uint8_t[?]", n), depth = ffi.new("uint16_t[?]", n), skip = ffi.new("int32_t[?]", n),
    from = ffi.new("int32_t[?]", n + 1), token = ffi.new("int32_t[?]", #list + 1) }
  local open, at = { [0] = 0 }, 0
  before = ""
  for i, t in ipairs(list) do
    local bytes = t[2]
    local same = common(before, bytes)
    for d = #before, same + 1, -1 do trie.skip[open[d]] = at + 1 end
    for d = same + 1, #bytes do
      at = at + 1
      trie.byte[at], trie.depth[at], trie.from[at] = bytes:byte(d), d, i - 1
      open[d] = at
    end
    trie.token[i - 1] = t[1]
    before = bytes
  end
  for d = #before, 0, -1 do trie.skip[open[d]] = n end
  trie.from[n] = #list
  return trie
end

local kept = setmetatable({}, { __mode = "k" })

--- {count, bytes(id), trie, first}: of a tokenizer, for a model with so many logits; first is the trie of what tokens are at the
--- begin of a text. It is made once.
function vocabulary.of(tok, count)
  kept[tok] = kept[tok] or {}
  local v = kept[tok][count]
  if v then return v end
  local inside, first, text = {}, {}, {}
  local stripped = strips(tok, count)
  for id = 0, count - 1 do
    local s, special = tok:token(id)
    local bytes = s and not special and tok:bytes_of(id) or ""
    if #bytes > 60000 then bytes = "" end
    if bytes ~= "" then
      text[id], inside[#inside + 1] = bytes, { id, bytes }
      local own = stripped and bytes:gsub("^ ", "") or bytes
      if own ~= "" then first[#first + 1] = { id, own } end
    end
  end
  if #inside == 0 then core.fail "grammar: the tokenizer has no tokens with text" end
  v = { count = count, trie = trie_of(inside), stripped = stripped }
  v.first = stripped and trie_of(first) or v.trie
  --- The bytes of a token, at the begin of a text or within; nil: none that a grammar can have.
  function v.bytes(id, begins)
    local bytes = text[id]
    if begins and stripped and bytes then bytes = bytes:gsub("^ ", "") end
    return bytes ~= "" and bytes or nil
  end
  kept[tok][count] = v
  return v
end

return vocabulary
