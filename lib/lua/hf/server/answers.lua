-- Answers as JSON: whole ones, pieces of a stream, errors.

local tree = require "tessera.hf.grammar.json_tree"

local answers = {}

local NULL = tree.NULL

--- Names and values in turn, as an object whose names keep this order.
local function object(...)
  local o = { names = {}, at = {} }
  for i = 1, select("#", ...), 2 do
    local name, v = select(i, ...)
    o.names[#o.names + 1], o.at[name] = name, v
  end
  return o
end

local function list(items)
  items.list = true
  return items
end

answers.object, answers.list, answers.text = object, list, tree.text

local KINDS = { [404] = "not_found_error", [405] = "invalid_request_error", [429] = "rate_limit_error", [500] = "server_error", [503] = "server_error", [504] = "timeout_error" }

function answers.error(status, message, param)
  return tree.text(object("error", object("message", message, "type", KINDS[status] or "invalid_request_error", "param", param or NULL, "code", status)))
end

local REASONS = { eos = "stop", stop = "stop", length = "length" }

local function bytes_of(text)
  local b = {}
  for i = 1, #text do b[i] = text:byte(i) end
  return list(b)
end

local function number(x) return math.max(x, -9999) end

local function token_text(job, id) return (job.tokenizer:decode({ id }, { skip_special_tokens = false })) end

-- Entries from `first` on as conversations have them.
local function chat_logprobs(job, first)
  local items = {}
  for i = first, #job.request.tokens do
    local e = job.request.logprobs[i]
    local function one(id, p)
      local text = token_text(job, id)
      return object("token", text, "logprob", number(p), "bytes", bytes_of(text))
    end
    local top, item = {}, one(e.token, e.logprob)
    for k, t in ipairs(e.top) do top[k] = one(t.token, t.logprob) end
    item.names[4], item.at.top_logprobs = "top_logprobs", list(top)
    items[#items + 1] = item
  end
  return object("content", list(items))
end

-- The same as texts have them.
local function text_logprobs(job, first)
  local tokens, values, tops, offsets, offset = {}, {}, {}, {}, job.offset or 0
  for i = first, #job.request.tokens do
    local e = job.request.logprobs[i]
    local top = object()
    for _, t in ipairs(e.top) do
      local text = token_text(job, t.token)
      if top.at[text] == nil then top.names[#top.names + 1], top.at[text] = text, number(t.logprob) end
    end
    local n = #tokens + 1
    tokens[n], values[n], tops[n], offsets[n] = token_text(job, e.token), number(e.logprob), top, offset
    offset = offset + #tokens[n]
  end
  job.offset = offset
  return object("tokens", list(tokens), "token_logprobs", list(values), "top_logprobs", list(tops), "text_offset", list(offsets))
end

local function logprobs_of(job, first)
  if not job.request.logprobs then return NULL end
  return (job.chat and chat_logprobs or text_logprobs)(job, first)
end

local function usage(job)
  local r = job.request
  return object("prompt_tokens", r.count, "completion_tokens", #r.tokens, "total_tokens", r.count + #r.tokens)
end

local function frame(job, kind, choices, ...)
  return tree.text(object("id", job.name, "object", kind, "created", job.created, "model", job.model, "choices", list(choices), ...))
end

--- The whole answer.
function answers.whole(job)
  local r = job.request
  local reason, text = REASONS[r.reason], r.text
  local choice
  if job.chat then
    choice = object("index", 0, "message", object("role", "assistant", "content", text), "logprobs", logprobs_of(job, 1), "finish_reason", reason)
  else
    choice = object("index", 0, "text", text, "logprobs", logprobs_of(job, 1), "finish_reason", reason)
  end
  return frame(job, job.chat and "chat.completion" or "text_completion", { choice }, "usage", usage(job))
end

local function event(text) return "data: " .. text .. "\n\n" end

local function piece(job, text, logprobs, reason, role)
  local choice
  if job.chat then
    local delta = object()
    if role then delta.names, delta.at = { "role" }, { role = role } end
    if text then delta.names[#delta.names + 1], delta.at.content = "content", text end
    choice = object("index", 0, "delta", delta, "logprobs", logprobs, "finish_reason", reason or NULL)
  else
    choice = object("index", 0, "text", text or "", "logprobs", logprobs, "finish_reason", reason or NULL)
  end
  if job.include_usage then return event(frame(job, job.chat and "chat.completion.chunk" or "text_completion", { choice }, "usage", NULL)) end
  return event(frame(job, job.chat and "chat.completion.chunk" or "text_completion", { choice }))
end

--- What a stream begins with.
function answers.first(job) return job.chat and piece(job, "", NULL, nil, "assistant") or "" end

--- What is new: text, and tokens from `first` on.
function answers.next(job, text, first) return piece(job, text, logprobs_of(job, first)) end

--- What a stream ends with.
function answers.last(job)
  local out = piece(job, nil, NULL, REASONS[job.request.reason])
  if job.include_usage then out = out .. event(frame(job, job.chat and "chat.completion.chunk" or "text_completion", {}, "usage", usage(job))) end
  return out .. event "[DONE]"
end

--- An error within a stream.
function answers.broken(status, message) return event(answers.error(status, message)) .. event "[DONE]" end

return answers
