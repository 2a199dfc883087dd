-- What a request asks for: its JSON as options of hf.batch. What is wrong with it is an error {status, message, param} that names the
-- field; fields that are not known are errors too.

local core = require "tessera.core"
local chosen = require "tessera.hf.generation.options"
local hf = require "tessera.hf"
local options = require "tessera.options"
local tree = require "tessera.hf.grammar.json_tree"

local body = {}

--- Raises an error that becomes the answer.
function body.fail(status, message, param) error({ status = status, message = message, param = param }, 0) end

local function wrong(param, ...) body.fail(400, (...):format(select(2, ...)), param) end

-- A value of json_tree as one of Lua.
local function plain(v)
  if v == tree.NULL then return hf.null end
  if type(v) ~= "table" then return v end
  local out = {}
  if v.list then
    for i, item in ipairs(v) do out[i] = plain(item) end
  else
    for _, name in ipairs(v.names) do out[name] = plain(v.at[name]) end
  end
  return out
end
body.plain = plain

--- The object of a body, {names, at}.
function body.read(text)
  if not core.is_utf8(text) then body.fail(400, "the body is not UTF-8") end
  local ok, v = pcall(tree.of, text)
  if not ok then
    local why = type(v) == "table" and v.message or tostring(v)
    body.fail(400, (why:gsub("^.-json_schema: ", "the body is ")))
  end
  if type(v) ~= "table" or v == tree.NULL or v.list then body.fail(400, "the body has to be an object of JSON") end
  return v
end

-- ---- fields: a kind, or a function of the value and the options that are filled

local COUNT, TEXT, FLAG = options.whole { least = 1 }, options.text, options.flag
local kinds = chosen.kinds

local function checked(name, kind, v)
  if not kind.holds(v) then
    wrong(name, "'%s' must be %s, not %s", name, kind.text, core.shown(type(v) == "table" and v.names and "an object" or type(v) == "table" and "a list" or tree.text(v), 60))
  end
  return v
end

local function field(kind, own)
  return function(name, v, o) o[own or name] = checked(name, kind, plain(v)) end
end

local function most_tokens(name, v, o)
  if o.max_new_tokens then wrong(name, "'max_tokens' and 'max_completion_tokens' are one limit, and both are given") end
  o.max_new_tokens = checked(name, COUNT, v)
end

local function bias(name, v, o, context)
  if type(v) ~= "table" or v.list then wrong(name, "'logit_bias' must be an object of numbers by token") end
  local map = {}
  for _, key in ipairs(v.names) do
    local id = key:match "^%d+$" and tonumber(key)
    if not id or id >= context.vocabulary or type(v.at[key]) ~= "number" then
      wrong(name, "'logit_bias': '%s' must be a token below %d, with a number", core.shown(key, 40), context.vocabulary)
    end
    map[id] = v.at[key]
  end
  o.logit_bias = map
end

local function stream_options(name, v, o)
  if type(v) ~= "table" or v.list then wrong(name, "'stream_options' must be an object") end
  for _, key in ipairs(v.names) do
    if key ~= "include_usage" then wrong(name .. "." .. key, "unknown field 'stream_options.%s'", core.shown(key, 60)) end
  end
  o.include_usage = checked("stream_options.include_usage", FLAG, v.at.include_usage)
end

local function response_format(name, v, o)
  local kind = type(v) == "table" and not v.list and v.at and v.at.type
  if kind ~= "text" and kind ~= "json_object" and kind ~= "json_schema" then
    wrong(name, "'response_format' must be an object whose type is 'text', 'json_object' or 'json_schema'")
  end
  for _, key in ipairs(v.names) do
    if key ~= "type" and not (key == "json_schema" and kind == key) then wrong(name .. "." .. key, "unknown field 'response_format.%s'", core.shown(key, 60)) end
  end
  if kind == "json_object" then o.json = true end
  if kind ~= "json_schema" then return end
  local own = v.at.json_schema
  if type(own) ~= "table" or own.list or own == tree.NULL or type(own.at.schema) ~= "table" then
    wrong(name .. ".json_schema", "'response_format.json_schema' must be an object with a 'schema'")
  end
  for _, key in ipairs(own.names) do
    if key ~= "schema" and key ~= "name" and key ~= "strict" and key ~= "description" then
      wrong(name .. ".json_schema." .. key, "unknown field 'response_format.json_schema.%s'", core.shown(key, 60))
    end
  end
  o.json_schema = tree.text(own.at.schema)
