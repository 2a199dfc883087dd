-- hf.load: files in shards, dtypes, what a plan says, and that all that is wrong is told at once; the model is a module.
local tessera = require "tessera"
local op, graph, optim, hf = tessera.op, tessera.graph, tessera.optim, tessera.hf
local vectors = dofile "tests/hf/_vectors.lua"
local same, folder = vectors.same, vectors.folder
local json = tessera.core.open_json()

local v = vectors.read "llama"
local ids = v.ins.ids
local path = folder(v.config, v.tensors)
local m = hf.load(path)
local y = m(ids)
m.config.hidden_size --> 32
m.class --> Text
m:num_parameters() --> 19424
m.plan.fits --> true
m.plan.weights --> 77696
m.plan.mapped > 0 --> true
same(m { ids = ids }, y) --> true
same(m(ids["0"]), y["0:1"]) --> true
m(ids, { hidden = true }).shape --> {2, 11, 32}
m(ids:cast "f32") --! ids are f32[2,11], and have to be integers
m { tokens = ids } --! unknown option 'tokens'
m {} --! ids is not given
m(ids, { mask = op.ones { 2, 3 } }) --! mask is f32[2,3], and has to be bool[2,11]
m(ids, { cache = m:cache { length = 16 } }) --! the cache is for a batch of 1, not 2
m(ids["0:1"], { cache = m:cache { length = 8 } }) --! the cache has room for 8 positions: 0 are there and 11 come
tostring(m:cache { length = 16 }) --> cache of 2 layers, 0 of 16 positions, batch 1, 4.00 KiB

-- Positions that are given, and those that are counted.
same(m(ids, { positions = op.arange(11) }), y) --> true

-- It is a module: its state is that of the file; it trains; it is captured.
local state = m:state_dict()
same(state["model.layers.1.mlp.up_proj.weight"], v.tensors["model.layers.1.mlp.up_proj.weight"]) --> true
local captured = graph.module(function(t) return m(t) end)
same(captured(ids), y) --> true
local step = graph.training_step(m, function(model, t)
  return op.cross_entropy(model(t:narrow(1, 0, 10)):reshape(-1, 61), t:narrow(1, 1, 10):reshape(-1))
end, optim.AdamW(m:parameters(), { lr = 1e-2 }))
local first = step(ids):item()
for _ = 1, 5 do step(ids) end
step(ids):item() < first --> true
same(hf.load(path)(ids), y) --> true

-- Other dtypes.
hf.load(path, { dtype = "bf16" })(ids).dtype --> bf16
hf.load(path, { dtype = "f64" })(ids).dtype --> f64
hf.load(path, { dtype = "f8" }) --! must be one of 'f64', 'f32', 'bf16', 'f16', not 'f8'
hf.load(path, { dtypes = "f64" }) --! did you mean 'dtype'?
hf.load(path, { memory = "20 KiB" }) --! it does not fit
hf.load(path, { memory = "20 apples" }) --! memory is bytes, or a text as "8 GiB"
local plan = hf.plan(path, { batch = 4, length = 1024, memory = "1 MiB" })
plan.fits --> false
plan.cache --> 1048576
#plan.would > 0 --> true
tostring(plan):match "^llama: 19424 parameters" ~= nil --> true
tostring(plan):match "it does not fit" ~= nil --> true
-- What pages take is what hf.batch has when its texts are as long as they may be.
for _, dtype in ipairs { "f32", "fp8_e4m3" } do
  local o = { batch = 3, length = 96, page = 16, chunk = 8, cache_dtype = dtype }
  local b = hf.batch(m, { max_batch = 3, length = 96, page = 16, chunk = 8, cache_dtype = dtype })
  for i = 1, 3 do b:submit { ids = { i }, max_new_tokens = 95, eos = false } end
  b:run()
  assert(hf.plan(path, o).cache == b:statistics().nbytes)
  o.pages = 5
  assert(hf.plan(path, o).cache == hf.batch(m, { max_batch = 3, length = 96, page = 16, chunk = 8, pages = 5, cache_dtype = dtype }):statistics().nbytes)
end
hf.plan(path, { batch = 4, length = 1024, cache_dtype = "fp8_e4m3" }).cache --> 393216
tostring(hf.plan(path, { pages = 1000, memory = "400 KiB" })):match "would fit: {pages = %d+}" ~= nil --> true
hf.load(path, { pages = 3 }) --! option 'pages'

-- In shards.
local function write(name, text)
  local f = assert(io.open(path .. "/" .. name, "w"))
  f:write(text)
  f:close()
end
local parts, map = { {}, {} }, {}
for name, t in pairs(v.tensors) do
  local i = name:find "layers%.1" and 2 or 1
  parts[i][name], map[name] = t, ("model-%d.safetensors"):format(i)
