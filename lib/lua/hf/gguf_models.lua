-- GGUF's metadata and names of tensors as the configurations and names of safetensors that families (families.lua) read. What
-- its writers change is said here: heads of llama turn neighbours, gemma's norms have their 1 added, experts stand in one
-- tensor, matrices of GPT-2 lie as all others.

local core = require "tessera.core"
local models = {}

local shown = core.shown

-- Keys of metadata behind the architecture's name, by our names.
local KEYS = {
  hidden_size = "embedding_length", num_hidden_layers = "block_count", intermediate_size = "feed_forward_length",
  num_attention_heads = "attention.head_count", num_key_value_heads = "attention.head_count_kv", head_dim = "attention.key_length",
  rms_norm_eps = "attention.layer_norm_rms_epsilon", max_position_embeddings = "context_length", rope_theta = "rope.freq_base",
  sliding_window = "attention.sliding_window", num_experts = "expert_count", num_experts_per_tok = "expert_used_count",
  moe_intermediate_size = "expert_feed_forward_length", shared_expert_intermediate_size = "expert_shared_feed_forward_length",
  attn_logit_softcapping = "attn_logit_softcapping", final_logit_softcapping = "final_logit_softcapping",
  original_max_position_embeddings = "rope.scaling.original_context_length",
}

local OUTER = { ["token_embd.weight"] = "model.embed_tokens.weight", ["output_norm.weight"] = "model.norm.weight",
  ["output_norm.bias"] = "model.norm.bias", ["output.weight"] = "lm_head.weight" }
local INNER = {
  ["attn_norm"] = "input_layernorm", ["ffn_norm"] = "post_attention_layernorm", ["attn_q"] = "self_attn.q_proj", ["attn_k"] = "self_attn.k_proj",
  ["attn_v"] = "self_attn.v_proj", ["attn_output"] = "self_attn.o_proj", ["attn_q_norm"] = "self_attn.q_norm", ["attn_k_norm"] = "self_attn.k_norm",
  ["ffn_gate"] = "mlp.gate_proj", ["ffn_up"] = "mlp.up_proj", ["ffn_down"] = "mlp.down_proj", ["ffn_gate_inp"] = "mlp.gate",
  ["ffn_gate_exps"] = "mlp.experts.gate_proj", ["ffn_up_exps"] = "mlp.experts.up_proj", ["ffn_down_exps"] = "mlp.experts.down_proj",
  ["ffn_gate_shexp"] = "mlp.shared_expert.gate_proj", ["ffn_up_shexp"] = "mlp.shared_expert.up_proj",
  ["ffn_down_shexp"] = "mlp.shared_expert.down_proj", ["ffn_gate_inp_shexp"] = "mlp.shared_expert_gate",
}
local SANDWICH = { ["ffn_norm"] = "pre_feedforward_layernorm", ["post_attention_norm"] = "post_attention_layernorm",
  ["post_ffw_norm"] = "post_feedforward_layernorm" }

-- A head's share of the stream, where the file says both; what it lacks is said later, all at once.
local function of_heads(c) return c.hidden_size and c.num_attention_heads and c.hidden_size / c.num_attention_heads end

-- Other names of an architecture, and what its configuration has beside the keys: more(c, value).
local function layers(text) return function(i) return text .. "." .. i .. "." end end
local ARCHITECTURE = {}

function ARCHITECTURE.llama(c, m)
  c.model_type = m.tensors["blk.0.ffn_gate_inp.weight"] and "mixtral" or c.sliding_window and "mistral" or "llama"
  c.rope_interleaved = true
  if c.model_type ~= "mixtral" then return {} end
  c.num_local_experts = c.num_experts
  return { inner = { ["ffn_gate_inp"] = "block_sparse_moe.gate", ["ffn_gate_exps"] = "block_sparse_moe.experts.w1",
    ["ffn_up_exps"] = "block_sparse_moe.experts.w3", ["ffn_down_exps"] = "block_sparse_moe.experts.w2" } }
end

function ARCHITECTURE.qwen2(c) c.model_type = "qwen2" end
function ARCHITECTURE.qwen3(c) c.model_type = "qwen3" end

function ARCHITECTURE.qwen2moe(c, m)
  c.model_type = "qwen2_moe"
  local gate = m.tensors["blk.0.ffn_gate_exps.weight"]
  c.moe_intermediate_size = c.moe_intermediate_size or gate and gate.shape[2]
  local shared = m.tensors["blk.0.ffn_gate_shexp.weight"]
  c.shared_expert_intermediate_size = shared and shared.shape[1] or nil
end

function ARCHITECTURE.qwen3moe(c) c.model_type, c.norm_topk_prob = "qwen3_moe", true end

