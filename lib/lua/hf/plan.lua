-- What a model takes: weights as they will lie, the cache of a batch, what a call needs beside them; whether a memory has room,
-- and what would have.

local core = require "tessera.core"
local blocks = require "tessera.hf.blocks"
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
  if p.cache > 0 then add("cache    %s, batch %d, %d positions", units.size(p.cache), p.batch, p.length) end
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
      if kept and not device and not e.want.join then mapped = mapped + bytes end
    end
  end
  return all, mapped, parameters
end

local function cache_bytes(model, dtype, batch, length)
  local sum = 0
  for _, s in ipairs(model:cache_sizes()) do sum = sum + s[1] * (s[2] + s[3]) * length * batch * nbytes[dtype] end
  return sum
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
  p.cache = model.cache_sizes and cache_bytes(model, dtype, o.batch, p.length) or 0
  p.scratch = scratch_bytes(c, model, math.max(nbytes[dtype], 4), p.call * o.batch)
  p.total = p.weights + p.cache + p.scratch
  p.memory = o.memory and bytes_of(o.memory) or on and math.huge or core.memory_left() + (p.mapped or 0)
  p.fits, p.would = p.total <= p.memory, {}
  local function try(text, total)
    if not p.fits and total <= p.memory then p.would[#p.would + 1] = ("%s, %s"):format(text, units.size(total)) end
  end
  local short = p.length
  while short > 128 and p.weights + p.cache * short / p.length + p.scratch > p.memory do short = math.floor(short / 2) end
  if short < p.length then try(("{length = %d}"):format(short), p.weights + p.cache * short / p.length + p.scratch) end
  if o.batch > 1 then try("{batch = 1}", p.weights + (p.cache + p.scratch) / o.batch) end
  for _, name in ipairs { "bf16" } do
    local weights = weight_bytes(list, tensors, name, on)
    if weights < p.weights then try(("{dtype = \"%s\"}"):format(name), weights + p.cache * nbytes[name] / nbytes[dtype] + p.scratch) end
  end
  return setmetatable(p, Plan)
end
