-- hf.tokenizer as programs use it: options, places, batches, padding, truncation, streams, messages.
local tessera = require "tessera"
local hf = tessera.hf

local dir = os.tmpname()
os.remove(dir)
assert(os.execute("mkdir " .. dir) == 0)
local function write(name, text)
  local file = assert(io.open(dir .. "/" .. name, "wb"))
  file:write(text)
  file:close()
  return dir .. "/" .. name
end

write("tokenizer.json", [[{"version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 0, "content": "[CLS]", "special": true, "normalized": false}, {"id": 1, "content": "[SEP]", "special": true, "normalized": false},
    {"id": 9, "content": "<x>", "special": false, "normalized": false}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
      {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [0], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [1], "tokens": ["[SEP]"]}}},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "##b": 4, "cafe": 5, ",": 6, "the": 7, "##re": 8}}}]])
local tok = hf.tokenizer(dir)
tostring(tok) --> tokenizer: BertNormalizer, BertPreTokenizer, WordPiece, TemplateProcessing; 10 tokens, 3 of them added
#tok --> 10

local function ids(e) return table.concat(e.ids, " ") end
local e = tok:encode("There, Café ab zz", { offsets = true })
ids(e) --> 0 7 8 6 5 3 4 2 1
tostring(e) --> 9 tokens: 0 '[CLS]', 7 'the', 8 '##re', 6 ',', 5 'cafe', 3 'a', 4 '##b', 2 '[UNK]', 1 '[SEP]'
table.concat(e.special) --> 100000001
table.concat(e.mask) --> 111111111
table.concat(e.words, " ") --> 0 1 1 2 3 4 4 5 0
("There, Café ab zz"):sub(unpack(e.offsets[5])) --> Café
("There, Café ab zz"):sub(unpack(e.offsets[1])) == "" --> true
table.concat(tok:encode("There, Café ab", { offsets = "chars" }).offsets[5], "..") --> 8..11
tok:encode("a").offsets --> nil
ids(tok:encode("ab", { add_special_tokens = false })) --> 3 4
ids(tok:encode("a<x>b[SEP]")) --> 0 3 9 2 1 1
ids(tok:encode("a[SEP]", { special_in_text = false, add_special_tokens = false })) --> 3 2 2 2
ids(tok:encode("a", { pair = "the" })) --> 0 3 1 7 1
table.concat(tok:encode("a", { pair = "the" }).types) --> 00011
ids(tok:encode "") --> 0 1
tok:decode { 0, 7, 8, 6, 5, 1 } --> there, cafe
tok:decode({ 0, 7, 8 }, { skip_special_tokens = false }) --> [CLS] there
tok:decode(tessera.tensor({ 7, 8 }, { dtype = "i64" })) --> there
tok:decode(tessera.tensor({ { 7, 8 } }, { dtype = "i64" })) --> there
tok:decode(tessera.tensor({ { 7 }, { 8 } }, { dtype = "i64" })) --! ids are of one text, i64[2,1] are of more
tok:decode(e) --> there, cafe ab [UNK]
tok:decode { 123456 } -->
(tok:token(8)) --> ##re
select(2, tok:token(0)) --> true
(tok:token(1000)) --> nil
tok:id "##re" --> 8
tok:id "<x>" --> 9
(tok:id "nothing") --> nil

-- ---- truncation, padding, batches
ids(tok:encode("a a a a a", { truncation = 4 })) --> 0 3 3 1
ids(tok:encode("a the the", { truncation = { length = 4, side = "left" } })) --> 0 7 7 1
ids(tok:encode("a a a", { pair = "the the", truncation = 6 })) --> 0 3 3 1 7 1
ids(tok:encode("a a a", { pair = "the the", truncation = { length = 6, strategy = "first" } })) --> 0 3 1 7 7 1
ids(tok:encode("a a a", { pair = "the the", truncation = { length = 7, strategy = "second" } })) --> 0 3 3 3 1 7 1
ids(tok:encode("a", { padding = 5 })) --> 0 3 1 0 0
table.concat(tok:encode("a", { padding = 5 }).mask) --> 11100
ids(tok:encode("a", { padding = { multiple = 4, id = 2, side = "left" } })) --> 2 0 3 1
local batch = tok:encode_batch({ "a", "the the" }, { padding = true, tensors = true })
batch.ids:totable() --> {{0, 3, 1, 0}, {0, 7, 7, 1}}
batch.mask:totable() --> {{1, 1, 1, 0}, {1, 1, 1, 1}}
batch.ids.dtype --> i64
#tok:encode_batch({ "a", "the the" })[1].ids --> 3
ids(tok:encode_batch({ "a" }, { pairs = { "the" } })[1]) --> 0 3 1 7 1
tok:encode("a a", { tensors = true }).ids:totable() --> {0, 3, 3, 1}