function ARCHITECTURE.gemma(c) c.model_type, c.norm_weights_whole = "gemma", true end

-- Scores of the largest model of Gemma 2 and of Gemma 3 are scaled by the width of a head's share of the stream.
local function gemma(kind, largest)
  return function(c)
    c.model_type, c.norm_weights_whole = kind, true
    c.query_pre_attn_scalar = c.num_hidden_layers == largest and of_heads(c) or c.head_dim
    return { inner = SANDWICH }
  end
end
ARCHITECTURE.gemma2, ARCHITECTURE.gemma3 = gemma("gemma2", 46), gemma("gemma3_text", 62)

function ARCHITECTURE.phi3(c, m)
  c.model_type, c.head_dim = "phi3", nil
  local long, short = m.tensors["rope_factors_long.weight"], m.tensors["rope_factors_short.weight"]
  if long and short then
    c.rope_parameters = { rope_type = "longrope", rope_theta = c.rope_theta, long_factor = long:totable(), short_factor = short:totable(),
      attention_factor = m.number "rope.scaling.attn_factor" }
  end
  return { inner = { ["attn_qkv"] = "self_attn.qkv_proj", ["ffn_up"] = "mlp.gate_up_proj" } }
end

function ARCHITECTURE.olmo2(c)
  c.model_type = "olmo2"
  return { inner = { ["post_attention_norm"] = "post_attention_layernorm", ["post_ffw_norm"] = "post_feedforward_layernorm" } }
end

function ARCHITECTURE.starcoder2(c, m)
  c.model_type, c.norm_epsilon = "starcoder2", m.number "attention.layer_norm_epsilon"
  return { inner = { ["ffn_up"] = "mlp.c_fc", ["ffn_down"] = "mlp.c_proj" } }
end

function ARCHITECTURE.gpt2(c, m)
  c.model_type, c.layer_norm_epsilon, c.linear_turned = "gpt2", m.number "attention.layer_norm_epsilon", true
  c.n_embd, c.n_layer, c.n_head, c.n_positions, c.n_inner = c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.max_position_embeddings,
    c.intermediate_size
  return { layer = layers "transformer.h",
    outer = { ["token_embd.weight"] = "transformer.wte.weight", ["position_embd.weight"] = "transformer.wpe.weight",
      ["output_norm.weight"] = "transformer.ln_f.weight", ["output_norm.bias"] = "transformer.ln_f.bias" },
    inner = { ["attn_norm"] = "ln_1", ["ffn_norm"] = "ln_2", ["attn_qkv"] = "attn.c_attn", ["attn_output"] = "attn.c_proj", ["ffn_up"] = "mlp.c_fc",
      ["ffn_down"] = "mlp.c_proj" } }
end

function ARCHITECTURE.gptneox(c, m)
  c.model_type, c.layer_norm_eps, c.qkv_whole = "gpt_neox", m.number "attention.layer_norm_epsilon", true
  c.use_parallel_residual = m.meta["gptneox.use_parallel_residual"]
  c.partial_rotary_factor = (m.number "rope.dimension_count" or 0) / (of_heads(c) or 1)
  return { layer = layers "gpt_neox.layers",
    outer = { ["token_embd.weight"] = "gpt_neox.embed_in.weight", ["output_norm.weight"] = "gpt_neox.final_layer_norm.weight",
      ["output_norm.bias"] = "gpt_neox.final_layer_norm.bias", ["output.weight"] = "embed_out.weight" },
    inner = { ["attn_qkv"] = "attention.query_key_value", ["attn_output"] = "attention.dense", ["ffn_up"] = "mlp.dense_h_to_4h",
      ["ffn_down"] = "mlp.dense_4h_to_h" } }
end

ARCHITECTURE["gpt-oss"] = function(c)
  c.model_type, c.num_local_experts, c.intermediate_size = "gpt_oss", c.num_experts, c.moe_intermediate_size or c.intermediate_size
  return { inner = { ["post_attention_norm"] = "post_attention_layernorm", ["ffn_gate_inp"] = "mlp.router", ["attn_sinks"] = "self_attn.sinks" } }
end

function ARCHITECTURE.bert(c, m)
  c.model_type, c.layer_norm_eps, c.architectures = "bert", m.number "attention.layer_norm_epsilon", { "BertModel" }
  local types = m.tensors["token_types.weight"]
  c.type_vocab_size = types and types.shape[1] or nil
  local output = "attention.output."
  return { layer = layers "encoder.layer",
    outer = { ["token_embd.weight"] = "embeddings.word_embeddings.weight", ["position_embd.weight"] = "embeddings.position_embeddings.weight",
      ["token_types.weight"] = "embeddings.token_type_embeddings.weight", ["token_embd_norm.weight"] = "embeddings.LayerNorm.weight",
      ["token_embd_norm.bias"] = "embeddings.LayerNorm.bias" },
    inner = { ["attn_q"] = "attention.self.query", ["attn_k"] = "attention.self.key", ["attn_v"] = "attention.self.value",
      ["attn_output"] = output .. "dense", ["attn_output_norm"] = output .. "LayerNorm", ["ffn_up"] = "intermediate.dense",
      ["ffn_down"] = "output.dense", ["layer_output_norm"] = "output.LayerNorm" } }
