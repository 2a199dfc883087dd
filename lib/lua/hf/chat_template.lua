-- hf.chat_template: conversations as the text that a model has learned (jinja/).

local core = require "tessera.core"
local files = require "tessera.hf.files"
local values = require "tessera.hf.jinja.values"
local json = require "tessera.hf.jinja.json"

local chat_template = {}
local shown = core.shown
local Template = {}
Template.__index = Template

local DEEPEST = 100

-- Entries that are dictionaries when they are empty.
local DICT = { properties = true, parameters = true, arguments = true, ["function"] = true }
-- Names of a Lua table have no order: these come in the order in which they are usually written, then all others by the alphabet.
local ORDER = {}
for i, name in ipairs { "role", "type", "id", "function", "name", "description", "content", "parameters", "arguments", "properties", "required" } do
  ORDER[name] = i
end

local function before(a, b)
  local x, y = ORDER[a] or 100, ORDER[b] or 100
  if x ~= y then return x < y end
  return a < b
end

local function fail(what, ...) core.fail(select("#", ...) > 0 and what:format(...) or what) end

-- A value of Lua as one of a template; where: for messages.
local function convert(v, where, depth)
  local t = type(v)
  if t == "string" or t == "boolean" then return v end
  if t == "number" then
    if v % 1 == 0 and math.abs(v) <= 2 ^ 53 then return v end
    return values.float(v)
  end
  if v == require("tessera.hf").null then return values.NONE end
  if t ~= "table" or core.is_tensor(v) then fail("chat template: %s is a %s, which has no form in a template", where, core.is_tensor(v) and "tensor" or t) end
  if depth > DEEPEST then fail("chat template: %s stands more than %d deep; does it hold itself?", where, DEEPEST) end
  local n = #v
  local names = {}
  for k in pairs(v) do
    if type(k) == "string" then
      names[#names + 1] = k
    elseif type(k) ~= "number" or k < 1 or k > n or k % 1 ~= 0 then
      fail("chat template: %s has the key %s; keys are texts, or 1 to the length without gaps", where, tostring(k))
    end
  end
  if n > 0 and #names > 0 then fail("chat template: %s is neither a list nor a table with names: it has items and '%s'", where, shown(names[1])) end
  if #names == 0 and not (n == 0 and DICT[where:match "[%w_]+$" or ""]) then
    local list = { n = n }
    for i = 1, n do list[i] = convert(v[i], ("%s[%d]"):format(where, i), depth + 1) end
    return values.list(list)
  end
  table.sort(names, before)
  local d = values.dict()
  for _, name in ipairs(names) do values.set(d, name, convert(v[name], where .. "." .. name, depth + 1)) end
  return d
end

-- An error of a template as one of ours.
local function raise(self, why)
  if type(why) ~= "table" or not why.jinja then error(why, 0) end
  core.fail(("%s: %s%s"):format(self.name, why.line and ("line " .. why.line .. ": ") or "", why.message))
end

local JSON = { messages = true, tools = true, documents = true }

--- Text, and a list of {from, to} for what stands in generation blocks, in bytes as string.sub takes them.
function Template:render(given)
  if given ~= nil and type(given) ~= "table" then fail("template:render: variables by name are needed, not a %s", type(given)) end
  local context = { tools = values.NONE, documents = values.NONE, add_generation_prompt = false }
  local now
  for name, v in pairs(given or {}) do
    if type(name) ~= "string" then fail("template:render: variables have names, not %s", tostring(name)) end
    if name == "now" then
      if type(v) ~= "number" then fail("template:render: 'now' is a time as os.time gives it, not a %s", type(v)) end
      now = v
    elseif JSON[name] and type(v) == "string" then
      local ok, value = pcall(json.read, v, name)
      if not ok then raise(self, value) end
      context[name] = value
    else
      context[name] = convert(v, name, 0)
    end
  end
  local ok, text, generated = pcall(require "tessera.hf.jinja.interpreter", self.tree, context, now)
  if not ok then raise(self, text) end
  return text, generated
end

--- The same with all variables as one text of JSON, whose names keep their order.
function Template:render_json(text, now)
  local context = { tools = values.NONE, documents = values.NONE, add_generation_prompt = false }
  local ok, out, generated = pcall(function()
    local all = json.read(text, "variables")
    if type(all) ~= "table" or all.kind ~= "dict" then values.fail "variables: an object of JSON is needed" end
    for name, v in pairs(all.map) do context[name] = v end
    return require "tessera.hf.jinja.interpreter"(self.tree, context, now)
  end)
  if not ok then raise(self, out) end
  return out, generated
end

function Template:__tostring() return ("chat template %s: %d bytes"):format(self.name, #self.source) end

--- Of text.
function chat_template.of_text(source, name)
  if not core.is_utf8(source) then fail("%s: a chat template is text in UTF-8", name or "chat template") end
  local self = setmetatable({ name = name or "chat template", source = source }, Template)
  local ok, tree = pcall(require "tessera.hf.jinja.parser", source)
  if not ok then raise(self, tree) end
  self.tree = tree
  return self
end

-- ---- files
local function readable(path)
  if #path > 4096 or path:find "[%z\n]" then return false end
  local file = io.open(path, "rb")
  if not file then return false end
  local is_file = file:read(0) ~= nil or file:seek "end" == 0
  file:close()
  return is_file
end

-- The text of a token in tokenizer_config.json.
local function token_of(v) return type(v) == "table" and v.content or type(v) == "string" and v or nil end

-- The template among several named ones: the one for tools if there are tools.
local function pick(list, path)
  local by_name = {}
  for _, t in ipairs(list) do
    if type(t) ~= "table" or type(t.template) ~= "string" then fail("%s: 'chat_template' is no text, and no list of named ones", shown(path)) end
    by_name[t.name or ""] = t.template
  end
  return by_name.default, by_name.tool_use
end

--- {text, tool_use, name, tokens = {bos_token = ..}} of the model at a path: a folder, or one of its files; nil if it has none.
function chat_template.of_model(path)
  local found = { tokens = {}, name = path }
  if files.is_gguf(path) then
    local map = core.map_file(path)
    local _, meta = require("tessera.hf.gguf").read(path, map, { later = true })
    map:close()
    found.text, found.tool_use = meta["tokenizer.chat_template"], meta["tokenizer.chat_template.tool_use"]
    local tokens = meta["tokenizer.ggml.tokens"]
    for _, name in ipairs { "bos", "eos", "unknown", "padding" } do
      local id = meta["tokenizer.ggml." .. name .. "_token_id"]
      local short = ({ unknown = "unk", padding = "pad" })[name] or name
      if type(id) == "number" and type(tokens) == "table" then found.tokens[short .. "_token"] = tokens[id + 1] end
    end
    return found
  end
  local folder = path:match "%.json$" and (path:match "^(.*)/[^/]*$" or ".") or path:gsub("/$", "")
  local config = path:match "tokenizer_config%.json$" and path or folder .. "/tokenizer_config.json"
  if readable(config) then
    local ok, all = pcall(core.open_json().decode, core.read_file(config, "hf.chat_template"))
    if not ok or type(all) ~= "table" then fail("%s: no JSON: %s", shown(config), shown(tostring(all))) end
    for name, v in pairs(all) do
      if type(name) == "string" and name:find "_token$" then found.tokens[name] = token_of(v) end
    end
    if type(all.chat_template) == "string" then found.text = all.chat_template
    elseif type(all.chat_template) == "table" then found.text, found.tool_use = pick(all.chat_template, config) end
  end
  local own = folder .. "/chat_template.jinja"
  if readable(own) then found.text, found.name = core.read_file(own, "hf.chat_template"), own end
  return found
end

function chat_template.load(what)
  if type(what) ~= "string" then
    fail("hf.chat_template: the text of a template or a path is needed, not %s", what == nil and "nothing" or core.is_tensor(what) and "a tensor" or "a " .. type(what))
  end
  if what:find "{[{%%#]" or what:find "\n" then return chat_template.of_text(what) end
  if what:match "%.jinja2?$" or (readable(what) and not what:match "%.json$" and not files.is_gguf(what)) then
    return chat_template.of_text(core.read_file(what, "hf.chat_template"), what)
  end
  files.need(what)
  local found = chat_template.of_model(what)
  if type(found.text) ~= "string" then
    fail("hf.chat_template: there is no template at %s\n  hint: its text, a .jinja or .gguf file, tokenizer_config.json, or a folder with one of them", shown(what))
  end
  return chat_template.of_text(found.text, found.name)
end

local OPTIONS = { template = true, tools = true, documents = true, add_generation_prompt = true, now = true, bos_token = true,
  eos_token = true, pad_token = true, unk_token = true }

-- Templates have options of their own; one that this template does not name is misspelt.
local function need_known(given, template)
  local names = {}
  for name in pairs(OPTIONS) do names[name] = true end
  for name in template.source:gmatch "[%a_][%w_]*" do names[name] = true end
  for name in pairs(given or {}) do
    if type(name) == "string" and not names[name] then
      local words = {}
      for word in pairs(names) do words[#words + 1] = word end
      table.sort(words)
      local guess = core.suggest(name, words)
      fail("tok:chat: unknown option '%s', which the template does not name either%s", shown(name),
        guess and ("\n  hint: did you mean '%s'?"):format(guess) or "")
    end
  end
end

--- tok:chat: text and ids. from: the path of the tokenizer.
function chat_template.chat(tok, from, kept, messages, given)
  if given ~= nil and type(given) ~= "table" then fail("tok:chat: options are a table, not a %s", type(given)) end
  local variables, template = {}, nil
  if not (given and given.template) or from then
    kept.found = kept.found or from and chat_template.of_model(from) or { tokens = {} }
    for name, token in pairs(kept.found.tokens) do variables[name] = token end
  end
  for name, v in pairs(given or {}) do
    if name ~= "template" then variables[name] = v end
  end
  if messages == nil then fail "tok:chat: messages are needed: a list of {role = .., content = ..}" end
  if type(messages) == "string" and not messages:find "^%s*[%[{]" or type(messages) == "table" and messages.role ~= nil then
    fail("tok:chat: messages are a list, or its JSON, not %s\n  hint: tok:chat{{role = \"user\", content = \"..\"}}", type(messages) == "string" and "a text" or "one message")
  end
  variables.messages = messages
  template = given and given.template
  if template == nil then
    local found = kept.found
    local name = variables.tools ~= nil and found.tool_use and "tool_use" or "text"
    if type(found[name]) ~= "string" then
      fail("tok:chat: there is no chat template beside the tokenizer%s\n  hint: {template = hf.chat_template \"..\"}", from and " of " .. shown(from) or "")
    end
    kept[name] = kept[name] or chat_template.of_text(found[name], found.name)
    template = kept[name]
  elseif type(template) == "string" then
    template = chat_template.load(template)
  elseif getmetatable(template) ~= Template then
    fail("tok:chat: option 'template' must be a template or a text, not a %s", type(template))
  end
  need_known(given, template)
  local text, generated = template:render(variables)
  return text, tok:encode(text, { add_special_tokens = false }).ids, generated
end

return chat_template
