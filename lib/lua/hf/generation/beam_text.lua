-- The text of one beam: its tokens, what they change of the next ones' logarithms (chooser.lua), and whether it ends with a token. A
-- beam that goes on is another one; what it came from stays as it is.

local Chooser = require "tessera.hf.generation.chooser"
local beside = require "tessera.hf.generation.beside"
local chosen = require "tessera.hf.generation.options"
local core = require "tessera.core"

local Text = {}
Text.__index = Text

-- Texts that end it, and special tokens that do, as a set.
local function stops_of(o, tok)
  local texts, ids = {}, {}
  for _, s in ipairs(type(o.stop) == "table" and o.stop or { o.stop }) do
    local id = tok:id(s)
    if id and select(2, tok:token(id)) then ids[id] = true else texts[#texts + 1] = s end
  end
  return texts, ids
end

--- new(options of a text, model, prompt): before its first token.
function Text.new(o, model, prompt)
  local context = { prompt = prompt, config = model.config, tokenizer = beside.tokenizer(model) }
  local self = setmetatable({ tokens = {}, ends = chosen.ends(o, model.config), stops = {}, stop_ids = {} }, Text)
  self.tokenizer = o.tokenizer or context.tokenizer() or false
  if o.stop and (type(o.stop) == "string" or #o.stop > 0) then
    if not self.tokenizer then core.fail "option 'stop' needs a tokenizer\n  hint: {tokenizer = hf.tokenizer(path)}" end
    self.stops, self.stop_ids = stops_of(o, self.tokenizer)
  end
  if chosen.changes(o) then
    local own = {}
    for name, v in pairs(o) do own[name] = v end
    own.stop, own.logprobs, own.logits = nil, nil, false
    self.chooser = Chooser.new(own, context)
    for id in pairs(self.stop_ids) do self.chooser.stop_ids[id] = true end -- which may not come too early
    self.chooser.stream = nil
  end
  return self
end

--- Logarithms [1, V] of the next token, with what the tokens so far change of them.
function Text:adjusted(logs) return self.chooser and self.chooser:adjusted(logs) or logs end

-- What is shown of tokens, without an end's.
local function shown(self, tokens) return self.tokenizer and self.tokenizer:decode(tokens) or nil end

local function stop_in(self, text)
  local at
  for _, s in ipairs(self.stops) do
    local from = text:find(s, 1, true)
    if from and (not at or from < at) then at = from end
  end
  return at
end

--- nil, or why the text ends if that is its next token: "eos" or "stop".
function Text:ends_with(id)
  if self.ends[id] then return "eos" end
  if self.stop_ids[id] then return "stop" end
  local place = self.chooser and self.chooser.place
  if not place and not self.stops[1] then return nil end
  local one = self:with(id)
  if one.chooser and one.chooser.place and one.chooser.place:has_ended() then return "stop" end
  return self.stops[1] and stop_in(self, shown(self, one.tokens)) and "stop" or nil
end

--- The text with a token more.
function Text:with(id)
  if self.last and self.last.id == id then return self.last.text end
  local new = setmetatable({}, Text)
  for name, v in pairs(self) do new[name] = v end
  new.tokens, new.last = { unpack(self.tokens) }, nil
  new.tokens[#new.tokens + 1] = id
  if self.chooser and not (self.ends[id] or self.stop_ids[id]) then
    new.chooser = self.chooser:fork()
    new.chooser:accept(id)
  end
  self.last = { id = id, text = new }
  return new
end

--- The text up to what ends it; nil without a tokenizer.
function Text:text()
  if not self.tokenizer then return nil end
  local tokens, n = {}, #self.tokens
  local last = self.tokens[n]
  for i = 1, (self.ends[last] or self.stop_ids[last]) and n - 1 or n do tokens[i] = self.tokens[i] end
  local text = shown(self, tokens)
  local at = stop_in(self, text)
  return at and text:sub(1, at - 1) or text
end

return Text
