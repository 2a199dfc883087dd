-- DeepSeek V2 and V3. Attention by latents (MLA): keys and values are made of one narrow row a position, which, with a key that
-- turns and that all heads share, is all that a cache holds. Experts are chosen within groups; V3 by sigmoids with a
-- correction for the choice alone.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local decoder = require "tessera.hf.decoder"
local experts = require "tessera.hf.experts"
local Rope = require "tessera.hf.rope"
local op = core.op

-- Keys and values of all heads out of latents. In GGUF their matrices stand apart, that of keys turned, and blocks of it go along the other
-- axis, so that it is made of their numbers.
local function joined(keys, values)
  local wide = keys.dtype
  if blocks.in_blocks(wide) or wide ~= values.dtype then wide = "f32" end
  return op.concat({ keys:cast(wide):T(), values:cast(wide) }, { axis = 1 }):flatten(0, 1)
end

local Latents = blocks.define("Latents", blocks.Linear)

function Latents:init(c, h, nope, v)
  if not c.latent_apart then return blocks.Linear.init(self, c.kv_lora_rank, h * (nope + v)) end
  self.inputs, self.outputs = c.kv_lora_rank, h * (nope + v)
  self:want("weight", { self.outputs, self.inputs }, { from = { "k_b.weight", "v_b.weight" },
    shapes = { { h, c.kv_lora_rank, nope }, { h, v, c.kv_lora_rank } }, join = joined })
end

local Heads = blocks.define "LatentAttention"

function Heads:init(c, rope, index)
  local h, nope, turns, v = c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim
  self.heads, self.nope, self.turns, self.v, self.latent, self.rope, self.index = h, nope, turns, v, c.kv_lora_rank, rope, index
  self.scale = (nope + turns) ^ -0.5 * rope:score_factor()
  if c.q_lora_rank then
    self.q_a_proj = blocks.Linear(c.hidden_size, c.q_lora_rank, c.attention_bias)
    self.q_a_layernorm = blocks.RMSNorm(c.q_lora_rank, c.rms_norm_eps)
    self.q_b_proj = blocks.Linear(c.q_lora_rank, h * (nope + turns))
  else
    self.q_proj = blocks.Linear(c.hidden_size, h * (nope + turns))
  end
  self.kv_a_proj_with_mqa = blocks.Linear(c.hidden_size, c.kv_lora_rank + turns, c.attention_bias)
  self.kv_a_layernorm = blocks.RMSNorm(c.kv_lora_rank, c.rms_norm_eps)
  self.kv_b_proj = Latents(c, h, nope, v)
  self.o_proj = blocks.Linear(h * v, c.hidden_size, c.attention_bias)
end

function Heads:forward(x, at)
  local q = self.q_proj and self.q_proj(x) or self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
  q = attention.split(q, self.heads)
  local both = self.kv_a_proj_with_mqa(x)
  local latent = self.kv_a_layernorm(both:narrow(-1, 0, self.latent)):unsqueeze(1)
  local k = self.rope:turn(both:narrow(-1, self.latent, self.turns):unsqueeze(1), at)
  q = op.concat({ q:narrow(-1, 0, self.nope), self.rope:turn(q:narrow(-1, self.nope, self.turns), at) }, { axis = -1 })
  if at.cache then latent, k = at.cache:append(self.index, latent, k) end
  local wide = attention.split(self.kv_b_proj(latent:squeeze(1)), self.heads)
  local b, h, t = unpack(wide.shape)
  k = op.concat({ wide:narrow(-1, 0, self.nope), k:broadcast_to { b, h, t, self.turns } }, { axis = -1 })
  local o = attention.asked(at, t)
  o.scale = self.scale
  local y = attention.attend(q, k, wide:narrow(-1, self.nope, self.v), o)
  return self.o_proj(attention.join(y))
end

-- ---- which experts

local Gate = blocks.define "DeepseekGate"

function Gate:init(c)
  self.k, self.groups, self.kept = c.num_experts_per_tok, c.n_group or 1, c.topk_group or 1
  self.factor, self.normed, self.sigmoid = c.routed_scaling_factor, c.norm_topk_prob, c.model_type == "deepseek_v3"
  self.limited = self.sigmoid or c.topk_method == "group_limited_greedy"
  self:want("weight", { c.n_routed_experts, c.hidden_size })
  if self.sigmoid then self:want("e_score_correction_bias", { c.n_routed_experts }) end