end

-- Attention by latents is written for a cache of latents: as many keys and values as one head has, and the matrix that makes heads
-- of latents in two parts, of which that of keys is turned. Older files have it whole.
function ARCHITECTURE.deepseek2(c, m)
  local turns, apart = m.number "rope.dimension_count", m.number "attention.key_length_mla"
  local key = apart or c.head_dim
  c.model_type = m.number "expert_gating_func" == 2 and "deepseek_v3" or "deepseek_v2"
  c.head_dim, c.rope_interleave = nil, true
  c.q_lora_rank, c.kv_lora_rank = m.number "attention.q_lora_rank", m.number "attention.kv_lora_rank"
  c.qk_rope_head_dim, c.qk_nope_head_dim = turns, key and turns and key - turns
  c.v_head_dim = apart and m.number "attention.value_length_mla" or m.number "attention.value_length"
  c.first_k_dense_replace, c.n_routed_experts, c.n_shared_experts = m.number "leading_dense_block_count", c.num_experts, m.number "expert_shared_count"
  if c.n_shared_experts == 0 then c.n_shared_experts = nil end
  if c.q_lora_rank == 0 then c.q_lora_rank = nil end
  c.routed_scaling_factor, c.norm_topk_prob = m.number "expert_weights_scale", m.meta[m.name .. ".expert_weights_norm"] or false
  c.n_group, c.topk_group = m.number "expert_group_count", m.number "expert_group_used_count"
  if (c.n_group or 1) > 1 then c.topk_method = "group_limited_greedy" end
  c.latent_apart = m.tensors["blk.0.attn_k_b.weight"] ~= nil
  return { inner = { ["attn_q_a"] = "self_attn.q_a_proj", ["attn_q_b"] = "self_attn.q_b_proj", ["attn_q_a_norm"] = "self_attn.q_a_layernorm",
    ["attn_kv_a_mqa"] = "self_attn.kv_a_proj_with_mqa", ["attn_kv_a_norm"] = "self_attn.kv_a_layernorm", ["attn_kv_b"] = "self_attn.kv_b_proj",
    ["attn_k_b"] = "self_attn.kv_b_proj.k_b", ["attn_v_b"] = "self_attn.kv_b_proj.v_b", ["exp_probs_b"] = "mlp.gate.e_score_correction_bias",
    ["ffn_gate_shexp"] = "mlp.shared_experts.gate_proj", ["ffn_up_shexp"] = "mlp.shared_experts.up_proj",
    ["ffn_down_shexp"] = "mlp.shared_experts.down_proj" } }
end

-- Of T5, whose layers stand in two stacks. Biases by distance of attention to the encoder's text are in some files and nowhere read. How far
-- distances are told apart, and that logits of tied words are scaled, files do not say.
local T5_OUTER = { ["token_embd.weight"] = "shared.weight", ["output.weight"] = "lm_head.weight",
  ["enc.output_norm.weight"] = "encoder.final_layer_norm.weight", ["dec.output_norm.weight"] = "decoder.final_layer_norm.weight" }
local T5_INNER = { ["attn_rel_b"] = "0.SelfAttention.relative_attention_bias", ["attn_norm"] = "0.layer_norm", ["cross_attn_norm"] = "1.layer_norm",
  ["cross_attn_rel_b"] = "1.EncDecAttention.relative_attention_bias" }
for _, name in ipairs { "q", "k", "v", "o" } do
  T5_INNER["attn_" .. name], T5_INNER["cross_attn_" .. name] = "0.SelfAttention." .. name, "1.EncDecAttention." .. name
end

