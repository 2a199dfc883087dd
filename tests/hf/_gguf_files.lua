-- GGUF files of the small models, with the names that the Python package gguf has for their tensors (vectors/gguf_names.json) and what
-- its writers change.
local tessera = require "tessera"
local op = tessera.op
local files = {}
files.all = require("tessera.io").load_json "tests/hf/vectors/gguf_names.json"

-- ---- a writer
local u = require("tessera.little_endian").bytes
local function text(s) return u(#s, 8) .. s end
local function value(v)
  if type(v) == "string" then return u(8, 4) .. text(v) end
  if type(v) == "boolean" then return u(7, 4) .. u(v and 1 or 0, 1) end
  if v % 1 == 0 then return u(4, 4) .. u(v, 4) end
  return u(12, 4) .. tessera.tensor(v, { dtype = "f64" }):bytes()
end
local KIND = { f32 = 0, q8_0 = 8, q4_0 = 2, mxfp4 = 39 }

local function sorted(t) -- so that a file is the same in each run
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

function files.write(path, meta, tensors)
  local head, list, data, at, n = {}, {}, {}, 0, 0
  for _, k in ipairs(sorted(meta)) do
    head[#head + 1] = text(k) .. value(meta[k])
    n = n + 1
  end
  local count = 0
  for _, name in ipairs(sorted(tensors)) do
    local t, shape = tensors[name], {}
    for i = #t.shape, 1, -1 do shape[#shape + 1] = u(t.shape[i], 8) end
    list[#list + 1] = text(name) .. u(#t.shape, 4) .. table.concat(shape) .. u(KIND[t.dtype], 4) .. u(at, 8)
    local bytes = t:bytes()
    bytes = bytes .. ("\0"):rep(-#bytes % 32)
    data[#data + 1] = bytes
    at, count = at + #bytes, count + 1
  end
  local all_ = "GGUF" .. u(3, 4) .. u(count, 8) .. u(n, 8) .. table.concat(head) .. table.concat(list)
  local f = assert(io.open(path, "wb"))
  f:write(all_, ("\0"):rep(-#all_ % 32), table.concat(data))
  f:close()
end

-- ---- what writers change
local function turned(w, heads) -- halves of heads as neighbours
  local d = w.shape[1] / heads
  return w:reshape(heads, 2, d / 2, w.shape[2]):permute(0, 2, 1, 3):reshape(w.shape)
end
local change = {}
function change.llama(name, w, c)
  if name:find "q_proj" then return turned(w, c.num_attention_heads) end
  return name:find "k_proj" and turned(w, c.num_key_value_heads) or w
end
change.mistral, change.mixtral = change.llama, change.llama
function change.gemma(name, w) return name:find "norm%.weight$" and w + 1 or w end
change.gemma2, change.gemma3 = change.gemma, change.gemma
function change.gpt2(name, w) return name:find "%.c_%w+%.weight$" and w:T():contiguous() or w end
function change.gpt_neox(name, w, c)
  if not name:find "query_key_value" then return w end
  local h = c.num_attention_heads
  local d = c.hidden_size / h
  if w.ndim == 1 then return w:reshape(h, 3, d):permute(1, 0, 2):reshape(w.shape) end
  return w:reshape(h, 3, d, w.shape[2]):permute(1, 0, 2, 3):reshape(w.shape)
end

local KEYS = { hidden_size = "embedding_length", n_embd = "embedding_length", num_hidden_layers = "block_count", n_layer = "block_count",
  intermediate_size = "feed_forward_length", num_attention_heads = "attention.head_count", n_head = "attention.head_count",
  num_key_value_heads = "attention.head_count_kv", head_dim = "attention.key_length", rms_norm_eps = "attention.layer_norm_rms_epsilon",
  layer_norm_epsilon = "attention.layer_norm_epsilon", norm_epsilon = "attention.layer_norm_epsilon", layer_norm_eps = "attention.layer_norm_epsilon",
  max_position_embeddings = "context_length", n_positions = "context_length", sliding_window = "attention.sliding_window",
  num_experts_per_tok = "expert_used_count", num_local_experts = "expert_count", num_experts = "expert_count",
  moe_intermediate_size = "expert_feed_forward_length", attn_logit_softcapping = "attn_logit_softcapping",
  final_logit_softcapping = "final_logit_softcapping", use_parallel_residual = "use_parallel_residual",
  q_lora_rank = "attention.q_lora_rank", kv_lora_rank = "attention.kv_lora_rank", first_k_dense_replace = "leading_dense_block_count",
  n_routed_experts = "expert_count", n_shared_experts = "expert_shared_count", routed_scaling_factor = "expert_weights_scale",
  norm_topk_prob = "expert_weights_norm", n_group = "expert_group_count", topk_group = "expert_group_used_count",
  qk_rope_head_dim = "rope.dimension_count", d_model = "embedding_length", d_ff = "feed_forward_length", d_kv = "attention.key_length",
  num_heads = "attention.head_count", num_layers = "block_count", num_decoder_layers = "decoder_block_count",
  relative_attention_num_buckets = "attention.relative_buckets_count" }

function files.metadata(c, arch)
  local meta = { ["general.architecture"] = arch }
  for name, key in pairs(KEYS) do
    local v = c[name]
    if type(v) == "number" and v ~= 0 or type(v) == "boolean" then meta[arch .. "." .. key] = v end
  end
  local rope = c.rope_parameters and (c.rope_parameters.full_attention or c.rope_parameters)
  if rope then
    meta[arch .. ".rope.freq_base"] = rope.rope_theta
    if rope.partial_rotary_factor then meta[arch .. ".rope.dimension_count"] = rope.partial_rotary_factor * c.hidden_size / c.num_attention_heads end
    if rope.rope_type == "linear" then
      meta[arch .. ".rope.scaling.type"], meta[arch .. ".rope.scaling.factor"] = "linear", rope.factor
    elseif rope.rope_type == "yarn" then
      meta[arch .. ".rope.scaling.type"], meta[arch .. ".rope.scaling.factor"] = "yarn", rope.factor
      meta[arch .. ".rope.scaling.original_context_length"] = rope.original_max_position_embeddings
      meta[arch .. ".rope.scaling.yarn_log_multiplier"] = tessera.tensor(rope.mscale_all_dim / 10):item() -- in f32
    end
  end
  if c.model_type == "deepseek_v2" then -- as older writers have it
    meta["deepseek2.attention.key_length"], meta["deepseek2.attention.value_length"] = c.qk_nope_head_dim + c.qk_rope_head_dim, c.v_head_dim
  elseif c.model_type == "deepseek_v3" then
    meta["deepseek2.attention.key_length"], meta["deepseek2.attention.value_length"] = c.kv_lora_rank + c.qk_rope_head_dim, c.kv_lora_rank
    meta["deepseek2.attention.key_length_mla"], meta["deepseek2.attention.value_length_mla"] = c.qk_nope_head_dim + c.qk_rope_head_dim, c.v_head_dim
    meta["deepseek2.expert_gating_func"], meta["deepseek2.attention.head_count_kv"] = 2, 1
  end
  return meta
end

-- Tensors with GGUF's names, experts in one. blocks(name, t): what is stored of one.
function files.converted(family, v, blocks)
  local rows, out, stacks = files.all[family].names, {}, {}
  for name, t in pairs(v.tensors) do
    if change[family] then t = change[family](name, t, v.config) end
    local layer, expert = name:match "%.(%d+)%.", name:match "experts%.(%d+)%."
    local key = name:gsub("experts%.%d+%.", "experts."):gsub("%f[%a](layers?)%.%d+%.", "%1.*."):gsub("%f[%a]h%.%d+%.", "h.*.")
    local own = rows[name] or rows[key] and rows[key]:gsub("%*", layer or "")
    if family == "deepseek_v3" and own and own:find "attn_kv_b" then
      local c = v.config
      local both = t:reshape(c.num_attention_heads, c.qk_nope_head_dim + c.v_head_dim, c.kv_lora_rank)
      local keys, values = both:narrow(1, 0, c.qk_nope_head_dim):T():contiguous(), both:narrow(1, c.qk_nope_head_dim, c.v_head_dim):contiguous()
      out[own:gsub("kv_b", "k_b")], out[own:gsub("kv_b", "v_b")] = blocks and blocks(own, keys) or keys, blocks and blocks(own, values) or values
    elseif own and expert then
      stacks[own] = stacks[own] or {}
      stacks[own][expert + 1] = t
    elseif own then
      out[own] = blocks and blocks(own, t) or t
    end
  end
  for name, list in pairs(stacks) do
    local t = op.stack(list, { axis = 0 })
    out[name] = blocks and blocks(name, t) or t
  end
  return out
end

return files
