-- Models of language that read from left to right: tokens, layers, a norm, logits. A family (llama.lua ..) gives its layer
-- and what is otherwise; all that a call has in common for its layers stands in one table, `at`:
--   count, offset   how many positions come, and behind how many
--   positions       where they stand, if it was said: [S] or [B, S]
--   mask            which keys are seen, bool [B, 1, 1, T], if some are not
--   rows            of a cache with rows of several lengths, which positions come, [B, S]
--   cache, length   the cache, and the length for which positions are scaled (rope.lua)
--   tables, wide    rotary positions of the call; the dtype of its sines

local core = require "tessera.core"
local blocks = require "tessera.hf.blocks"
local Cache = require "tessera.hf.cache"
local options = require "tessera.options"
local op = core.op

local decoder = {}

local read_call = options.of("the model", { ids = options.tensor, cache = options.table, mask = options.tensor, positions = options.tensor,
  last = options.flag, hidden = options.flag }, { last = false, hidden = false })

--- The arguments of a call: m(ids, {..}) or m{ids = .., ..}; ids [B, S] of integers.
function decoder.arguments(ids, o, read)
  if type(ids) == "table" and not core.is_tensor(ids) then ids, o = nil, ids end
  local given = {}
  for k, v in pairs(o or {}) do given[k] = v end
  given.ids = given.ids or ids
  given = (read or read_call)(given)
  ids = given.ids
  if not ids then core.fail "the model: ids is not given\n  hint: m{ids = tokens}, tokens [batch, positions] of integers" end
  if ids.ndim == 1 then ids = ids:unsqueeze(0) end
  if ids.ndim ~= 2 or not ids.dtype:match "^[iu]" then
    core.fail(("the model: ids are %s, and have to be integers [batch, positions]"):format(core.type_text(given.ids)))
  end
  given.ids = ids
  return given
end

--- Which keys are seen, of a mask [B, T] of bool or of zeros and ones: bool [B, 1, 1, T].
function decoder.key_mask(mask, batch, length)
  if not mask then return nil end
  if mask.ndim ~= 2 or mask.shape[1] ~= batch or mask.shape[2] ~= length then
    core.fail(("the model: mask is %s, and has to be bool[%d,%d], true where a position counts"):format(core.type_text(mask), batch, length))
  end
  if mask.dtype ~= "bool" then mask = mask:ne(0) end
  return mask:unsqueeze(1):unsqueeze(1)
end

--- The table of a call.
function decoder.at(o, w)
  local b, s = unpack(o.ids.shape)
  local offset = o.cache and o.cache.length or 0
  if o.cache then o.cache:need(b, s) end
  local at = { count = s, offset = offset, positions = o.positions, mask = decoder.key_mask(o.mask, b, offset + s), cache = o.cache,
    length = o.cache and o.cache.room or offset + s, tables = {}, wide = w.dtype == "f64" and "f64" or "f32", device = o.ids.device }
  if o.cache and o.cache.rows then -- of captured steps, whose positions the device has (decode_step.lua, batching/captured.lua)
    at.rows, at.positions, at.offset = o.cache.rows, o.cache.rows, 0
  elseif o.cache and o.cache.lengths then
    if o.mask or o.positions then core.fail "the model: a cache with rows of several lengths says itself what is seen, and where positions stand" end
    at.rows = core.tensor(o.cache.lengths, { dtype = "i64", device = at.device }):unsqueeze(1)
    at.positions = at.rows
  end
  return at
end

-- ---- the model

local Model = blocks.define "Model"
decoder.Model = Model

--- Model(c, {layer = f(index), norm = f(), embed = "embed_tokens", norm_name = "norm", layers = "layers", scale}): scale is what
--- rows of the table are multiplied by.
function Model:init(c, o)
  self.names = { embed = o.embed or "embed_tokens", layers = o.layers or "layers", norm = o.norm_name or "norm" }
  self.scale = o.scale
  self[self.names.embed] = blocks.Embedding(c.vocab_size, c.hidden_size)
  self[self.names.layers] = blocks.list(c.num_hidden_layers, o.layer)
  self[self.names.norm] = o.norm()
end

function Model:embed(ids)
  local x = self[self.names.embed](ids)
  return self.scale and x * self.scale or x
end

function Model:hidden(o)
  local x = self:embed(o.ids)
  local at = decoder.at(o, x)
  if self.place then x = self:place(x, at) end
  for _, layer in ipairs(self[self.names.layers]) do x = layer(x, at) end
  if at.cache then at.cache:advance(at.count) end
  if o.last then x = x:narrow(1, x.shape[2] - 1, 1) end
  return self[self.names.norm](x)
end

-- ---- what users hold

local Text = blocks.define "Text"

--- Sizes of a cache's layers: heads, widths of keys and values (cache.lua).
function Text:cache_sizes()
  local c, sizes = self.config, {}
  local d = c.head_dim or c.hidden_size / c.num_attention_heads
  for i = 1, c.num_hidden_layers do
    sizes[i] = c.cache_size or { c.num_key_value_heads or c.num_attention_heads, d, d }
  end
  return sizes
