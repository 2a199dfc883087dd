-- A server with the usual interface of chat completions, on one thread: requests come (net/http), the batch goes one token further, what
-- is new is sent. Ctrl-C and SIGTERM end it in order: nothing further is taken, what is being answered has a while to end.

local core = require "tessera.core"
local answers = require "tessera.hf.server.answers"
local body = require "tessera.hf.server.body"

local server = {}

local JSON = "application/json"

local function reply(self, id, status, text) self.http:reply(id, status, JSON, text) end

local function model_of(self)
  return answers.object("id", self.name, "object", "model", "created", self.created, "owned_by", "tessera")
end

local function need(kind, what)
  if not kind then body.fail(404, what) end
  return kind
end

local NO_TEXT, NO_VECTORS = "this model gives no text; it answers /v1/embeddings", "this model gives no vectors; it answers /v1/chat/completions and /v1/completions"

-- What there is, by path and method.
local ROUTES = {
  ["/v1/chat/completions"] = { POST = function(self, id, text) need(self.texts, NO_TEXT):begin(id, text, true) end },
  ["/v1/completions"] = { POST = function(self, id, text) need(self.texts, NO_TEXT):begin(id, text, false) end },
  ["/v1/embeddings"] = { POST = function(self, id, text) need(self.vectors, NO_VECTORS):begin(id, text) end },
  ["/v1/models"] = { GET = function(self, id) reply(self, id, 200, answers.text(answers.object("object", "list", "data", answers.list { model_of(self) }))) end },
  ["/health"] = { GET = function(self, id) reply(self, id, 200, answers.text((self.texts or self.vectors):health())) end },
}

local function route(self, id, method, path, text)
  if path == "/v1/models/" .. self.name and method == "GET" then return reply(self, id, 200, answers.text(model_of(self))) end
  local own = ROUTES[path]
  if not own then body.fail(404, ("there is no '%s'"):format(core.shown(path, 100))) end
  if not own[method] then body.fail(405, ("'%s' takes %s, not %s"):format(path, next(own), method)) end
  own[method](self, id, text)
end

local function take(self)
  while true do
    local id, method, path, text = self.http:next()
    if not id then return end
    local ok, why = pcall(route, self, id, method, path, text)
    if not ok then
      local e = type(why) == "table" and why.status and why or { status = 500, message = tostring(why) }
      reply(self, id, e.status, answers.error(e.status, e.message, e.param))
    end
  end
end

--- run{http, name, texts or vectors, grace, clock}: until a signal comes.
function server.run(self)
  local work = self.texts or self.vectors
  local busy, goes_on = false, true
  while goes_on do
    goes_on = self.http:wait(busy and 0 or 100)
    take(self)
    busy = work:step()
  end
  self.http:refuse()
  local ends = self.clock() + self.grace
  while #work.jobs > 0 and self.clock() < ends do
    self.http:wait(0)
    work:step()
  end
  work:stop "the server ends"
  ends = self.clock() + 1
  while self.http:open_count() > 0 and self.clock() < ends do self.http:wait(20) end
  self.http:close()
end

return server
