-- What layers, losses and functions are called with: what is no tensor is told by name, and sizes that
-- cannot be are errors at once.
local tessera = require "tessera"
local core, op, nn, data, graph, optim = tessera.core, tessera.op, tessera.nn, tessera.data, tessera.graph, tessera.optim

-- No message is one of Lua's, which names what is inside.
local wrong = {}
local function check(name, f, ...)
  local ok, why = pcall(f, ...)
  if not ok and (tostring(why):find "attempt to" or tostring(why):find "bad argument" or tostring(why):find "stack overflow") then
    wrong[#wrong + 1] = ("%s: %s"):format(name, tostring(why))
  end
end
local x, no = op.ones { 2, 3 }, { "x", true, {}, print, 3, op.ones {} }
for name, methods in pairs(require("tessera.named_functions").methods) do
  for word in methods:gmatch "%S+" do
    check(word, op[word])
    for _, v in ipairs(no) do
      check(word, op[word], v)
      check(word, op[word], x, v)
      check(word, op[word], x, x, v)
      check(word, op[word], x, 0, v)
    end
  end
end
local made = { Linear = { 3, 3 }, Conv1d = { 3, 3, 1 }, Threshold = { 1, 1 }, Unflatten = { 1, { 3, 1 } } }
for name, class in pairs(nn) do
  local ok, layer = pcall(class, unpack(made[name] or {}))
  if not ok then ok, layer = pcall(class, 1, 1, 1, 1) end
  if not ok then ok, layer = pcall(class, 3, 3) end
  if not ok then ok, layer = pcall(class, 3) end
  if ok and type(layer) == "table" and not ("Module Sequential List Identity KVCache"):find(name, 1, true) then
    check(name, layer)
    for _, v in ipairs(no) do
      check(name, layer, v)
      check(name, layer, x, v)
      check(name, layer, x, x, v)
    end
  end
end
table.sort(wrong)
#wrong == 0 or table.concat(wrong, "\n") --> true

nn.TransformerDecoderLayer(4, 2)(op.ones { 2, 4 }) --! TransformerDecoderLayer: the memory must be a tensor, not nothing
nn.EmbeddingBag(3, 2)(op.arange(2), 3) --! EmbeddingBag: offsets must be a tensor, not 3
nn.ReLU6()(3) --! ReLU6: the input must be a tensor, not 3
nn.ZeroPad3d(1)(op.ones { 2, 3 }) --! ZeroPad3d: the input is f32[2,3], and has to have 3 axes at least
nn.CosineEmbeddingLoss()(x, x) --! CosineEmbeddingLoss: the third input must be a tensor or a number, not nothing
op.addcmul(x, x) --! addcmul: z must be a tensor, not nothing
op.hstack {} --! hstack: the list of tensors is empty
op.index_fill(x, 0, op.arange(1), "x") --! index_fill: value must be a number, not 'x'
op.index_fill(x, 0, op.arange(1), -math.huge)[0]:max():item() --> -inf
op.movedim(x, 0, 7) --! movedim: axis 7 is out of range for f32[2,3]
op.movedim(x, -3, 0) --! movedim: axis -3 is out of range for f32[2,3]
op.unflatten(op.ones { 2, 6 }, 1, { -1, -1 }) --! unflatten: of {-1, -1} two sizes are -1
op.block_diag(op.ones { 2, 2, 2 }) --! block_diag: tensor 1 is f32[2,2,2], and no matrix
op.cov(op.ones { 2, 2, 2 }) --! cov: x is f32[2,2,2], and no matrix of observations
-- As NumPy's and PyTorch's, of no degree of freedom.
op.isnan(op.cov(op.ones { 1, 0 })):all():item() --> true
op.cov(op.arange(3):cast "f32", 5):item() --> inf
op.cumulative_trapezoid(op.ones {}) --! cumulative_trapezoid: axis -1 is out of range for f32[]
op.cumulative_trapezoid(op.ones { 2, 0 }).shape --> {2, 0}
op.vander(x, 2 ^ 40) --! vander: 6.597e+12 elements are too many: at most 2^28
op.polygamma(2 ^ 40, op.ones { 1 }):item() --> -inf
op.col2im(op.ones { 1, 4, 9 }, { size = { 4, 4 }, window = 2, stride = 0 }) --! col2im: option 'stride' must be a whole number >= 1
op.col2im(op.ones { 1, 4, 9 }, { size = { 4, 4 }, window = { 2, 2, 2 } }) --! col2im: option 'window' must be a whole number >= 1, or a list of 2
data.unpad_sequence(op.ones { 3, 2 }, op.ones {}) --! data.unpad_sequence: lengths is f32[], and has to be 2 whole numbers, a list or a tensor
graph.training_step(nn.Linear(3, 2), print, optim.SGD(nn.Linear(3, 2):parameters()), { ema = {} }) --! graph.training_step: ema is none, as optim.EMA makes it

-- A table that holds itself is no structure of tensors.
local ring = {}
ring[1] = ring
graph.module("ring", function(t, y) return y end)(ring, x) --! more than 100 tables of tensors stand in each other, or one holds itself
graph.module("ring", function() return ring end)(x) --! more than 100 tables of tensors stand in each other, or one holds itself
op.cond(op.ones {}:gt(0), function() return ring end, function() return ring end) --! more than 100 tables of tensors

-- Options that a metatable gives count.
optim.schedule.cyclic(setmetatable({ lr = 1 }, { __index = { low = 0.5, up = 2 } }))(1) --> 0.75

-- What is trained may be a tensor, without a module around it.
local w = op.ones { 3 }
w.requires_grad = true
local step = graph.training_step(w, function(v, y) return (v * y):sum() end, optim.SGD({ w }, { lr = 0.5 }))
step(op.ones { 3 }):item() --> 3
w:sum():item() --> 1.5

-- A capture that fails after a tensor of numbers in it was collected: what it held goes once.
local fails = graph.module("fails", function(y)
  y = y + core.tensor { 1, 2, 3 }
  collectgarbage()
  collectgarbage()
  error("on purpose", 0)
end)
for _ = 1, 3 do pcall(fails, x) end
fails(x) --! on purpose

-- A pad that reflects does so before the other side is cut off, as PyTorch's.
tostring(nn.ReflectionPad1d({ 2, -1 })(op.arange(3):cast("f32"):reshape(1, 3))) --> [[2. 1. 0. 1.]]
--> f32[1,4]

-- What a module loads is no function of it, captured or not.
local function loaded(v, y)
  local m = nn.Linear(2, 2, { bias = false })
  m:load_state_dict { weight = v }
  return m(y):sum()
end
graph.grad(loaded)(op.ones { 2, 2 }, op.ones { 1, 2 }):abs():sum():item() --> 0
