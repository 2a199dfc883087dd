-- Who chooses the tokens of one text, and knows when it ends: all that depends on what the text has so far stands here, so that
-- whoever brings logits, one text or many, needs to know nothing of it.
--
--   local chooser = sampling.chooser({temperature = 0.8, stop = "\n"}, {prompt = ids, config = m.config, tokenizer = tok})
--   while not chooser:finished() do
--     local token = chooser:choose(logits)          -- of the last position
--     io.write(chooser:text())                      -- what is new and sure
--   end

local core = require "tessera.core"
local options = require "tessera.options"
local own = require "tessera.hf.generation.options"
local Stop = require "tessera.hf.generation.stop"
local op = core.op

local Chooser = {}
Chooser.__index = Chooser
Chooser.__tostring = function(c)
  return ("chooser of a text: %d tokens%s"):format(c.count, c.reason and ", ended: " .. c.reason or "")
end

local read = options.of("sampling.chooser", own.kinds, own.defaults)

local function tokenizer_of(o, context, why)
  local tok = o.tokenizer or context.tokenizer
  if type(tok) == "function" then tok = tok() end
  if not tok then core.fail(("option '%s' needs a tokenizer\n  hint: {tokenizer = hf.tokenizer(path)}"):format(why)) end
  return tok
end