end
os.remove(path .. "/model.safetensors")
hf.load(path) --! there is neither model.safetensors nor model.safetensors.index.json
for i, part in ipairs(parts) do tessera.save(("%s/model-%d.safetensors"):format(path, i), part) end
write("model.safetensors.index.json", json.encode { weight_map = map })
same(hf.load(path)(ids), y) --> true
map["no.such"] = "model-2.safetensors"
write("model.safetensors.index.json", json.encode { weight_map = map })
hf.load(path) --! shards lack tensors of the index: no.such (in model-2.safetensors)
map["no.such"] = "model-3.safetensors"
write("model.safetensors.index.json", json.encode { weight_map = map })
hf.load(path) --! 1 of 3 shards are missing: model-3.safetensors
map["no.such"] = "../model-3.safetensors"
write("model.safetensors.index.json", json.encode { weight_map = map })
hf.load(path) --! '../model-3.safetensors' is no name of a file beside it
write("model.safetensors.index.json", "[]")
hf.load(path) --! weight_map is missing
vectors.remove(path)
hf.load(path) --! there is no such file or folder
hf.load(3) --! a path is needed, not a number

-- What is wrong with a configuration or its tensors.
local function loaded(config, tensors, options)
  local at = folder(config, tensors)
  local ok, result = pcall(hf.load, at, options)
  vectors.remove(at)
  if not ok then error((result:gsub(at:gsub("%p", "%%%0"), "FOLDER")), 0) end
  return result
end
local function with(t, changes)
  local all = {}
  for k, x in pairs(t) do all[k] = x end
  for k, x in pairs(changes) do all[k] = x or nil end
  return all
end

loaded(with(v.config, { model_type = "lama" }), v.tensors) --! there is no family 'lama', did you mean 'llama'?
loaded(with(v.config, { model_type = false }), v.tensors) --! the configuration has no model_type
loaded(with(v.config, { architectures = { "LlamaForCausalML" } }), v.tensors) --! did you mean 'LlamaForCausalLM'?
loaded(with(v.config, { vocab_size = false, hidden_size = false }), v.tensors) --! the configuration lacks vocab_size, hidden_size
loaded(with(v.config, { hidden_size = "wide" }), v.tensors) --! hidden_size is 'wide', not a whole number
loaded(with(v.config, { hidden_act = "gleu" }), v.tensors) --! the activation 'gleu' is unknown, did you mean 'gelu'?
loaded(with(v.config, { rope_parameters = { rope_type = "spiral" } }), v.tensors) --! rope_type 'spiral' is unknown
loaded(with(v.config, { rope_parameters = { rope_type = "llama3" } }), v.tensors) --! rope of type 'llama3' has no factor

local half = with(v.tensors, { ["model.norm.weight"] = false, ["model.layers.0.mlp.up_proj.weight"] = false,
  ["model.layers.1.mlp.up_proj.weight"] = false, ["model.layers.0.mlp.gate_proj.weight"] = op.ones { 47, 32 }, ["model.layers.0.extra"] = op.ones { 3 }, ["model.layers.1.extra"] = op.ones { 3 } })
print((select(2, pcall(loaded, v.config, half)):gsub("^.-FOLDER", "FOLDER"))) --> FOLDER (llama): tensors are missing:
-->     model.layers.0.mlp.up_proj.weight and 1 more of the kind
-->     model.norm.weight
-->   tensors have other shapes:
-->     model.layers.0.mlp.gate_proj.weight is [47,32], and [48,32] is wanted
-->   tensors are unexpected:
-->     model.layers.0.extra and 1 more of the kind
local more = with(v.tensors, { ["model.layers.0.extra"] = op.ones { 3 } })
loaded(v.config, more) --! {strict = false} leaves unexpected ones out
loaded(v.config, more, { strict = false }).unexpected --> {model.layers.0.extra}

-- Files of a body alone, without the family's prefix, for a model with a head of tied weights.
local tied = vectors.read "qwen3"
local bare = {}
for name, t in pairs(tied.tensors) do bare[name:gsub("^model%.", "")] = t end
same(loaded(tied.config, bare)(ids), loaded(tied.config, tied.tensors)(ids)) --> true

-- GPT-OSS's experts in MXFP4: the numbers that the format says, of which the blocks are kept.
local oss = vectors.read "gpt_oss"
local blocks, whole = {}, {}
for name, t in pairs(oss.tensors) do
  if name:find "experts%.%a+_?%a*_proj$" then
    local q = t:T():contiguous():cast "mxfp4"
    local e, rows, n = unpack(q.shape)
    local bytes = q:bitcast("u8"):reshape(e, rows, n / 32, 17)
    blocks[name .. "_scales"], blocks[name .. "_blocks"] = bytes:select(-1, 0):clone(), bytes:narrow(-1, 1, 16):clone()
    whole[name] = q:cast("f32"):T():clone()
  else
    blocks[name], whole[name] = t, t
  end
end
local packed = loaded(with(oss.config, { quantization_config = { quant_method = "mxfp4" } }), blocks)
packed.model.layers[1].mlp.experts.gate_up_proj_blocks.dtype --> u8
vectors.distance(packed(ids), loaded(oss.config, whole)(ids)) < 1e-6 --> true
loaded(with(oss.config, { quantization_config = { quant_method = "gptq" } }), blocks) --! weights quantised by 'gptq' are not read, mxfp4 is
