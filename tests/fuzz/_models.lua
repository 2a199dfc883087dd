-- What models are made of as texts and files: of each format good ones, pieces that damage is made of, and what is done with one.
local tessera = require "tessera"
local core = tessera.core
local formats = {}

local path = os.tmpname()

local function read_file(name)
  local f = assert(io.open(name, "rb"))
  local s = f:read "*a"
  f:close()
  return s
end

-- A new file each time: another may still be mapped.
local function in_file(ext, bytes)
  local name = path .. ext
  os.remove(name)
  local f = assert(io.open(name, "wb"))
  f:write(bytes)
  f:close()
  return name
end

--- Removes what was written.
function formats.clean()
  for _, ext in ipairs { "", ".safetensors", ".gguf" } do os.remove(path .. ext) end
end

local WORDS = { "-1", "0", "1e308", "4294967296", "9007199254740993", "18446744073709551616", "[]", "{}", "null", "true", '"x"', "[[", "]]", "}}",
  ":", ",", "\0", "\255", '"\\ud800"', "\237\160\128", ("["):rep(3000), ('{"a":'):rep(1500), ("("):rep(3000), ("9"):rep(400) }
local LENGTHS = { "\0\0\0\0\0\0\0\0", "\255\255\255\255\255\255\255\255", "\255\255\255\127", "\0\0\0\0\0\0\0\128", "\0\0\0\0\1\0\0\0", "\1\0\0\0\0\0\0\0",
  "\8\0\0\0", "\9\0\0\0", "\0\0\1\0" }

-- ---- files

local function safetensors_seed()
  local name = path .. ".safetensors"
  tessera.save(name, { a = core.tensor { { 1, 2 }, { 3, 4 } }, b = core.op.arange(5), c = core.op.ones({}, { dtype = "bf16" }) }, { k = "v" })
  return read_file(name)
end

local function look_at(tensors)
  for _, t in pairs(tensors) do t:bytes() end
end

formats[1] = { name = "safetensors", seeds = function() return { safetensors_seed() } end, pieces = { WORDS, LENGTHS, { "F32", "BOOL", "MXFP4", '"shape"', '"data_offsets"' } },
  read = function(bytes) look_at((tessera.load(in_file(".safetensors", bytes)))) end }

local function u(n, v)
  local out = {}
  for i = 1, n do
    out[i] = string.char(v % 256)
    v = math.floor(v / 256)
  end
  return table.concat(out)
