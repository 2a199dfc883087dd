-- GGUF files of the small models: the numbers are those of safetensors.
local tessera = require "tessera"
local op, hf = tessera.op, tessera.hf
local vectors, files = dofile "tests/hf/_vectors.lua", dofile "tests/hf/_gguf_files.lua"
local all, write, metadata, converted = files.all, files.write, files.metadata, files.converted

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
for _, arch in ipairs { "gptneox", "gemma2", "gemma3" } do -- whose shares of heads are of two of them
  write(path, { ["general.architecture"] = arch, [arch .. ".block_count"] = arch == "gemma3" and 62 or 46 }, { ["token_embd.weight"] = op.ones { 2, 2 } })
  hf.load(path) --! the configuration lacks hidden_size, num_attention_heads
end
os.remove(path)
