-- T5 and Flan-T5: an encoder and a decoder, scores without scale and with a bias by distance that the first layer holds; logits of
-- the decoder's tokens. A file of the encoder alone gives its hidden states.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local Cache = require "tessera.hf.cache"
local core = require "tessera.core"
local decoder = require "tessera.hf.decoder"
local encoder = require "tessera.hf.encoder"
local options = require "tessera.options"
local op = core.op

local function heads(c) return attention.Heads(c.d_model, c.num_heads, { "q", "k", "v", "o" }, { bias = false, head_dim = c.d_kv, scale = 1 }) end

local Perceptron = blocks.define "T5Perceptron"

function Perceptron:init(c)
  local gated, name = c.feed_forward_proj:match "^(gated)%-(.*)$"
  name = name or c.feed_forward_proj
  self.activation = blocks.activation(gated and name == "gelu" and "gelu_new" or name)
  if gated then
    self.wi_0, self.wi_1 = blocks.Linear(c.d_model, c.d_ff), blocks.Linear(c.d_model, c.d_ff)
  else
    self.wi = blocks.Linear(c.d_model, c.d_ff)
  end
  self.wo = blocks.Linear(c.d_ff, c.d_model)
end

function Perceptron:forward(x)
  local h = self.wi and self.activation(self.wi(x)) or self.activation(self.wi_0(x)) * self.wi_1(x)
  return self.wo(h)
end

local Layer = blocks.define "T5Layer"

