-- Prompts as they are given, and read: each text begins at position 0 of its row, so that it has the bits that it has alone.

local chosen = require "tessera.hf.generation.options"
local core = require "tessera.core"
local Step = require "tessera.hf.decode_step"
local whole = require "tessera.hf.generation.whole"
local op = core.op

local prompts = {}

--- The hint where a text stands for its tokens, of an option that takes tokens; nil of what is no text.
function prompts.hint(v)
  return type(v) == "string" and "ids = tok:encode \"..\", where tok = hf.tokenizer(path)" or nil
end

-- Tokens are whole numbers.
local function need_whole(x)
  if core.is_tensor(x) and not x.dtype:find "^[iu]%d" then
    core.fail(("m:generate: tokens are %s, and have to be whole numbers\n  hint: ids:cast \"i64\""):format(core.type_text(x)))
  end
  return x
end

local function lists_of(x)
  if core.is_tensor(x) and x.ndim ~= 1 and x.ndim ~= 2 then
    core.fail(("m:generate: tokens are %s, and have to be [texts, positions] or [positions]"):format(core.type_text(x)))
  end
  return core.is_tensor(x) and (x.ndim == 1 and x:unsqueeze(0) or x):totable() or { x }
end
local function rows_of(x)
  local rows = lists_of(x)
  need_whole(x)
  return rows
end
local function is_encoding(v) return type(v) == "table" and not core.is_tensor(v) and v.ids ~= nil end

