-- Requests for texts: each is a job beside others in one batch (batching/), and says what is new of it as it comes.

local core = require "tessera.core"
local answers = require "tessera.hf.server.answers"
local body = require "tessera.hf.server.body"
local hf = require "tessera.hf"

-- Where a request says no seed.
local function any_seed()
  local f = io.open("/dev/urandom", "rb")
  local a, b, c = (f and f:read(3) or ""):byte(1, 3)
  if f then f:close() end
  return ((a or 0) * 256 + (b or 0)) * 256 + (c or 0)
end

local Texts = {}
Texts.__index = Texts

--- new(http, model, options of the server, {name, clock}).
function Texts.new(http, m, o, context)
  local self = setmetatable({ http = http, model = m, tokenizer = context.tokenizer, name = context.name, clock = context.clock, jobs = {}, count = 0,
    most = o.max_batch + o.queue, seconds = o.max_seconds, failed = 0 }, Texts)
  self.template = o.template and hf.chat_template(o.template) or nil
  self.batch = hf.batch(m, { max_batch = o.max_batch, length = o.length, pages = o.pages, chunk = o.chunk, cache_dtype = o.cache_dtype, tokenizer = self.tokenizer })
  return self
end

local NOT_BATCH = { "messages", "prompt", "model", "user", "n", "stream", "include_usage", "wants_logprobs", "top_logprobs" }

local function message_of(why) return (tostring(why):gsub("^%S-:%d+: ", ""):gsub("\n  hint: ", "; ")) end

-- An option that the batch refuses is the asker's fault.
local function refused(why)
  if type(why) == "table" then error(why, 0) end
  body.fail(tostring(why):find "out of memory" and 503 or 400, message_of(why))
end

local function ids_of(self, o, chat)
  if chat then
    if not o.messages then body.fail(400, "'messages' is needed", "messages") end
    local ok, _, ids = pcall(self.tokenizer.chat, self.tokenizer, o.messages, { add_generation_prompt = true, template = self.template })
    if not ok then refused(_) end
    return ids
  end
  if o.prompt == nil then body.fail(400, "'prompt' is needed", "prompt") end
  return type(o.prompt) == "table" and o.prompt or self.tokenizer:encode(o.prompt).ids
end

--- A request, by id, that begins: what is wrong with it is an error {status, message, param}.
function Texts:begin(id, text, chat)
  if #self.jobs >= self.most then body.fail(429, ("%d requests are being answered or wait, which is all that may"):format(#self.jobs)) end
  local o = body.options(text, chat and body.CHAT or body.TEXT, { vocabulary = self.model.config.vocab_size, name = self.name })
  local own = { ids = ids_of(self, o, chat) }
  if #own.ids == 0 then body.fail(400, "'prompt' has no tokens", "prompt") end
  local job = { id = id, chat = chat, stream = o.stream, include_usage = o.include_usage, model = self.name, tokenizer = self.tokenizer,
    created = os.time(), began = self.clock() }
  for _, name in ipairs(NOT_BATCH) do o[name] = nil end
  for name, v in pairs(o) do own[name] = v end
  local left = self.batch.length - #own.ids
  if left < (own.max_new_tokens or 1) then
    body.fail(400, ("%d tokens and %d new ones are %d, and a text here has %d at most"):format(#own.ids, own.max_new_tokens or 1,
      #own.ids + (own.max_new_tokens or 1), self.batch.length), chat and "messages" or "prompt")
  end
  own.max_new_tokens = own.max_new_tokens or left
  own.temperature = own.temperature or 1
  own.seed = own.seed or any_seed()
  local ok, r = pcall(self.batch.submit, self.batch, own)
  if not ok then refused(r) end
  self.count = self.count + 1
  job.request, job.name = r, ("%s-%d-%d"):format(chat and "chatcmpl" or "cmpl", job.created, self.count)
  self.jobs[#self.jobs + 1] = job
  if job.stream then
    self.http:begin(id, "text/event-stream")
    self.http:send(id, answers.first(job))
  end
end

-- An answer that is an error, also in the middle of a stream.
local function break_off(self, job, status, message)
  self.batch:cancel(job.request)
  if job.stream then
    self.http:send(job.id, answers.broken(status, message))
    self.http:finish(job.id)
  else
    self.http:reply(job.id, status, "application/json", answers.error(status, message))
  end
  return true
end

-- Says what is new; true at its end.
local function tell(self, job)
  local r, http = job.request, self.http
  if http:gone(job.id) then
    self.batch:cancel(r)
    http:finish(job.id)
    return true
  end
  if r.reason == "error" then return break_off(self, job, 500, message_of(r.error)) end
  if not r.done and self.clock() - job.began > self.seconds then
    return break_off(self, job, 504, ("an answer takes %g seconds at most"):format(self.seconds))
  end
  if job.stream then
    local first = r.seen + 1
    local _, new = r:read()
    if new ~= "" or r.logprobs and r.seen >= first then http:send(job.id, answers.next(job, new, first)) end
    if r.done then
      http:send(job.id, answers.last(job))
      http:finish(job.id)
    end
  elseif r.done then
    http:reply(job.id, 200, "application/json", answers.whole(job))
  end
  return r.done
end

--- One token further for all, if there are any; whether there were.
function Texts:step()
  if #self.jobs == 0 then return false end
  local ok, why = pcall(self.batch.step, self.batch)
  self.failed = ok and 0 or self.failed + 1
  local left = {}
  for _, job in ipairs(self.jobs) do
    local done
    if self.failed > 2 then done = break_off(self, job, 500, message_of(why)) else done = tell(self, job) end
    if not done then left[#left + 1] = job end
  end
  self.jobs = left
  return true
end

--- Ends all that are there.
function Texts:stop(message)
  for _, job in ipairs(self.jobs) do break_off(self, job, 503, message) end
  self.jobs = {}
end

function Texts:health()
  local s = self.batch:statistics()
  return answers.object("status", "ok", "active", s.active, "waiting", s.waiting, "pages_used", s.used, "pages", s.pages)
end

return Texts
