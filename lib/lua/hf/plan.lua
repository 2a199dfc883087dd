-- What a model takes: weights as they will lie, the cache of a batch, what a call needs beside them; whether a memory has room,
-- and what would have.

local core = require "tessera.core"
local blocks = require "tessera.hf.blocks"
local Cache = require "tessera.hf.cache"
local Store = require "tessera.hf.batching.store"
local Mxfp4 = require "tessera.hf.mxfp4"
local units = require "tessera.units"

local nbytes, block = {}, {}
for _, d in ipairs(core.dtypes()) do nbytes[d.name], block[d.name] = d.nbytes, d.block end
local UNITS = { KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30, TiB = 2 ^ 40, kB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12 }

local function bytes_of(v)
  if type(v) == "number" then return v end
  local n, unit = v:match "^%s*([%d.]+)%s*(%a+)%s*$"
  if not tonumber(n) or not UNITS[unit] then core.fail(("hf.load: memory is bytes, or a text as \"8 GiB\", not '%s'"):format(core.shown(v))) end
  return tonumber(n) * UNITS[unit]
end

local Plan = {}
Plan.__index = Plan

function Plan.__tostring(p)
  local lines = { ("%s: %.0f parameters in %s"):format(p.family, p.parameters, units.size(p.weights)) }
  local function add(...) lines[#lines + 1] = "  " .. (...):format(select(2, ...)) end
  add("weights  %s%s", units.size(p.weights), p.mapped > 0 and (", of which %s lie over the file"):format(units.size(p.mapped)) or "")
  if p.cache > 0 then add("cache    %s in %s, %sbatch %d, %d positions", units.size(p.cache), p.cache_dtype, p.paged, p.batch, p.length) end
  add("scratch  %s, at most, of a call with %d positions", units.size(p.scratch), p.call)
  local room = p.memory < math.huge and units.size(p.memory) or "a memory whose size is not known: {memory = \"80 GiB\"} says it"
  add("%s: %s of %s", p.fits and "it fits" or "it does not fit", units.size(p.total), room)
  for _, text in ipairs(p.would) do add("would fit: %s", text) end
  if not p.fits and #p.would == 0 then add("nothing that a call can choose would fit") end
  return table.concat(lines, "\n")
end

local function numel(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end

local function is_float(dtype) return dtype:match "^[bf]" and dtype ~= "bool" or blocks.in_blocks(dtype) end

-- Bytes of weights in a dtype (nil: as they are), and those that stay over the file.
local function weight_bytes(list, tensors, dtype, device)
  local all, mapped, parameters = 0, 0, 0
  for _, e in ipairs(list) do
    for _, name in ipairs(e.names) do
      local t = tensors[name]
      local kept = not dtype or not is_float(t.dtype) or t.dtype == dtype
      local bytes = kept and t.nbytes or t.numel * nbytes[dtype]
      all, parameters = all + bytes, parameters + t.numel
      if kept and not device and not Mxfp4.is(t) and (not e.want.join or e.want.apart and not dtype) then mapped = mapped + bytes end
    end
  end
  return all, mapped, parameters
end

-- Keys and values of a batch: side by side, or in the pages of hf.batch.
local function cache_bytes(model, dtype, o)
  if o.pages or o.page then
    if not model.cache_windows then core.fail "hf.plan: pages are of models that read text from left to right (hf.batch)" end
    local size = o.page or 32
    local pages = o.pages or o.batch * math.ceil(o.length / size)
    return Store.nbytes(model, { pages = pages, size = size, length = o.length, chunk = o.chunk or 256, texts = o.batch, dtype = dtype }),
      ("%d pages of %d positions, "):format(pages, size)
  end
  return Cache.bytes(model:cache_sizes(), dtype, o.batch, o.length), ""
end

-- The largest tensors that stand beside each other in a call: a layer's widest rows twice, the stream, logits.
local function scratch_bytes(c, model, size, rows)
  local width = c.hidden_size or c.d_model or c.n_embd or c.dim or 0
  local wide = math.max(c.intermediate_size or c.n_inner or c.d_ff or c.hidden_dim or 4 * width, width)
  local logits = model._head and c.vocab_size or 0
  return rows * size * (2 * wide + 4 * width) + rows * logits * size
end

--- The plan of a declared model (load.lua). It prints as a table.
return function(model, list, source, o)
  local c, p = model.config, {}
  local tensors = source.tensors
  local on = o.device and not o.device:find "^cpu" and o.device or nil
  p.family, p.batch = c.model_type, o.batch
  p.weights, p.mapped, p.parameters = weight_bytes(list, tensors, o.dtype, on)
  local first = tensors[list[1].names[1]].dtype
  local dtype = o.dtype or (is_float(first) and not blocks.in_blocks(first) and first) or "f32"
  p.length = o.length or math.min(model.cache_length and model:cache_length() or c.max_position_embeddings or 512, 2048)
  p.call = math.min(p.length, 512)
  p.cache_dtype, p.cache, p.paged = o.cache_dtype or dtype, 0, ""
  local function cache_of(changed)
    if not model.cache_sizes then return 0, "" end
    local own = { batch = o.batch, length = p.length, pages = o.pages, page = o.page, chunk = o.chunk, dtype = p.cache_dtype }
    for k, v in pairs(changed or {}) do own[k] = v end
    return cache_bytes(model, own.dtype, own)
  end
  p.cache, p.paged = cache_of()
  p.scratch = scratch_bytes(c, model, math.max(nbytes[dtype], 4), p.call * o.batch)
  p.total = p.weights + p.cache + p.scratch
  p.memory = o.memory and bytes_of(o.memory) or on and math.huge or core.memory_left() + (p.mapped or 0)
  p.fits, p.would = p.total <= p.memory, {}
  local rest = p.weights + p.scratch
  local function try(text, total)
    if not p.fits and total <= p.memory then p.would[#p.would + 1] = ("%s, %s"):format(text, units.size(total)) end
  end
  local name, least = o.pages and "pages" or "length", o.pages and 1 or 128
  local short = o.pages or p.length
  while short > least and rest + cache_of { [name] = short } > p.memory do short = math.floor(short / 2) end
  if short < (o.pages or p.length) then try(("{%s = %d}"):format(name, short), rest + cache_of { [name] = short }) end
  if o.batch > 1 then try("{batch = 1}", p.weights + cache_of { batch = 1 } + p.scratch / o.batch) end
  if not o.cache_dtype and model.cache_windows then
    try('{cache_dtype = "fp8_e4m3"}', rest + cache_of { dtype = "fp8_e4m3" })
  end
  local weights = weight_bytes(list, tensors, "bf16", on)
  if weights < p.weights then
    try('{dtype = "bf16"}', weights + cache_of { dtype = o.cache_dtype or "bf16" } + p.scratch)
  end
  return setmetatable(p, Plan)
end
