-- Text that goes on: prompts are read in pieces into a cache that is there from the start, then each step reads the last tokens,
-- writes their keys and values in place and chooses the next ones. Prompts of several lengths each begin at position 0 of
-- their row, so that they have the bits that they have alone.

local core = require "tessera.core"
local options = require "tessera.options"
local sampling = require "tessera.hf.sampling"
local Step = require "tessera.hf.decode_step"
local op = core.op

local generate = {}

local COUNT, SIZE, SHARE = options.whole { least = 1 }, options.whole { least = 0 }, options.number { least = 0, most = 1 }
local PROMPT = options.kind("token ids: a tensor [batch, positions], a list of numbers, a list of lists, or what tok:encode gives", function(v)
  return core.is_tensor(v) or type(v) == "table" and (#v > 0 or v.ids ~= nil)
end)
local END = options.kind("a token id, a list of them, or false", function(v)
  return v == false or type(v) == "number" or type(v) == "table" and not core.is_tensor(v)
end)
local SEED = options.kind("a whole number, or a list of them, one for each text", function(v)
  return type(v) == "number" and v % 1 == 0 or type(v) == "table"
end)
local read = options.of("m:generate", { ids = PROMPT, max_new_tokens = COUNT, eos = END, temperature = options.number { least = 0 },
  top_k = COUNT, top_p = SHARE, min_p = SHARE, repetition_penalty = options.number { above = 0 }, seed = SEED, length = COUNT, chunk = COUNT,
  mask = options.tensor, features = options.tensor, pad = SIZE },
  { max_new_tokens = 20, temperature = 0, repetition_penalty = 1, seed = 0, chunk = 512 })

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

-- ---- the state of texts that go on

-- Tokens that end a text.
local function ends_of(o, c)
  local eos, set = o.eos, {}
  if eos == nil then eos = c.eos_token_id end
  if type(eos) == "number" then eos = { eos } end
  for _, id in ipairs(type(eos) == "table" and eos or {}) do set[id] = true end
  return set
end

local function seeds_of(o, batch)
  if type(o.seed) == "table" and #o.seed ~= batch then core.fail(("m:generate: %d seeds for %d texts"):format(#o.seed, batch)) end
  local list = {}
  for i = 1, batch do list[i] = type(o.seed) == "table" and o.seed[i] or o.seed end
  return list
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

-- {next(tokens), logits, positions}: how a model goes on, and where each text stands.
local function begin_text(model, o)
  local prompts = prompts_of(o.ids or core.fail "m:generate: ids is not given\n  hint: m:generate{ids = {1, 2, 3}}")
  local longest, positions = 0, {}
  for i, row in ipairs(prompts) do
    longest, positions[i] = math.max(longest, #row), #row
  end
  local device = model:embedding().weight.device
  local cache = model:cache { batch = #prompts, length = o.length or longest + o.max_new_tokens }
  local logits = read_prompts(model, prompts, cache, o.chunk, device)
  local greedy = o.temperature == 0 and o.repetition_penalty == 1
  return { logits = logits, positions = positions, prompts = prompts, device = device,
    next = Step.steps(model, cache, device, greedy, o.max_new_tokens) }
end

local function begin_pair(model, o)
  local c, memory = model.config, nil
  if o.features then memory = model:encode(o.features) else
    memory = model:encode(matrix_of(o.ids or core.fail "m:generate: ids, or features, are not given", model:parameters()[1].device), { mask = o.mask })
  end
  local batch, start = memory.shape[1], c.decoder_start_token_id or c.pad_token_id or 0
  local cache = model:cache { batch = batch, length = o.length or o.max_new_tokens + 1 }
  local function next_(tokens)
    if not core.is_tensor(tokens) then tokens = column(tokens, memory.device) end
    local mask = not o.features and o.mask or nil
    return model({ decoder_ids = tokens, memory = memory, mask = mask, cache = cache, last = true }):select(1, 0)
  end
  local prompts, positions = {}, {}
  for i = 1, batch do prompts[i], positions[i] = { start }, 1 end
  local first = next_(column(op.full({ batch }, start):totable(), memory.device))
  return { logits = first, positions = positions, prompts = prompts, device = memory.device, next = next_ }
end

-- Whether tokens stand in a text, [B, V].
local function seen_of(s, vocabulary)
  local seen = op.zeros({ #s.prompts, vocabulary }, { dtype = "bool" }):to(s.device)
  for i, row in ipairs(s.prompts) do
    local own = seen:narrow(0, i - 1, 1)
    own:copy_(op.scatter(own, row_of(row, s.device), op.ones({ 1, #row }, { dtype = "bool" }):to(s.device), { axis = 1 }))
  end
  return seen
end

--- ? hf: m:stream.
function generate.stream(model, given)
  local o = read(given)
  local s = core.no_grad(model.encode and begin_pair or begin_text, model, o)
  local batch, ends = #s.prompts, ends_of(o, model.config)
  local seeds = seeds_of(o, batch)
  local seen = o.repetition_penalty ~= 1 and seen_of(s, s.logits.shape[2]) or nil
  local step, alive, done = 0, batch, {}
  local function choose(ids)
    ids = ids or sampling.choose(s.logits, seen, o, seeds, s.positions):totable()
    local told = {}
    for i, id in ipairs(ids) do
      if not done[i] then
        told[i], s.positions[i] = id, s.positions[i] + 1
        if ends[id] then done[i], alive = true, alive - 1 end
      else
        told[i] = false
      end
    end
    return ids, told
  end
  local last
  return function()
    if step == o.max_new_tokens or alive == 0 then return nil end
    return core.no_grad(function()
      local chosen
      if last then s.logits, chosen = s.next(last, step + 1 < o.max_new_tokens) end
      local ids, told = choose(chosen)
      last, step = ids, step + 1
      if seen then
        seen = op.scatter(seen, column(ids, s.device), op.ones({ batch, 1 }, { dtype = "bool" }):to(s.device), { axis = 1 })
      end
      return step, told
    end)
  end
end

--- ? hf: m:generate.
function generate.generate(model, given)
  local o, rows, n = read(given), {}, 0
  local pad = o.pad or model.config.pad_token_id
  if type(pad) ~= "number" then pad = type(model.config.eos_token_id) == "number" and model.config.eos_token_id or 0 end
  for step, tokens in generate.stream(model, given) do
    n = step
    for i, id in ipairs(tokens) do
      rows[i] = rows[i] or {}
      rows[i][step] = id or pad
    end
  end
  return core.tensor(rows, { dtype = "i64" })
end

return generate