-- ---- messages
tok:encode(7) --! tok:encode: a text is needed, not a number
tok:encode("a", { ofsets = true }) --! tok:encode: unknown option 'ofsets'
tok:encode("a", { truncation = "x" }) --! tok:encode: option 'truncation' must be false, a number of tokens, or a table, not 'x'
tok:encode("a", { truncation = { lenght = 3 } }) --! truncation: unknown option 'lenght'
tok:encode("a", { truncation = 1 }) --! truncation: 2 tokens are put in, 1 are the most
ids(tok:encode("a", { truncation = { length = 4, strategy = "second" } })) --> 0 3 1
tok:encode("a a a a", { truncation = { length = 4, strategy = "second" } }) --! truncation: there is no second text to be cut
tok:encode "a\255b" --! the text is no UTF-8 from byte 2 on
tok:encode_batch({ "a", "the the" }, { tensors = true }) --! tok:encode_batch: tensors need one length, and texts have 3 and 4 tokens
tok:encode_batch({ "a" }, { pairs = { "a", "b" } }) --! tok:encode_batch: 2 pairs for 1 texts
tok:decode "a" --! tok:decode: a list of ids is needed, not a string
tok:decode { 1.5 } --! decode: id 1 is no whole number
tok:decode { -1 } --! decode: id 1 is -1, ids begin with 0
tok:token "a" --! tok:token: an id is a number, not a string
hf.tokenizer(3) --! hf.tokenizer: a path is needed, not a number
hf.tokenizer(dir, { pattern = "x" }) --! hf.tokenizer: 'pattern' is for vocabularies of tiktoken
hf.tokenizer "/nowhere" --! /nowhere: there is no such file or folder

-- ---- streams: no half characters
local bytes = hf.tokenizer(write("b.tiktoken", (function()
  local lines, digits = {}, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  for b = 0, 255 do
    local hi, lo = math.floor(b / 4) + 1, b % 4 * 16 + 1
    lines[b + 1] = digits:sub(hi, hi) .. digits:sub(lo, lo) .. "== " .. b
  end
  lines[257] = "aGk= 256" -- hi
  return table.concat(lines, "\n") .. "\n"
end)()), { pattern = [[\s?\S+|\s+]], special = { ["<end>"] = 257 } })
ids(bytes:encode "hi ö<end>") --> 256 32 195 182 257
bytes:decode { 256, 32, 195, 182, 257 } --> hi ö
bytes:decode { 195 } == "\239\191\189" --> true
local stream, out = bytes:stream(), {}
for i, id in ipairs { 256, 32, 195, 182, 257, 240, 159, 152, 128, 195 } do out[i] = stream(id) end
table.concat(out, "|") == "hi| ||ö|||||😀|" --> true
stream.rest() == "\239\191\189" --> true
hf.tokenizer(dir .. "/b.tiktoken") --! b.tiktoken: how it divides text is not in the file
hf.tokenizer(write("c.tiktoken", "aGk=\n"), { pattern = "x" }) --! c.tiktoken:1: no token in base64 with its rank

-- ---- a pattern that never ends is an error, not a wait
local slow = hf.tokenizer(dir .. "/b.tiktoken", { pattern = [[(\p{L}+)+$]] })
slow:encode(("x"):rep(40) .. "!") --! a match at byte 0 takes too many steps

-- ---- words that are misspelt: methods, and options that neither tok:chat nor the template has
tok.encod --! a tokenizer has no 'encod'
tok:chat({}, { template = "{{ greeting }}", greting = 1 }) --! unknown option 'greting', which the template does not name either
select(2, pcall(tok.chat, tok, {}, { template = "{{ greeting }}", greting = 1 })):match "did you mean '(%w+)'" --> greeting

os.execute("rm -r " .. dir)