function Layer:init(c, first, crossed)
  local function part(name, m) return blocks.group(name, m, "layer_norm", blocks.RMSNorm(c.d_model, c.layer_norm_epsilon)) end
  local own = heads(c)
  if first then own.relative_attention_bias = blocks.Embedding(c.relative_attention_num_buckets, c.num_heads) end
  local parts = { part("SelfAttention", own), crossed and part("EncDecAttention", heads(c)) or nil }
  parts[#parts + 1] = part("DenseReluDense", Perceptron(c))
  self.layer = blocks.list(#parts, function(i) return parts[i] end)
end

-- at: {mask, memory, memory_mask, cache}
function Layer:forward(x, at, index)
  local own, crossed, last = self.layer[1], self.layer[2], self.layer[#self.layer]
  x = x + own.SelfAttention(own.layer_norm(x), { mask = at.mask, cache = at.cache, index = index })
  if at.memory then
    x = x + crossed.EncDecAttention(crossed.layer_norm(x), { memory = at.memory, mask = at.memory_mask, cache = at.cache, index = index })
  end
  return x + last.DenseReluDense(last.layer_norm(x))
end

local Stack = blocks.define "T5Stack"

function Stack:init(c, n, crossed)
  self.distances = { buckets = c.relative_attention_num_buckets, most = c.relative_attention_max_distance, both = not crossed }
  self.causal = crossed
  self.block = blocks.list(n, function(i) return Layer(c, i == 1, crossed) end)
  self.final_layer_norm = blocks.RMSNorm(c.d_model, c.layer_norm_epsilon)
end

function Stack:forward(x, at)
  local s, offset = x.shape[2], at.cache and at.cache.length or 0
  local t = offset + s
  local table_ = self.block[1].layer[1].SelfAttention.relative_attention_bias.weight
  local bias = encoder.bias(table_, s, t, offset, self.distances)
  local seen = at.seen
  if self.causal then
    local before = op.arange(t):unsqueeze(0):le(op.arange(offset, t):unsqueeze(1)):to(x.device)
    seen = seen and seen:logical_and(before) or before
  end
  local own = { mask = encoder.added(seen, bias), memory = at.memory, memory_mask = at.memory_mask, cache = at.cache }
  for i, block in ipairs(self.block) do x = block(x, own, i) end
  if at.cache then at.cache:advance(s) end
  return self.final_layer_norm(x)
end

local T5 = blocks.define "T5"
local read = options.of("the model", { ids = options.tensor, mask = options.tensor, decoder_ids = options.tensor, decoder_mask = options.tensor,
  memory = options.tensor, cache = options.table, last = options.flag, hidden = options.flag })

function T5:init(c, gives)
  self.shared = blocks.Embedding(c.vocab_size, c.d_model)
  self.encoder = Stack(c, c.num_layers, false)
  if gives == "memory" then return end
  self.decoder = Stack(c, c.num_decoder_layers or c.num_layers, true)
  if gives == "logits" and not c.tie_word_embeddings then self.lm_head = blocks.Linear(c.d_model, c.vocab_size) end
  self.gives, self.scale = gives, c.tie_word_embeddings and c.scale_decoder_outputs ~= false and c.d_model ^ -0.5 or 1
end

-- m:encode(ids, {mask}): the encoder's hidden states [B, S, width], which a call takes as memory.
--   local memory = m:encode(ids)
function T5:encode(ids, o)
  o = encoder.arguments(ids, o)
  return self.encoder(self.shared(o.ids), { seen = o.seen })
end

--- Sizes of a cache's layers (cache.lua).
function T5:cache_sizes()
  local c, sizes = self.config, {}
  for i = 1, c.num_decoder_layers or c.num_layers do sizes[i] = { c.num_heads, c.d_kv, c.d_kv } end
  return sizes
end

function T5:cache_length() return 512 end

-- m:cache{batch = 1, length = 512, dtype}: of the decoder's keys and values, and those of the memory.
--   local cache = m:cache{length = 64}
function T5:cache(o) return Cache.of(self, self.shared.weight, o) end

-- m{ids, mask, decoder_ids, decoder_mask, memory, cache, last}: logits [B, T, vocabulary] of decoder_ids [B, T] behind the text ids
-- [B, S], or behind a memory that m:encode gave; a file of the encoder alone: its hidden states.
function T5:forward(ids, o)
  if type(ids) == "table" and not core.is_tensor(ids) then ids, o = nil, ids end
  o = read(o)
  ids = o.ids or ids
  if not self.decoder then return self:encode(ids, { mask = o.mask }) end
  if not (ids or o.memory) or not o.decoder_ids then
    core.fail "the model: ids, or memory, and decoder_ids are needed\n  hint: m{ids = text, decoder_ids = tokens}"
  end
  local memory = o.memory or self:encode(ids, { mask = o.mask })
  local out = o.decoder_ids
  local b, s = unpack(out.shape)
  if o.cache then o.cache:need(b, s) end
  local length = s + (o.cache and o.cache.length or 0)
  local x = self.decoder(self.shared(out), { seen = decoder.key_mask(o.decoder_mask, b, length), memory = memory,
    memory_mask = decoder.key_mask(o.mask, b, memory.shape[2]), cache = o.cache })
  if o.last then x = x:narrow(1, s - 1, 1) end
  if o.hidden or self.gives == "hidden" then return x end
  if self.scale ~= 1 then x = x * self.scale end
  return self.lm_head and self.lm_head(x) or op.linear(x, self.shared.weight)
end

options.later("tessera.hf.generate", "m:generate", "m:stream")

-- m:generate{ids or features, mask, ..}: the new tokens of the decoder, i64 [texts, steps], and a list of what is known of each text. ids, or
-- features, are what the encoder reads, all at once; docs/models.md has the options, of which draft is for other models.
--   local tokens, about = m:generate{ids = ids, max_new_tokens = 20}
function T5:generate(o) return require("tessera.hf.generate").generate(self, o) end

-- m:stream{..}: m:generate a step at a time: an iterator of the step, a list of tokens and a list of new texts.
--   for step, tokens in m:stream{ids = ids} do print(tokens[1]) end
function T5:stream(o) return require("tessera.hf.generate").stream(self, o) end

return {
  architectures = { T5ForConditionalGeneration = "logits", T5Model = "hidden", T5EncoderModel = "memory" },
  needs = { "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads" },
  defaults = { relative_attention_num_buckets = 32, relative_attention_max_distance = 128, layer_norm_epsilon = 1e-6, feed_forward_proj = "relu",
    tie_word_embeddings = true },
  ignored = { "^encoder%.embed_tokens%.weight$", "^decoder%.embed_tokens%.weight$", "^lm_head%.weight$",
    "EncDecAttention%.relative_attention_bias%.weight$" },
  build = T5,
}
