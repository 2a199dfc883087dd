-- Every example in help runs: both calls of each operator's page with the same inputs, of shapes that the
-- page allows, and what the pages of the library's functions name is there.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op

local function U(...) return op.uniform({ ... }, { low = 0.1, high = 0.9, seed = 1, stream = 0 }) end
local function I(n, ...) return op.randint({ ... }, 0, n, { seed = 2, stream = 0 }) end
local function T(list) return tessera.tensor(list, { dtype = "i64" }) end
local function symmetric(n) return op.eye(n) * n + op.ones { n, n } end
local whole = { x = I(8, 4, 4), y = I(8, 4, 4) }
local vectors = { x = U(4), y = U(4) }
local function conv(...)
  local space = { ... }
  local x, w = { 1, 4 }, { 4, 4 }
  for i, n in ipairs(space) do x[i + 2], w[i + 2] = n, 2 end
  return { x = U(unpack(x)), w = U(unpack(w)) }
end
local image = { x = U(1, 2, 4, 4), g = U(1, 2, 2, 2) }
local into = { x = U(4, 4), index = I(4, 4, 4), src = U(4, 4) }
local chosen = { x = U(4, 4), mask = op.eye(4):gt(0), src = U(4) }
local sliced = { src = U(2, 2), second = { src = U(1, 1) } }
local normed = { weight = U(4), second = { weight = U(4, 4) } }

