-- Small models of every family beside transformers (vectors/make.py): to 1e-5 of the largest number. With a cache they have the
-- bits that they have without, and rows of a batch those that they have alone.
local tessera = require "tessera"
local op = tessera.op
local vectors = dofile "tests/hf/_vectors.lua"
local distance, same = vectors.distance, vectors.same

local LIMIT = 1e-5

local function near(name, y, x) assert(distance(y, x) <= LIMIT, ("%s: %g"):format(name, distance(y, x))) end

-- Some at once, then one by one.
local function cached(m, ids)
  local n, parts = ids.shape[2], {}
  local cache = m:cache { batch = ids.shape[1], length = n }
  parts[1] = m(ids:narrow(1, 0, 4), { cache = cache })
  for i = 4, n - 1 do parts[#parts + 1] = m { ids = ids:narrow(1, i, 1), cache = cache } end
  assert(cache.length == n)
  return op.concat(parts, { axis = 1 })
end

local function check_text(name)
  local m, v = vectors.load(name)
  local ids, want = v.ins.ids, v.outs.logits or v.outs.hidden
  local y = m(ids)
  near(name, y, want)
  assert(same(cached(m, ids), y), name .. ": with a cache the bits differ")
  for row = 0, 1 do assert(same(m(ids:narrow(0, row, 1)), y:narrow(0, row, 1)), name .. ": alone the bits differ") end
  assert(same(m { ids = ids, last = true }, y:narrow(1, y.shape[2] - 1, 1)), name)
  -- Two keys that nobody sees, at the end of a text.
  local mask = op.ones({ 2, 11 }, { dtype = "bool" })
  mask:narrow(1, 9, 2):copy_(false)
  assert(same(m(ids, { mask = mask }):narrow(1, 0, 9), m(ids:narrow(1, 0, 9)):narrow(1, 0, 9)) or name:find "dynamic" or name:find "longrope",
    name .. ": padding changes bits")
end

local function check_encoder(name)
  local m, v = vectors.load(name)
  local y, pooled = m(v.ins)
  near(name, y, v.outs.logits or v.outs.hidden)
  if v.outs.pooled then near(name .. " pooled", pooled, v.outs.pooled) end
  local n = v.ins.mask:narrow(0, 1, 1):sum():item()
  local alone = m(v.ins.ids:narrow(0, 1, 1):narrow(1, 0, n))
  local row = y:narrow(0, 1, 1)
  assert(same(alone, y.ndim == 3 and row:narrow(1, 0, n) or row), name .. ": alone the bits differ")
end

local function check_other(name)
  local m, v = vectors.load(name)
  local y, b, c = m(v.ins)
  near(name, y, v.outs.logits or v.outs.hidden)
  if v.outs.pooled then near(name, b, v.outs.pooled) end
  if v.outs.text then
    near(name, b, v.outs.text)
    near(name, c, v.outs.image_embeds)
  end
  if not v.ins.decoder_ids then return m, v, y end
  -- The decoder step by step, behind an encoder that ran once.
  local ids, parts = v.ins.decoder_ids, {}
  local cache = m:cache { batch = 2, length = 5 }
  local memory = v.ins.features and m:encode(v.ins.features) or m:encode(v.ins.ids, { mask = v.ins.mask })
  for i = 0, 4 do parts[i + 1] = m { decoder_ids = ids:narrow(1, i, 1), memory = memory, mask = v.ins.mask, cache = cache } end
  assert(same(op.concat(parts, { axis = 1 }), y), name .. ": with a cache the bits differ")
end

local text = { "llama", "llama_tied", "llama_base", "llama_linear", "llama_dynamic", "llama_llama3", "llama_yarn", "mistral", "qwen2", "qwen3",
  "gemma", "gemma2", "gemma3", "gpt2", "phi3", "phi3_longrope", "olmo2", "starcoder2", "gpt_neox", "gpt_neox_serial", "mixtral", "qwen2_moe", "qwen3_moe",
  "gpt_oss", "deepseek_v2", "deepseek_v3" }
tessera.no_grad(function()
  for _, name in ipairs(text) do check_text(name) end
  for _, name in ipairs { "bert", "bert_mlm", "bert_classes", "roberta", "distilbert", "mpnet" } do check_encoder(name) end
  for _, name in ipairs { "t5", "t5_gated", "vit", "vit_classes", "clip", "whisper", "resnet", "resnet_classes" } do check_other(name) end
end)
