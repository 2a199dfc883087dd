-- Texts as vectors: hidden states of an encoder, or of a model that reads from left to right, pooled as the files of sentence-transformers
-- beside it say: modules.json lists what is done behind the model, 1_Pooling/config.json how.

local core = require "tessera.core"
local hf = require "tessera.hf"
local op = core.op

local Embedding = {}
Embedding.__index = Embedding

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

local function json_of(path)
  local ok, v = pcall(core.open_json().decode, core.read_file(path, "hf.embedding"))
  if not ok or type(v) ~= "table" then core.fail(("%s: no JSON: %s"):format(core.shown(path), core.shown(tostring(v)))) end
  return v
end

-- ---- hidden states [B, S, H] and mask [B, S, 1] in their dtype, padding behind the texts, as [B, H]

local function count(mask) return op.maximum(mask:sum { axis = 1 }, 1e-9) end

local MODES = {
  { "cls_token", function(x) return x:select(1, 0) end },
  { "max_tokens", function(x, mask) return op.where(mask:gt(0), x, -math.huge):max { axis = 1 } end },
  { "mean_tokens", function(x, mask) return (x * mask):sum { axis = 1 } / count(mask) end },
  { "mean_sqrt_len_tokens", function(x, mask) return (x * mask):sum { axis = 1 } / op.sqrt(count(mask)) end },
  { "weightedmean_tokens", function(x, mask)
    local w = mask * op.arange(1, x.shape[2] + 1):cast(x.dtype):to(x.device):reshape(1, -1, 1)
    return (x * w):sum { axis = 1 } / w:sum { axis = 1 }
  end },
  { "lasttoken", function(x, mask)
    local behind = op.concat({ mask:narrow(1, 1, x.shape[2] - 1), op.zeros_like(mask:narrow(1, 0, 1)) }, { axis = 1 })
    return (x * (mask - behind)):sum { axis = 1 }
  end },
}

-- The modes that a file switches on; one that is not known is an error.
local function modes_of(path)
  local config, list, known = json_of(path), {}, {}
  for _, mode in ipairs(MODES) do
    known["pooling_mode_" .. mode[1]] = true
    if config["pooling_mode_" .. mode[1]] == true then list[#list + 1] = mode[2] end
  end
  for name, on in pairs(config) do
    if type(name) == "string" and name:find "^pooling_mode_" and on == true and not known[name] then
      core.fail(("%s: pooling '%s' is not known"):format(core.shown(path), core.shown(name)))
    end
  end
  if #list == 0 then core.fail(("%s: no pooling is switched on"):format(core.shown(path))) end
  return list
end

-- What stands behind the model: modes of pooling, and whether vectors have length 1 then.
local function read_modules(folder)
  local path = folder .. "/modules.json"
  if not exists(path) then
    local alone = folder .. "/1_Pooling/config.json"
    return exists(alone) and modes_of(alone) or { MODES[3][2] }, false
  end
  local modes, unit = nil, false
  for _, m in ipairs(json_of(path)) do
    local kind = type(m) == "table" and type(m.type) == "string" and m.type:match "[%w_]+$" or "?"
    if kind == "Pooling" then
      modes = modes_of(("%s/%s/config.json"):format(folder, tostring(m.path)))
    elseif kind == "Normalize" then
      unit = true
    elseif kind ~= "Transformer" then
      core.fail(("%s: the module '%s' is not known; known are Transformer, Pooling, Normalize"):format(core.shown(path), core.shown(kind)))
    end
  end
  return modes or { MODES[3][2] }, unit
end

-- ---- the object

--- of(model, path, length): length, or what the files beside it say, is how many tokens of a text count.
function Embedding.of(m, path, length)
  local folder = path:match "%.%w+$" and not exists(path .. "/config.json") and (path:match "^(.*)/[^/]*$" or ".") or (path:gsub("/$", ""))
  if m.encode then core.fail(("%s: %s is an encoder with a decoder, whose texts have no one vector"):format(core.shown(path), m.config.model_type)) end
  if not m.config.vocab_size then core.fail(("%s: %s reads no text"):format(core.shown(path), m.config.model_type)) end
  local self = setmetatable({ model = m, tokenizer = hf.tokenizer(path) }, Embedding)
  self.modes, self.unit = read_modules(folder)
  local own = folder .. "/sentence_bert_config.json"
  local most = m.config.max_position_embeddings
  if m.config.model_type:find "roberta" or m.config.model_type == "mpnet" then most = most and most - 2 end -- the first are padding's
  self.most = most
  self.length = length or exists(own) and tonumber(json_of(own).max_seq_length) or most
  if self.length and most and self.length > most then core.fail(("a length of %d tokens, and the model has %d positions"):format(self.length, most)) end
  return self
end

--- load(path, options of hf.load, length).
function Embedding.load(path, of_load, length) return Embedding.of(hf.load(path, of_load), path, length) end

--- Vectors [B, D] of texts, and how many tokens these are.
function Embedding:tensor(texts)
  local m, c = self.model, self.model.config
  local e = self.tokenizer:encode_batch(texts, { padding = { id = type(c.pad_token_id) == "number" and c.pad_token_id or nil, side = "right" },
    truncation = self.length and { length = self.length } or nil, tensors = true })
  if e.ids.shape[2] == 0 then core.fail "an empty text has no tokens, and so no vector" end
  local count_of = e.mask:sum():item()
  local device = m:parameters()[1] and m:parameters()[1].device or "cpu"
  local ids, mask = e.ids:to(device), e.mask:to(device)
  local x
  if m.cache_sizes then -- padding stands behind what is read from left to right
    x = m { ids = ids, hidden = true }
  else
    x = m { ids = ids, mask = mask }
  end
  if x.ndim ~= 3 or x.shape[3] ~= c.hidden_size then
    core.fail(("%s has a head: it gives %s, and no hidden states to pool"):format(c.model_type, core.type_text(x)))
  end
  local weights, parts = mask:unsqueeze(-1):cast(x.dtype), {}
  for i, mode in ipairs(self.modes) do parts[i] = mode(x, weights) end
  local y = parts[2] and op.concat(parts, { axis = 1 }) or parts[1]
  if self.unit then y = y / op.maximum(op.norm(y, { axis = 1, keepdims = true }), 1e-12) end
  return y, count_of
end

--- The same as lists of numbers.
function Embedding:vectors(texts)
  local y, n = core.no_grad(self.tensor, self, texts)
  return y:cast("f32"):totable(), n
end

return Embedding