end

-- Scores outside of the best groups become `low`. V3 takes groups by the sum of their best two, V2 by the best.
local function within_groups(self, scores, low)
  if self.groups == 1 then return scores end
  local shape = { unpack(scores.shape) }
  local n = shape[#shape]
  shape[#shape], shape[#shape + 1] = self.groups, n / self.groups
  local by_group = scores:reshape(shape)
  local best = self.sigmoid and op.topk(by_group, { k = 2 }):sum { axis = -1 } or by_group:max { axis = -1 }
  local _, index = op.topk(best, { k = self.kept })
  local chosen = op.one_hot(index, { classes = self.groups }):sum { axis = -2 }:ne(0):unsqueeze(-1)
  return op.where(chosen, by_group, low):reshape(scores.shape)
end

function Gate:forward(x)
  local wide = x.dtype == "f64" and "f64" or "f32"
  local logits = op.linear(x:cast(wide), self.weight:cast(wide))
  local scores = self.sigmoid and op.sigmoid(logits) or op.softmax(logits)
  local choice = self.sigmoid and scores + self.e_score_correction_bias or scores
  if self.limited then choice = within_groups(self, choice, self.sigmoid and -math.huge or 0) end
  local _, index = op.topk(choice, { k = self.k })
  local weights = op.gather(scores, index)
  if self.normed then weights = weights / (weights:sum { axis = -1, keepdims = true } + 1e-20) end
  return weights * self.factor, index
end

local Mixture = blocks.define "DeepseekMixture"

function Mixture:init(c)
  self.gate = Gate(c)
  self.experts = experts.Experts { experts = c.n_routed_experts, width = c.hidden_size, hidden = c.moe_intermediate_size,
    activation = c.hidden_act, stacked = c.experts_stacked }
  if c.n_shared_experts then
    self.shared_experts = blocks.GatedMLP(c.hidden_size, c.moe_intermediate_size * c.n_shared_experts, c.hidden_act)
  end
end

function Mixture:forward(x)
  local y = self.experts(x, self.gate(x))
  return self.shared_experts and y + self.shared_experts(x) or y
end

return {
  architectures = { DeepseekV2ForCausalLM = "logits", DeepseekV2Model = "hidden", DeepseekV3ForCausalLM = "logits", DeepseekV3Model = "hidden" },
  needs = { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "n_routed_experts", "num_experts_per_tok",
    "moe_intermediate_size", unpack(decoder.NEEDS) },
  defaults = { hidden_act = "silu", rms_norm_eps = 1e-6, max_position_embeddings = 4096, first_k_dense_replace = 0, moe_layer_freq = 1,
    routed_scaling_factor = 1, topk_method = "greedy", attention_bias = false },
  prefix = "model",
  -- The further layers of V3 guess several tokens and are no part of the model.
  ignored = { "rotary_emb%.inv_freq$", "%.eh_proj%.weight$", "%.enorm%.weight$", "%.hnorm%.weight$", "%.shared_head%." },
  check = function(c)
    local wrong = {}
    if c.quantization_config then wrong[1] = "quantised weights (quantization_config) are not read" end
    if c.model_type == "deepseek_v2" and c.topk_method ~= "greedy" and c.topk_method ~= "group_limited_greedy" then
      wrong[#wrong + 1] = ("topk_method '%s' is unknown: greedy, group_limited_greedy"):format(tostring(c.topk_method))
    end
    return wrong
  end,
  build = decoder.build("model", function(c)
    c.cache_size = { 1, c.kv_lora_rank, c.qk_rope_head_dim }
    local function norm() return blocks.RMSNorm(c.hidden_size, c.rms_norm_eps) end
    local rope = Rope.new(c, c.qk_rope_head_dim, { interleaved = c.rope_interleave ~= false })
    return decoder.Model(c, { norm = norm,
      layer = function(index)
        local sparse = index - 1 >= c.first_k_dense_replace and (index - 1) % c.moe_layer_freq == 0
        local mlp = sparse and Mixture(c) or blocks.GatedMLP(c.hidden_size, c.intermediate_size, c.hidden_act, c.mlp_bias)
        return decoder.Layer(Heads(c, rope, index), mlp, norm)
      end })
  end),
}
