-- What the commands of the command line have in common: kinds of options that they take of functions of the library, models and tokenizers
-- with errors that say what else there is.

local core = require "tessera.core"
local hf = require "tessera.hf"
local options = require "tessera.options"

local common = {}

--- How a model is loaded.
function common.load_kinds()
  require "tessera.hf.load"
  local all = options.known "hf.load"
  return { dtype = all.dtype, device = all.device, memory = all.memory }
end

-- Of m:generate, what is no word: tensors, and what would not be printed.
local NO_WORDS = { ids = true, mask = true, features = true, tokenizer = true, pad = true, logits = true, logprobs = true, draft = true }

--- How tokens are chosen: options of m:generate with their defaults, and those of a model; and what m:generate takes by default.
function common.generate_kinds()
  require "tessera.hf.generate"
  local all, defaults = options.known "m:generate"
  local kinds, own = common.load_kinds(), {}
  for name, kind in pairs(all) do
    if not NO_WORDS[name] then kinds[name], own[name] = kind, defaults[name] end
  end
  return kinds, own, defaults
end

--- What of `o` is a model's, and the rest.
function common.split(o)
  local of_load, rest, kinds = {}, {}, common.load_kinds()
  for name, v in pairs(o) do (kinds[name] and of_load or rest)[name] = v end
  return of_load, rest
end

--- A model that reads from left to right, with its tokenizer.
function common.decoder(path, of_load)
  local m = hf.load(path, of_load)
  if not m.cache_sizes and not m.encode then
    core.fail(("%s: %s gives no text\n  hint: tessera --embed is for models of its kind"):format(core.shown(path), m.config.model_type))
  end
  return m, hf.tokenizer(path)
end

--- Writes what standard output takes, at once.
function common.write(...)
  local ok, why = io.write(...)
  if ok then ok, why = io.stdout:flush() end
  if not ok then core.fail("cannot write standard output: " .. tostring(why)) end
end

--- The whole of standard input, without the line end at its end.
function common.input()
  local text, why = io.read "*a"
  if not text then core.fail("cannot read standard input: " .. tostring(why)) end
  return (text:gsub("\r?\n$", ""))
end

return common
