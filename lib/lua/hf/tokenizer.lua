-- hf.tokenizer: an object around what text/ makes of a tokenizer's file: options, batches, padding, streams. Formats that are
-- not tokenizer.json become one (tokenizer_gguf.lua, tokenizer_tiktoken.lua).

local core = require "tessera.core"
local files = require "tessera.hf.files"
local named = require "tessera.named"
local options = require "tessera.options"

local tokenizer = {}
local shown = core.shown

local Encoding = {}
local Tokenizer = core.tokenizer_class -- objects are the core's, with methods from here
setmetatable(Tokenizer, { __index = function(_, name)
  if type(name) == "string" and not name:find "^__" then core.fail(named.missing("a tokenizer", name, Tokenizer)) end
end })
local owner = setmetatable({}, { __mode = "k" }) -- of each encoding
local about = setmetatable({}, { __mode = "k" }) -- what each one's file says of truncation and padding

-- ---- options
local SIDE = options.one_of("left", "right")
local read_truncation = options.of("truncation", { length = options.needed(options.whole { least = 0 }), stride = options.whole { least = 0 },
  strategy = options.one_of("longest", "first", "second"), side = SIDE }, { stride = 0, strategy = "longest", side = "right" })
local read_padding = options.of("padding", { length = options.whole { least = 1 }, multiple = options.whole { least = 1 },
  id = options.whole { least = 0 }, type = options.whole { least = 0 }, side = SIDE })

local function is_flag(v) return type(v) == "boolean" end
local function is_length(v) return type(v) == "number" and v >= 0 and v % 1 == 0 end
local OFFSETS = options.kind('a boolean, "bytes" or "chars"', function(v) return is_flag(v) or v == "bytes" or v == "chars" end)
local CUT = options.kind("false, a number of tokens, or a table", function(v)
  return v == false or is_length(v) or (type(v) == "table" and not core.is_tensor(v))
end)
local PAD = options.kind("a boolean, a number of tokens, or a table", function(v)
  return is_flag(v) or is_length(v) or (type(v) == "table" and not core.is_tensor(v))
end)
local read_encode = options.of("tok:encode", { pair = options.text, add_special_tokens = options.flag, special_in_text = options.flag,
  offsets = OFFSETS, truncation = CUT, overflow = options.flag, padding = PAD, tensors = options.flag },
  { add_special_tokens = true, special_in_text = true, offsets = false, overflow = false, tensors = false })
local read_batch = options.of("tok:encode_batch", { pairs = options.list(options.text), add_special_tokens = options.flag,
  special_in_text = options.flag, offsets = OFFSETS, truncation = CUT, overflow = options.flag, padding = PAD,
  tensors = options.flag }, { add_special_tokens = true, special_in_text = true, offsets = false, overflow = false, tensors = false })
local read_decode = options.of("tok:decode", { skip_special_tokens = options.flag }, { skip_special_tokens = true })
local read_stream = options.of("tok:stream", { skip_special_tokens = options.flag }, { skip_special_tokens = true })

-- What the core takes for the options, made once for a call.
local function plan_of(self, o)
  local t = o.truncation
  if t == nil then t = about[self].truncation end
  if type(t) == "number" then t = { length = t } end
  local p = { add = o.add_special_tokens, in_text = o.special_in_text }
  if t then
    t = read_truncation(t)
    p.truncate, p.most, p.stride, p.strategy, p.left = true, t.length, t.stride, t.strategy, t.side == "left"
    p.overflow = o.overflow
  elseif o.overflow then
    core.fail "tok:encode: 'overflow' is what a truncation cuts off, and there is none\n  hint: truncation = {length = 128, stride = 16}"
  end
  if o.offsets then p.offsets = o.offsets == "chars" and "chars" or "bytes" end
  return p
end

local function padding_of(self, o)
  local p, own = o.padding, about[self].padding
  if p == nil then p = own end
  if not p then return nil end
  if p == true then p = {} elseif type(p) == "number" then p = { length = p } end
  local all = read_padding(p)
  for name, v in pairs { id = 0, type = 0, side = "right" } do
    if all[name] == nil then all[name] = own and own[name] or v end
  end
  return all
end

-- ---- what comes out

-- The strings of the tokens, when they are asked for.
function Encoding.__index(e, key)
  if key ~= "tokens" then return nil end
  local list, of = {}, owner[e]
  local ids = core.is_tensor(e.ids) and e.ids:reshape(-1):totable() or e.ids
  for i, id in ipairs(ids) do list[i] = of:string_of(id) or "" end
  rawset(e, "tokens", list)
  return list
end

function Encoding.__tostring(e)
  if core.is_tensor(e.ids) then return "tokens: ids " .. tostring(e.ids) end
  local words, n = {}, #e.ids
  for i = 1, math.min(n, 64) do words[i] = ("%d '%s'"):format(e.ids[i], shown(e.tokens[i], 40)) end
  return ("%d token%s: %s%s"):format(n, n == 1 and "" or "s", table.concat(words, ", "), n > 64 and ", .." or "")
