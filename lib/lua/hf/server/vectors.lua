-- Requests for vectors of texts: a piece of one request at a time, so that others come between.

local answers = require "tessera.hf.server.answers"
local body = require "tessera.hf.server.body"
local ffi = require "ffi"

local Vectors = {}
Vectors.__index = Vectors

function Vectors.new(http, embedding, o, context)
  return setmetatable({ http = http, embedding = embedding, name = context.name, clock = context.clock, jobs = {}, most = o.max_batch + o.queue, piece = o.max_batch,
    seconds = o.max_seconds }, Vectors)
end

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- f32, least byte first, in base64.
local function base64(v)
  local x = ffi.new("float[?]", #v)
  for i = 1, #v do x[i - 1] = v[i] end
  local text, out = ffi.string(x, 4 * #v), {}
  for i = 1, #text, 3 do
    local a, b, c = text:byte(i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 3, 0, -1 do
      local digit = math.floor(n / 64 ^ k) % 64 + 1
      out[#out + 1] = (k == 0 and not c or k == 1 and not b) and "=" or LETTERS:sub(digit, digit)
    end
  end
  return table.concat(out)
end

function Vectors:begin(id, text)
  if #self.jobs >= self.most then body.fail(429, ("%d requests are being answered or wait, which is all that may"):format(#self.jobs)) end
  local o = body.options(text, body.EMBEDDING, { name = self.name })
  if not o.input then body.fail(400, "'input' is needed", "input") end
  self.jobs[#self.jobs + 1] = { id = id, texts = o.input, format = o.encoding_format, data = {}, tokens = 0, began = self.clock() }
end

local function go_on(self, job)
  local from, texts = #job.data, {}
  for i = 1, math.min(self.piece, #job.texts - from) do texts[i] = job.texts[from + i] end
  local vectors, n = self.embedding:vectors(texts)
  job.tokens = job.tokens + n
  for i, v in ipairs(vectors) do
    local shown = job.format == "base64" and base64(v) or answers.list(v)
    job.data[from + i] = answers.object("object", "embedding", "index", from + i - 1, "embedding", shown)
  end
end

function Vectors:step()
  local job = self.jobs[1]
  if not job then return false end
  table.remove(self.jobs, 1)
  local http = self.http
  if http:gone(job.id) then
    http:finish(job.id)
    return true
  end
  local ok, why = pcall(go_on, self, job)
  if not ok then
    local status = tostring(why):find "out of memory" and 503 or 400
    http:reply(job.id, status, "application/json", answers.error(status, (tostring(why):gsub("^%S-:%d+: ", "")), "input"))
  elseif #job.data == #job.texts then
    http:reply(job.id, 200, "application/json", answers.text(answers.object("object", "list", "data", answers.list(job.data), "model", self.name, "usage",
      answers.object("prompt_tokens", job.tokens, "total_tokens", job.tokens))))
  elseif self.clock() - job.began > self.seconds then
    http:reply(job.id, 504, "application/json", answers.error(504, ("an answer takes %g seconds at most"):format(self.seconds)))
  else
    self.jobs[#self.jobs + 1] = job -- others come between
  end
  return true
end

function Vectors:stop(message)
  for _, job in ipairs(self.jobs) do self.http:reply(job.id, 503, "application/json", answers.error(503, message)) end
  self.jobs = {}
end

function Vectors:health() return answers.object("status", "ok", "active", #self.jobs, "waiting", 0) end

return Vectors
