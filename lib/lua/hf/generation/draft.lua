-- Speculative decoding: somebody guesses the next tokens cheaply, the model reads all of them in one call, and its chooser goes
-- through the logits of that call as it would have done one by one, until it chooses another token than was guessed. So the tokens
-- are those that there are without guesses, whoever guesses: a choice is a function of logits, seed and position, and logits of several
-- positions have the bits of those of one. Guesses may be wrong; then the call was as good as one step.
--
-- Who guesses: a smaller model of the same vocabulary, which draws with the same numbers; or the text itself, by what followed
-- the last time that its last tokens stood in it.

local core = require "tessera.core"
local prompts = require "tessera.hf.generation.prompts"
local sampling = require "tessera.hf.sampling"

local draft = {}

-- ---- the text guesses

local LONGEST = 3

local Ngram = {}
Ngram.__index = Ngram

local function new_ngram() return setmetatable({ after = {}, read = 0 }, Ngram) end

-- Where a text went on behind each of its last 1 to LONGEST tokens, but for the end itself.
local function note(self, tokens, upto)
  for i = self.read + 1, upto do
    local key = ""
    for n = 1, math.min(LONGEST, i) do
      key = tokens[i - n + 1] .. " " .. key
      self.after[key] = i + 1
    end
  end
  self.read = math.max(self.read, upto)
end

function Ngram:guess(tokens, n)
  note(self, tokens, #tokens - 1)
  local key, at = "", nil
  for k = 1, math.min(LONGEST, #tokens) do
    key = tokens[#tokens - k + 1] .. " " .. key
    if not self.after[key] then break end
    at = self.after[key]
  end
  local list = {}
  for i = at or math.huge, math.min((at or 0) + n - 1, #tokens) do list[#list + 1] = tokens[i] end
  return list
end

function Ngram:keep() end

-- ---- a model guesses

local Guesser = {}
Guesser.__index = Guesser

local function new_guesser(model, options, length)
  local device = model:embedding().weight.device
  return setmetatable({ model = model, options = options, device = device, cache = model:cache { batch = 1, length = length } }, Guesser)
end

function Guesser:guess(tokens, n)
  local list, new = {}, {}
  local vocabulary = self.model.config.vocab_size
  for i = self.cache.length + 1, #tokens do
    if tokens[i] >= vocabulary then return list end
    new[#new + 1] = tokens[i]
  end
  for k = 1, math.min(n, self.cache.room - self.cache.length - #new + 1) do
    local logits = self.model { ids = prompts.row(new, self.device), cache = self.cache, last = true }
    local id = sampling.choose(logits:select(1, 0), self.options, { self.options.seed }, { #tokens + k - 1 }):item()
    if id < 0 then return list end -- no number: the text's own model chooses
    list[k], new = id, { id }
  end
  return list
end

--- Of the text's tokens the first n are what it is now.
function Guesser:keep(n)
  if self.cache.length > n then self.cache:reset(n) end
end

-- ---- a text

local Text = {}
Text.__index = Text

-- length: of the cache, the same for all texts as without guesses, since some positions are scaled by it.
local function new_text(model, o, prompt, chooser, length)
  local device = model:embedding().weight.device
  local cache = model:cache { batch = 1, length = length, dtype = o.cache_dtype }
  local logits = prompts.read(model, { prompt }, cache, o.chunk, device)
  local tokens = {}
  for i, id in ipairs(prompt) do tokens[i] = id end
  local guesser = o.draft == "ngram" and new_ngram() or new_guesser(o.draft, chooser.options, length + o.draft_tokens)
  return setmetatable({ model = model, cache = cache, device = device, tokens = tokens, chooser = chooser, guesser = guesser, logits = logits,
    most = o.draft_tokens, queue = {}, at = 1, drafted = 0, accepted = 0, calls = 1 }, Text)
end

function Text:put(id)
  self.tokens[#self.tokens + 1] = id
  self.queue[#self.queue + 1] = { id = id, text = self.chooser:text() }
end

-- Tokens into the queue: the first by the prompt's logits, the others by calls with guesses.
function Text:advance()
  local c = self.chooser
  self.queue, self.at = {}, 1
  if self.logits then
    self:put(c:choose(self.logits))
    self.logits = nil
    return
  end
  local left = c.options.max_new_tokens - c.count
  local room = math.min(self.most, left - 1, self.cache.room - self.cache.length - 1)
  local guesses = room > 0 and self.guesser:guess(self.tokens, room) or {}
  local before, ids = self.cache.length, { self.tokens[#self.tokens] }
  for i, id in ipairs(guesses) do
    if c.vocabulary and id >= c.vocabulary then
      for k = #guesses, i, -1 do guesses[k] = nil end
      break
    end
    ids[i + 1] = id
  end
  local logits = self.model { ids = prompts.row(ids, self.device), cache = self.cache }
  self.calls, self.drafted = self.calls + 1, self.drafted + #guesses
  for i = 1, #ids do
    local id = c:choose(logits:select(1, i - 1))
    self:put(id)
    if id ~= guesses[i] then break end
    self.accepted = self.accepted + 1
    if c:finished() then break end
  end
  -- Positions behind the last choice hold keys of wrong guesses.
  local right = math.min(before + #self.queue, self.cache.length)
  if right < self.cache.length then self.cache:reset(right) end
  self.guesser:keep(#self.tokens - 1)
end

--- The next token and its text; nil: there is none.
function Text:next()
  if self.at > #self.queue then
    if self.chooser:finished() then return nil end
    core.no_grad(self.advance, self)
  end
  local one = self.queue[self.at]
  self.at = self.at + 1
  return one.id, one.text
end

--- An iterator of steps, tokens and texts, as m:stream has it; each text is read by itself. about: gets what guesses were good for.
function draft.begin(model, o, choosers, about)
  local list, longest = {}, 0
  for _, c in ipairs(choosers) do longest = math.max(longest, #c.prompt) end
  for i, c in ipairs(choosers) do list[i] = core.no_grad(new_text, model, o, c.prompt, c, o.length or longest + o.max_new_tokens) end
  local step = 0
  return function()
    local told, texts, any = {}, choosers[1].stream and {} or nil, false
    for i, t in ipairs(list) do
      local id, text = t:next()
      told[i], any = id or false, any or id ~= nil
      if texts then texts[i] = text or "" end
      about[i].drafted, about[i].accepted, about[i].calls = t.drafted, t.accepted, t.calls
    end
    if not any then return nil end
    step = step + 1
    return step, told, texts
  end
end

return draft
