-- Qwen 1.5 and 2 with experts: qwen2's attention; a mixture, with an expert that all tokens go to, in the layers that
-- decoder_sparse_step and mlp_only_layers leave it.

local blocks = require "tessera.hf.blocks"
local decoder = require "tessera.hf.decoder"
local experts = require "tessera.hf.experts"
local llama = require "tessera.hf.llama"
local qwen2 = require "tessera.hf.qwen2"

local qwen2_moe = {}

--- The perceptron or mixture of layer i.
function qwen2_moe.mlp(c, i)
  local plain = (i + 1) % c.decoder_sparse_step ~= 0 or c.num_experts == 0
  for _, layer in ipairs(c.mlp_only_layers) do plain = plain or layer == i end
  if plain then return blocks.GatedMLP(c.hidden_size, c.intermediate_size, c.hidden_act) end
  return experts.Mixture { experts = c.num_experts, k = c.num_experts_per_tok, width = c.hidden_size, hidden = c.moe_intermediate_size,
    activation = c.hidden_act, normed = c.norm_topk_prob, shared = c.shared_expert_intermediate_size, stacked = c.experts_stacked }
end

qwen2_moe.needs = { "num_experts", "num_experts_per_tok", "moe_intermediate_size", unpack(decoder.NEEDS) }
qwen2_moe.aliases = { num_experts = "num_local_experts" }
qwen2_moe.architectures = { Qwen2MoeForCausalLM = "logits", Qwen2MoeModel = "hidden" }
qwen2_moe.defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 32768, decoder_sparse_step = 1, mlp_only_layers = {},
  norm_topk_prob = false, qkv_bias = true }
qwen2_moe.prefix, qwen2_moe.ignored = "model", decoder.IGNORED
qwen2_moe.build = decoder.build("model", function(c)
  return llama.base(c, { bias = c.qkv_bias, window = function(i) return qwen2.window(c, i) end,
    mlp = function(i) return qwen2_moe.mlp(c, i) end })
end)

return qwen2_moe