end

-- The modules of layers that have a place in the cache, in its order.
local function attentions(self)
  local base, list = self:base(), {}
  for _, layer in ipairs(base[base.names.layers]) do
    for _, part in ipairs(layer:children()) do
      local index = rawget(part[2], "index")
      if index then list[index] = part[2] end
    end
  end
  return list
end

--- How many positions each layer sees, a list; false: all.
function Text:cache_windows()
  local windows = {}
  for i, part in ipairs(attentions(self)) do windows[i] = rawget(part, "window") or false end
  return windows
end

--- A word that is the same for lengths for which positions are scaled alike.
function Text:length_kind(length)
  local words = {}
  for _, part in ipairs(attentions(self)) do
    local rope = rawget(part, "rope")
    local word = rope and rope:length_kind(length) or ""
    if word ~= "" and words[#words] ~= word then words[#words + 1] = word end
  end
  return table.concat(words, " ")
end

function Text:cache_length() return self.config.max_position_embeddings or 2048 end

-- cache{batch = 1, length, dtype}: keys and values of `length` positions, the most that the model knows if it is not given.
--   local cache = m:cache{length = 512}
--   local logits = m(ids, {cache = cache})
function Text:cache(o) return Cache.of(self, self:embedding().weight, o) end

function Text:base() return self[self._base] end
function Text:embedding()
  local base = self:base()
  return base[base.names.embed]
end

-- m(ids, {cache, mask, positions, last = false, hidden = false}), or m{ids = .., ..}: logits [B, S, vocabulary], or the hidden
-- states [B, S, width] of a model without a head or if `hidden`; last: of the last position alone. mask [B, T]: true where a
-- position, also one of the cache, counts; positions [S] or [B, S].
function Text:forward(ids, o)
  o = decoder.arguments(ids, o)
  local x = self:base():hidden(o)
  if o.hidden or not self._head then return x end
  return self:logits(x)
end

function Text:logits(x)
  local c = self.config
  local w = self._head == "tied" and self:embedding().weight or self[self._head].weight
  local y = op.linear(x, w, self._head ~= "tied" and self[self._head].bias or nil)
  if c.logits_scale then y = y * c.logits_scale end
  if c.final_logit_softcapping then y = op.tanh(y / c.final_logit_softcapping) * c.final_logit_softcapping end
  return y
end

function Text:generate(o) return require("tessera.hf.generate").generate(self, o) end
function Text:stream(o) return require("tessera.hf.generate").stream(self, o) end

--- build(prefix, base [, head = "lm_head"]): a family's function that makes a model of a configuration: base(c), in files under
--- `prefix`, and a head, where the model gives logits.
function decoder.build(prefix, base, head)
  head = head or "lm_head"
  return function(c, gives)
    local self = Text()
    self._base, self.config = prefix, c
    self[prefix] = base(c)
    if gives == "hidden" then return self end
    self._head = c.tie_word_embeddings and "tied" or head
    if self._head == head then self[head] = blocks.Linear(c.hidden_size, c.vocab_size, c.head_bias) end
    return self
  end
end

-- ---- the layer that most families have

local Layer = blocks.define "Layer"

function Layer:init(attention, mlp, norm, names)
  names = names or { "input_layernorm", "self_attn", "post_attention_layernorm", "mlp" }
  self.names = names
  for i, part in ipairs { norm(), attention, norm(), mlp } do self[names[i]] = part end
end

function Layer:forward(x, at)
  local n = self.names
  x = x + self[n[2]](self[n[1]](x), at)
  return x + self[n[4]](self[n[3]](x), at)
end

--- Layer(attention, mlp, norm [, names]): x + attention(norm(x)), and that + mlp(norm(that)).
decoder.Layer = Layer

--- The share of a head that turns, in numbers.
function decoder.rotary_dims(c, d)
  local r = c.rope_parameters or {}
  local share = c.partial_rotary_factor or r.partial_rotary_factor or c.rotary_pct or 1
  return math.floor(d * share / 2) * 2
end

--- Options of attention (attention.lua) as most configurations name them.
function decoder.attention_options(c, o)
  local d = c.head_dim or c.hidden_size / c.num_attention_heads
  local all = { width = c.hidden_size, heads = c.num_attention_heads, kv_heads = c.num_key_value_heads, head_dim = d }
  for k, v in pairs(o) do all[k] = v end
  return all
end

--- The window of layer i from 0 on: where layer_types says so, or everywhere.
function decoder.window(c, i)
  local types = c.layer_types
  if types then return types[i + 1] == "sliding_attention" and c.sliding_window or nil end
  return c.sliding_window or nil
end

--- What every decoder's configuration must have.
decoder.NEEDS = { "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size" }
--- Tensors that old files have: frequencies and masks, which follow from the configuration.
decoder.IGNORED = { "rotary_emb%.inv_freq$", "%.masked_bias$", "%.attention%.bias$", "%.attn%.bias$" }

return decoder
