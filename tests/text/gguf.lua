-- Vocabularies of GGUF files: each kind, and what is wrong with one.
local tessera = require "tessera"
local hf = tessera.hf

local path = os.tmpname() .. ".gguf"
local little = require "tessera.little_endian"
local function u(n, v) return little.bytes(v, n) end
local function text(s) return u(8, #s) .. s end
local function f32(v) return tessera.tensor({ v }, { dtype = "f32" }):bytes() end

-- A file with metadata alone: strings, numbers, truth values, lists of strings or of lists of one, {f32 = ..} and {i32 = ..}.
local function file(meta)
  local rows = {}
  for name, v in pairs(meta) do
    local out
    if type(v) == "string" then out = u(4, 8) .. text(v)
    elseif type(v) == "boolean" then out = u(4, 7) .. u(1, v and 1 or 0)
    elseif type(v) == "number" then out = u(4, 4) .. u(4, v)
    elseif v.f32 or v.i32 then
      local list = {}
      for i, x in ipairs(v.f32 or v.i32) do list[i] = v.f32 and f32(x) or u(4, x) end
      out = u(4, 9) .. u(4, v.f32 and 6 or 5) .. u(8, #list) .. table.concat(list)
    else
      local list = {}
      local deep = type(v[1]) == "table"
      for i, s in ipairs(v) do list[i] = deep and u(4, 8) .. u(8, #s) .. text(s[1]) or text(s) end
      out = u(4, 9) .. u(4, deep and 9 or 8) .. u(8, #v) .. table.concat(list)
    end
    rows[#rows + 1] = text("tokenizer.ggml." .. name) .. out
  end
  local out = assert(io.open(path, "wb"))
  out:write("GGUF", u(4, 3), u(8, 0), u(8, #rows), table.concat(rows))
  out:close()
  return path
end
local function ids(e) return table.concat(e.ids, " ") end

-- ---- SentencePiece's pairs: the greatest score first
local tokens = { "<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "▁ab", "bb" }
local types = { 2, 3, 3, 1, 1, 1, 1, 1, 1, 1 }
local scores = { 0, 0, 0, -1, -1, -1, -3, -2, -4, -5 }
for b = 0, 255 do tokens[#tokens + 1], types[#types + 1], scores[#scores + 1] = ("<0x%02X>"):format(b), 6, 0 end
local tok = hf.tokenizer(file { model = "llama", tokens = tokens, token_type = { i32 = types }, scores = { f32 = scores }, bos_token_id = 1, eos_token_id = 2, unknown_token_id = 0 })
ids(tok:encode "ab abb") --> 1 8 8 5
ids(tok:encode("ab", { add_special_tokens = false })) --> 8
ids(tok:encode "é") --> 1 3 205 179
tok:decode(tok:encode("ab é abb").ids) --> ab é abb
ids(tok:encode "a<s>b") --> 1 7 1 3 5

-- ---- bytes with merges, divided as the file says
local list, byte = { "h", "i", "hi", "Ġ", "<|end|>" }, { 1, 1, 1, 1, 3 }
tok = hf.tokenizer(file { model = "gpt2", pre = "gpt-2", tokens = list, token_type = { i32 = byte }, merges = { "h i" }, eos_token_id = 4, add_eos_token = true })
ids(tok:encode "hi hi<|end|>") --> 2 3 2 4 4
hf.tokenizer(file { model = "gpt2", pre = "gpt-3", tokens = list, merges = { "h i" } }) --! how 'gpt-3' divides text (tokenizer.ggml.pre) is not known here
hf.tokenizer(file { model = "gpt2", pre = "gpt-2", tokens = list, merges = { "h x" } }) --! model: merge 0 has 'x', which is no token
hf.tokenizer(file { model = "gpt2", pre = "gpt-2", tokens = list }) --! tokenizer.ggml.merges is missing

-- ---- words
tok = hf.tokenizer(file { model = "bert", tokens = { "[UNK]", "[CLS]", "[SEP]", "▁the", "re", "▁cafe" }, token_type = { i32 = { 1, 3, 3, 1, 1, 1 } },
  unknown_token_id = 0, cls_token_id = 1, seperator_token_id = 2 })
ids(tok:encode "There café x") --> 1 3 4 5 0 2
tok:decode { 1, 3, 4, 5, 2 } --> there cafe

-- ---- the likeliest pieces
tok = hf.tokenizer(file { model = "t5", tokens = { "<pad>", "</s>", "<unk>", "▁a", "▁ab", "b", "▁" }, scores = { f32 = { 0, 0, 0, -1, -1.5, -1, -3 } },
  token_type = { i32 = { 3, 3, 2, 1, 1, 1, 1 } }, eos_token_id = 1, unknown_token_id = 2 })
ids(tok:encode "ab abb xx") --> 4 4 5 6 2 1

hf.tokenizer(file { model = "rwkv", tokens = { "a" } }) --! vocabularies of 'rwkv' are not read
hf.tokenizer(file { model = "llama" }) --! it has no vocabulary (tokenizer.ggml.tokens)
hf.tokenizer(file { model = "llama", tokens = { "a" }, scores = { f32 = { 1, 2 } } }) --! tokenizer.ggml.scores has 2 entries for 1 tokens
hf.tokenizer(file { model = "llama", tokens = { "a" }, scores = { f32 = { 1 } }, bos_token_id = 7 }) --! tokenizer.ggml.bos_token_id is no token
-- Entries of another kind than theirs.
hf.tokenizer(file { model = "llama", tokens = { "a" }, scores = 1 }) --! tokenizer.ggml.scores is no list of numbers
hf.tokenizer(file { model = "llama", tokens = { "a" }, scores = { "x" } }) --! tokenizer.ggml.scores is no list of numbers
hf.tokenizer(file { model = "llama", tokens = { "a" }, scores = { f32 = { 1 } }, unknown_token_id = "a" }) --! tokenizer.ggml.unknown_token_id is no number
hf.tokenizer(file { model = "bert", tokens = { "a" }, unknown_token_id = { "a" } }) --! tokenizer.ggml.unknown_token_id is no number
hf.tokenizer(file { model = "gpt2", pre = "gpt-2", tokens = list, merges = { i32 = { 1 } } }) --! tokenizer.ggml.merges is missing, or no list of texts
hf.tokenizer(file { model = "llama", tokens = { { "a" } }, scores = { f32 = { 1 } } }) --! tokenizer.ggml.tokens has an entry that is no text, number 0
os.remove(path)
