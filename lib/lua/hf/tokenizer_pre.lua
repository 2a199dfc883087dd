-- How byte-level vocabularies of GGUF files divide text, by what tokenizer.ggml.pre calls it: expressions one after the other,
-- each of which leaves its matches alone. They are those of the models' tokenizer.json.

local GPT2 = [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]
local SHORT = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)]]
local REST = [[ ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]
local WORD = [[|[^\r\n\p{L}\p{N}]?\p{L}+|]]
local LLAMA3 = SHORT .. WORD .. [[\p{N}{1,3}|]] .. REST
local QWEN2 = SHORT .. WORD .. [[\p{N}|]] .. REST
local UPPER, LOWER = [=[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]]=], [=[[\p{Ll}\p{Lm}\p{Lo}\p{M}]]=]
local SLASH = [[ ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+]]

-- Words in which case changes once, with what stands behind them.
local function cased(short, digits)
  local front = [=[[^\r\n\p{L}\p{N}]?]=]
  return front .. UPPER .. "*" .. LOWER .. "+" .. short .. "|" .. front .. UPPER .. "+" .. LOWER .. "*" .. short .. "|" .. digits .. "|" .. SLASH
end

local GPT4O = cased(SHORT .. "?", [[\p{N}{1,3}]])
local DIGIT = { [[\p{N}]], GPT2 }
local PUNCTUATED = [=[[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]=]
local KANA = [=[[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+]=]
local DEEPSEEK3 = { [[\p{N}{1,3}]], KANA, PUNCTUATED }
local BLOOM = [=[ ?[^(\s|.,!?…。，、।۔،)]+]=]
-- Letters with two cases.
local LATIN = "[A-Za-z" .. table.concat {
  [[\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}]],
  [[\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}]],
  [[\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}]],
  [[\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}]],
  [[\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}]],
  [[\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}]],
  [[\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}]],
  [[\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}]],
  [[\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}]],
  [[\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}]],
  [[\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}]],
  [[\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]],
} .. "]+"
local LINES = [=[[^\n]+|[\n]+]=]

-- whole: a word that is a token is that token, whatever its merges make of it; bos: texts begin with that token unless the
-- file says otherwise; marked: spaces are ▁, and tokens are text, not bytes.
local pre = {}
local function row(names, list, more)
  more = more or {}
  more.list = type(list) == "table" and list or { list }
  for name in names:gmatch "%S+" do pre[name] = more end
end

row("default", { [=[[\p{P}\$\+<=>\^~\|]+]=], GPT2, [[\p{N}+]], "[0-9][0-9][0-9]" })
row("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", LLAMA3, { whole = true, bos = true })
row("dbrx smaug-bpe chatglm-bpe", LLAMA3)
row("glm4 glm5", LLAMA3, { whole = true })
row("deepseek-llm", { "[\r\n]", [[\s?]] .. LATIN, [=[\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+]=], [[\s+$]], "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", [[\p{N}+]] })
row("deepseek-coder", { "[\r\n]", [[\s?\p{L}+]], [[\s?\p{P}+]], "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", [[\p{N}]] })
row("deepseek-v3 hunyuan-dense joyai-llm hy_v4", DEEPSEEK3)
row("falcon", { [=[[\p{P}\$\+<=>\^~\|`]+]=], GPT2, "[0-9][0-9][0-9]" })
row("starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", DIGIT)
row("gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4 jina-v1-en jina-v2-code roberta-bpe", GPT2)
row("qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2", QWEN2)
row("qwen35", SHORT .. [=[|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]=])
row("poro-chat bloom gpt3-finnish", BLOOM)
row("viking", { BLOOM, [[\p{N}]] })
row("tekken", cased("", [[\p{N}]]), { whole = true, bos = true })
row("gpt-4o llama4 kanana2 talkie minimax-m2", GPT4O)
row("granite-embed-multi-97m", GPT4O, { whole = true })
row("tiny_aya cohere2moe", { [[\d{1,3}(?=(?:\d{3})*\b)]], GPT4O })
row("superbpe", { [[\p{N}+]], [[(?=(\d{3})+(?!\d))]] })
row("bailingmoe bailingmoe2 llada-moe", [=['(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+]=])
row("seed-coder", SHORT .. WORD .. [=[\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+]=])
row("gemma4 granite-embed-multi-311m sarvam-moe mmbert", LINES, { marked = true })

return pre
