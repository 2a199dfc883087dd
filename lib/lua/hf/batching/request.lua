-- One text of a batch, as who submitted it sees it: what it has so far, and why it ended. How its tokens are chosen is its chooser's
-- (generation/chooser.lua); which positions are written is known here, so a step that fails is repeated from what stands here.

local core = require "tessera.core"
local op = core.op
local chosen = require "tessera.hf.generation.options"
local sampling = require "tessera.hf.sampling"

local Request = {}

local function shown(r)
  return ("request %d: %d tokens of a prompt and %d more%s"):format(r.id, r.count, #r.tokens, r.done and ", ended: " .. r.reason or "")
end

-- text is put together when it is asked for.
local function field(r, key)
  if key == "text" then return rawget(r, "pieces") and table.concat(rawget(r, "pieces")) or nil end
  return Request[key]
end

local meta = { __index = field, __tostring = shown }
Request.meta = meta

--- new(id, prompt, options, {config, tokenizer, device}).
function Request.new(id, prompt, o, context)
  local r = setmetatable({ id = id, prompt = prompt, count = #prompt, tokens = {}, done = false, given = chosen.of(o, 1), written = 0, seen = 0 }, meta)
  r.device = context.device
  r.context = { prompt = prompt, config = context.config, tokenizer = context.tokenizer }
  r.chooser = sampling.chooser(r.given, r.context)
  r.all = {}
  for i, t in ipairs(prompt) do r.all[i] = t end
  if r.chooser.stream then r.pieces = {} end
  r.logprobs, r.logits = r.chooser.logprobs, r.chooser.logits
  return r
end

--- How many tokens there are whose keys and values are not yet in pages.
function Request:waiting() return #self.all - self.written end

--- The length for which positions are scaled: as of m:generate alone.
function Request:room() return self.count + self.given.max_new_tokens end

--- A step was done: n more positions are written, and a token was chosen or not.
function Request:commit(n, token)
  self.written = self.written + n
  if token then
    self.tokens[#self.tokens + 1] = token
    self.all[#self.all + 1] = token
    if self.pieces then self.pieces[#self.pieces + 1] = self.chooser:text() end
  end
  local reason = self.chooser:finished()
  if reason then self:finish(reason) end
end

function Request:finish(reason, why)
  if self.done then return end
  self.done, self.reason, self.error = true, reason, why
end

--- The chooser as it is behind the tokens that count: one that was broken off while it chose is made again.
function Request:repair()
  if self.chooser.count == #self.tokens and not self.choosing then return end
  local old, new = self.chooser, nil
  new = sampling.chooser(self.given, self.context)
  new.logprobs, new.logits = nil, nil
  if new.adjusts then -- what it counts of tokens begins with logits
    core.no_grad(new.adjusted, new, op.zeros({ 1, self.context.config.vocab_size }):to(self.device))
  end
  for _, t in ipairs(self.tokens) do new:accept(t) end
  if self.pieces then self.pieces = { new:text() } end
  for _, name in ipairs { "logprobs", "logits" } do
    local list = old[name]
    if list then
      for i = #self.tokens + 1, #list do list[i] = nil end
      new[name] = list
    end
  end
  self.chooser, self.choosing = new, nil
end

--- read(): tokens, a list, and text that came since the last call; text is nil without a tokenizer.
---   local tokens, text = request:read()
function Request:read()
  local new, text = {}, nil
  for i = self.seen + 1, #self.tokens do new[#new + 1] = self.tokens[i] end
  self.seen = #self.tokens
  if self.pieces then
    local whole = table.concat(self.pieces)
    text, self.shown = whole:sub((self.shown or 0) + 1), #whole
  end
  return new, text
end

core.keep_line(Request, true)
return Request
