-- RoBERTa and XLM-RoBERTa: BERT whose positions count what is no padding, from padding + 1 on; heads of its own.

local bert = require "tessera.hf.bert"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local encoder = require "tessera.hf.encoder"
local op = core.op

-- Logits of tokens by the table of tokens.
local Head = blocks.define "RobertaHead"

function Head:init(c)
  self.dense, self.layer_norm = blocks.Linear(c.hidden_size, c.hidden_size, true), blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
  self:want("bias", { c.vocab_size })
end

function Head:forward(x, words) return op.linear(self.layer_norm(op.gelu(self.dense(x))), words, self.bias) end

-- Logits of classes, of the first token.
local Classifier = blocks.define "RobertaClassifier"

function Classifier:init(c)
  self.dense, self.out_proj = blocks.Linear(c.hidden_size, c.hidden_size, true), blocks.Linear(c.hidden_size, bert.labels(c), true)
end

function Classifier:forward(x) return self.out_proj(op.tanh(self.dense(x:select(1, 0)))) end

local Roberta = blocks.define("Roberta", bert.Bert)

function Roberta:init(c, gives, has)
  bert.Bert.init(self, c, gives, has, { prefix = "roberta", classifier = Classifier,
    places = function(ids) return encoder.count_behind(ids, c.pad_token_id) end })
  if gives == "tokens" then self.lm_head = Head(c) end
end

function Roberta:tokens(x) return self.lm_head(x, self.roberta.embeddings.word_embeddings.weight) end

local family = { architectures = {}, prefix = "roberta", plain = "hidden", needs = bert.needs, renames = bert.renames, check = bert.check,
  ignored = { "position_ids$", "^lm_head%.decoder%.", "^lm_head%.", "^roberta%.pooler%." },
  defaults = { hidden_act = "gelu", layer_norm_eps = 1e-5, max_position_embeddings = 514, type_vocab_size = 1, pad_token_id = 1 },
  build = Roberta }
for _, name in ipairs { "Roberta", "XLMRoberta" } do
  family.architectures[name .. "Model"] = "hidden"
  family.architectures[name .. "ForMaskedLM"] = "tokens"
  family.architectures[name .. "ForSequenceClassification"] = "classes"
end

return family
