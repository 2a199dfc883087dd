-- Gemma: llama's layers with norms whose weights count from 1, tokens times the root of the width, and gelu. Blocks of Gemma 2
-- and 3 (gemma2.lua, gemma3.lua) stand here.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local Rope = require "tessera.hf.rope"

local gemma = {}

--- GGUF has norms with the 1 added.
function gemma.norm(c)
  return function(width) return blocks.RMSNorm(width or c.hidden_size, c.rms_norm_eps, c.norm_weights_whole and 0 or 1) end
end

function gemma.mlp(c)
  return blocks.GatedMLP(c.hidden_size, c.intermediate_size, c.hidden_activation or c.hidden_act or "gelu_pytorch_tanh")
end

gemma.defaults = { rms_norm_eps = 1e-6, max_position_embeddings = 8192, head_dim = 256, tie_word_embeddings = true }

-- Norms before and behind attention and perceptron: Gemma 2 and 3.
local Sandwich = blocks.define "SandwichLayer"

function Sandwich:init(heads, mlp, norm)
  self.input_layernorm = norm()
  self.self_attn = heads
  self.post_attention_layernorm = norm()
  self.pre_feedforward_layernorm = norm()
  self.mlp = mlp
  self.post_feedforward_layernorm = norm()
end

function Sandwich:forward(x, at)
  x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), at))
  return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x), at))
end

--- base(c, Layer, options(i)): options of the attention of layer i from 0 on.
function gemma.base(c, Layer, options)
  local norm = gemma.norm(c)
  return decoder.Model(c, {
    norm = norm, scale = math.sqrt(c.hidden_size),
    layer = function(index)
      return Layer(attention.Attention(decoder.attention_options(c, options(index - 1)), index), gemma.mlp(c), norm)
    end,
  })
end

gemma.Sandwich = Sandwich
gemma.architectures = { GemmaForCausalLM = "logits", GemmaModel = "hidden" }
gemma.needs = decoder.NEEDS
gemma.prefix, gemma.ignored = "model", decoder.IGNORED
gemma.build = decoder.build("model", function(c)
  local rope = Rope.new(c, c.head_dim)
  return gemma.base(c, decoder.Layer, function() return { rope = rope } end)
end)

return gemma
