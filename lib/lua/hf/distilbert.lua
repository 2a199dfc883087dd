-- DistilBERT: BERT's layers, without types of tokens and pooler.

local attention = require "tessera.hf.attention"
local bert = require "tessera.hf.bert"
local blocks = require "tessera.hf.blocks"
local encoder = require "tessera.hf.encoder"
local core = require "tessera.core"
local op = core.op

local EPS = 1e-12

local Layer = blocks.define "DistilBertLayer"

function Layer:init(c)
  self.attention = attention.Heads(c.dim, c.n_heads, { "q_lin", "k_lin", "v_lin", "out_lin" })
  self.sa_layer_norm = blocks.LayerNorm(c.dim, EPS)
  self.ffn = blocks.MLP(c.dim, c.hidden_dim, { activation = c.activation, bias = true, up = "lin1", down = "lin2" })
  self.output_layer_norm = blocks.LayerNorm(c.dim, EPS)
end

function Layer:forward(x, o)
  x = self.sa_layer_norm(self.attention(x, o) + x)
  return self.output_layer_norm(self.ffn(x) + x)
end

local Body = blocks.define "DistilBertModel"

function Body:init(c)
  self.embeddings = blocks.group("word_embeddings", blocks.Embedding(c.vocab_size, c.dim), "position_embeddings",
    blocks.Embedding(c.max_position_embeddings, c.dim), "LayerNorm", blocks.LayerNorm(c.dim, EPS))
  self.transformer = blocks.group("layer", blocks.list(c.n_layers, function() return Layer(c) end))
end

function Body:forward(o)
  local e = self.embeddings
  local x = e.LayerNorm(e.word_embeddings(o.ids) + e.position_embeddings(o.positions or encoder.count(o.ids)))
  for _, layer in ipairs(self.transformer.layer) do x = layer(x, { mask = o.seen }) end
  return x
end

local DistilBert = blocks.define "DistilBert"

function DistilBert:init(c, gives)
  self.gives, self.distilbert = gives, Body(c)
  if gives == "tokens" then
    self.activation = blocks.activation(c.activation)
    self.vocab_transform, self.vocab_layer_norm = blocks.Linear(c.dim, c.dim, true), blocks.LayerNorm(c.dim, EPS)
    self:want("vocab_projector_bias", { c.vocab_size }, { from = { "vocab_projector.bias" } })
  elseif gives == "classes" then
    self.pre_classifier, self.classifier = blocks.Linear(c.dim, c.dim, true), blocks.Linear(c.dim, bert.labels(c), true)
  end
end

-- m(ids, {mask, positions}), or m{ids = .., ..}: hidden states [B, S, width], or logits of tokens or classes.
function DistilBert:forward(ids, o)
  o = encoder.arguments(ids, o)
  if o.types then core.fail "the model: distilbert has no types of tokens" end
  local x = self.distilbert(o)
  if self.gives == "classes" then return self.classifier(op.relu(self.pre_classifier(x:select(1, 0)))) end
  if self.gives == "hidden" then return x end
  x = self.vocab_layer_norm(self.activation(self.vocab_transform(x)))
  return op.linear(x, self.distilbert.embeddings.word_embeddings.weight, self.vocab_projector_bias)
end

return {
  architectures = { DistilBertModel = "hidden", DistilBertForMaskedLM = "tokens", DistilBertForSequenceClassification = "classes" },
  plain = "hidden", prefix = "distilbert", needs = { "vocab_size", "dim", "n_layers", "n_heads", "hidden_dim" },
  defaults = { activation = "gelu", max_position_embeddings = 512 },
  ignored = { "position_ids$", "^vocab_projector%.weight$", "^vocab_" },
  build = DistilBert,
}