end
local function text(s) return u(8, #s) .. s end
local function strings(list)
  local out = {}
  for i, s in ipairs(list) do out[i] = text(s) end
  return u(4, 9) .. u(4, 8) .. u(8, #list) .. table.concat(out)
end

-- A vocabulary and a chat template, as a file has them.
local function gguf_seed()
  local rows = { text "tokenizer.ggml.model" .. u(4, 8) .. text "gpt2", text "tokenizer.ggml.pre" .. u(4, 8) .. text "gpt-2",
    text "tokenizer.ggml.tokens" .. strings { "a", "b", "ab", "Ġa", "<s>" }, text "tokenizer.ggml.merges" .. strings { "a b", "Ġ a" },
    text "tokenizer.ggml.token_type" .. u(4, 9) .. u(4, 5) .. u(8, 5) .. u(4, 1):rep(4) .. u(4, 3), text "tokenizer.ggml.bos_token_id" .. u(4, 4) .. u(4, 4),
    text "tokenizer.chat_template" .. u(4, 8) .. text "{% for m in messages %}{{ m.content }}{% endfor %}" }
  return "GGUF" .. u(4, 3) .. u(8, 0) .. u(8, #rows) .. table.concat(rows)
end

formats[2] = { name = "gguf", seeds = function() return { read_file "tests/vectors/small.gguf", gguf_seed() } end,
  pieces = { LENGTHS, { "tokenizer.ggml.tokens", "llama", "\4\0\0\0", "\10\0\0\0" } },
  read = function(bytes)
    local name = in_file(".gguf", bytes)
    local ok, why = pcall(function() look_at((tessera.load(name))) end)
    local good, tok = pcall(tessera.hf.tokenizer, name)
    if good then tok:encode "a b ab" end
    pcall(tessera.hf.chat_template, name)
    if not ok then error(why, 0) end
  end }

local function tokenizers()
  local list = {}
  for line in io.lines "tests/text/vectors.jsonl" do
    local s = line:match '"file":(.*),"cases":%[{'
    if #s < 8000 then list[#list + 1] = s end
  end
  return list
end

formats[3] = { name = "tokenizer.json", seeds = tokenizers, pieces = { WORDS, { '"type":"Sequence",', '"type":"BPE"', '"▁"', '"Regex":"("' } },
  read = function(bytes)
    local tok = require("tessera.hf.tokenizer").of_json(bytes)
    local ok, why = pcall(function()
      tok:encode("a b é 你好 <s> [MASK]  x\n", { offsets = true, pair = "b" })
      tok:decode { 0, 1, 2, 3, 300, 7 }
      for id = 0, 9 do tok:bytes_of(id) end
    end)
    if not ok then error(why, 0) end
  end }

-- ---- texts

local VARIABLES = { messages = { { role = "user", content = "a" }, { role = "assistant", content = "b" } }, bos_token = "<s>", tools = { { name = "f" } } }

local function templates()
  local list, read = {}, require("tessera.hf.jinja.json").read
  for line in io.lines "tests/text/jinja.jsonl" do list[#list + 1] = read(line).map.template end
  list[#list + 1] = "{%- for m in messages -%}{{ '<' + m['role'] + '>' + m.content|trim }}{%- if loop.last and add_generation_prompt %}x{% endif %}{%- endfor %}"
  return list
end

formats[4] = { name = "chat template", seeds = templates, pieces = { { "{%", "%}", "{{", "}}", "{#", "#}", "-%}", "for", "endfor", "if", "else", "macro", "set", "|", "~", "**",
  "[::-1]", "range(1000000)", "'a' * 100000", "loop.index", "namespace()", "x.y.z", "recursive", "(", "{% if 1 %}", "{{ '" }, WORDS },
  read = function(s) tessera.hf.chat_template("{##}" .. s):render(VARIABLES) end }

local Grammar = require "tessera.hf.grammar.grammar"
local GBNF = { 'root ::= "a" [b-d]+ ("x" | root){0,2}\n', 'root ::= s\ns ::= "a" s "b" | "" # c\n', [[root ::= object
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
value ::= object | string | [0-9]{1,15} | ("true" | "false") ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
ws ::= | " " | "\n" [ \t]{0,20}
]] }
-- Grammars are kept by their text; here each is another.
local function try_grammar(kind, s)
  local g = Grammar.of(kind, s)
  for _, sample in ipairs { "", "a", "aab", '{"a": [1, "b"]}', "abxäö\n12", ("a"):rep(60) } do g:matches(sample) end
end

formats[5] = { name = "GBNF", seeds = function() return GBNF end, pieces = { { "root", "::=", "|", "(", ")", "[", "]", "^", "-", '"', "\\", "{", "}", "{9999}", "{3,}", "*", "+", "?", ".", "\n", "#",
  "\\x", "\\u12", "a" }, WORDS }, read = function(s) try_grammar("grammar", s) end }
formats[6] = { name = "regex", seeds = function() return { "^(?:ab){2,3}[^x-z]+\\d*$", "a|b(c|d)?[\\w.-]+@x\\.y", "[ä-ö€日]{1,9}(?<n>x)\\u00e4\\x41" } end,
  pieces = { { "(", ")", "[", "]", "^", "$", "|", "\\", "\\d", "\\W", "{", "}", "{9999}", "*", "+", "?", ".", "(?:", "(?=", "-", "a", "ä" }, WORDS }, read = function(s) try_grammar("regex", s) end }

local SCHEMAS = {
  [[{"type": "object", "properties": {"a": {"type": "integer", "minimum": -5, "maximum": 77}, "b": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    "c": {"enum": [1, "x", null]}, "d": {"type": "string", "pattern": "^[a-c]+$"}}, "required": ["a"], "additionalProperties": {"type": "number", "minimum": 0.5}}]],
  [[{"anyOf": [{"type": ["string", "null"], "maxLength": 4}, {"$ref": "#/$defs/t"}], "$defs": {"t": {"type": "array", "prefixItems": [{"const": 1}, true], "items": false}}}]],
  [[{"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}, {"type": "string", "format": "date"}]}]],
}
formats[7] = { name = "JSON schema", seeds = function() return SCHEMAS end, pieces = { WORDS, { '"$ref": "#"', '"type": "object"', '"anyOf": [', '"items": ', '"minItems": 9999', '"maxLength": 9999',
  '"pattern": "', '{"type": "array", "items": ', '"required": ["zz"]' } }, read = function(s) try_grammar("json_schema", s) end }

return formats
