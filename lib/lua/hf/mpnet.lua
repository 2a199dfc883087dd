-- MPNet: BERT's layers with positions as RoBERTa counts them and, beside them, a bias of scores by distance that all layers
-- share.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local encoder = require "tessera.hf.encoder"
local op = core.op

local Layer = blocks.define "MPNetLayer"

function Layer:init(c)
  local width, eps = c.hidden_size, c.layer_norm_eps
  local heads = attention.Heads(width, c.num_attention_heads, { "q", "k", "v", "o" })
  self.attention = blocks.group("attn", heads, "LayerNorm", blocks.LayerNorm(width, eps))
  self.intermediate = blocks.group("dense", blocks.Linear(width, c.intermediate_size, true))
  self.output = blocks.group("dense", blocks.Linear(c.intermediate_size, width, true), "LayerNorm", blocks.LayerNorm(width, eps))
  self.activation = blocks.activation(c.hidden_act)
end

function Layer:forward(x, o)
  x = self.attention.LayerNorm(self.attention.attn(x, o) + x)
  return self.output.LayerNorm(self.output.dense(self.activation(self.intermediate.dense(x))) + x)
end

local Body = blocks.define "MPNetModel"

function Body:init(c, pooled)
  self.padding, self.buckets = c.pad_token_id, c.relative_attention_num_buckets
  self.embeddings = blocks.group("word_embeddings", blocks.Embedding(c.vocab_size, c.hidden_size), "position_embeddings",
    blocks.Embedding(c.max_position_embeddings, c.hidden_size), "LayerNorm", blocks.LayerNorm(c.hidden_size, c.layer_norm_eps))
  self.encoder = blocks.group("layer", blocks.list(c.num_hidden_layers, function() return Layer(c) end), "relative_attention_bias",
    blocks.Embedding(self.buckets, c.num_attention_heads))
  if pooled then self.pooler = blocks.group("dense", blocks.Linear(c.hidden_size, c.hidden_size, true)) end
end

function Body:forward(o)
  local e, n = self.embeddings, o.ids.shape[2]
  local x = e.LayerNorm(e.word_embeddings(o.ids) + e.position_embeddings(o.positions or encoder.count_behind(o.ids, self.padding)))
  local bias = encoder.bias(self.encoder.relative_attention_bias.weight, n, n, 0, { buckets = self.buckets, most = 128, both = true })
  local mask = encoder.added(o.seen, bias)
  for _, layer in ipairs(self.encoder.layer) do x = layer(x, { mask = mask }) end
  return x, self.pooler and op.tanh(self.pooler.dense(x:select(1, 0)))
end

local MPNet = blocks.define "MPNet"

function MPNet:init(c, _, has) self.mpnet = Body(c, has "mpnet.pooler.dense.weight") end

-- m(ids, {mask, positions}), or m{ids = .., ..}: hidden states [B, S, width], and the pooler's [B, width] if there is one.
function MPNet:forward(ids, o)
  o = encoder.arguments(ids, o)
  if o.types then core.fail "the model: mpnet has no types of tokens" end
  return self.mpnet(o)
end

return {
  architectures = { MPNetModel = "hidden", MPNetForMaskedLM = "hidden" }, plain = "hidden", prefix = "mpnet",
  needs = { "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size" },
  defaults = { hidden_act = "gelu", layer_norm_eps = 1e-12, max_position_embeddings = 514, pad_token_id = 1, relative_attention_num_buckets = 32 },
  ignored = { "position_ids$", "^lm_head%." },
  build = MPNet,
}
