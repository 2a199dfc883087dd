-- What may be said of how the tokens of a text are chosen and when it ends: for generate and stream, batches and servers alike.

local core = require "tessera.core"
local options = require "tessera.options"

local own = {}

local COUNT, SHARE = options.whole { least = 1 }, options.number { least = 0, most = 1 }

local END = options.kind("a token id, a list of them, or false", function(v)
  return v == false or type(v) == "number" or type(v) == "table" and not core.is_tensor(v)
end)

local STOP = options.kind("a text, or a list of texts, none of them empty", function(v)
  if type(v) == "string" then return v ~= "" end
  if type(v) ~= "table" or core.is_tensor(v) then return false end
  for _, s in pairs(v) do
    if type(s) ~= "string" or s == "" then return false end
  end
  return true
end)

local BIAS = options.kind("a table of numbers by token, {[id] = number}, -math.huge for never", function(v)
  if type(v) ~= "table" or core.is_tensor(v) then return false end
  for id, x in pairs(v) do
    if type(id) ~= "number" or id < 0 or id % 1 ~= 0 or type(x) ~= "number" or x ~= x or x == math.huge then return false end
  end
  return true
end)

local SCHEMA = options.kind("a schema: a table, or its text in JSON", function(v) return type(v) == "string" or type(v) == "table" and not core.is_tensor(v) end)
local TOKENIZER = options.kind("a tokenizer, as hf.tokenizer gives it", function(v) return getmetatable(v) == core.tokenizer_class end,
  function(v) return type(v) == "string" and ("hf.tokenizer \"%s\""):format(core.shown(v, 60)) end)

own.kinds = {
  max_new_tokens = COUNT, min_new_tokens = options.whole { least = 0 }, eos = END, stop = STOP, tokenizer = TOKENIZER,
  temperature = options.number { least = 0 }, top_k = COUNT, top_p = SHARE, min_p = SHARE, seed = options.whole(),
  repetition_penalty = options.number { above = 0 }, frequency_penalty = options.number(), presence_penalty = options.number(),
  logit_bias = BIAS, logprobs = options.whole { least = 0 }, logits = options.flag,
  json = options.flag, json_schema = SCHEMA, grammar = options.text, regex = options.text,
}

own.defaults = { max_new_tokens = 20, min_new_tokens = 0, temperature = 0, repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0, seed = 0,
  logits = false, json = false }

--- Those of a table that are a chooser's, with the seed of a text of several.
function own.of(o, row)
  local mine = {}
  for name in pairs(own.kinds) do mine[name] = o[name] end
  if type(o.seed) == "table" then mine.seed = o.seed[row] end
  return mine
end

-- What says how something is done that another option asks for; what draws, where nothing is drawn.
local BELONGS = { { "length_penalty", "beams" }, { "early_stopping", "beams" }, { "draft_tokens", "draft" } }
local DRAWS = { "min_p", "top_k", "top_p" }

-- The first token of an option's that a vocabulary of `most` has not, and the option.
local function foreign(o, most)
  local function is_foreign(id) return type(id) ~= "number" or id < 0 or id % 1 ~= 0 or id >= most end
  for _, name in ipairs { "eos", "pad" } do
    for _, id in ipairs(type(o[name]) == "table" and o[name] or { o[name] or nil }) do
      if is_foreign(id) then return name, id end
    end
  end
  for id in pairs(o.logit_bias or {}) do
    if is_foreign(id) then return "logit_bias", id end
  end
end

--- Options, as they were given to a function and as it read them, of which each has to have an effect, and tokens have to be of the
--- vocabulary.
function own.check(what, given, o, vocabulary)
  for _, pair in ipairs(BELONGS) do
    if given[pair[1]] ~= nil and not o[pair[2]] then
      core.fail(("%s: option '%s' does nothing without '%s'\n  hint: leave it out, or give {%s = ..}"):format(what, pair[1], pair[2], pair[2]))
    end
  end
  for _, name in ipairs(DRAWS) do
    if given[name] ~= nil and given.temperature == nil then
      core.fail(("%s: option '%s' does nothing at temperature 0, where the greatest logit is taken\n  hint: {temperature = 1, %s = %s}, or {temperature = 0} as well"):format(
        what, name, name, tostring(given[name])))
    end
  end
  if o.min_new_tokens > (o.max_new_tokens or math.huge) then
    core.fail(("%s: option 'min_new_tokens' is %d, and 'max_new_tokens' %d"):format(what, o.min_new_tokens, o.max_new_tokens))
  end
  local held = {}
  for _, kind in ipairs { "json", "json_schema", "grammar", "regex" } do held[#held + 1] = o[kind] and kind or nil end
  if #held > 1 then core.fail(("%s: options '%s' and '%s': a text is held to one of them"):format(what, held[1], held[2])) end
  local name, id = foreign(o, vocabulary or math.huge)
  if name then
    core.fail(("%s: option '%s': token %s, and the model has %d, from 0 on"):format(what, name, core.shown(tostring(id), 60), vocabulary))
  end
end

--- Whether the logits are changed before a token is chosen: by penalties, a bias, a grammar, ends that may not come yet.
function own.changes(o)
  return o.min_new_tokens > 0 or o.repetition_penalty ~= 1 or o.frequency_penalty ~= 0 or o.presence_penalty ~= 0 or o.logit_bias ~= nil or o.json or
    o.json_schema ~= nil or o.grammar ~= nil or o.regex ~= nil
end

--- Whether each token is the one with the greatest of the model's own logits, whatever the text.
function own.is_greedy(o) return o.temperature == 0 and not own.changes(o) end

--- Tokens that end a text, as a set, and how many there are: of the option, else of the model's configuration.
function own.ends(o, config)
  local eos, set, n = o.eos, {}, 0
  if eos == nil then eos = config and config.eos_token_id end
  if type(eos) == "number" then eos = { eos } end
  for _, id in ipairs(type(eos) == "table" and eos or {}) do
    if not set[id] then set[id], n = true, n + 1 end
  end
  return set, n
end

--- The kinds and defaults of a function that has these and more.
function own.with(kinds, defaults)
  local k, d = {}, {}
  for name, v in pairs(own.kinds) do k[name] = v end
  for name, v in pairs(own.defaults) do d[name] = v end
  for name, v in pairs(kinds) do k[name] = v end
  for name, v in pairs(defaults or {}) do d[name] = v end
  return k, d
end

return own