-- The texts of an encoding behind those of the list. What is padding is no token of a text.
local function add_encoding(list, e)
  local masks = e.mask ~= nil and lists_of(e.mask) or {}
  for i, row in ipairs(rows_of(e.ids)) do
    local own = {}
    for k, id in ipairs(row) do
      if not masks[i] or masks[i][k] ~= 0 then own[#own + 1] = id end
    end
    list[#list + 1] = own
  end
end

-- Prompts as lists of numbers.
local function prompts_of(ids)
  if is_encoding(ids) then ids = { ids } end
  if core.is_tensor(ids) or type(ids[1]) == "number" then ids = rows_of(ids) end
  local list = {}
  for _, row in ipairs(ids) do
    if is_encoding(row) then add_encoding(list, row) else list[#list + 1] = core.is_tensor(row) and need_whole(row):totable() or row end
  end
  for i, row in ipairs(list) do
    if type(row) == "string" then core.fail(("m:generate: text %d is a string\n  hint: ids = tok:encode_batch{..}, where tok = hf.tokenizer(path)"):format(i)) end
    if type(row) ~= "table" or #row == 0 then core.fail(("m:generate: text %d has no tokens"):format(i)) end
  end
  return list
end

--- What is no token of a vocabulary of `most` is an error with its place: of which call, and where in it.
function prompts.check(what, place, row, most)
  for i, id in ipairs(row) do
    if type(id) ~= "number" or id % 1 ~= 0 or id < 0 or id >= most then
      local text = type(id) == "string" and "'" .. core.shown(id, 60) .. "'" or type(id) == "number" and ("%.14g"):format(id) or "a " .. type(id)
      core.fail(("%s: token %d of %s is %s, and has to be a whole number from 0 to %d"):format(what, i, place, text, most - 1))
    end
  end
end

-- The same as a tensor, of texts that are read all at once.
local function matrix_of(ids, device)
  if core.is_tensor(ids) then return need_whole(ids) end
  local rows = prompts_of(ids)
  for i, row in ipairs(rows) do
    if #row ~= #rows[1] then
      core.fail(("m:generate: texts 1 and %d have %d and %d tokens\n  hint: this model reads them at once: ids and mask as padded tensors"):format(i,
        #rows[1], #row))
    end
  end
  return core.tensor(rows, { dtype = "i64", device = device })
end

local function row_of(list, device) return core.tensor({ list }, { dtype = "i64", device = device }) end
local column = Step.column

-- A decoder's prompts in pieces; gives logits of the last position of each, [B, V].
local function read_prompts(model, prompts, cache, chunk, device)
  local function piecewise(ids, to)
    local n, y = ids.shape[2], nil
    for at = 0, n - 1, chunk do y = model { ids = ids:narrow(1, at, math.min(chunk, n - at)), cache = to, last = true } end
    return y:select(1, 0)
  end
  local even = true
  for _, row in ipairs(prompts) do even = even and #row == #prompts[1] end
  if even then return piecewise(core.tensor(prompts, { dtype = "i64", device = device }), cache) end
  local parts, lengths = {}, {}
  for i, row in ipairs(prompts) do
    parts[i], lengths[i] = piecewise(row_of(row, device), cache:row(i - 1)), #row
  end
  cache:set_lengths(lengths)
  return op.concat(parts, { axis = 0 })
end

-- ids as they are, or, with a mask, as an encoding, whose padding is none of it.
local function masked(ids, mask)
  if not mask then return ids end
  if not core.is_tensor(ids) or table.concat(mask.shape, " ") ~= table.concat(ids.shape, " ") then
    core.fail(("m:generate: the mask is %s, and has to be as ids are, which are %s"):format(core.type_text(mask),
      core.is_tensor(ids) and core.type_text(ids) or "no tensor"))
  end
  return { ids = ids, mask = mask }
end

--- The prompts of options, lists of tokens.
function prompts.of(o)
  local ids = o.ids or core.fail "m:generate: ids is not given\n  hint: m:generate{ids = tok:encode \"text\"}, or {ids = {1, 2, 3}}"
  if o.features then core.fail "m:generate: option 'features' is for models that encode them, and this one reads tokens alone" end
  return prompts_of(masked(ids, o.mask))
end

-- Texts of a model, of which each has room in the cache.
local function texts_of(model, o)
  local texts, longest = prompts.of(o), 0
  for i, row in ipairs(texts) do
    prompts.check("m:generate", ("text %d"):format(i), row, model.config.vocab_size)
    longest = math.max(longest, #row)
  end
  local needed = longest + o.max_new_tokens
  if o.length and o.length < needed then
    core.fail(("m:generate: length is %d, and %d tokens and %d new ones need %d positions\n  hint: without {length = ..} there are as many as are needed"):format(
      o.length, longest, o.max_new_tokens, needed))
  end
  return texts, o.length or needed
end

-- Where a model's weights are; one that has none, such as a table of a program's own, is asked on the CPU.
local function device_of(model)
  local first = model:tensors()[1]
  return first and first.tensor.device or "cpu"
end

-- {logits, prompts, cache, device, next(tokens), take(rows)}: logits of what comes first, how a model goes on, and how rows
-- become others (cache.lua). tokens are a list, with one for each row; next(tokens, more), where more says whether there will be
-- another step, may give the tokens with the greatest logits as well, a list.
local function begin_text(model, o)
  local texts, length = texts_of(model, o)
  if not model.cache then
    local device = device_of(model)
    local s = whole.begin(model, texts, device, function(ids) return (model { ids = ids }) end)
    s.prompts, s.device = texts, device
    return s
  end
  local device = model:embedding().weight.device
  local cache = model:cache { batch = #texts, length = length, dtype = o.cache_dtype }
  local logits = read_prompts(model, texts, cache, o.chunk, device)
  local next_
  if o.beams then -- which take rows of the cache
    next_ = function(tokens) return model({ ids = column(tokens, device), cache = cache, last = true }):select(1, 0) end
  else
    next_ = Step.steps(model, cache, device, chosen.is_greedy(o) and not (o.logits or o.logprobs), o.max_new_tokens)
  end
  return { logits = logits, prompts = texts, cache = cache, device = device, next = next_, take = function(rows) cache:take(rows) end }
end

local function begin_pair(model, o)
  local c, memory = model.config, nil
  if o.features then memory = model:encode(o.features) else
    memory = model:encode(matrix_of(o.ids or core.fail "m:generate: ids, or features, are not given", device_of(model)), { mask = o.mask })
  end
  if not core.is_tensor(memory) or memory.ndim == 0 then
    core.fail(("m:generate: m:encode gives %s, and has to give a tensor [texts, ..]"):format(core.is_tensor(memory) and core.type_text(memory)
      or memory == nil and "nothing" or "a " .. type(memory)))
  end
  local batch, start = memory.shape[1], c.decoder_start_token_id or c.pad_token_id or 0
  local mask, texts, device = not o.features and o.mask or nil, {}, memory.device
  prompts.check("m:generate", "config.decoder_start_token_id", { start }, c.vocab_size or math.huge)
  for i = 1, batch do texts[i] = { start } end
  local s
  if model.cache then
    local cache = model:cache { batch = batch, length = o.length or o.max_new_tokens + 1, dtype = o.cache_dtype }
    local function next_(tokens)
      return model({ decoder_ids = column(tokens, device), memory = memory, mask = mask, cache = cache, last = true }):select(1, 0)
    end
    s = { cache = cache, logits = next_(op.full({ batch }, start):totable()), next = next_, take = function(rows) cache:take(rows) end }
  else
    s = whole.begin(model, texts, device, function(ids) return (model { decoder_ids = ids, memory = memory, mask = mask }) end)
  end
  local take = s.take
  function s.take(rows)
    take(rows)
    if #rows == batch then return end -- a text's rows have one memory
    local index = core.tensor(rows, { dtype = "i64", device = device })
    memory, mask, batch = op.index_select(memory, index, { axis = 0 }), mask and op.index_select(mask, index, { axis = 0 }), #rows
  end
  s.prompts, s.device = texts, device
  return s
end

--- How a model goes on behind what o says: {logits [B, V], prompts, cache, device, next(tokens), take(rows)}.
function prompts.begin(model, o) return core.no_grad(model.encode and begin_pair or begin_text, model, o) end

prompts.read, prompts.row = read_prompts, row_of

return prompts