end

local function encode_one(self, text, pair, plan)
  local e = self:encoded(text, pair, plan)
  for _, one in ipairs(e.overflow or {}) do
    owner[one] = self
    setmetatable(one, Encoding)
  end
  owner[e] = self
  return setmetatable(e, Encoding)
end

local function fill(list, n, v, left, make)
  local have = #list
  if left and n > have then
    for i = have, 1, -1 do list[i + n - have] = list[i] end
    for i = 1, n - have do list[i] = make and make() or v end
  else
    for i = have + 1, n do list[i] = make and make() or v end
  end
end

-- Encodings and what was cut off of each, and whose they are.
local function with_overflow(list)
  local all, sample = {}, {}
  for i, e in ipairs(list) do
    all[#all + 1], sample[#sample + 1] = e, i
    for _, one in ipairs(rawget(e, "overflow") or {}) do all[#all + 1], sample[#sample + 1] = one, i end
  end
  return all, sample
end

-- The mask, and all lists as long as padding wants them: as the longest text, by what is kept of it.
local function finish(given, padding)
  local list, n = with_overflow(given), 0
  for _, e in ipairs(given) do n = math.max(n, #e.ids) end
  if padding then
    n = padding.length or n
    if padding.multiple then n = math.ceil(n / padding.multiple) * padding.multiple end
  end
  for _, e in ipairs(list) do
    local mask = {}
    for i = 1, #e.ids do mask[i] = 1 end
    e.mask = mask
    if padding then
      local left = padding.side == "left"
      fill(mask, n, 0, left)
      fill(e.ids, n, padding.id, left)
      fill(e.types, n, padding.type, left)
      fill(e.special, n, 1, left)
      if e.words then fill(e.words, n, 0, left) end
      if e.offsets then fill(e.offsets, n, nil, left, function() return { 1, 0 } end) end
    end
  end
  return given
end

local NUMBERS = { "ids", "types", "mask", "special" }

-- One encoding whose lists are tensors; of several ones a matrix with a row each.
local function tensors_of(self, list, what)
  local first = list[1]
  local all = {}
  owner[all] = self
  for _, e in ipairs(list) do
    if #e.ids ~= #first.ids then
      core.fail(("%s: tensors need one length, and texts have %d and %d tokens\n  hint: padding = true makes them equal"):format(what,
        #first.ids, #e.ids))
    end
  end
  for _, name in ipairs(NUMBERS) do
    local flat = {}
    for _, e in ipairs(list) do
      for _, v in ipairs(e[name]) do flat[#flat + 1] = v end
    end
    all[name] = #flat > 0 and core.tensor(flat, { dtype = "i64" }):reshape(#list, #first.ids) or core.op.zeros({ #list, 0 }, { dtype = "i64" })
  end
  if first.offsets then
    all.offsets, all.words = {}, {}
    for i, e in ipairs(list) do all.offsets[i], all.words[i] = e.offsets, e.words end
  end
  return setmetatable(all, Encoding)
end

local function need_text(what, text)
  if type(text) ~= "string" then
    core.fail(("%s: a text is needed, not %s"):format(what, text == nil and "nothing" or core.is_tensor(text) and "a tensor" or "a " .. type(text)))
  end
end

function Tokenizer:encode(text, given)
  need_text("tok:encode", text)
  local o = read_encode(given)
  local list = finish({ encode_one(self, text, o.pair, plan_of(self, o)) }, padding_of(self, o))
  if not o.tensors then return list[1] end
  if o.overflow then return tensors_of(self, (with_overflow(list)), "tok:encode") end
  local all = tensors_of(self, list, "tok:encode")
  for _, name in ipairs(NUMBERS) do all[name] = all[name]:reshape(-1) end
  if all.offsets then all.offsets, all.words = all.offsets[1], all.words[1] end
  return all
end

function Tokenizer:encode_batch(texts, given)
  options.argument("tok:encode_batch", "texts", options.list(options.text), texts)
  local o = read_batch(given)
  local plan, list = plan_of(self, o), {}
  if o.pairs and #o.pairs ~= #texts then
    core.fail(("tok:encode_batch: %d pairs for %d texts"):format(#o.pairs, #texts))
  end
  for i, text in ipairs(texts) do list[i] = encode_one(self, text, o.pairs and o.pairs[i], plan) end
  finish(list, padding_of(self, o))
  if not o.tensors then return list end
  if #list == 0 then core.fail("tok:encode_batch: no texts make no tensors") end
  local rows, sample = with_overflow(list)
  local all = tensors_of(self, rows, "tok:encode_batch")
  all.sample = o.overflow and core.tensor(sample, { dtype = "i64" }) or nil
  return all
end

-- A list of ids, of a list, an encoding, a tensor of one text, or a number.
local function ids_of(what, ids)
  if getmetatable(ids) == Encoding then ids = ids.ids end
  if core.is_tensor(ids) then
    if #ids.shape > 1 and ids.numel ~= ids.shape[#ids.shape] then
      core.fail(("%s: ids are of one text, %s are of more\n  hint: ids[0] are those of the first"):format(what, core.type_text(ids)))
    end
    ids = ids:reshape(-1):totable()
    for i, v in ipairs(ids) do ids[i] = tonumber(v) end
  end
  if type(ids) == "number" then ids = { ids } end
  if type(ids) ~= "table" then
    core.fail(("%s: a list of ids is needed, not %s"):format(what, ids == nil and "nothing" or "a " .. type(ids)))
  end
  return ids
end

function Tokenizer:decode(ids, given)
  return self:decoded(ids_of("tok:decode", ids), read_decode(given).skip_special_tokens)
end

function Tokenizer:token(id)
  if type(id) ~= "number" then core.fail(("tok:token: an id is a number, not %s"):format(id == nil and "nothing" or "a " .. type(id))) end
  return self:string_of(id)
end

function Tokenizer:id(token)
  need_text("tok:id", token)
  return self:id_of(token)
end

-- Text that ends within a character ends with this.
local HALF = "\239\191\189"

-- What text has behind what it begins with of another, in whole characters.
local function behind(text, before)
  if text:sub(1, #before) == before then return text:sub(#before + 1) end
  local n = 0
  while n < #before and text:byte(n + 1) == before:byte(n + 1) do n = n + 1 end
  while n > 0 and (text:byte(n + 1) or 0) >= 128 and text:byte(n + 1) < 192 do n = n - 1 end
  return text:sub(n + 1)
end

-- What is new is what the text of the last ids has behind the text that they had before: few ids are enough, since what stands
-- in front of a token changes its text at most by whether it is first. `rest` gives what was held back.
function Tokenizer:stream(given)
  local skip = read_stream(given).skip_special_tokens
  local ids, before, kept = {}, "", 0
  local function text_of(list) return self:decoded(list, skip) end
  local stream = {}
  function stream.push(_, id)
    if type(id) ~= "number" then id = ids_of("stream:push", id)[1] end
    ids[#ids + 1] = id
    local text = text_of(ids)
    if #text <= #before or text:sub(-#HALF) == HALF then return "" end
    local new = behind(text, before)
    local rest = {}
    for i = kept + 1, #ids do rest[#rest + 1] = ids[i] end
    kept, ids = #rest, rest
    before = text_of(ids)
    return new
  end
  function stream.rest()
    local new = behind(text_of(ids), before)
    ids, before, kept = {}, "", 0
    return new
  end
  return setmetatable(stream, { __call = stream.push, __tostring = function() return "stream of " .. tostring(self) end })
end

-- A conversation by the model's own template: text, its ids, and where generation blocks stand.
function Tokenizer:chat(messages, given)
  local own = about[self]
  own.chat = own.chat or {}
  return require("tessera.hf.chat_template").chat(self, own.path, own.chat, messages, given)
end

core.keep_line(Tokenizer, true)

-- ---- files
local function made(path, json)
  local ok, t = pcall(core.tokenizer, json)
  if not ok then core.fail(("%s: %s"):format(shown(path), (tostring(t):gsub("^[^\n]-:%d+: ", "")))) end
  about[t] = t:about()
  return t
end

-- With the path beside which a chat template stands.
local function made_at(path, json)
  local t = made(path, json)
  about[t].path = path
  return t
end

--- Of the text of a tokenizer.json.
function tokenizer.of_json(json, name) return made(name or "tokenizer.json", json) end


local read_load = options.of("hf.tokenizer", { pattern = options.text, special = options.table })

function tokenizer.load(path, given)
  if type(path) ~= "string" then
    core.fail(("hf.tokenizer: a path is needed, not %s"):format(path == nil and "nothing" or core.is_tensor(path) and "a tensor" or "a " .. type(path)))
  end
  local o = read_load(given)
  local ext = path:match "%.(%w+)$"
  if (o.pattern or o.special) and ext ~= "tiktoken" then
    core.fail(("hf.tokenizer: '%s' is for vocabularies of tiktoken; %s says all by itself"):format(o.pattern and "pattern" or "special", shown(path)))
  end
  if ext == "tiktoken" then return made(path, require("tessera.hf.tokenizer_tiktoken").json(path, o)) end
  if files.is_gguf(path) then return made_at(path, require("tessera.hf.tokenizer_gguf").of_file(path)) end
  if ext ~= "json" then
    local inside = path:gsub("/$", "") .. "/tokenizer.json"
    if not files.exists(inside) then
      files.need(path)
      files.need_readable(inside)
      if not files.is_folder(path) then
        core.fail(("hf.tokenizer: %s is no tokenizer by its name\n  hint: a folder with tokenizer.json, such a file, a .gguf or a .tiktoken file"):format(shown(path)))
      end
      core.fail(("hf.tokenizer: there is no %s\n  hint: a folder with tokenizer.json, such a file, a .gguf or a .tiktoken file"):format(shown(inside)))
    end
    path = inside
  end
  return made_at(path, core.read_file(path, "hf.tokenizer"))
end

return tokenizer
