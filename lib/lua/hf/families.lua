-- The families: which file of this room has which of the types and architectures that configurations name. A family is a
-- table
--   architectures = {LlamaForCausalLM = "logits", LlamaModel = "hidden"}
--   needs    what its configuration must have;  defaults: what it may leave out;  aliases: other names of theirs
--   build    build(c, gives, has) makes the model of a configuration; has(name): whether the file has a tensor
--   renames  {pattern, text} of names of tensors in old files
--   prefix   what names of its tensors begin with where there is a head, and files of bodies leave out
--   ignored  patterns of names of tensors that files have and nothing reads
--   check    check(c), if it is there: gives what of a configuration is not supported, a list of sentences

local core = require "tessera.core"
local families = {}

-- model_type -> file
local FILE = {
  llama = "llama", mistral = "mistral", mixtral = "mixtral", qwen2 = "qwen2", qwen2_moe = "qwen2_moe", qwen3 = "qwen3",
  qwen3_moe = "qwen3_moe", gemma = "gemma", gemma2 = "gemma2", gemma3_text = "gemma3", gpt2 = "gpt2", gpt_neox = "gpt_neox",
  phi3 = "phi3", olmo2 = "olmo2", starcoder2 = "starcoder2", gpt_oss = "gpt_oss", deepseek_v2 = "deepseek",
  deepseek_v3 = "deepseek", bert = "bert", roberta = "roberta", ["xlm-roberta"] = "roberta", distilbert = "distilbert", mpnet = "mpnet", t5 = "t5", vit = "vit",
  clip = "clip", whisper = "whisper", resnet = "resnet",
}

--- The types that are known, by the alphabet.
function families.names()
  local list = {}
  for name in pairs(FILE) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function quoted(v) return "'" .. core.shown(tostring(v), 60) .. "'" end

--- The family of a configuration, and what the model gives: "logits", "hidden", or what the family names.
function families.find(config, path)
  local kind = config.model_type
  local file = type(kind) == "string" and FILE[kind]
  if not file then
    local guess = type(kind) == "string" and core.suggest(kind, families.names())
    core.fail(("%s: %s%s\n  hint: families are %s"):format(core.shown(path),
      kind == nil and "the configuration has no model_type" or ("there is no family %s"):format(quoted(kind)),
      guess and (", did you mean '%s'?"):format(guess) or "", table.concat(families.names(), ", ")))
  end
  local family = require("tessera.hf." .. file)
  local architecture = type(config.architectures) == "table" and config.architectures[1] or nil
  if architecture == nil then return family, family.plain or "logits" end
  local gives = family.architectures[architecture]
  if gives then return family, gives end
  local words = {}
  for word in pairs(family.architectures) do words[#words + 1] = word end
  table.sort(words)
  local guess = core.suggest(tostring(architecture), words)
  core.fail(("%s: %s has no architecture %s%s\n  hint: it has %s"):format(core.shown(path), kind, quoted(architecture),
    guess and (", did you mean '%s'?"):format(guess) or "", table.concat(words, ", ")))
end

--- The configuration with the family's defaults; an error that lists all that is missing or not supported.
function families.config(family, given, path)
  local c, missing = {}, {}
  for k, v in pairs(family.defaults or {}) do c[k] = v end
  for k, v in pairs(given) do
    if v ~= nil and type(v) ~= "userdata" then c[k] = v end
  end
  for name, other in pairs(family.aliases or {}) do
    if c[name] == nil then c[name] = c[other] end
  end
  for _, name in ipairs(family.needs) do
    local v = c[name]
    if v == nil then missing[#missing + 1] = name end
    if v ~= nil and not (type(v) == "number" and v >= 0 and v % 1 == 0 and v < 2 ^ 40 or type(v) == "table") then
      core.fail(("%s: the configuration's %s is %s, not a whole number"):format(core.shown(path), name, quoted(v)))
    end
  end
  if missing[1] then core.fail(("%s: the configuration lacks %s"):format(core.shown(path), table.concat(missing, ", "))) end
  local wrong = family.check and family.check(c) or {}
  if wrong[1] then core.fail(("%s: %s"):format(core.shown(path), table.concat(wrong, "; "))) end
  return c
end

return families
