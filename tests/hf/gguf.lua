-- GGUF files of the small models, with the names that the Python package gguf has for their tensors (vectors/gguf_names.json) and
-- what its writers change: the numbers are those of safetensors.
local tessera = require "tessera"
local op, hf = tessera.op, tessera.hf
local vectors = dofile "tests/hf/_vectors.lua"
local all = require("tessera.io").load_json "tests/hf/vectors/gguf_names.json"

-- ---- a writer
local function u(v, n)
  local out = {}
  for i = 1, n do
    out[i] = string.char(v % 256)
    v = math.floor(v / 256)
  end
  return table.concat(out)
end
local function text(s) return u(#s, 8) .. s end
local function value(v)
  if type(v) == "string" then return u(8, 4) .. text(v) end
  if type(v) == "boolean" then return u(7, 4) .. u(v and 1 or 0, 1) end
  if v % 1 == 0 then return u(4, 4) .. u(v, 4) end
  return u(12, 4) .. tessera.tensor(v, { dtype = "f64" }):bytes()
end
local KIND = { f32 = 0, q8_0 = 8, q4_0 = 2, mxfp4 = 39 }

local function write(path, meta, tensors)
  local head, list, data, at, n = {}, {}, {}, 0, 0
  for k, v in pairs(meta) do
    head[#head + 1] = text(k) .. value(v)
    n = n + 1
  end
  local count = 0
  for name, t in pairs(tensors) do
    local shape = {}
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

local function metadata(c, arch)
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
local function converted(family, v, blocks)
  local rows, out, stacks = all[family].names, {}, {}
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

local path = os.tmpname() .. ".gguf"

-- What GGUF does not say, and its readers take to be so: all positions are seen in qwen2, every sixth layer of gemma3 sees them, scores
-- of gemma are scaled by the width of heads.
local assumed = {}
function assumed.qwen2(c) c.layer_types, c.use_sliding_window = nil, false end
function assumed.gemma2(c) c.query_pre_attn_scalar = c.head_dim end
function assumed.t5(c) c.relative_attention_max_distance = nil end
function assumed.t5_gated(c) c.scale_decoder_outputs = nil end
function assumed.gemma3(c) c.layer_types, c.query_pre_attn_scalar = nil, c.head_dim end

local tried = 0
for family, row in pairs(all) do
  local v = vectors.read(family)
  local want = v.outs.logits or v.outs.hidden
  if assumed[family] then
    assumed[family](v.config)
    local at = vectors.folder(v.config, v.tensors)
    want = hf.load(at)(v.ins)
    vectors.remove(at)
  end
  write(path, metadata(v.config, row.architecture), converted(family, v))
  local m = hf.load(path)
  local d = vectors.distance((m(v.ins)), want)
  assert(d < 1e-5, ("%s: %g"):format(family, d))
  tried = tried + 1
end
tried --> 20

-- Blocks stay blocks, of tables, of matrices and of experts; the numbers are those of their casts to f32.
for _, family in ipairs { "llama", "qwen3_moe" } do
  local v = vectors.read(family)
  local function quantized(name, t)
    if t.ndim == 1 or t.shape[t.ndim] % 32 ~= 0 or name:find "gate_inp" then return t end
    return t:cast(name:find "embd" and "q8_0" or "q4_0")
  end
  local function plain(name, t)
    local q = quantized(name, t)
    return q.dtype ~= "f32" and q:cast "f32" or q
  end
  local meta = metadata(v.config, all[family].architecture)
  write(path, meta, converted(family, v, quantized))
  local m = hf.load(path)
  assert(m.model.embed_tokens.weight.dtype == "q8_0" and m.model.layers[1].self_attn.q_proj.weight.dtype == "q4_0")
  local y = m(v.ins.ids)
  assert(#m:parameters() > 0)
  local captured = tessera.graph.module(function(t) return m(t) end)(v.ins.ids)
  local wide = hf.load(path, { dtype = "f32" })(v.ins.ids)
  write(path, meta, converted(family, v, plain))
  local known = hf.load(path)(v.ins.ids)
  assert(vectors.same(y, known), family .. " in blocks")
  assert(vectors.same(wide, known), family .. " of blocks in f32")
  assert(vectors.distance(captured, known) < 1e-6, family .. " captured")
end

-- MXFP4, whose codes stand in another order there: experts as a file of tensors has them; on a device codes and scales apart.
local function theirs(q) -- a tensor of ours with the bytes of a file
  local b = tessera.core.from_bytes(q:bytes(), "u8", { q.numel / 32, 17 })
  local codes = b[":, 1:"]
  local all = op.stack({ codes:bitwise_and(15), codes:shift_right(4) }, { axis = -1 }):reshape(-1, 32)
  local packed = op.concat({ b[":, :1"], all[":, :16"]:bitwise_or(all[":, 16:"]:shift_left(4)) }, { axis = 1 })
  return { dtype = "mxfp4", shape = q.shape, bytes = function() return packed:bytes() end }
end
for _, arch in ipairs { "qwen3moe", "gpt-oss" } do
  local oss, e, d, h = arch == "gpt-oss", 3, 32, 64
  local tensors, wide = {}, {}
  local function add(name, shape, packs)
    local t = vectors.weight(name, shape)
    local q = packs and t:cast "mxfp4"
    tensors[name], wide[name] = q and theirs(q) or t, q and q:cast "f32" or t
  end
  add("token_embd.weight", { 61, d })
  add("output_norm.weight", { d })
  for i = 0, 1 do
    local function own(name, shape, packs) add(("blk.%d.%s"):format(i, name), shape, packs) end
    own("attn_norm.weight", { d })
    own(oss and "post_attention_norm.weight" or "ffn_norm.weight", { d })
    for name, n in pairs { q = 64, k = 32, v = 32 } do
      own(("attn_%s.weight"):format(name), { n, d })
      if oss then own(("attn_%s.bias"):format(name), { n }) end
    end
    own("attn_output.weight", { d, 64 }, not oss)
    own("ffn_gate_inp.weight", { e, d })
    if oss then
      own("attn_output.bias", { d })
      own("attn_sinks.weight", { 2 })
      own("ffn_gate_inp.bias", { e })
      for name, n in pairs { gate = h, up = h, down = d } do own(("ffn_%s_exps.bias"):format(name), { e, n }) end
    else
      for _, name in ipairs { "q", "k" } do own(("attn_%s_norm.weight"):format(name), { 32 }) end
    end
    own("ffn_gate_exps.weight", { e, h, d }, true)
    own("ffn_up_exps.weight", { e, h, d }, true)
    own("ffn_down_exps.weight", { e, d, h }, true)
  end
  local meta = { ["general.architecture"] = arch }
  for key, v in pairs { embedding_length = d, block_count = 2, feed_forward_length = h, expert_feed_forward_length = h, expert_count = e,
    expert_used_count = 2, context_length = 64, ["attention.head_count"] = 2, ["attention.head_count_kv"] = 1, ["attention.key_length"] = 32,
    ["attention.layer_norm_rms_epsilon"] = 1e-5, ["rope.freq_base"] = 10000, ["attention.sliding_window"] = oss and 8 or nil } do
    meta[arch .. "." .. key] = v
  end
  local ids = tessera.tensor({ { 5, 17, 60, 3, 9, 42, 7, 2 } }, { dtype = "i64" })
  write(path, meta, wide)
  local known = hf.load(path)(ids)
  write(path, meta, tensors)
  local m = hf.load(path)
  assert(m.model.layers[1].mlp.experts.gate_proj.dtype == "mxfp4" and hf.plan(path).mapped < hf.plan(path).weights)
  assert(vectors.distance(m(ids), known) < 1e-5, arch)
  assert(vectors.distance(hf.load(path, { dtype = "f32" })(ids), known) < 1e-6, arch .. " as numbers")
  local there = hf.load(path, { device = "sim:0" })
  local codes, scales = there.model.layers[2].mlp.experts.down_proj_blocks, there.model.layers[2].mlp.experts.down_proj_scales
  assert(table.concat(codes.shape, " ") == "3 32 2 16" and table.concat(scales.shape, " ") == "3 32 2" and codes.device == "sim:0")
  assert(vectors.distance(there(ids):to "cpu", known) < 1e-5, arch .. " on a device")
  assert(vectors.distance(hf.load(path, { device = "sim:0", dtype = "f32" })(ids):to "cpu", known) < 1e-5, arch .. " there as numbers")
end

write(path, { ["general.architecture"] = "lama" }, { x = op.ones { 2 } })
hf.load(path) --! there is no family for the architecture 'lama', did you mean 'llama'?
write(path, { ["general.architecture"] = "llama" }, { ["token_embd.weight"] = op.ones { 2, 2 } })
hf.load(path) --! the configuration lacks hidden_size, num_hidden_layers, num_attention_heads, intermediate_size
os.remove(path)
