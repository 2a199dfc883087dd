-- Several texts that go on beside each other, which come and end at any time. A step reads a piece of prompts that are not read yet
-- and brings every other text one token further: one call of the model for all of these, whose keys and values lie in pages
-- (pages.lua, store.lua). What a text has is what it has alone, bit for bit, since no row of a call depends on another and no
-- position on how it came: so texts may wait, share pages, and begin again from their tokens where pages are short.
--
-- Each call of the model ends with plain assignments that say how far its texts are. What fails before, memory or Ctrl-C, leaves
-- them as they were, and the next step does it again.

local core = require "tessera.core"
local beside = require "tessera.hf.generation.beside"
local blocks = require "tessera.hf.blocks"
local Captured = require "tessera.hf.captured"
local CapturedStep = require "tessera.hf.batching.captured_step"
local chosen = require "tessera.hf.generation.options"
local fp8 = require "tessera.hf.fp8"
local named = require "tessera.named"
local options = require "tessera.options"
local Pages = require "tessera.hf.batching.pages"
local prompts = require "tessera.hf.generation.prompts"
local Request = require "tessera.hf.batching.request"
local sampling = require "tessera.hf.sampling"
local Store = require "tessera.hf.batching.store"
local units = require "tessera.units"

local Batch = {}

local COUNT = options.whole { least = 1 }
local read = options.of("hf.batch", { max_batch = COUNT, length = COUNT, pages = COUNT, page = COUNT, chunk = COUNT, cache_dtype = fp8.kind,
  share = options.flag, tokenizer = chosen.kinds.tokenizer }, { max_batch = 8, page = 32, chunk = 256, share = true })