end

local ONE = options.kind("1", function(v) return v == 1 end)

-- Of both kinds of texts.
local COMMON = {
  model = field(TEXT), user = field(TEXT), n = field(ONE), stream = field(FLAG), stream_options = stream_options, stop = field(kinds.stop),
  max_tokens = most_tokens, logit_bias = bias, response_format = response_format,
}
for _, name in ipairs { "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty", "grammar", "regex" } do
  COMMON[name] = field(kinds[name])
end

local function with(more)
  local all = {}
  for name, f in pairs(COMMON) do all[name] = f end
  for name, f in pairs(more) do all[name] = f end
  return all
end

local function messages(name, v, o)
  if type(v) ~= "table" or not v.list or #v == 0 then wrong(name, "'messages' must be a list of messages, at least one") end
  local list = {}
  for i, m in ipairs(v) do
    local at = ("messages[%d]"):format(i - 1)
    if type(m) ~= "table" or m.list or m == tree.NULL or type(m.at.role) ~= "string" then wrong(at, "'%s' must be an object with a role", at) end
    list[i] = plain(m)
    local content = m.at.content
    if type(content) == "table" and content.list then
      local parts = {}
      for k, part in ipairs(content) do
        if type(part) ~= "table" or part.list or part == tree.NULL or part.at.type ~= "text" or type(part.at.text) ~= "string" then
          wrong(("%s.content[%d]"):format(at, k - 1), "'%s.content[%d]' must be a text: {\"type\": \"text\", \"text\": ..}", at, k - 1)
        end
        parts[k] = part.at.text
      end
      list[i].content = table.concat(parts)
    elseif type(content) ~= "string" and content ~= tree.NULL then
      wrong(at .. ".content", "'%s.content' must be a text, or a list of texts", at)
    end
  end
  o.messages = list
end

local function prompt(name, v, o)
  if type(v) == "table" and v.list and #v == 1 and type(v[1]) ~= "number" then v = v[1] end
  local tokens = type(v) == "table" and v.list and #v > 0
  for _, id in ipairs(tokens and v or {}) do tokens = tokens and type(id) == "number" end
  if type(v) ~= "string" and not tokens then wrong(name, "'prompt' must be one text, or a list of token ids") end
  o.prompt = tokens and plain(v) or v
end

local MOST_TOP = 20
local TOP = options.whole { least = 0, most = MOST_TOP }

body.CHAT = with { messages = messages, max_completion_tokens = most_tokens, logprobs = field(FLAG, "wants_logprobs"), top_logprobs = field(TOP) }
body.TEXT = with { prompt = prompt, logprobs = field(TOP) }
body.EMBEDDING = {
  model = field(TEXT), user = field(TEXT), encoding_format = field(options.one_of("float", "base64")),
  input = function(name, v, o)
    local list = type(v) == "string" and { v } or type(v) == "table" and v.list and plain(v) or {}
    for i = 1, #list do
      if type(list[i]) ~= "string" then list = {} end
    end
    if #list == 0 then wrong(name, "'input' must be a text, or a list of texts") end
    o.input = list
  end,
}

local function unknown(name, fields)
  local words = {}
  for word in pairs(fields) do words[#words + 1] = word end
  table.sort(words)
  local guess = core.suggest(name, words)
  wrong(name, "unknown field '%s'%s", core.shown(name, 60), guess and ("; did you mean '%s'?"):format(guess) or "")
end

--- What a body asks for by a table of fields; null is as if it were not there. context: {vocabulary, name of the model}.
function body.options(text, fields, context)
  local v, o = body.read(text), {}
  for _, name in ipairs(v.names) do
    if not fields[name] then unknown(name, fields) end
    if v.at[name] ~= tree.NULL then fields[name](name, v.at[name], o, context) end
  end
  if o.model and o.model ~= context.name then
    body.fail(404, ("the model '%s' is not here; '%s' is"):format(core.shown(o.model, 60), context.name), "model")
  end
  if o.top_logprobs and not o.wants_logprobs then wrong("top_logprobs", "'top_logprobs' needs 'logprobs': true") end
  if o.wants_logprobs then o.logprobs = o.top_logprobs or 0 end
  if o.include_usage and not o.stream then wrong("stream_options", "'stream_options' needs 'stream': true") end
  return o
end

return body
