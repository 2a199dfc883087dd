-- tessera --chat PATH: a conversation. The program reads lines (repl/models.c) and calls chat:turn for each; texts go through a
-- batch, so a turn finds the pages of those before it.

local core = require "tessera.core"
local common = require "tessera.hf.cli.common"
local hf = require "tessera.hf"
local options = require "tessera.options"

local chat = { usage = "tessera --chat PATH [options]", about = "A conversation by the model's chat template; a line of a pipe is a turn. /help lists its commands.",
  many = { stop = true }, files = { json_schema = true, grammar = true } }

-- Of m:generate, what a batch has not.
local NO_BATCH = { "beams", "length_penalty", "early_stopping", "draft", "draft_tokens" }

function chat.kinds()
  local kinds, defaults = common.generate_kinds()
  for _, name in ipairs(NO_BATCH) do kinds[name], defaults[name] = nil, nil end
  kinds.system, kinds.template = options.text, options.text
  defaults.max_new_tokens = nil
  return kinds, defaults
end

local Chat = {}
Chat.__index = Chat

--- Begins a conversation: an object with turn(line).
function chat.run(path, o, texts)
  if #texts > 0 then core.fail(("'%s' is no option\n  hint: what is said comes from standard input"):format(core.shown(texts[1], 60))) end
  local of_load, rest = common.split(o)
  local m, tok = common.decoder(path, of_load)
  if not m.cache_sizes then core.fail(("%s: %s has no conversations"):format(core.shown(path), m.config.model_type)) end
  local self = setmetatable({ tokenizer = tok, system = rest.system, asked = rest, seed = rest.seed or 0 }, Chat)
  self.template = rest.template and hf.chat_template(rest.template) or nil
  self.length = rest.length or math.min(m:cache_length(), 4096)
  self.batch = hf.batch(m, { max_batch = 1, length = self.length, chunk = rest.chunk, cache_dtype = rest.cache_dtype, tokenizer = tok })
  for _, name in ipairs { "system", "template", "length", "chunk", "cache_dtype" } do rest[name] = nil end
  self:clear()
  self:ids { { role = "user", content = "" } } -- whether there is a template
  return self
end

function Chat:clear()
  self.messages = {}
  if self.system then self.messages[1] = { role = "system", content = self.system } end
end

function Chat:ids(messages)
  return (select(2, self.tokenizer:chat(messages, { add_generation_prompt = true, template = self.template })))
end

local function request_of(self, messages)
  local ids, o = self:ids(messages), {}
  for name, v in pairs(self.asked) do o[name] = v end
  local left = self.length - #ids
  if left < 1 then
    core.fail(("the conversation has %d tokens, and there is room for %d\n  hint: /clear begins a new one, --length=.. makes room"):format(#ids, self.length))
  end
  o.ids, o.max_new_tokens = ids, math.min(o.max_new_tokens or left, left)
  return self.batch:submit(o)
end

local function answer(self, r)
  local more = true
  while more do
    more = self.batch:step()
    common.write((select(2, r:read())))
  end
end

-- What was said and what was answered count, also where Ctrl-C ended the answer; where it failed the conversation is as it was.
local function say(self, text)
  local messages = {}
  for i, m in ipairs(self.messages) do messages[i] = m end
  messages[#messages + 1] = { role = "user", content = text }
  local r = request_of(self, messages)
  local ok, why = pcall(answer, self, r)
  self.batch:cancel(r)
  local stopped = not ok and tostring(why):find "interrupted"
  common.write "\n"
  if not ok and not stopped then error(why, 0) end
  if r.reason == "error" then core.fail(r.error) end
  messages[#messages + 1] = { role = "assistant", content = r.text }
  self.messages = messages
  if r.reason == "length" then io.stderr:write(("tessera: the answer ends after %d tokens, by its length\n"):format(#r.tokens)) end
end

-- ---- commands

local commands = {
  help = { "", "what there is", function(_, _, all)
    for _, name in ipairs(all) do common.write(("  %-16s %s\n"):format("/" .. name .. " " .. all.of[name][1], all.of[name][2])) end
    common.write "  a line that begins with // is said with one /. Ctrl-C ends an answer, Ctrl-D the conversation\n"
  end },
  clear = { "", "a new conversation", function(self) self:clear() end },
  system = { "TEXT", "a new conversation with this in front of it", function(self, text)
    self.system = text ~= "" and text or nil
    self:clear()
  end },
  save = { "FILE", "the conversation so far as JSON", function(self, file)
    if file == "" then core.fail "/save: a file is needed" end
    local f, why = io.open(file, "w")
    if not f then core.fail("/save: " .. why) end
    local ok, fault = f:write(require("tessera.prompt.json")(self.messages), "\n")
    local closed, late = f:close()
    if not (ok and closed) then core.fail("/save: " .. tostring(fault or late)) end
  end },
  quit = { "", "ends the conversation", function() return true end },
}

local names = {}
for name in pairs(commands) do names[#names + 1] = name end
table.sort(names)
names.of = commands

--- One line: said, or a command; true when the conversation is to end.
function Chat:turn(line)
  if not core.is_utf8(line) then core.fail "what is said has to be text in UTF-8" end
  local name, rest = line:match "^/(%a+)%s*(.-)%s*$"
  if name then
    local command = commands[name]
    if not command then
      local guess = core.suggest(name, names)
      core.fail(("unknown command '/%s'\n  hint: %s"):format(core.shown(name, 60), guess and ("did you mean '/%s'?"):format(guess) or "/help lists what there is"))
    end
    return command[3](self, rest, names) == true
  end
  if line:find "^//" then line = line:sub(2) end
  if line:find "%S" then say(self, line) end
  return false
end

return chat
