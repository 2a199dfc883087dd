-- Whisper: convolutions over a spectrogram, an encoder, a decoder with learned positions; logits of the decoder's tokens.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local Cache = require "tessera.hf.cache"
local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op

local EPS = 1e-5
local NAMES = { "q_proj", "k_proj", "v_proj", "out_proj" }

local Layer = blocks.define "WhisperLayer"

function Layer:init(c, heads, hidden, crossed)
  local function own(causal) return attention.Heads(c.d_model, heads, NAMES, { key_bias = false, causal = causal }) end
  self.self_attn, self.self_attn_layer_norm = own(crossed), blocks.LayerNorm(c.d_model, EPS)
  if crossed then self.encoder_attn, self.encoder_attn_layer_norm = own(), blocks.LayerNorm(c.d_model, EPS) end
  self.fc1, self.fc2 = blocks.Linear(c.d_model, hidden, true), blocks.Linear(hidden, c.d_model, true)
  self.final_layer_norm, self.activation = blocks.LayerNorm(c.d_model, EPS), blocks.activation(c.activation_function)
end

function Layer:forward(x, at, index)
  x = x + self.self_attn(self.self_attn_layer_norm(x), { cache = at.cache, index = index })
  if at.memory then
    x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), { memory = at.memory, cache = at.cache, index = index })
  end
  return x + self.fc2(self.activation(self.fc1(self.final_layer_norm(x))))
end

local Conv = blocks.define "Conv1d"

function Conv:init(inputs, outputs, stride)
  self.stride = stride
  self:want("weight", { outputs, inputs, 3 })
  self:want("bias", { outputs })
end

function Conv:forward(x) return op.conv1d(x, self.weight, self.bias, { stride = self.stride, padding = 1 }) end

local Encoder = blocks.define "WhisperEncoder"

function Encoder:init(c)
  self.conv1, self.conv2 = Conv(c.num_mel_bins, c.d_model, 1), Conv(c.d_model, c.d_model, 2)
  self.embed_positions = blocks.Embedding(c.max_source_positions, c.d_model)
  self.layers = blocks.list(c.encoder_layers, function() return Layer(c, c.encoder_attention_heads, c.encoder_ffn_dim, false) end)
  self.layer_norm = blocks.LayerNorm(c.d_model, EPS)
end

function Encoder:forward(features)
  local x = op.gelu(self.conv2(op.gelu(self.conv1(features)))):T()
  x = x + self.embed_positions.weight
  for _, layer in ipairs(self.layers) do x = layer(x, {}) end
  return self.layer_norm(x)
end

local Decoder = blocks.define "WhisperDecoder"

function Decoder:init(c)
  self.embed_tokens, self.embed_positions = blocks.Embedding(c.vocab_size, c.d_model), blocks.Embedding(c.max_target_positions, c.d_model)
  self.layers = blocks.list(c.decoder_layers, function() return Layer(c, c.decoder_attention_heads, c.decoder_ffn_dim, true) end)
  self.layer_norm = blocks.LayerNorm(c.d_model, EPS)
  self.scale = c.scale_embedding and math.sqrt(c.d_model) or nil
end

function Decoder:forward(ids, at)
  local offset = at.cache and at.cache.length or 0
  local x = self.embed_tokens(ids)
  if self.scale then x = x * self.scale end
  x = x + self.embed_positions(op.arange(offset, offset + ids.shape[2]):to(ids.device))
  for i, layer in ipairs(self.layers) do x = layer(x, at, i) end
  if at.cache then at.cache:advance(ids.shape[2]) end
  return self.layer_norm(x)
end

local Whisper = blocks.define "Whisper"
local read = options.of("the model", { features = options.tensor, decoder_ids = options.tensor, memory = options.tensor, cache = options.table,
  last = options.flag, hidden = options.flag })

function Whisper:init(c, gives)
  self.gives = gives
  self.model = blocks.group("encoder", Encoder(c), "decoder", Decoder(c))
end

-- m:encode(features): features [B, mel bins, 2 * positions] -> the encoder's hidden states [B, positions, width].
--   local memory = m:encode(features)
function Whisper:encode(features)
  local c = self.config
  local s = core.is_tensor(features) and features.ndim == 3 and features.shape
  if not s or s[2] ~= c.num_mel_bins or s[3] ~= 2 * c.max_source_positions then
    local given = core.is_tensor(features) and core.type_text(features) or "not given"
    core.fail(("the model: features are %s, and have to be [batch,%d,%d]"):format(given, c.num_mel_bins, 2 * c.max_source_positions))
  end
  return self.model.encoder(features)
end

--- Sizes of a cache's layers (cache.lua).
function Whisper:cache_sizes()
  local c, sizes = self.config, {}
  local d = c.d_model / c.decoder_attention_heads
  for i = 1, c.decoder_layers do sizes[i] = { c.decoder_attention_heads, d, d } end
  return sizes
end

function Whisper:cache_length() return self.config.max_target_positions end

-- m:cache{batch = 1, length, dtype}: of the decoder's keys and values, and those of the memory.
--   local cache = m:cache{length = 64}
function Whisper:cache(o) return Cache.of(self, self.model.decoder.embed_tokens.weight, o) end

-- m{features, decoder_ids, memory, cache, last}: logits [B, T, vocabulary] of decoder_ids [B, T] behind features, or behind a memory
-- that m:encode gave.
function Whisper:forward(o)
  o = read(o)
  if not (o.features or o.memory) or not o.decoder_ids then
    core.fail "the model: features, or memory, and decoder_ids are needed\n  hint: m{features = spectrogram, decoder_ids = tokens}"
  end
  local memory, ids = o.memory or self:encode(o.features), o.decoder_ids
  if o.cache then o.cache:need(ids.shape[1], ids.shape[2]) end
  local x = self.model.decoder(ids, { memory = memory, cache = o.cache })
  if o.last then x = x:narrow(1, x.shape[2] - 1, 1) end
  if o.hidden or self.gives == "hidden" then return x end
  return op.linear(x, self.model.decoder.embed_tokens.weight)
end

options.later("tessera.hf.generate", "m:generate", "m:stream")

-- m:generate{..}: the new tokens, i64 [texts, steps], and a list of what is known of each text; docs/models.md has the options.
--   local tokens, about = m:generate{features = features, max_new_tokens = 20}
function Whisper:generate(o) return require("tessera.hf.generate").generate(self, o) end

-- m:stream{..}: m:generate a step at a time: an iterator of the step, a list of tokens and a list of new texts.
--   for step, tokens in m:stream{features = features} do print(tokens[1]) end
function Whisper:stream(o) return require("tessera.hf.generate").stream(self, o) end

return {
  architectures = { WhisperForConditionalGeneration = "logits", WhisperModel = "hidden" },
  needs = { "vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim",
    "decoder_ffn_dim", "num_mel_bins" },
  prefix = "model", defaults = { activation_function = "gelu", max_source_positions = 1500, max_target_positions = 448 },
  ignored = { "^proj_out%.weight$" },
  build = Whisper,
}
