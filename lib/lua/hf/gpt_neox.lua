-- GPT-NeoX (Pythia): attention and perceptron side by side, a part of each head turns, queries, keys and values of each head
-- stand together in one matrix.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local Rope = require "tessera.hf.rope"

local Heads = blocks.define("GPTNeoXAttention", attention.Attention)

function Heads:init(c, rope, index)
  self.heads, self.index, self.rope, self.out = c.num_attention_heads, index, rope, "dense"
  self.whole = c.qkv_whole -- all queries, then all keys: GGUF
  self.query_key_value = blocks.Linear(c.hidden_size, 3 * c.hidden_size, c.attention_bias)
  self.dense = blocks.Linear(c.hidden_size, c.hidden_size, c.attention_bias)
end

function Heads:project(x)
  local b, s, width = unpack(x.shape)
  local y = self.query_key_value(x)
  if self.whole then
    y = y:reshape(b, s, 3, self.heads, width / self.heads):permute(2, 0, 3, 1, 4)
  else
    y = y:reshape(b, s, self.heads, 3, width / self.heads):permute(3, 0, 2, 1, 4)
  end
  return y:select(0, 0), y:select(0, 1), y:select(0, 2)
end

local Layer = blocks.define "GPTNeoXLayer"

function Layer:init(heads, mlp, norm, parallel)
  self.parallel = parallel
  self.input_layernorm = norm()
  self.post_attention_layernorm = norm()
  self.attention = heads
  self.mlp = mlp
end

function Layer:forward(x, at)
  local y = self.attention(self.input_layernorm(x), at)
  if self.parallel then return self.mlp(self.post_attention_layernorm(x)) + y + x end
  x = x + y
  return x + self.mlp(self.post_attention_layernorm(x))
end

return {
  architectures = { GPTNeoXForCausalLM = "logits", GPTNeoXModel = "hidden" },
  needs = decoder.NEEDS,
  defaults = { hidden_act = "gelu", layer_norm_eps = 1e-5, attention_bias = true, use_parallel_residual = true, rotary_pct = 0.25,
    max_position_embeddings = 2048 },
  prefix = "gpt_neox", ignored = decoder.IGNORED,
  build = decoder.build("gpt_neox", function(c)
    local function norm() return blocks.LayerNorm(c.hidden_size, c.layer_norm_eps) end
    c.rope_theta = c.rope_theta or c.rotary_emb_base
    local rope = Rope.new(c, decoder.rotary_dims(c, c.hidden_size / c.num_attention_heads))
    return decoder.Model(c, { embed = "embed_in", norm_name = "final_layer_norm", norm = norm,
      layer = function(index)
        local mlp = blocks.MLP(c.hidden_size, c.intermediate_size, { activation = c.hidden_act, bias = true, up = "dense_h_to_4h",
          down = "dense_4h_to_h" })
        return Layer(Heads(c, rope, index), mlp, norm, c.use_parallel_residual)
      end })
  end, "embed_out"),
}
