-- Text that goes on: prompts are read in pieces into a cache that is there from the start, then each step reads the last tokens,
-- writes their keys and values in place and chooses the next ones (generation/chooser.lua).

local core = require "tessera.core"
local beside = require "tessera.hf.generation.beside"
local chosen = require "tessera.hf.generation.options"
local fp8 = require "tessera.hf.fp8"
local Module = require "tessera.module"
local options = require "tessera.options"
local prompts = require "tessera.hf.generation.prompts"
local sampling = require "tessera.hf.sampling"

local generate = {}

local COUNT, SIZE = options.whole { least = 1 }, options.whole { least = 0 }
local PROMPT = options.kind("token ids: a tensor [batch, positions], a list of numbers, a list of lists, or what tok:encode gives", function(v)
  return core.is_tensor(v) or type(v) == "table" and (#v > 0 or v.ids ~= nil)
end, prompts.hint)
PROMPT.leads = true -- in examples
local SEED = options.kind("a whole number, or a list of them, one for each text", function(v)
  return type(v) == "number" and v % 1 == 0 or type(v) == "table"
end)
local EARLY = options.kind('true, false or "never"', function(v) return type(v) == "boolean" or v == "never" end)
local DRAFT = options.kind('a model that reads from left to right, or "ngram"', function(v)
  return v == "ngram" or type(v) == "table" and v.is_module ~= nil and v.cache_sizes ~= nil and not v.encode
end, function(v) return type(v) == "string" and (v:find "gram" and 'draft = "ngram"' or ("draft = hf.load \"%s\""):format(core.shown(v, 60))) end)
local kinds, defaults = chosen.with({ ids = PROMPT, seed = SEED, length = COUNT, chunk = COUNT, mask = options.tensor,
  features = options.tensor, pad = SIZE, cache_dtype = fp8.kind, beams = COUNT, length_penalty = options.number(), early_stopping = EARLY,
  draft = DRAFT, draft_tokens = COUNT }, { chunk = 512, length_penalty = 1, early_stopping = false, draft_tokens = 4 })
local read_options = { ["m:generate"] = options.of("m:generate", kinds, defaults), ["m:stream"] = options.of("m:stream", kinds, defaults) }
for _, name in ipairs { "hf.generate", "hf.stream" } do options.of(name, kinds, defaults) end -- which are these, and known by both names

-- The options of a call of m:generate or m:stream.
local function read(what, model, given)
  if type(model) ~= "table" or not model.config then
    core.fail(("%s: it is called without the model\n  hint: %s{..}, with a colon"):format(what, what))
  end
  if type(given) == "table" and not core.is_tensor(given) and given.ids ~= nil and given.special ~= nil and given.types ~= nil then
    core.fail(("%s: what tok:encode gives stands by name\n  hint: %s{ids = tok:encode \"..\"}"):format(what, what))
  end
  if type(given) == "string" then
    core.fail(("%s: a text goes on as the ids of its tokens\n  hint: m, tok = hf.load \"..\"; %s{ids = tok:encode \"..\"}"):format(what, what))
  end
  local o = read_options[what](given)
  for _, name in ipairs { "length", "chunk", "cache_dtype", "draft" } do
    if not model.cache and given and given[name] ~= nil then
      core.fail(("%s: option '%s' is of models that keep keys and values, and this one has no m:cache"):format(what, name))
    end
  end
  chosen.check(what, given or {}, o, model.config.vocab_size)
  return o
end

-- A chooser for each text.
local function choosers_of(model, o, texts)
  if type(o.seed) == "table" and #o.seed ~= #texts then core.fail(("m:generate: %d seeds for %d texts"):format(#o.seed, #texts)) end
  local list = {}
  for i, prompt in ipairs(texts) do
    list[i] = sampling.chooser(chosen.of(o, i), { prompt = prompt, config = model.config, tokenizer = beside.tokenizer(model) })
  end
  return list
end

-- All texts a step at a time.
local function step_by_step(s, choosers, most)
  local function alive()
    for _, c in ipairs(choosers) do
      if not c:finished() then return true end
    end
    return false
  end
  local step, last = 0, nil
  return function()
    if not alive() then return nil end
    return core.no_grad(function()
      local greatest
      if last then s.logits, greatest = s.next(last, step + 1 < most) end
      local told, texts = sampling.choose_all(choosers, s.logits, greatest), nil
      last = last or {}
      for i, id in ipairs(told) do last[i] = id or last[i] end
      if choosers[1].stream then
        texts = {}
        for i, c in ipairs(choosers) do texts[i] = c:text() end
      end
      step = step + 1
      return step, told, texts
    end)
  end
end

-- An iterator of steps, tokens and texts; and what is known of each text, which grows with it.
local function begin(model, o)
  local choosers, about, steps = nil, {}, nil
  local function known()
    for i in ipairs(choosers) do about[i] = {} end
  end
  if o.draft then
    if model.encode then core.fail "m:generate: option 'draft' is for models that read from left to right, not for an encoder with a decoder" end
    choosers = choosers_of(model, o, prompts.of(o))
    known()
    steps = require("tessera.hf.generation.draft").begin(model, o, choosers, about)
  else
    local s = prompts.begin(model, o)
    choosers = choosers_of(model, o, s.prompts)
    known()
    steps = step_by_step(s, choosers, o.max_new_tokens)
  end
  return function()
    local step, told, texts = steps()
    for i, c in ipairs(choosers) do
      local a = about[i]
      a.tokens, a.reason, a.text, a.logprobs, a.logits = c.tokens, c:finished(), c:whole_text(), c.logprobs, c.logits
    end
    return step, told, texts
  end, about
end

--- ? m.stream (decoder.lua).
function generate.stream(model, given)
  local o = read("m:stream", model, given)
  if o.beams then core.fail "m:stream: the tokens of a beam search are known at its end\n  hint: m:generate{beams = ..}" end
  return begin(model, o)
end

local function pad_of(model, o)
  local c = model.config
  if o.pad or type(c.pad_token_id) == "number" then return o.pad or c.pad_token_id end
  return type(c.eos_token_id) == "number" and c.eos_token_id or 0
end

-- Tokens of each text, filled up.
local function matrix_of(about, pad)
  local rows, n = {}, 0
  for _, a in ipairs(about) do n = math.max(n, #a.tokens) end
  for i, a in ipairs(about) do
    rows[i] = {}
    for k = 1, n do rows[i][k] = a.tokens[k] or pad end
  end
  return core.tensor(rows, { dtype = "i64" })
end

local function of_beams(model, o)
  local about = {}
  for i, list in ipairs(require("tessera.hf.generation.beams").search(model, o)) do
    about[i] = { tokens = list[1].tokens, reason = list[1].reason, text = list[1].text, score = list[1].score, beams = list }
  end
  return about
end

local function of_choosers(model, o)
  local steps, about = begin(model, o)
  for _ in steps do end
  return about
end

--- ? m.generate (decoder.lua).
function generate.generate(model, given)
  local o = read("m:generate", model, given)
  local about = (o.beams and of_beams or of_choosers)(model, o)
  return matrix_of(about, pad_of(model, o)), about
end

--- hf.generate and hf.stream: ? hf.generate (../hf.lua).
function generate.of_own(what, model, given)
  if not Module.is_module(model) then
    core.fail(("%s: the model is %s, not a module\n  hint: nn.Module:extend \"Model\", or hf.load \"..\""):format(what,
      core.is_tensor(model) and core.type_text(model) or "a " .. type(model)))
  end
  local c = model.config
  if type(c) ~= "table" or not COUNT.holds(c.vocab_size) then
    core.fail(("%s: the model has no config.vocab_size\n  hint: model.config = {vocab_size = 32, eos_token_id = 2}"):format(what))
  end
  return generate[what:match "%a+$"](model, given)
end

return generate
