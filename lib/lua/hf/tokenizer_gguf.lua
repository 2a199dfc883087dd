-- The vocabulary of a GGUF file as a tokenizer.json, which text/ reads: tokenizer.ggml.model says of which kind it is, and ids,
-- scores and types of its tokens stand in lists.

local core = require "tessera.core"
local gguf = require "tessera.hf.gguf"

local tokenizer_gguf = {}
local shown = core.shown

local UNKNOWN, CONTROL, USER = 2, 3, 4 -- types of tokens
local MARK = "\226\150\129" -- ▁, which stands for a space

local function fail(path, what, ...) core.fail(("%s: %s"):format(shown(path), what:format(...))) end

local function entry(meta, name) return meta["tokenizer.ggml." .. name] end

-- A list of numbers, or nil.
local function numbers(path, meta, name)
  local v = entry(meta, name)
  if v == nil then return nil end
  if not core.is_tensor(v) then fail(path, "tokenizer.ggml.%s is no list of numbers", name) end
  return v:reshape(-1):totable()
end

-- The id of a token, or of which one it is where the file does not say.
local function id_of(path, meta, name, default)
  local id = entry(meta, name)
  if id == nil then return default end
  if type(id) ~= "number" then fail(path, "tokenizer.ggml.%s is no number", name) end
  return id
end

-- A list of texts.
local function need_texts(path, name, list)
  for i, s in ipairs(list) do
    if type(s) ~= "string" then fail(path, "tokenizer.ggml.%s has an entry that is no text, number %d", name, i - 1) end
  end
end

local function split(regex)
  return { type = "Split", pattern = { Regex = regex }, behavior = "Isolated", invert = false }
end

local function sequence(kind, list) return { type = "Sequence", [kind] = list } end