local function t5(encoder_alone)
  return function(c, m)
    local gated = m.tensors["enc.blk.0.ffn_gate.weight"] ~= nil
    c.model_type, c.architectures = "t5", { encoder_alone and "T5EncoderModel" or "T5ForConditionalGeneration" }
    c.d_model, c.d_ff, c.d_kv, c.num_heads, c.num_layers = c.hidden_size, c.intermediate_size, c.head_dim, c.num_attention_heads, c.num_hidden_layers
    c.num_decoder_layers = m.number "decoder_block_count"
    c.layer_norm_epsilon = c.rms_norm_eps or m.number "attention.layer_norm_epsilon"
    c.relative_attention_num_buckets = m.number "attention.relative_buckets_count"
    c.feed_forward_proj = gated and "gated-gelu" or "relu"
    c.pad_token_id, c.decoder_start_token_id = m.meta["tokenizer.ggml.padding_token_id"], m.number "decoder_start_token_id"
    local feed = { ["ffn_norm"] = "layer_norm", ["ffn_gate"] = "DenseReluDense.wi_0", ["ffn_up"] = gated and "DenseReluDense.wi_1" or "DenseReluDense.wi",
      ["ffn_down"] = "DenseReluDense.wo" }
    return { name = function(name)
      local stack, i, part, tail = name:match "^(%a+)%.blk%.(%d+)%.([%w_]+)(%.%a+)$"
      if stack ~= "enc" and stack ~= "dec" then return T5_OUTER[name] end
      local own = T5_INNER[part] or feed[part] and (stack == "enc" and "1." or "2.") .. feed[part]
      return own and ("%scoder.block.%s.layer.%s%s"):format(stack == "enc" and "en" or "de", i, own, tail)
    end }
  end
end
ARCHITECTURE.t5, ARCHITECTURE.t5encoder = t5(false), t5(true)

--- The architectures whose files are read.
function models.names()
  local list = {}
  for name in pairs(ARCHITECTURE) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- ---- the source

-- Rotary positions beside theta.
local function set_rope(c, m)
  local kind = m.meta[m.name .. ".rope.scaling.type"]
  if kind == "linear" or kind == "yarn" then
    c.rope_parameters = { rope_type = kind, rope_theta = c.rope_theta, factor = m.number "rope.scaling.factor" or 1,
      original_max_position_embeddings = c.original_max_position_embeddings, truncate = m.name ~= "gpt-oss",
      beta_fast = m.number "rope.scaling.yarn_beta_fast", beta_slow = m.number "rope.scaling.yarn_beta_slow" }
  end
  local scaled = kind == "yarn" and m.name == "deepseek2" and m.number "rope.scaling.yarn_log_multiplier"
  if scaled then -- a tenth of the number, in f32
    local all = tonumber(("%.6g"):format(scaled * 10))
    c.rope_parameters.mscale, c.rope_parameters.mscale_all_dim = all, all
  end
  if c.model_type == "gemma3_text" and c.rope_parameters then
    c.rope_parameters = { full_attention = c.rope_parameters, sliding_attention = { rope_type = "default", rope_theta = 10000 } }
  end
  local factors = m.tensors["rope_freqs.weight"]
  if factors then c.rope_factors = factors:totable() end
end

local NO_WEIGHT = { rope_freqs = true, rope_factors_long = true, rope_factors_short = true }

local function renamed(tensors, how)
  local named = {}
  local layer, inner, outer = how.layer or layers "model.layers", how.inner or {}, how.outer or {}
  for name, t in pairs(tensors) do
    local i, part, tail = name:match "^blk%.(%d+)%.([%w_]+)%.?(%a*)$"
    local own = i and (inner[part] or INNER[part])
    if own then
      named[layer(i) .. own .. ((own:find "sinks$" or own:find "_bias$" or tail == "") and "" or "." .. tail)] = t
    elseif how.name and how.name(name) then
      named[how.name(name)] = t
    elseif not NO_WEIGHT[name:match "^[%w_]+"] then
      named[outer[name] or OUTER[name] or name] = t
    end
  end
  return named
end

--- What files.lua gives of a folder, of a GGUF file.
function models.source(path, tensors, meta)
  local name = meta["general.architecture"]
  local f = type(name) == "string" and ARCHITECTURE[name]
  if not f then
    local guess = type(name) == "string" and core.suggest(name, models.names())
    core.fail(("%s: there is no family for the architecture '%s'%s\n  hint: of GGUF are read %s"):format(shown(path), shown(tostring(name)),
      guess and (", did you mean '%s'?"):format(guess) or "", table.concat(models.names(), ", ")))
  end
  local m = { name = name, meta = meta, tensors = tensors }
  function m.number(key)
    local v = meta[name .. "." .. key]
    return type(v) == "number" and v or nil
  end
  local c, words = { experts_stacked = true }, tensors["token_embd.weight"]
  for ours, key in pairs(KEYS) do c[ours] = m.number(key) end
  c.vocab_size = words and words.shape[1]
  c.tie_word_embeddings = tensors["output.weight"] == nil
  c.bos_token_id, c.eos_token_id = meta["tokenizer.ggml.bos_token_id"], meta["tokenizer.ggml.eos_token_id"]
  local how = f(c, m) or {}
  set_rope(c, m)
  return { path = path, kind = "gguf", config = c, tensors = renamed(tensors, how), metadata = meta }
end

return models
