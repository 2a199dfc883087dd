-- A vocabulary of tiktoken, lines of a token in base64 and its rank, as a tokenizer.json: bytes become GPT-2's characters, and
-- any two neighbours that are a token together are joined, the least rank first.

local core = require "tessera.core"

local tiktoken = {}
local shown = core.shown

local GPT2 = [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]
local CL100K = [['(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+]]
local QWEN = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]
local O200K = [=[[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+]=]

-- What is known by the file's name: how it divides text, and special tokens.
local known = {
  gpt2 = { GPT2, { ["<|endoftext|>"] = 50256 } },
  r50k_base = { GPT2, { ["<|endoftext|>"] = 50256 } },
  p50k_base = { GPT2, { ["<|endoftext|>"] = 50256 } },
  cl100k_base = { CL100K, { ["<|endoftext|>"] = 100257, ["<|fim_prefix|>"] = 100258, ["<|fim_middle|>"] = 100259,
    ["<|fim_suffix|>"] = 100260, ["<|endofprompt|>"] = 100276 } },
  o200k_base = { O200K, { ["<|endoftext|>"] = 199999, ["<|endofprompt|>"] = 200018 } },
  qwen = { QWEN, { ["<|endoftext|>"] = 151643, ["<|im_start|>"] = 151644, ["<|im_end|>"] = 151645 } },
}

-- GPT-2's character for each byte, as UTF-8.
local function characters()
  local of, more = {}, 0
  local function utf8(c)
    return c < 128 and string.char(c) or string.char(192 + math.floor(c / 64), 128 + c % 64)
  end
  for b = 0, 255 do
    if (b >= 33 and b <= 126) or (b >= 161 and b ~= 173) then
      of[b] = utf8(b)
    else
      of[b] = utf8(256 + more)
      more = more + 1
    end
  end
  return of
end

local value = {}
for i = 1, 64 do value[("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):byte(i)] = i - 1 end

-- The bytes of base64 as characters, or nil.
local function decoded(s, of)
  local out, bits, n = {}, 0, 0
  for i = 1, #(s:gsub("=+$", "")) do
    local v = value[s:byte(i)]
    if not v then return nil end
    bits, n = bits * 64 + v, n + 6
    if n >= 8 then
      n = n - 8
      local byte = math.floor(bits / 2 ^ n)
      out[#out + 1], bits = of[byte], bits - byte * 2 ^ n
    end
  end
  return table.concat(out)
end

--- The text of a tokenizer.json for the file.
function tiktoken.json(path, given)
  local name = path:match "([^/]*)%.tiktoken$"
  local row = known[name] or {}
  local pattern, special = given.pattern or row[1], given.special or row[2] or {}
  if not pattern then
    core.fail(("%s: how it divides text is not in the file\n  hint: give its expression, {pattern = [[..]]}; it is known of cl100k_base, gpt2, o200k_base, p50k_base, qwen and r50k_base"):format(shown(path)))
  end
  local vocab, of, line_number = {}, characters(), 0
  for line in core.read_file(path, "hf.tokenizer"):gmatch "[^\r\n]+" do
    line_number = line_number + 1
    local text, rank = line:match "^(%S+) (%d+)$"
    local token = text and decoded(text, of)
    if not token or token == "" then
      core.fail(("%s:%d: no token in base64 with its rank"):format(shown(path), line_number))
    end
    vocab[token] = tonumber(rank)
  end
  local list = {}
  for s, id in pairs(special) do
    if type(s) ~= "string" or type(id) ~= "number" or id < 0 or id % 1 ~= 0 then
      core.fail("hf.tokenizer: option 'special' must be a table of ids by token, {[\"<|end|>\"] = 100}")
    end
    list[#list + 1] = { id = id, content = s }
    vocab[s] = id
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  for _, t in ipairs(list) do t.normalized, t.special, t.single_word, t.lstrip, t.rstrip = false, true, false, false, false end
  return core.open_json().encode { model = { type = "BPE", vocab = vocab, by_vocab = true, ignore_merges = true },
    added_tokens = list[1] and list, decoder = { type = "ByteLevel", add_prefix_space = false, trim_offsets = true, use_regex = false },
    pre_tokenizer = { type = "Sequence", pretokenizers = {
      { type = "Split", pattern = { Regex = pattern }, behavior = "Isolated", invert = false },
      { type = "ByteLevel", add_prefix_space = false, trim_offsets = true, use_regex = false } } } }
end

return tiktoken
