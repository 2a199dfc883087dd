-- GPT-2: learned positions, one matrix for queries, keys and values; matrices are stored [inputs, outputs].

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local decoder = require "tessera.hf.decoder"
local op = core.op

-- x w + bias with w [inputs, outputs]; of GGUF, where it lies as in all others, x w^T + bias.
local Conv1D = blocks.define "Conv1D"

function Conv1D:init(inputs, outputs, turned)
  self.turned = turned
  self:want("weight", turned and { outputs, inputs } or { inputs, outputs })
  self:want("bias", { outputs })
end

function Conv1D:forward(x)
  if self.turned then return op.linear(x, self.weight, self.bias) end
  return op.matmul(x, self.weight, { bias = self.bias })
end

local Heads = blocks.define("GPT2Attention", attention.Attention)

function Heads:init(c, index)
  self.heads, self.index = c.num_attention_heads, index
  self.scale = c.scale_attn_by_inverse_layer_idx and 1 / (math.sqrt(c.hidden_size / c.num_attention_heads) * index) or nil
  self.c_attn = Conv1D(c.hidden_size, 3 * c.hidden_size, c.linear_turned)
  self.c_proj = Conv1D(c.hidden_size, c.hidden_size, c.linear_turned)
end

function Heads:forward(x, at)
  local b, s, width = unpack(x.shape)
  local qkv = self.c_attn(x):reshape(b, s, 3, self.heads, width / self.heads):permute(2, 0, 3, 1, 4)
  return self.c_proj(attention.join(self:attend(qkv:select(0, 0), qkv:select(0, 1), qkv:select(0, 2), at)))
end

local MLP = blocks.define "GPT2MLP"

function MLP:init(c)
  self.activation = blocks.activation(c.activation_function)
  self.c_fc = Conv1D(c.hidden_size, c.intermediate_size, c.linear_turned)
  self.c_proj = Conv1D(c.intermediate_size, c.hidden_size, c.linear_turned)
end

function MLP:forward(x) return self.c_proj(self.activation(self.c_fc(x))) end

local Model = blocks.define("GPT2Model", decoder.Model)

function Model:init(c, o)
  decoder.Model.init(self, c, o)
  self.wpe = blocks.Embedding(c.max_position_embeddings, c.hidden_size)
end

function Model:place(x, at)
  return x + self.wpe(at.positions or op.arange(at.offset, at.offset + at.count):to(at.device))
end

-- The names of others for what GPT-2 calls otherwise.
local function named(c)
  c.hidden_size, c.num_hidden_layers, c.num_attention_heads = c.n_embd, c.n_layer, c.n_head
  c.max_position_embeddings, c.intermediate_size = c.n_positions, c.n_inner or 4 * c.n_embd
  return c
end

return {
  architectures = { GPT2LMHeadModel = "logits", GPT2Model = "hidden" },
  needs = { "vocab_size", "n_embd", "n_layer", "n_head", "n_positions" },
  defaults = { activation_function = "gelu_new", layer_norm_epsilon = 1e-5, tie_word_embeddings = true },
  prefix = "transformer", ignored = { "%.attn%.bias$", "%.attn%.masked_bias$", "^lm_head%.weight$" },
  check = function(c)
    return c.add_cross_attention and { "cross-attention of gpt2 is not supported" } or {}
  end,
  build = decoder.build("transformer", function(c)
    named(c)
    local function norm() return blocks.LayerNorm(c.hidden_size, c.layer_norm_epsilon) end
    return Model(c, { embed = "wte", layers = "h", norm_name = "ln_f", norm = norm,
      layer = function(index) return decoder.Layer(Heads(c, index), MLP(c), norm, { "ln_1", "attn", "ln_2", "mlp" }) end })
  end),
}