-- By operator; of names that it lacks, a square matrix. second: what the second call has instead, whose
-- option asks for other shapes.
local inputs = {
  bitwise_not = whole, bitwise_and = whole, bitwise_or = whole, bitwise_xor = whole, shift_left = whole,
  shift_right = whole, where = { cond = U(4, 4):gt(0.5) }, one_hot = { index = I(10, 4) }, reshape = { x = U(6) },
  broadcast_to = { x = U(3) }, expand = { x = U(3) }, transpose = { x = U(2, 3, 4) }, squeeze = { x = U(1, 1, 4) },
  flatten = { x = U(2, 3, 4, 5) }, slice_update = sliced, slice_add = sliced, fold = { x = U(1, 4, 2) },
  real_view = { x = op.complex(U(4), U(4)) }, gather = into, scatter = into, scatter_add = into, take = into,
  index_select = { index = I(4, 3) }, index_add = { index = I(4, 4) }, masked_select = chosen, masked_scatter = chosen,
  masked_fill = chosen, segment_reduce = { ids = I(4, 4) }, topk = { x = U(8, 8) }, embedding = { w = U(8, 4), index = I(8, 3) },
  quantized_matmul = { x = U(4, 32), w = U(4, 32):cast "q8_0" },
  experts_linear = { x = U(4, 32), w = U(2, 4, 32):cast "q8_0", index = I(2, 4, 2) },
  grouped_matmul = { w = U(2, 4, 4), sizes = op.ones({ 2 }, { dtype = "i64" }) * 2 },
  csr_rows = { offsets = T { 0, 1, 2 } }, sddmm = { row = I(4, 4), column = I(4, 4), values = U(4) },
  spmm_coo = { values = U(4), row = I(2, 4), column = I(4, 4) }, spmm_csr = { values = U(4), offsets = T { 0, 4, 4 }, index = I(4, 4) },
  bsmm = { blocks = U(2, 3, 2), offsets = T { 0, 1, 2 }, index = I(2, 2) },
  dequantize = { q = U(4, 4), scale = U(4, 1), zero = U(4, 1), second = { q = U(4, 4), scale = U(2, 2) } },
  scaled_linear = { x = U(3, 4), w = U(4, 4), scale = U(4, 1), zero = U(4, 1), bias = U(4), second = { x = U(3, 4), w = U(4, 4), scale = U(2, 2) } },
  router = { logits = U(4, 8), bias = U(8) }, moe_places = { index = I(2, 4, 2) }, moe_dispatch = { x = U(4, 3), index = I(2, 4, 2) },
  route_rows = { place = I(4, 4), source = I(4, 4), second = { source = I(4, 8) } },
  moe = { x = U(4, 3), weights = U(4, 2), index = I(2, 4, 2), up = U(2, 3, 6), down = U(2, 6, 3), up_bias = U(2, 6), down_bias = U(2, 3),
    second = { down = U(2, 6, 3) } },
  moe_combine = { x = U(4, 3), rows = U(4, 3), place = I(4, 4, 2), source = I(4, 4), weights = U(4, 2) },
  grouped_matmul_weight_grad = { sizes = op.ones({ 2 }, { dtype = "i64" }) * 2 }, einsum = { a = U(2, 3, 4), b = U(2, 4, 5) },
  dot = vectors, outer = vectors, cholesky = { a = symmetric(4) }, conv1d = conv(6), conv2d = conv(6, 6), conv3d = conv(6, 6, 6),
  conv_transpose = conv(6, 6), conv_weight_grad = { x = U(1, 4, 5, 5), g = U(1, 4, 4, 4), second = { g = U(1, 4, 2, 2) } },
  depthwise_conv2d = { x = U(1, 4, 6, 6), w = U(4, 1, 2, 2) }, max_pool = image, max_pool_index = image, avg_pool = image,
  avg_pool_grad = { g = U(1, 2, 1, 1) }, adaptive_avg_pool = image, adaptive_avg_pool_grad = image, interpolate = image,
  interpolate_grad = { g = U(1, 2, 3, 3), second = { g = U(1, 2, 1, 1) } }, batch_norm = { mean = U(4), var = U(4) }, qkv_projection = { x = U(1, 4, 16), w = U(48, 16) },
  layernorm_grad = normed, rmsnorm_grad = normed, cross_entropy_grad = { target = I(4, 4), g = op.ones {} },
  attention_grad = { sink = U(1) }, nll = { target = I(4, 4) }, stft = { x = U(1024) }, istft = { x = op.complex(U(129, 9), U(129, 9)) },
  spectral_filter = { h = U(3) }, divergence = { v = U(2, 4, 4) }, curl = { v = U(2, 4, 4) },
  meshgrid = { a = U(3), b = U(4) }, repeat_counts = { counts = I(3, 16), second = { counts = I(3, 4) } }, kthvalue = { x = U(8, 8) },
  bincount = { x = I(2, 6) }, cross = { x = U(3, 3), y = U(3, 3) }, prelu = { weight = U(4) }, pixel_shuffle = { x = U(1, 4, 2, 2) },
  pixel_unshuffle = image, grid_sample = { x = U(1, 2, 4, 4), grid = U(1, 3, 3, 2) }, im2col = image,
  lstm = { x = U(3, 2, 16), w = U(16, 4), h = U(2, 4), c = U(2, 4) },
  paged_attention = { q = U(2, 4, 1, 8), k = U(2, 3, 4, 8), v = U(2, 3, 4, 8), table = I(3, 2, 2), start = I(4, 2), sink = U(4), k_scale = U(2, 3, 4),
    v_scale = U(2, 3, 4) },
  lstm_grad = { x = U(3, 2, 16), w = U(16, 4), h = U(2, 4), c = U(2, 4), y = U(3, 2, 4), gy = U(3, 2, 4) }, weighted_cross_entropy = { target = I(4, 4), weight = U(4) },
}

