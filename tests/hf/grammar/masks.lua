-- A mask has the tokens whose bytes lead on, each tried alone, wherever a text stands; what is made by masks is of the grammar.
local tessera = require "tessera"
local tools = dofile "tests/hf/grammar/_tools.lua"
local Grammar = require "tessera.hf.grammar.grammar"
local of_json = require("tessera.hf.tokenizer").of_json
local tok, over = tools.tokenizer()

local grammars = {
  { "json", true }, { "regex", "a*(?:bc|[^x-z]{2,3})+" }, { "regex", "[ä-ö€日]+" },
  { "grammar", 'root ::= "(" root ")" | word ("," root)*\nword ::= [a-z]+ | "ä" | .{1,2} "!"\n' },
  { "grammar", 'root ::= s\ns ::= "a" s "b" | ""\n' },
  { "json_schema", [[{"type": "object", "properties": {"na": {"type": "integer"}, "name": {"$ref": "#"}}, "additionalProperties": true}]] },
}
local tried, finished = 0, 0
for _, row in ipairs(grammars) do
  local g, random = Grammar.of(row[1], row[2]), tools.random(#row[1] + 3)
  for _ = 1, 6 do
    local place, ends = g:place(tok, over + 1), { [over] = true }
    for _ = 1, 24 do
      local mask, list = place:mask(ends, "cpu"):totable()[1], {}
      for id = 0, over - 1 do
        local can = g.stacks:read(place.set, tok:bytes_of(id)) ~= false
        assert(can == mask[id + 1], ("%s: token %d"):format(row[1], id))
        if can then list[#list + 1] = id end
        tried = tried + 1
      end
      assert(mask[over + 1] == place:may_end())
      if place:has_ended() or #list == 0 then break end
      place:accept(list[random(#list) + 1])
    end
  end
  for _ = 1, 20 do
    local text, place = tools.text(g, tok, over, random, 300)
    if text then
      finished = finished + 1
      assert(g:matches(text) and place:may_end(), row[1] .. ": " .. text)
    end
  end
end
tried > 100000 --> true
finished > 60 --> true

-- ---- tokens as bytes
local function bytes(decoder, vocab)
  local t = of_json(('{"decoder": %s, "model": {"type": "WordLevel", "unk_token": "a", "vocab": {%s}}}'):format(decoder, vocab))
  local list = {}
  for id = 0, #t - 1 do list[id + 1] = t:bytes_of(id) end
  return table.concat(list, "|") .. "."
end
local sentence = [[{"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
  {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}]]
bytes('{"type": "ByteLevel"}', '"a": 0, "Ġb": 1, "Ã": 2, "¤c": 3, "日": 4'):gsub("[\128-\255]", function(c) return ("<%02x>"):format(c:byte()) end) --> a| b|<c3>|<a4>c|<e6><97><a5>., 5
bytes(sentence, '"a": 0, "▁b": 1, "<0x41>": 2, "▁▁": 3') --> a| b|A|  .
bytes('{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}', '"a": 0, "▁b▁c": 1') --> a| b c.
bytes('{"type": "WordPiece", "prefix": "##", "cleanup": true}', '"a": 0, "##b": 1') -->  a|b.
bytes('{"type": "BPEDecoder", "suffix": "</w>"}', '"a": 0, "b</w>": 1') --> a|b .
bytes("null", '"a": 0') -->  a.

-- A token that loses its space at the begin of a text does so in a mask.
local spaced = of_json(('{"decoder": %s, "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "▁a": 1, "▁": 2}}}'):format(sentence))
local place = Grammar.of("regex", "a a"):place(spaced, 3)
place:mask({}, "cpu"):totable() --> {{true, true, false}}
place:accept(1)
place:mask({}, "cpu"):totable() --> {{false, true, true}}
place:accept(1)
place:has_ended() --> true
Grammar.of("regex", "aa"):place(spaced, 3):accept(2) --! token 2 cannot stand here
local stuck = Grammar.of("regex", "ab"):place(spaced, 3)
stuck:accept(0)
stuck:mask({}, "cpu") --! no token of the vocabulary goes on from here

-- ---- what a grammar must not be
local function gbnf(text) return tostring(Grammar.of("grammar", text)) end
gbnf 'root ::= a b\na ::= c' --! rules are missing: 'b' in 'root', 'c' in 'a'
gbnf 'root ::= root "a" | "b"' --! rule 'root' begins with itself
gbnf 'root ::= a\na ::= ""? b\nb ::= a "x" | "y"' --! begins with itself
gbnf 'root ::= "a" root' --! rules never end: 'root'
gbnf 'root ::= ("a"{1000}){1000}' --! more than 400000 states
gbnf('root ::= ' .. ("("):rep(5000)) --! more than 200 deep
Grammar.of("grammar", 'root ::= (("a"?)*)*'):matches "aaa" --> true
-- Many ways to read a text are few stacks.
Grammar.of("grammar", 'root ::= ("a" | "a" "a" | "aaa")*'):matches(("a"):rep(500)) --> true
