-- BERT: tokens, types and positions, layers with norms behind attention and perceptron. Gives the hidden states and, where the file
-- has a pooler, what it makes of the first token; with a head logits of tokens or classes. RoBERTa (roberta.lua) is built
-- of it.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local encoder = require "tessera.hf.encoder"
local core = require "tessera.core"
local op = core.op

local bert = {}

local Embeddings = blocks.define "BertEmbeddings"

function Embeddings:init(c, places)
  self.places = places
  self.word_embeddings = blocks.Embedding(c.vocab_size, c.hidden_size)
  self.position_embeddings = blocks.Embedding(c.max_position_embeddings, c.hidden_size)
  self.token_type_embeddings = blocks.Embedding(c.type_vocab_size, c.hidden_size)
  self.LayerNorm = blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
end

function Embeddings:forward(o)
  local x = self.word_embeddings(o.ids) + self.token_type_embeddings(o.types or op.zeros_like(o.ids))
  return self.LayerNorm(x + self.position_embeddings(o.positions or self.places(o.ids)))
end

local Layer = blocks.define "BertLayer"

function Layer:init(c)
  local function output(inputs)
    return blocks.group("dense", blocks.Linear(inputs, c.hidden_size, true), "LayerNorm", blocks.LayerNorm(c.hidden_size, c.layer_norm_eps))
  end
  local heads = attention.Heads(c.hidden_size, c.num_attention_heads, { "query", "key", "value" })
  self.attention = blocks.group("self", heads, "output", output(c.hidden_size))
  self.intermediate = blocks.group("dense", blocks.Linear(c.hidden_size, c.intermediate_size, true))
  self.output, self.activation = output(c.intermediate_size), blocks.activation(c.hidden_act)
end

function Layer:forward(x, o)
  local a, out = self.attention, self.output
  x = a.output.LayerNorm(a.output.dense(a["self"](x, o)) + x)
  return out.LayerNorm(out.dense(self.activation(self.intermediate.dense(x))) + x)
end

local Body = blocks.define "BertModel"

function Body:init(c, places, pooled)
  self.embeddings = Embeddings(c, places)
  self.encoder = blocks.group("layer", blocks.list(c.num_hidden_layers, function() return Layer(c) end))
  if pooled then self.pooler = blocks.group("dense", blocks.Linear(c.hidden_size, c.hidden_size, true)) end
end

function Body:forward(o)
  local x = self.embeddings(o)
  for _, layer in ipairs(self.encoder.layer) do x = layer(x, { mask = o.seen }) end
  return x, self.pooler and op.tanh(self.pooler.dense(x:select(1, 0)))
end

-- ---- heads

-- Tokens' logits by the table of tokens.
local Transform = blocks.define "BertTransform"

function Transform:init(c)
  self.dense, self.LayerNorm = blocks.Linear(c.hidden_size, c.hidden_size, true), blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
  self.activation = blocks.activation(c.hidden_act)
end

function Transform:forward(x) return self.LayerNorm(self.activation(self.dense(x))) end

local Predictions = blocks.define "BertPredictions"

function Predictions:init(c)
  self.transform = Transform(c)
  self:want("bias", { c.vocab_size })
end

function Predictions:forward(x, words) return op.linear(self.transform(x), words, self.bias) end

local Bert = blocks.define "Bert"
bert.Bert = Bert

--- The number of classes of a configuration.
function bert.labels(c)
  if c.num_labels then return c.num_labels end
  local n = 0
  for _ in pairs(c.id2label or { 1, 2 }) do n = n + 1 end
  return n
end

--- Bert(c, gives, has, {prefix, places, classifier}): classifier(c) makes the head of classes, else it is one layer behind the pooler.
function Bert:init(c, gives, has, o)
  self.gives, self.body = gives, o.prefix
  local pooled = has(o.prefix .. ".pooler.dense.weight") and gives ~= "tokens" and not (o.classifier and gives == "classes")
  self[o.prefix] = Body(c, o.places, pooled)
  if gives == "classes" then self.classifier = o.classifier and o.classifier(c) or blocks.Linear(c.hidden_size, bert.labels(c), true) end
end

-- m(ids, {mask, types, positions}), or m{ids = .., ..}: hidden states [B, S, width], and the pooler's [B, width] if there is
-- one; or logits of tokens [B, S, vocabulary], of classes [B, classes]. mask [B, S]: true where a token counts.
function Bert:forward(ids, o)
  o = encoder.arguments(ids, o)
  local x, pooled = self[self.body](o)
  if self.gives == "tokens" then return self:tokens(x) end
  if self.gives == "classes" then return self.classifier(pooled or x) end
  return x, pooled
end

local Masked = blocks.define("BertForMaskedLM", Bert)

function Masked:init(c, gives, has, o)
  Bert.init(self, c, gives, has, o)
  if gives == "tokens" then self.cls = blocks.group("predictions", Predictions(c)) end
end

function Masked:tokens(x) return self.cls.predictions(x, self[self.body].embeddings.word_embeddings.weight) end

bert.architectures = { BertModel = "hidden", BertForMaskedLM = "tokens", BertForPreTraining = "tokens", BertForSequenceClassification = "classes" }
bert.plain = "hidden"
bert.needs = { "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size" }
bert.defaults = { hidden_act = "gelu", layer_norm_eps = 1e-12, max_position_embeddings = 512, type_vocab_size = 2 }
bert.prefix = "bert"
bert.ignored = { "position_ids$", "^cls%.seq_relationship%.", "^cls%.predictions%.decoder%.", "^bert%.pooler%.", "^cls%." }
bert.renames = { { "%.gamma$", ".weight" }, { "%.beta$", ".bias" } }
function bert.check(c)
  local kind = c.position_embedding_type
  if c.is_decoder then return { "BERT as a decoder is not supported" } end
  return kind and kind ~= "absolute" and { ("position_embedding_type '%s' is not supported"):format(tostring(kind)) } or {}
end
function bert.build(c, gives, has) return Masked(c, gives, has, { prefix = "bert", places = encoder.count }) end

return bert