local wrong = {}
local function run(name, code, second)
  local own = inputs[name] or {}
  local other = second and own.second or own
  local function variable(_, word) return word == "op" and op or other[word] or own[word] or U(4, 4) end
  local ok, why = pcall(setfenv(assert(loadstring(code)), setmetatable({}, { __index = variable })))
  if not ok then wrong[#wrong + 1] = code .. ": " .. tostring(why) end
end

for _, row in ipairs(core.operators()) do
  local calls = 0
  for line in core.help(row.name, 80):match "\n  example  (.*)$":gmatch "%s*([^\n]+)" do
    run(row.name, line, calls > 0)
    calls = calls + 1
  end
  if calls == 0 then wrong[#wrong + 1] = row.name .. ": no example" end
end
table.concat(wrong, "\n") -->

-- ---- pages of the library: their indented lines are code, which runs in a folder of its own
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local child = [[
local write, got = io.write, {}
io.write = function(...) for _, s in ipairs { ... } do got[#got + 1] = s end return io.stdout end
local prompt, console, tessera = require "tessera.prompt", require "tessera.console", require "tessera"
require "tessera.prompt.pager"
io.write = write
local op, nn, graph = tessera.op, tessera.nn, tessera.graph
local x = op.ones { 4, 4 }
local given = { vorticity = x, x = x, y = x, w = x, q = x, k = x, v = x, X = x, Y = x,
  steps = 2, step = 1, print = tostring, train = function() end, batches = tessera.data.batches({ x, x }, { batch = 2 }),
  mesh = tessera.dist.Mesh { axes = { "dp", "tp", "pp", "ep" }, shape = { 1, 1, 1, 1 }, devices = { "cpu:0" } },
  loss = function(m, x, y) return op.mse(m(x), y) end, f = graph.module("f", function(x, y) return (x * y):sum() end) }
given.ids = op.zeros({ 1, 3 }, { dtype = "i64" })
local function fresh() -- what examples may change: model:to(..)
  given.model, given.gradients = nn.Linear(4, 4), {}
  given.opt = tessera.optim.SGD(given.model:parameters(), 0.1)
  for i, p in ipairs(given.model:parameters()) do given.gradients[i] = p:detach() * 0 end
end
local blocks = 0
local function page(topic)
  got = {}
  fresh()
  prompt.help(topic)
  local text, code = table.concat(got) .. "\n", {}
  for line in text:gmatch "[^\n]+" do
    if #line > 80 and not line:find "^%S" and not line:find " y = " then print(topic .. " is too wide: " .. line) end
  end
  if topic == "" or text:find "\n  example  " then return end -- the list, or an operator's
  if text:find "\n%s*example  [:!]" then return end -- a command's
  text = text:gsub("\n\n  options .*", "\n\n"):gsub("\n\n  levels .*", "\n\n")
  for line in text:gmatch "([^\n]*)\n" do
    local example = line:match "^      +(%S.*)$"
    if example then code[#code + 1] = example
    elseif code[1] then
      local chunk = table.concat(code, "\n")
      local f, why = loadstring(chunk, topic)
      local ok = f and setfenv(f, setmetatable({}, { __index = function(_, word)
        if given[word] ~= nil then return given[word] end
        return word == "tessera" and tessera or _G[word] or tessera[word]
      end }))
      if ok then ok, why = pcall(ok) end
      if not ok then print(topic, why, chunk) end
      code, blocks = {}, blocks + 1
    end
  end
end
page("")
for name in pairs(prompt.commands) do page(":" .. name) end
for _, name in ipairs(console.globals()) do
  local ok, t = pcall(function() return tessera[name] end) -- "help" is the prompt's own
  if ok and name ~= "op" and type(t) == "table" then
    page(name)
    for key in pairs(t) do page(name .. "." .. key) end
  end
end
for key in pairs(tessera) do
  if key ~= "core" and key ~= "op" then page("tessera." .. key) end
end
for key in pairs(tessera.jit) do page("tessera.jit." .. key) end
for key in pairs(nn.Module) do if not key:find "^__" then page("nn.Module." .. key) end end
for key in pairs(tessera.optim.schedule) do page("optim.schedule." .. key) end
for _, modules in pairs(require "tessera.named_functions") do
  for _, list in pairs(modules) do
    for name in list:gmatch "%S+" do local _ = op[name] end -- what is loaded when it is named
  end
end
for name in pairs(op) do if name ~= "foreign" then page("op." .. name) end end -- whose lines are C
print(blocks)
]]
local told
tiers.directory(function(dir)
  local program = tiers.program:sub(1, 1) == "/" and tiers.program or "$OLDPWD/" .. tiers.program
  -- A model that is called SmolLM2 there.
  local vectors = dofile "tests/hf/_vectors.lua"
  local small = vectors.read "llama"
  local folder = vectors.folder(small.config, small.tensors)
  local words = io.open(folder .. "/tokenizer.json", "w")
  words:write [=[{"added_tokens": [], "model": {"type": "BPE", "merges": [], "vocab": {"H": 0, "e": 1, "l": 2, "o": 3, ",": 4, " ": 5,
    "w": 6, "r": 7, "d": 8}}}]=]
  words:close()
  os.execute(("mv %s %s/SmolLM2"):format(folder, dir))
  local file = io.open(dir .. "/pages.lua", "w")
  file:write(child)
  file:close()
  told = (tiers.shell(("cd %s && XDG_CACHE_HOME=%s %s pages.lua 2>progress"):format(dir, dir, program)):gsub("%s+$", ""))
end)
tonumber(told) ~= nil and tonumber(told) >= 320 or told --> true
