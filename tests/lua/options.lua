-- What the library takes by name and by place is looked at: a wrong type, a value out of range and an
-- unknown name are errors that say what, where and what would be right.
local tessera = require "tessera"
local op, nn, optim, data, graph, image = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph, tessera.image

local p = op.ones { 2, 2 }
optim.AdamW({ p }, { lr = "x" }) --! AdamW: option 'lr' must be a number >= 0, not 'x'
optim.AdamW({ p }, { lr = -1 }) --! must be a number >= 0, not -1
optim.AdamW({ p }, { lr = 0 / 0 }) --! must be a number >= 0, not
optim.AdamW({ p }, { lr = "x" }) --! hint: 0.001 if it is not given
optim.AdamW({ p }, { weight_deacy = 0 }) --! hint: did you mean 'weight_decay'?
optim.AdamW({ p }, { betas = { 0.9 } }) --! option 'betas' must be a list of 2 numbers in [0, 1), not a table
nn.Linear(2, 2, { dtype = "float32" }) --! hint: it is 'f32' here
nn.Linear(2, 2, { dtype = "bf17" }) --! hint: did you mean 'bf16'?
optim.SGD({ p }, { 0.1 }) --! SGD: option 'lr' must be a number >= 0, not a table
optim.SGD({ p }, 0.1, 0.9, 0, 0, true, 7) --! SGD: too many arguments; by place are lr, momentum, dampening, weight_decay, nesterov
optim.SGD({ p, 1 }) --! SGD: parameter 2 is 1, not a tensor
optim.LBFGS({}) --! LBFGS: the list of parameters is empty
optim.schedule.cosine { lr = 1 } --! schedule.cosine: option 'steps' must be a number > 0, not nothing
optim.schedule.cosine { lr = 1, steps = 10, warm = 1 } --! did you mean 'warmup'?
optim.schedule.step() --! schedule.step: option 'every' must be a number > 0, not nothing
optim.clip_grad_norm(p, 1) --! clip_grad_norm: a list of gradients is needed, not a tensor
optim.clip_grad_norm({ p }, 0) --! clip_grad_norm: max_norm must be a number > 0, not 0
nn.Linear(3) --! Linear: outputs must be a whole number >= 0, not nothing
nn.Linear(3, 2.5) --! not 2.5
nn.Linear(3, 2, { bais = false }) --! Linear: unknown option 'bais'
nn.Conv2d(3, 8, { 3, 3, 3 }) --! Conv2d: kernel must be a whole number >= 1, or a list of 2, not a table
nn.Conv2d(3, 8, 3, { layout = "nwhc" }) --! option 'layout' must be one of 'nchw', 'nhwc', not 'nwhc'
nn.Conv2d(3, 8, 3, { groups = 2 }) --! Conv2d: 2 groups do not divide inputs = 3
nn.MaxPool({ 2, 2 }, { stride = { 1, 1, 1 } }) --! MaxPool: stride has 3 numbers for 2 axes
nn.Sequential(nn.Linear(2, 2), 3) --! Sequential: layer 2 is a number, not a module or a function
nn.MLP(4, 8, { activation = "gleu" }) --! MLP: option 'activation' must be the name of an operator, not 'gleu'
nn.TransformerBlock(8, 2, { norm = "batchnorm" }) --! TransformerBlock: option 'norm' must be one of 'layernorm', 'rmsnorm'
nn.Linear(2, 2):load_state_dict({}, { stric = false }) --! load_state_dict: unknown option 'stric'
nn.Linear(2, 2):load_state_dict { weight = 1, bias = 2 } --! load_state_dict:
data.batches(p, {}) --! data.batches: option 'batch' must be a whole number >= 1, not nothing
data.batches({ p, 3 }, { batch = 1 }) --! data.batches: tensor 2 is 3, not a tensor
data.windows(op.arange(9), { length = 2, batch = 1, sed = 1 }) --! did you mean 'seed'?
data.split(p, 2) --! data.split: the fraction must be a number in [0, 1], not 2
data.CharTokenizer(5) --! data.CharTokenizer: the text must be a string, not 5
data.CharTokenizer("ab"):decode { 7 } --! decode: id 7 at 1 is not in the vocabulary of 2
data.progress(10, { label = 1 }) --! data.progress: option 'label' must be a string, not 1
data.range "x" --! data.range: n must be a whole number >= 0, not 'x'
tessera.save("x.npy", p, { a = 1 }) --! an .npy file holds no metadata
tessera.save("x.safetensors", p, "x") --! save: the metadata must be a table, not 'x'
tessera.save("x.safetensors", p, { a = {} }) --! the metadata 'a' is a table, not a string
image.save(5, p) --! image.save: the path must be a string, not 5
image.diverging(p, 0) --! image.diverging: limit must be a number > 0, not 0
graph.training_step(nn.Linear(2, 2), op.mse, optim.SGD { p }, { schedul = print }) --! did you mean 'schedule'?
graph.module(function(x) return x end, { donate = 2 }) --! graph.module: option 'donate' must be a list of whole numbers >= 1, not 2
tessera.profile.report(graph.module(function(x) return x end), { runs = 0 }) --! profile.report: option 'runs' must be a whole number >= 1, not 0

-- Every option of every optimiser and layer: what is of no type that it could have.
local calls = {}
for name, f in pairs(optim) do
  if name:match "^%u" then calls[name] = function(o) return f({ p }, o) end end
end
for name, f in pairs(optim.schedule) do calls["schedule." .. name] = f end
for name, f in pairs { Linear = 2, LayerNorm = 1, RMSNorm = 1, BatchNorm = 1, GroupNorm = 2, Embedding = 2, Conv1d = 3, Conv2d = 3,
  Conv3d = 3, ConvTranspose = 3, MaxPool = 1, AvgPool = 1, MultiHeadAttention = 2, MLP = 2, TransformerBlock = 2 } do
  local sizes = { 4, 4, 4 }
  calls[name] = function(o)
    sizes[f + 1] = o
    return nn[name](unpack(sizes, 1, f + 1))
  end
end
calls["data.windows"] = function(o) return data.windows(op.arange(9), o) end
calls["data.batches"] = function(o) return data.batches(p, o) end
calls["data.progress"] = function(o) return data.progress(3, o) end
local wrong, seen = {}, 0
for what, call in pairs(calls) do
  local _, why = pcall(call, { [{}] = 1 })
  local list = why:match "options are ([^\n]*)"
  for option in (list or ""):gmatch "[%w_]+" do
    if option ~= "out" then -- anything that writes
      seen = seen + 1
      local ok, said = pcall(call, { [option] = print })
      if option ~= "schedule" and (ok or not said:find(("options.lua:%%d+: %s: option '"):format((what:gsub("%p", "%%%0"))))) then
        wrong[#wrong + 1] = what .. " " .. option .. ": " .. tostring(said)
      end
    end
  end
end
seen > 80 --> true
#wrong == 0 or table.concat(wrong, "\n") --> true