-- What is put around texts: the file says whether, or the kind of vocabulary does.
local function template(path, meta, tokens, bos, eos)
  local add_bos, add_eos = entry(meta, "add_bos_token"), entry(meta, "add_eos_token")
  if add_bos == nil then add_bos = bos ~= nil end
  if add_eos == nil then add_eos = eos ~= nil end
  local specials, single, pair = {}, {}, {}
  local function special(name, list)
    local id = entry(meta, name)
    if id == nil then return false end
    if type(id) ~= "number" or not tokens[id + 1] then fail(path, "tokenizer.ggml.%s is no token", name) end
    local s = tokens[id + 1]
    specials[s] = { id = s, ids = { id }, tokens = { s } }
    list[#list + 1] = { SpecialToken = { id = s, type_id = 0 } }
    return true
  end
  bos, eos = bos or "bos_token_id", eos or "eos_token_id"
  local function text(list, id)
    if add_bos and (id == "A" or eos == "eos_token_id") then special(bos, list) end
    list[#list + 1] = { Sequence = { id = id, type_id = 0 } }
    if add_eos then special(eos, list) end
  end
  text(single, "A")
  text(pair, "A")
  text(pair, "B")
  if next(specials) == nil then return nil end
  return { type = "TemplateProcessing", single = single, pair = pair, special_tokens = specials }
end

-- Tokens that are found in texts whatever the model makes of them. `named`: what is in the vocabulary's place of each.
local function added(tokens, types, named)
  local list = {}
  for i, s in ipairs(tokens) do
    local kind = types and types[i]
    if (kind == CONTROL or kind == USER or kind == UNKNOWN) and s ~= "" then
      list[#list + 1] = { id = i - 1, content = named and named[i] or s, single_word = false, lstrip = false, rstrip = false, normalized = false, special = kind ~= USER }
    end
  end
  return list
end

-- ids by token; of equal ones the first, as those who look for it find it.
local function vocabulary(tokens)
  local vocab = {}
  for i = #tokens, 1, -1 do vocab[tokens[i]] = i - 1 end
  return vocab
end

-- ---- by kind: what its tokenizer.json has
local kinds = {}

function kinds.gpt2(path, meta, tokens, types)
  local name = entry(meta, "pre") or (entry(meta, "model") == "gemma4" and "gemma4" or "default")
  local pre = require "tessera.hf.tokenizer_pre"
  local row = pre[name]
  if not row then
    local names = {}
    for word in pairs(pre) do names[#names + 1] = word end
    local guess = core.suggest(tostring(name), names)
    fail(path, "how '%s' divides text (tokenizer.ggml.pre) is not known here%s", shown(tostring(name)),
      guess and ("\n  hint: '%s' is"):format(guess) or "\n  hint: a tokenizer.json of the same model says it")
  end
  local steps = {}
  for i, regex in ipairs(row.list) do steps[i] = split(regex) end
  local t = { model = { type = "BPE", vocab = vocabulary(tokens), merges = entry(meta, "merges"), ignore_merges = row.whole or false },
    added_tokens = added(tokens, types), post_processor = template(path, meta, tokens, row.bos and "bos_token_id") }
  if type(t.model.merges) ~= "table" or core.is_tensor(t.model.merges) then fail(path, "tokenizer.ggml.merges is missing, or no list of texts") end
  need_texts(path, "merges", t.model.merges)
  if row.marked then
    t.model.byte_fallback = true
    t.normalizer = { type = "Replace", pattern = { String = " " }, content = MARK }
    t.decoder = sequence("decoders", { { type = "Replace", pattern = { String = MARK }, content = " " }, { type = "ByteFallback" }, { type = "Fuse" } })
  else
    steps[#steps + 1] = { type = "ByteLevel", add_prefix_space = false, trim_offsets = true, use_regex = false }
    t.decoder = { type = "ByteLevel", add_prefix_space = false, trim_offsets = true, use_regex = false }
  end
  t.pre_tokenizer = sequence("pretokenizers", steps)
  return t
end
kinds.gemma4 = kinds.gpt2

function kinds.llama(path, meta, tokens, types, scores)
  if not scores then fail(path, "tokenizer.ggml.scores is missing") end
  local prefix = entry(meta, "add_space_prefix") ~= false
  local unk = id_of(path, meta, "unknown_token_id", 0)
  local spaces = { type = "Replace", pattern = { String = " " }, content = MARK }
  local back = { { type = "Replace", pattern = { String = MARK }, content = " " }, { type = "ByteFallback" }, { type = "Fuse" } }
  if prefix then back[#back + 1] = { type = "Strip", content = " ", start = 1, stop = 0 } end
  return { model = { type = "BPE", vocab = vocabulary(tokens), by_vocab = true, scores = scores, byte_fallback = true, fuse_unk = true,
      unk_token = tokens[unk + 1] },
    normalizer = prefix and sequence("normalizers", { { type = "Prepend", prepend = MARK }, spaces }) or spaces,
    added_tokens = added(tokens, types), post_processor = template(path, meta, tokens, "bos_token_id"), decoder = sequence("decoders", back) }
end

-- Words begin with ▁ there, and with nothing in tokenizer.json, where what continues them has ## instead.
function kinds.bert(path, meta, tokens, types)
  local named = {}
  for i, s in ipairs(tokens) do
    if types and types[i] == CONTROL or s:find "^%[.+%]$" then named[i] = s
    elseif s:sub(1, #MARK) == MARK then named[i] = s:sub(#MARK + 1)
    else named[i] = "##" .. s end
  end
  local unk = id_of(path, meta, "unknown_token_id", 100)
  local lower = true
  for i, s in ipairs(named) do
    if s:find "^%u%l+$" then lower = false break end
  end
  return { model = { type = "WordPiece", vocab = vocabulary(named), unk_token = named[unk + 1], continuing_subword_prefix = "##", max_input_chars_per_word = 100 },
    normalizer = { type = "BertNormalizer", clean_text = true, handle_chinese_chars = true, lowercase = lower, strip_accents = lower },
    pre_tokenizer = { type = "BertPreTokenizer" }, decoder = { type = "WordPiece", prefix = "##", cleanup = true },
    added_tokens = added(tokens, types, named),
    post_processor = template(path, meta, named, entry(meta, "cls_token_id") and "cls_token_id" or "bos_token_id",
      entry(meta, "seperator_token_id") and "seperator_token_id" or "eos_token_id") }
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local function base64(s)
  local out = {}
  for i = 1, #s, 3 do
    local a, b, c = s:byte(i, i + 2)
    local v = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 3, 0, -1 do
      local at = math.floor(v / 64 ^ k) % 64 + 1
      out[#out + 1] = (k == 1 and not b or k == 0 and not c) and "=" or DIGITS:sub(at, at)
    end
  end
  return table.concat(out)
end

function kinds.t5(path, meta, tokens, types, scores)
  if not scores then fail(path, "tokenizer.ggml.scores is missing") end
  local vocab, steps = {}, {}
  for i, s in ipairs(tokens) do vocab[i] = { s, scores[i] } end
  local map = entry(meta, "precompiled_charsmap")
  if map then
    local bytes = core.is_tensor(map) and map:to "u8":bytes() or fail(path, "tokenizer.ggml.precompiled_charsmap is no list of bytes")
    steps[1] = { type = "Precompiled", precompiled_charsmap = base64(bytes), longest = true }
  end
  if entry(meta, "remove_extra_whitespaces") then
    steps[#steps + 1] = { type = "Strip", strip_left = true, strip_right = true }
    steps[#steps + 1] = { type = "Replace", pattern = { Regex = " {2,}" }, content = " " }
  end
  local prepend = entry(meta, "add_space_prefix") == false and "never" or "always"
  return { model = { type = "Unigram", vocab = vocab, unk_id = id_of(path, meta, "unknown_token_id", 2) },
    normalizer = steps[1] and sequence("normalizers", steps), added_tokens = added(tokens, types),
    pre_tokenizer = { type = "Metaspace", replacement = MARK, prepend_scheme = prepend, split = true },
    decoder = { type = "Metaspace", replacement = MARK, prepend_scheme = prepend, split = true },
    post_processor = template(path, meta, tokens, nil, "eos_token_id") }
end

--- The text of a tokenizer.json for the metadata of a file.
function tokenizer_gguf.json(path, meta)
  local name, tokens = entry(meta, "model"), entry(meta, "tokens")
  if type(tokens) ~= "table" or core.is_tensor(tokens) then fail(path, "it has no vocabulary (tokenizer.ggml.tokens)") end
  local make = kinds[name]
  if not make then
    fail(path, "vocabularies of '%s' are not read\n  hint: of bert, gemma4, gpt2, llama and t5 they are", shown(tostring(name)))
  end
  need_texts(path, "tokens", tokens)
  local types, scores = numbers(path, meta, "token_type"), numbers(path, meta, "scores")
  for what, list in pairs { token_type = types, scores = scores } do
    if #list ~= #tokens then fail(path, "tokenizer.ggml.%s has %d entries for %d tokens", what, #list, #tokens) end
  end
  local json = core.open_json()
  return json.encode(make(path, meta, tokens, types, scores))
end

--- Of a file.
function tokenizer_gguf.of_file(path)
  local map = core.map_file(path)
  local _, meta = gguf.read(path, map, { later = true })
  local text = tokenizer_gguf.json(path, meta)
  map:close()
  return text
end

return tokenizer_gguf
