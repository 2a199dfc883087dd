-- Damaged and hostile tokenizer.json: an error that says what, or a tokenizer; never a crash, nor memory or time without bound.
-- FUZZ_COUNT: how many damaged ones.
local tessera = require "tessera"
local of_json = require("tessera.hf.tokenizer").of_json

local function model(more) return '{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}' .. (more or "") .. "}" end
#of_json(model()) --> 3
of_json "" --! no JSON: a value is missing at byte 0
of_json "[]" --! no object
of_json "{}" --! 'model' is missing
of_json '{"model":{"type":"BPE"}}' --! model: 'vocab' is missing
of_json '{"model":{"type":"BBPE","vocab":{}}}' --! model: there is no model 'BBPE'
of_json '{"model":{"type":"BPE","vocab":{"a":1e15},"merges":[]}}' --! model: the id of 'a' is no whole number from 0 to 2147483647
of_json '{"model":{"type":"BPE","vocab":{"a":2000000000},"merges":[]}}' --! model: token 'a' has the id 2000000000, among 0 tokens
of_json '{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}' --! model: the id of 'a' is no whole number
of_json '{"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}}' --! model: merge 0 makes 'aa', which is no token
of_json '{"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}}' --! model: merge 0 is no two tokens
of_json '{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}}' --! model: BPE: 'dropout' is 0.1: tokens would be random
of_json '{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":3}}' --! model: 'unk_id' is no token: there are 1
of_json(model ',"normalizer":{"type":"NFX"}') --! normalizer: there is no normalizer 'NFX'
of_json(model ',"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"}') --! normalizer: precompiled_charsmap is no map of characters
of_json(model ',"pre_tokenizer":{"type":"Metaspces","replacement":"_"}') --! pre_tokenizer: there is no pre-tokenizer 'Metaspces'
of_json(model ',"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}') --! pre_tokenizer: missing closing parenthesis
of_json(model ',"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"Isolate"}') --! pre_tokenizer: there is no behavior 'Isolate'
of_json(model ',"decoder":{"type":"Bytes"}') --! decoder: there is no decoder 'Bytes'
of_json(model ',"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],"pair":[]}') --! post_processor: 'x' of the template is none of 'special_tokens'
of_json(model(',"normalizer":' .. ('{"type":"Sequence","normalizers":['):rep(600) .. ("]}"):rep(600))) --! arrays and objects stand too deep

of_json(model(',"decoder":{"type":"Fuse"}')):bytes_of(0) --> a
-- Little text that becomes much, and much text.
local grows = of_json(model(',"normalizer":{"type":"Sequence","normalizers":[' .. ('{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"},'):rep(12) .. '{"type":"NFC"}]}'))
grows:encode "a" --! the text becomes longer than
#of_json(model()):encode(("ab"):rep(200000)).ids --> 200000
#of_json('{"model":{"type":"Unigram","vocab":[["<unk>",0],["a",-1],["aa",-1.5]],"unk_id":0}}'):encode(("a"):rep(100001)).ids --> 50001
#of_json('{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##a":2},"unk_token":"[UNK]","max_input_chars_per_word":1000000}}'):encode(("a"):rep(100000)).ids --> 100000

-- ---- damage
local file = assert(io.open("tests/text/vectors.jsonl", "rb"))
local texts = {}
for line in file:lines() do
  local text = line:match '"file":(.*),"cases":%[{'
  if #text < 12000 then texts[#texts + 1] = text end
end
file:close()
local state = tonumber(os.getenv "FUZZ_SEED" or "") or 4711
local function random(n)
  state = (state * 16807) % 2147483647
  return state % n + 1
end
local pieces = { "null", "true", "-1", "1e308", '""', '"a"', "[]", "{}", "[[", "}}", '"\\ud800"', "\255", "\0", '"type":"Sequence",', "4294967296", ",", '"▁"' }
local read, said = 0, 0
for _ = 1, tonumber(os.getenv "FUZZ_COUNT" or "") or os.getenv "LONG" and 100000 or 400 do
  local text = texts[random(#texts)]
  for _ = 1, random(3) do
    local at, n = random(#text), random(12)
    local k = random(4)
    local middle = k == 1 and "" or k == 2 and pieces[random(#pieces)] or k == 3 and string.char(random(256) - 1) or text:sub(at, at + n) .. text:sub(at, at + n)
    text = text:sub(1, at - 1) .. middle .. text:sub(at + (k == 4 and 1 or n))
  end
  local ok, tok = pcall(of_json, text)
  if ok then
    read = read + 1
    pcall(tok.encode, tok, "a b é 你好 <s> [MASK]  x\n", { offsets = true, pair = "b" })
    pcall(tok.decode, tok, { 0, 1, 2, 3, 300, 7 })
  else
    assert(type(tok) == "string" and not tok:find "internal", tok)
    said = said + 1
  end
end
assert(read > 0 and said > 0)
