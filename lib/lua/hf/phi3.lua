-- Phi 3: llama's layers with queries, keys and values in one matrix, gate and up in another; long contexts by longrope.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local Rope = require "tessera.hf.rope"

local Heads = blocks.define("Phi3Attention", attention.Attention)

function Heads:init(c, rope, index)
  self.heads, self.kv_heads, self.index, self.rope = c.num_attention_heads, c.num_key_value_heads, index, rope
  self.head_dim, self.window = c.hidden_size / c.num_attention_heads, decoder.window(c, index - 1)
  self.qkv_proj = blocks.Linear(c.hidden_size, (self.heads + 2 * self.kv_heads) * self.head_dim)
  self.o_proj = blocks.Linear(c.hidden_size, c.hidden_size)
  self.out = "o_proj"
end

function Heads:project(x)
  local y = attention.split(self.qkv_proj(x), self.heads + 2 * self.kv_heads)
  return y:narrow(1, 0, self.heads), y:narrow(1, self.heads, self.kv_heads), y:narrow(1, self.heads + self.kv_heads, self.kv_heads)
end

local MLP = blocks.define "Phi3MLP"

function MLP:init(c)
  self.activation, self.hidden = blocks.activation(c.hidden_act), c.intermediate_size
  self.gate_up_proj = blocks.Linear(c.hidden_size, 2 * c.intermediate_size)
  self.down_proj = blocks.Linear(c.intermediate_size, c.hidden_size)
end

function MLP:forward(x)
  local h = self.gate_up_proj(x)
  return self.down_proj(self.activation(h:narrow(-1, 0, self.hidden)) * h:narrow(-1, self.hidden, self.hidden))
end

return {
  architectures = { Phi3ForCausalLM = "logits", Phi3Model = "hidden" },
  needs = decoder.NEEDS,
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-5, max_position_embeddings = 4096 },
  prefix = "model", ignored = decoder.IGNORED,
  build = decoder.build("model", function(c)
    c.num_key_value_heads = c.num_key_value_heads or c.num_attention_heads
    local function norm() return blocks.RMSNorm(c.hidden_size, c.rms_norm_eps) end
    local rope = Rope.new(c, decoder.rotary_dims(c, c.hidden_size / c.num_attention_heads))
    return decoder.Model(c, { norm = norm,
      layer = function(index) return decoder.Layer(Heads(c, rope, index), MLP(c), norm) end })
  end),
}
