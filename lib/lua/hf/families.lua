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
  deepseek_v3 = "deepseek", bert = "bert", roberta = "roberta", ["xlm-roberta"] = "roberta",
  distilbert = "distilbert", mpnet = "mpnet", t5 = "t5", vit = "vit", clip = "clip", whisper = "whisper", resnet = "resnet",
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

-- What JSON calls null is not there.
local function plain(v)
  if type(v) == "userdata" then return nil end
  if type(v) ~= "table" then return v end
  local copy = {}
  for k, x in pairs(v) do copy[k] = plain(x) end
  return copy
end

local TABLES = { text_config = true, vision_config = true, hidden_sizes = true, depths = true }

-- What models are built by as often as a number says: a file has at least one tensor for each.
local LAYERS = { "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers" }
local EXPERTS, MOST = { "num_local_experts", "num_experts", "n_routed_experts" }, 4096

local function check_counts(c, count, fail)
  for _, name in ipairs(LAYERS) do
    if type(c[name]) == "number" and c[name] > count then fail("%s is %.0f, and the file has %d tensors", name, c[name], count) end
  end
  for _, name in ipairs(EXPERTS) do
    if type(c[name]) == "number" and c[name] > MOST then fail("%s is %.0f, and %d are possible", name, c[name], MOST) end
  end
  for _, n in ipairs(type(c.depths) == "table" and c.depths or {}) do
    if type(n) ~= "number" or n > count then fail("depths has %s, and the file has %d tensors", quoted(n), count) end
  end
  for _, name in ipairs { "text_config", "vision_config" } do
    if type(c[name]) == "table" then check_counts(c[name], count, fail) end
  end
end

--- The configuration with the family's defaults, for a file with so many tensors; an error that lists all that is missing or not
--- supported.
function families.config(family, given, path, count)
  local c, missing = {}, {}
  local function fail(...) core.fail(("%s: %s"):format(core.shown(path), (...):format(select(2, ...)))) end
  for k, v in pairs(family.defaults or {}) do c[k] = v end
  for k, v in pairs(plain(given)) do c[k] = v end
  for name, other in pairs(family.aliases or {}) do
    if c[name] == nil then c[name] = c[other] end
  end
  for _, name in ipairs(family.needs) do
    local v = c[name]
    if v == nil then missing[#missing + 1] = name end
    if v ~= nil and TABLES[name] and type(v) ~= "table" then fail("the configuration's %s is %s, not a table", name, quoted(v)) end
    if v ~= nil and not TABLES[name] and not (type(v) == "number" and v >= 1 and v % 1 == 0 and v < 2 ^ 40) then
      fail("the configuration's %s is %s, not a whole number", name, quoted(v))
    end
  end
  if missing[1] then fail("the configuration lacks %s", table.concat(missing, ", ")) end
  check_counts(c, count, fail)
  local ok, wrong = true, {}
  if family.check then ok, wrong = pcall(family.check, c) end
  if not ok then fail("the configuration is damaged: %s", (tostring(wrong):gsub("^[^\n]-:%d+: ", ""))) end
  if wrong[1] then fail("%s", table.concat(wrong, "; ")) end
  return c
end

return families