-- Special tokens have no text that is shown, so they are ends by their ids.
local function stops_of(self, o, tok)
  local texts = {}
  for _, s in ipairs(type(o.stop) == "table" and o.stop or { o.stop }) do
    local id = tok:id(s)
    if id and select(2, tok:token(id)) then self.stop_ids[id] = true else texts[#texts + 1] = s end
  end
  return Stop.new(texts)
end

-- What the text has to be, by the one option that says it; nil: anything.
local function grammar_of(o)
  local kinds = {}
  for _, kind in ipairs { "json", "json_schema", "grammar", "regex" } do
    if o[kind] then kinds[#kinds + 1] = kind end
  end
  if #kinds > 1 then core.fail(("options '%s' and '%s': a text is held to one of them"):format(kinds[1], kinds[2])) end
  return kinds[1] and require("tessera.hf.grammar.grammar").of(kinds[1], o[kinds[1]]), kinds[1]
end

--- new(options, {prompt, config, tokenizer}): prompt is the list of tokens that the text begins with, tokenizer one, or a function
--- that gives it when it is needed.
function Chooser.new(given, context)
  local o = read(given)
  context = context or {}
  local prompt = context.prompt or {}
  local self = setmetatable({ options = o, prompt = prompt, tokens = {}, count = 0, position = #prompt, ends = own.ends(o, context.config),
    stop_ids = {}, shown = {}, pending = "" }, Chooser)
  if o.stop and (type(o.stop) == "string" or #o.stop > 0) then
    self.tokenizer = tokenizer_of(o, context, "stop")
    self.stop = stops_of(self, o, self.tokenizer)
  else
    self.tokenizer = o.tokenizer or context.tokenizer or nil
    if type(self.tokenizer) == "function" then self.tokenizer = self.tokenizer() end
  end
  local kind
  self.grammar, kind = grammar_of(o)
  if self.grammar then self.tokenizer = self.tokenizer or tokenizer_of(o, context, kind) end
  if self.tokenizer then self.stream = self.tokenizer:stream() end
  if o.logprobs then self.logprobs = {} end
  if o.logits then self.logits = {} end
  self.adjusts, self.is_greedy = own.changes(o), own.is_greedy(o)
  return self
end

-- ---- logits as the text so far changes them

local function one_row(logits)
  if logits.ndim == 1 then return logits:unsqueeze(0) end
  if logits.ndim ~= 2 or logits.shape[1] ~= 1 then
    core.fail(("chooser:choose: logits are %s, and have to be those of one position, [vocabulary]"):format(core.type_text(logits)))
  end
  return logits
end

-- What the text's tokens count, on the device of the logits; made with the first logits.
local function begin(self, logits)
  local o, n = self.options, logits.shape[2]
  local function zeros(dtype) return op.zeros({ 1, n }, { dtype = dtype }):to(logits.device) end
  self.vocabulary = n
  if o.repetition_penalty ~= 1 then
    self.seen = zeros "bool"
    for _, id in ipairs(self.prompt) do
      if id >= 0 and id < n then self.seen:narrow(1, id, 1):copy_(true) end
    end
  end
  if o.frequency_penalty ~= 0 or o.presence_penalty ~= 0 then self.counts = zeros "f32" end
  if self.grammar then self.place = self.grammar:place(self.tokenizer, n) end
  if o.min_new_tokens > 0 then
    self.bars = zeros "bool"
    for _, set in ipairs { self.ends, self.stop_ids } do
      for id in pairs(set) do
        if id >= 0 and id < n then self.bars:narrow(1, id, 1):copy_(true) end
      end
    end
  end
  if o.logit_bias then
    self.bias = zeros "f32"
    for id, x in pairs(o.logit_bias) do
      if id >= n then core.fail(("option 'logit_bias': token %d, and the model has %d"):format(id, n)) end
      self.bias:narrow(1, id, 1):copy_(x)
    end
  end
end

--- Logits [1, V] in f32 with penalties, bias and what the grammar forbids, before temperature: the penalty of all tokens of the text,
--- those of the tokens that it chose, bias, ends that come too early, grammar.
function Chooser:adjusted(logits)
  local o = self.options
  logits = one_row(logits):cast "f32"
  if not self.vocabulary then begin(self, logits) end
  if self.seen then
    local less = op.where(logits:gt(0), logits / o.repetition_penalty, logits * o.repetition_penalty)
    logits = op.where(self.seen, less, logits)
  end
  if self.counts then
    if o.frequency_penalty ~= 0 then logits = logits - self.counts * o.frequency_penalty end
    if o.presence_penalty ~= 0 then logits = op.where(self.counts:gt(0), logits - o.presence_penalty, logits) end
  end
  if self.bias then logits = logits + self.bias end
  if self.bars and self.count < o.min_new_tokens then logits = op.where(self.bars, -math.huge, logits) end
  if self.place then logits = op.where(self.place:mask(self.ends, logits.device), logits, -math.huge) end
  return logits
end

--- Another one of the same text so far, which goes its own way: of beams, which have no stop texts and keep no logarithms here.
function Chooser:fork()
  local new = setmetatable({}, Chooser)
  for name, v in pairs(self) do new[name] = v end
  new.tokens = { unpack(self.tokens) }
  for _, name in ipairs { "seen", "counts" } do new[name] = self[name] and op.clone(self[name]) end
  if self.place then
    local place = {}
    for name, v in pairs(self.place) do place[name] = v end
    new.place = setmetatable(place, getmetatable(self.place))
  end
  return new
end

--- Two choosers with the same words here filter alike.
function Chooser:filter_key()
  local o = self.options
  if o.temperature == 0 then return "greedy" end -- filters leave the greatest
  return ("%.17g %s %s %s"):format(o.temperature, tostring(o.top_k), tostring(o.top_p), tostring(o.min_p))
end

-- ---- what was chosen

-- The logarithm of the model's own probabilities, of the chosen token and of the k greatest.
local function note(self, id, logits)
  local o = self.options
  logits = one_row(logits):cast "f32"
  if self.logits then self.logits[self.count] = logits:reshape(-1) end
  if not self.logprobs then return end
  local p = op.log_softmax(logits)
  local top = {}
  if o.logprobs > 0 then
    local k = math.min(o.logprobs, p.shape[2])
    local values, places = op.topk(p, { k = k })
    values, places = values:reshape(-1):totable(), places:reshape(-1):totable()
    for i = 1, k do top[i] = { token = places[i], logprob = values[i] } end
  end
  self.logprobs[self.count] = { token = id, logprob = p:narrow(1, id, 1):item(), top = top }
end

local function read_text(self, id)
  local new = self.stream(id)
  if self.stop then new = self.stop:push(new) end
  self.pending = self.pending .. new
end

-- What is still held back, when a text ends.
local function finish_text(self)
  if not self.stream then return end
  local new = self.stream.rest()
  if self.stop then
    new = self.stop:push(new) .. self.stop:rest()
    if self.stop.found and self.reason == "length" then self.reason = "stop" end
  end
  self.pending = self.pending .. new
end

--- A token that somebody chose becomes the text's next one; logits are those that it was chosen by, where they are kept.
function Chooser:accept(id, logits)
  if self.reason then core.fail(("chooser:choose: the text has ended (%s)"):format(self.reason)) end
  self.count, self.position = self.count + 1, self.position + 1
  self.tokens[self.count] = id
  if self.seen then self.seen:narrow(1, id, 1):copy_(true) end
  if self.counts then
    local own_ = self.counts:narrow(1, id, 1)
    own_:copy_(own_ + 1)
  end
  if self.logprobs or self.logits then note(self, id, logits) end
  if self.ends[id] then
    self.reason = "eos"
  elseif self.stop_ids[id] then
    self.reason = "stop"
  else
    if self.stream then read_text(self, id) end
    if self.place then self.place:accept(id) end
    if (self.stop and self.stop.found) or (self.place and self.place:has_ended()) then self.reason = "stop"
    elseif self.count == self.options.max_new_tokens then self.reason = "length" end
  end
  if self.reason then finish_text(self) end
  return id
end

--- The next token by logits of the last position, [V] or [1, V].
function Chooser:choose(logits)
  if self.reason then core.fail(("chooser:choose: the text has ended (%s)"):format(self.reason)) end
  return require("tessera.hf.sampling").choose_all({ self }, one_row(logits))[1]
end

--- nil, or why the text has ended: "eos", "stop" or "length".
function Chooser:finished() return self.reason end

--- What is new since the last call, in whole characters, without what may begin a stop text; "" without a tokenizer.
function Chooser:text()
  local new = self.pending
  self.shown[#self.shown + 1], self.pending = new, ""
  return new
end

--- The text so far, as it was shown and may be; nil without a tokenizer.
function Chooser:whole_text()
  return self.stream and table.concat(self.shown) .. self.pending or nil
end

return Chooser
