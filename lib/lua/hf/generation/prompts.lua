-- Prompts as they are given, and read: each text begins at position 0 of its row, so that it has the bits that it has alone.

local chosen = require "tessera.hf.generation.options"
local core = require "tessera.core"
local Step = require "tessera.hf.decode_step"
local op = core.op

local prompts = {}

local function rows_of(x) return core.is_tensor(x) and (x.ndim == 1 and x:unsqueeze(0) or x):totable() or { x } end
local function is_encoding(v) return type(v) == "table" and not core.is_tensor(v) and v.ids ~= nil end

-- The texts of an encoding behind those of the list. What is padding is no token of a text.
local function add_encoding(list, e)
  local masks = e.mask ~= nil and rows_of(e.mask) or {}
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
    if is_encoding(row) then add_encoding(list, row) else list[#list + 1] = core.is_tensor(row) and row:totable() or row end
  end
  for i, row in ipairs(list) do
    if type(row) ~= "table" or #row == 0 then core.fail(("m:generate: text %d has no tokens"):format(i)) end
  end
  return list
end

-- The same as a tensor, of texts that are read all at once.
local function matrix_of(ids, device)
  if core.is_tensor(ids) then return ids end
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
local function column(list, device)
  local rows = {}
  for i, v in ipairs(list) do rows[i] = { v } end
  return core.tensor(rows, { dtype = "i64", device = device })
end

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

--- The prompts of options, lists of tokens.
function prompts.of(o) return prompts_of(o.ids or core.fail "m:generate: ids is not given\n  hint: m:generate{ids = {1, 2, 3}}") end

-- {logits, prompts, cache, device, next(tokens), take(rows)}: logits of what comes first, how a model goes on, and how rows
-- become others (cache.lua). tokens are a list, with one for each row; next(tokens, more), where more says whether there will be
-- another step, may give the tokens with the greatest logits as well, a list.
local function begin_text(model, o)
  local texts = prompts.of(o)
  local longest = 0
  for _, row in ipairs(texts) do longest = math.max(longest, #row) end
  local device = model:embedding().weight.device
  local cache = model:cache { batch = #texts, length = o.length or longest + o.max_new_tokens, dtype = o.cache_dtype }
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
    memory = model:encode(matrix_of(o.ids or core.fail "m:generate: ids, or features, are not given", model:parameters()[1].device), { mask = o.mask })
  end
  local batch, start = memory.shape[1], c.decoder_start_token_id or c.pad_token_id or 0
  local cache = model:cache { batch = batch, length = o.length or o.max_new_tokens + 1, dtype = o.cache_dtype }
  local mask = not o.features and o.mask or nil
  local function next_(tokens)
    return model({ decoder_ids = column(tokens, memory.device), memory = memory, mask = mask, cache = cache, last = true }):select(1, 0)
  end
  local texts = {}
  for i = 1, batch do texts[i] = { start } end
  local first = next_(op.full({ batch }, start):totable())
  local function take(rows)
    cache:take(rows)
    if #rows == batch then return end -- a text's rows have one memory
    local index = core.tensor(rows, { dtype = "i64", device = memory.device })
    memory, mask, batch = op.index_select(memory, index, { axis = 0 }), mask and op.index_select(mask, index, { axis = 0 }), #rows
  end
  return { logits = first, prompts = texts, cache = cache, device = memory.device, next = next_, take = take }
end

--- How a model goes on behind what o says: {logits [B, V], prompts, cache, device, next(tokens), take(rows)}.
function prompts.begin(model, o) return core.no_grad(model.encode and begin_pair or begin_text, model, o) end

prompts.read, prompts.column, prompts.row = read_prompts, column, row_of

return prompts
