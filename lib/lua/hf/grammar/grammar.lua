-- What a text has to be, read: GBNF, a regular expression, a JSON schema, or any object of JSON; and a place in it for each text that
-- is made, which says what tokens may come next.

local core = require "tessera.core"
local automaton = require "tessera.hf.grammar.automaton"
local ffi = require "ffi"
local Masks = require "tessera.hf.grammar.masks"
local nodes = require "tessera.hf.grammar.nodes"
local Stacks = require "tessera.hf.grammar.stacks"
local vocabulary = require "tessera.hf.grammar.vocabulary"

local grammar = {}

local READ = {}

function READ.grammar(text) return require "tessera.hf.grammar.gbnf"(text) end
function READ.json_schema(given) return require "tessera.hf.grammar.json_schema"(given) end

function READ.regex(text)
  return { root = (require "tessera.hf.grammar.regex"(text)) }, "root"
end

function READ.json()
  local rules = {}
  require("tessera.hf.grammar.json_values").rules(rules)
  return rules, "object"
end

local Grammar = {}
Grammar.__index = Grammar
Grammar.__tostring = function(g) return ("%s of %d states"):format(g.kind, #g.stacks.states) end

local kept, order, MOST_KEPT = {}, {}, 16

--- Of a kind ("grammar", "regex", "json_schema", "json") and its text, or a table; grammars of texts are kept.
function grammar.of(kind, source)
  local key = type(source) ~= "table" and kind .. " " .. tostring(source)
  if key and kept[key] then return kept[key] end
  local rules, root = READ[kind](source)
  local self = setmetatable({ kind = kind, stacks = Stacks.new(automaton.build(rules, root, kind), kind), masks = {}, recent = {} }, Grammar)
  if key then
    kept[key], order[#order + 1] = self, key
    if #order > MOST_KEPT then kept[table.remove(order, 1)] = nil end
  end
  return self
end

--- Whether a text is one of it as a whole.
function Grammar:matches(text)
  local set = self.stacks:read(self.stacks:start(), text)
  return set ~= false and set.ended
end

-- ---- a text's place

local Place = {}
Place.__index = Place

--- Where a text begins whose tokens are of a tokenizer, for a model with `count` logits.
function Grammar:place(tok, count)
  return setmetatable({ grammar = self, vocabulary = vocabulary.of(tok, count), set = self.stacks:start(), begins = true }, Place)
end

-- Masks are of a trie: tokens at the begin of a text may be others than within.
local function masks_of(self)
  local trie = self.begins and self.vocabulary.first or self.vocabulary.trie
  local own = self.grammar.masks
  own[trie] = own[trie] or Masks.new(self.grammar.stacks, trie, self.vocabulary.count)
  return own[trie], trie
end

local RECENT = 32
local words = setmetatable({}, { __mode = "k" }) -- of sets of ends, the same word for equal ones

local function word_of(ends)
  if not words[ends] then
    local list = {}
    for id in pairs(ends) do list[#list + 1] = id end
    table.sort(list)
    words[ends] = table.concat(list, " ")
  end
  return words[ends]
end

--- bool [1, V]: the tokens that may come, with those that end a text where it may end. ends: a set of ids, which
--- stays as it is.
function Place:mask(ends, device)
  local masks, trie = masks_of(self)
  local set = self.set
  set.masks = set.masks or {}
  local t = set.masks[trie]
  if t and t.device == device and t.ends == word_of(ends) then return t.tensor end
  local mark, count = masks:of(set), self.vocabulary.count
  local any = false
  for id in pairs(ends) do -- such a token may have a text as well
    if id >= 0 and id < count then mark[id] = set.ended and 1 or 0 end
  end
  for i = 0, count - 1 do
    if mark[i] ~= 0 then
      any = true
      break
    end
  end
  if not any then core.fail(("%s: no token of the vocabulary goes on from here, nor one that ends the text"):format(self.grammar.kind)) end
  local tensor = core.from_bytes(ffi.string(mark, count), "bool", { 1, count }):to(device)
  set.masks[trie] = { tensor = tensor, device = device, ends = word_of(ends) }
  -- Sets that nobody holds are forgotten; a few are held, since texts come back to the same places.
  local recent = self.grammar.recent
  recent[#recent + 1] = set
  if #recent > RECENT then table.remove(recent, 1).masks = nil end
  return tensor
end

--- A token more. An error where it cannot stand here, as one that somebody else chose.
function Place:accept(id)
  local bytes = self.vocabulary.bytes(id, self.begins)
  local set = bytes and self.grammar.stacks:read(self.set, bytes)
  if not set then core.fail(("%s: token %d cannot stand here"):format(self.grammar.kind, id)) end
  self.set, self.begins = set, false
end

--- Whether the text may end here; whether it has to.
function Place:may_end() return self.set.ended end
function Place:has_ended() return self.set.ended and #self.set == 0 end

return grammar