local PROMPT = options.kind("the token ids of one text: a list, a tensor [positions], or what tok:encode gives", function(v)
  return core.is_tensor(v) or type(v) == "table" and (#v > 0 or v.ids ~= nil)
end, prompts.hint)
local read_request = options.of("b:submit", chosen.with { ids = options.needed(PROMPT) })

local function store_options(model, o)
  local w = model:embedding().weight
  local length = o.length or math.min(model:cache_length(), 2048)
  -- Of a device all pages are there at once: a captured step is one of tensors of their size.
  return { first = w.device:find "^cpu" and 2 * o.max_batch or nil, pages = o.pages or o.max_batch * math.ceil(length / o.page), size = o.page, length = length, chunk = math.max(o.chunk, 1),
    texts = o.max_batch, device = w.device, dtype = o.cache_dtype or (blocks.in_blocks(w.dtype) and "f32" or w.dtype) }
end

--- ? hf.batch.
function Batch.new(model, given)
  local o = read(given)
  if type(model) ~= "table" or type(model.cache_windows) ~= "function" then
    core.fail("hf.batch: the first argument must be a model that reads text from left to right, as hf.load gives it" ..
      (type(model) == "string" and ("\n  hint: hf.batch(hf.load \"%s\")"):format(core.shown(model, 60)) or ""))
  end
  local s = store_options(model, o)
  local bytes = Store.nbytes(model, s)
  if s.device:find "^cpu" and bytes > core.memory_left() then
    core.fail(("hf.batch: %d pages of %d positions take %s, and %s are left\n  hint: fewer {pages = ..}, or {cache_dtype = \"fp8_e4m3\"}"):format(
      s.pages, s.size, units.size(bytes), units.size(core.memory_left())))
  end
  local self = setmetatable({ model = model, options = o, length = s.length, chunk = s.chunk, max_batch = o.max_batch, tokenizer = o.tokenizer or false,
    queue = {}, active = {}, serial = 0, torn = false }, Batch)
  self.store = core.no_grad(Store.new, model, s)
  self.captured = CapturedStep.new(model, self.store) or false
  local groups = {}
  for g, group in ipairs(self.store.groups) do groups[g] = { window = group.window, count = self.store.counts[g], most = self.store.most[g] } end
  local store = self.store
  self.pages = Pages.new(groups, { size = s.size, share = o.share, grow = function(g, count) store:grow(g, count) end })
  return self
end

local function need_batch(self, what)
  if getmetatable(self) ~= Batch then core.fail(("b:%s: it is called without the batch\n  hint: b:%s, with a colon"):format(what, what)) end
end

-- ---- texts come and go

-- Options of m:generate that a text among others has not, and who takes them.
local OF_CALLS = { beams = "m:generate{beams = ..}", draft = "m:generate{draft = ..}", length = "hf.batch(m, {length = ..})",
  chunk = "hf.batch(m, {chunk = ..})" }

local function need_own_options(given)
  for name, taken in pairs(OF_CALLS) do
    if type(given) == "table" and given[name] ~= nil then
      core.fail(("b:submit: option '%s' is of all texts together\n  hint: %s takes it"):format(name, taken))
    end
  end
end

local function prompt_of(self, ids)
  local list = prompts.of { ids = ids }
  if #list ~= 1 then core.fail(("b:submit: %d texts are given, and a request is one"):format(#list)) end
  prompts.check("b:submit", "the prompt", list[1], self.model.config.vocab_size)
  return { unpack(list[1]) }
end

local function need_room(self, prompt, o)
  local n = #prompt + o.max_new_tokens
  if n > self.length then
    core.fail(("b:submit: %d tokens and %d new ones are %d, and a text of this batch has at most %d positions\n  hint: hf.batch(m, {length = %d})"):format(
      #prompt, o.max_new_tokens, n, self.length, n))
  end
  for g, group in ipairs(self.store.groups) do
    local pages = Pages.most(group.window, self.store.size, n, self.chunk)
    if pages > self.store.most[g] then
      core.fail(("b:submit: the text needs %d pages of %d positions, and there are %d\n  hint: hf.batch(m, {pages = %d})"):format(pages,
        self.store.size, self.store.most[g], pages))
    end
  end
end

-- submit{ids = .., max_new_tokens = 20, ..}: a text that goes on from the next step on, or when there is room: a request. ids is one
-- text: a list of tokens, a tensor, or what tok:encode gives. Options are those of m:generate that say how tokens are chosen and
-- when a text ends. A wrong option and a text that is too long are errors, and no request. request.tokens is a list of the new tokens,
-- request.text their text if there is a tokenizer, request.done says whether it has ended, and request.reason why: "eos",
-- "length", "stop", "cancelled", or "error", of which request.error has the words. request:read() gives what is new.
--   local request = b:submit{ids = tok:encode "The capital of France is", max_new_tokens = 8}
function Batch:submit(given)
  need_batch(self, "submit")
  need_own_options(given)
  local o = read_request(given)
  chosen.check("b:submit", given, o, self.model.config.vocab_size)
  local prompt = prompt_of(self, o.ids)
  need_room(self, prompt, o)
  local r = Request.new(self.serial + 1, prompt, o, { config = self.model.config, device = self.store.device,
    tokenizer = o.tokenizer or self.tokenizer or beside.tokenizer(self.model) })
  r.root = self.model:length_kind(r:room())
  self.serial = self.serial + 1
  self.queue[#self.queue + 1] = r
  return r
end

local function without(list, r)
  for i, own in ipairs(list) do
    if own == r then return table.remove(list, i) end
  end
end

-- Gives its pages back.
local function leave(self, r)
  if r.pages then self.pages:close(r.pages) end
  r.pages, r.written = nil, 0
  without(self.active, r)
end

local function finish(self, r, reason, why)
  leave(self, r)
  without(self.queue, r)
  r:finish(reason, why)
end

-- cancel(request): it ends with what it has; its pages are free. One that has ended stays as it is.
--   b:cancel(request)
function Batch:cancel(r)
  need_batch(self, "cancel")
  if getmetatable(r) ~= Request.meta then core.fail "b:cancel: the argument must be a request, as b:submit gives it" end
  if not r.done then finish(self, r, "cancelled") end
end

-- Those that wait, in order, as long as there are places, and pages for all that the next one has.
local function admit(self)
  local pages = self.pages
  while self.queue[1] and #self.active < self.max_batch do
    local r = self.queue[1]
    local text = pages:open(r.root)
    local found = pages:match(text, r.all, #r.all - 1)
    local room = true
    for g, group in ipairs(self.store.groups) do
      local most = Pages.most(group.window, self.store.size, #r.all + 1, self.chunk)
      room = room and pages:has(g, most - pages:held(text, g))
    end
    if not room and #self.active > 0 then
      pages:close(text)
      return
    end
    pages:tell(found, #r.all - 1)
    r.pages, r.written = text, found
    self.active[#self.active + 1] = r
    table.remove(self.queue, 1)
  end
end

-- The text waits again, before all others, and will read its tokens once more.
local function preempt(self, r)
  table.insert(self.queue, 1, r)
  leave(self, r)
  self.pages.told.preempted = self.pages.told.preempted + 1
end

-- Pages for n more positions: where there are none, those of the text that came last.
local function reserve(self, r, n)
  while not self.pages:reserve(r.pages, r.written, r.written + n) do
    local last = self.active[#self.active]
    preempt(self, last)
    if last == r then return false end
  end
  return true
end

-- ---- a step

-- What the step does: calls {requests, n}. Texts that came first have their pages first.
local function plan(self)
  local calls, budget, i = {}, self.chunk, 1
  local together = {} -- of texts that want one token more, by what their positions are scaled for
  while self.active[i] do
    local r = self.active[i]
    local reads = r:waiting() > 1
    local n = reads and math.min(r:waiting(), budget) or 1
    if n > 0 and not reserve(self, r, n) then break end -- it was the last one
    if n > 0 and reads then
      budget = budget - n
      calls[#calls + 1] = { r, n = n }
    elseif n > 0 then
      local call = together[r.root]
      if not call then
        call = { n = 1 }
        together[r.root], calls[#calls + 1] = call, call
      end
      call[#call + 1] = r
    end
    i = i + 1
  end
  return calls
end

local is_upset = Captured.is_upset

-- Tokens by logits [B, V]; where one text's options are what fails, it alone ends.
local function choose(self, list, logits)
  local choosers = {}
  for i, r in ipairs(list) do choosers[i], r.choosing = r.chooser, true end
  local ok, ids = pcall(sampling.choose_all, choosers, logits)
  if ok then return ids end
  if is_upset(ids) then error(ids, 0) end
  local each = {}
  for i, r in ipairs(list) do
    local fine, id = pcall(function()
      r:repair()
      r.choosing = true
      return sampling.choose_all({ r.chooser }, logits:narrow(0, i - 1, 1))[1]
    end)
    if not fine and is_upset(id) then error(id, 0) end
    each[i] = fine and id
    if not fine then r.failed = id end
  end
  return each
end

-- On devices the same sizes again and again: rows up to a power of two, of which the last are nobody's.
local function rows_of(self, n)
  if self.store.device:find "^cpu" then return n end
  local rows = 1
  while rows < n do rows = 2 * rows end
  return rows
end

local function call(self, list)
  local n, ids, texts, starts, ends = list.n, {}, {}, {}, list[1]:waiting() == list.n
  for b, r in ipairs(list) do
    texts[b], starts[b], ids[b] = r.pages, r.written, {}
    for i = 1, n do ids[b][i] = r.all[r.written + i] end
  end
  for b = #list + 1, n == 1 and rows_of(self, #list) or 0 do texts[b], starts[b], ids[b] = false, 0, { 0 } end
  if self.captured and n == 1 then
    local y = self.captured:call(ids, texts, starts, list[1].root == "" and 1 or list[1]:room())
    if y then return choose(self, list, y:narrow(0, 0, #list)) end
  end
  local view = self.store:view(texts, starts, n, list[1]:room())
  local y = self.model { ids = core.tensor(ids, { dtype = "i64", device = self.store.device }), cache = view, last = true, hidden = not ends }
  return ends and choose(self, list, y:select(1, 0):narrow(0, 0, #list))
end

local function commit(self, list, ids)
  for i, r in ipairs(list) do
    r.choosing = nil
    r:commit(list.n, ids and ids[i])
    self.pages:note(r.pages, r.all, r.written)
    if r.failed then
      finish(self, r, "error", tostring(r.failed))
    elseif r.done then
      leave(self, r)
    end
  end
end

-- A call and what follows from it. What fails for another reason than an upset is one text's fault: each is tried by itself, and who
-- fails alone has ended.
local function attempt(self, list)
  local fine, ids = pcall(call, self, list)
  if fine then
    commit(self, list, ids)
  elseif is_upset(ids) then
    error(ids, 0)
  elseif #list == 1 then
    finish(self, list[1], "error", tostring(ids))
  else
    for _, r in ipairs(list) do attempt(self, { r, n = list.n }) end
  end
end

-- After a step that was broken off: who goes on, who waits, who holds what.
local function repair(self)
  local texts, active, queue, known = {}, {}, {}, {}
  for _, r in ipairs(self.active) do
    if not r.done then
      known[r] = true
      local fine, why = pcall(r.repair, r)
      if not fine and is_upset(why) then error(why, 0) end
      if not fine then
        r.pages = nil
        r:finish("error", tostring(why))
      elseif r.pages then
        active[#active + 1], texts[#texts + 1] = r, r.pages
      else
        r.written = 0
        queue[#queue + 1] = r
      end
    end
  end
  for _, r in ipairs(self.queue) do
    if not r.done and not known[r] then queue[#queue + 1] = r end
  end
  self.pages:recount(texts)
  self.active, self.queue, self.torn = active, queue, false
end

local function step(self)
  if self.torn then repair(self) end
  self.torn = true
  admit(self)
  for _, list in ipairs(plan(self)) do attempt(self, list) end
  self.torn = false
end

-- step(): every text one token further, or a piece of its prompt; false, and nothing is done, if there is no text. What fails, as an
-- interrupt does, loses nothing: the next step goes on.
--   while b:step() do print(request.text) end
function Batch:step()
  need_batch(self, "step")
  if #self.active == 0 and #self.queue == 0 then return false end
  core.no_grad(step, self)
  return true
end

-- run(): steps until all texts have ended; gives the batch.
--   b:run()
function Batch:run()
  need_batch(self, "run")
  while self:step() do end
  return self
end

-- statistics(): {active, waiting, nbytes, dtype, size, pages, most, used, idle, free, hits, misses, reused, dropped, preempted, captured,
-- uncaptured}: texts that go on, and that wait; bytes of all pages, and their type; positions of a page; pages of all groups of layers,
-- and how many there may be: those that texts hold, that are kept for prefixes, and that are empty; full pages of prompts that were
-- found, and that were not; positions that were not computed again; pages that were taken from prefixes; texts that had to begin
-- again; whether steps are captured functions, and if not, why.
--   print(b:statistics().reused)
function Batch:statistics()
  need_batch(self, "statistics")
  local s = self.pages:statistics()
  s.active, s.waiting, s.nbytes, s.dtype = #self.active, #self.queue, self.store.nbytes, self.store.dtype
  s.uncaptured = CapturedStep.why_not(self.captured)
  s.captured = s.uncaptured == nil
  return s
end

function Batch.__tostring(b)
  local s = b:statistics()
  return ("batch of %s: %d texts go on, %d wait\n  cache: %d of %d pages of %d positions, %s in %s; %d used, %d kept for prefixes, %d free\n"):format(
    b.model.config.model_type, s.active, s.waiting, s.pages, s.most, s.size, units.size(s.nbytes), s.dtype, s.used, s.idle, s.free) ..
    ("  prefixes: %d positions reused, %d of %d pages found, %d dropped; %d texts began again"):format(s.reused, s.hits, s.hits + s.misses,
      s.dropped, s.preempted) .. (b.captured and s.uncaptured and "\n  steps are not captured: " .. s.uncaptured or "")
end

function Batch.__index(_, name)
  local own = rawget(Batch, name)
  if own == nil then error(named.missing("batch", name, Batch), 2) end
  return own
end

core.keep_line(Batch, true)
return Batch
