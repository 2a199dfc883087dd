-- Layers. Parameters start as in PyTorch, so that models transfer: uniform in
-- +-1/sqrt(fan in) for linear and convolution, normal for embeddings.

local core = require "tessera.core"
local Module = require "tessera.module"
local options = require "tessera.options"
local op, rng = core.op, core.op

local nn = { Module = Module }

-- ---- what may be given
local FLAG, DTYPE, need = options.flag, options.dtype, options.argument
local SIZE, COUNT = options.whole { least = 0 }, options.whole { least = 1 }
local EPS, SHARE = options.number { least = 0 }, options.number { least = 0, most = 1 }

local function define(name)
  local class = Module:extend(name)
  nn[name] = class
  return class
end

local function list(v, n)
  if type(v) == "table" then return v end
  local out = {}
  for i = 1, n do out[i] = v end
  return out
end

-- ---- linear and embedding

local Linear = define "Linear"

local read_linear = options.of("Linear", { bias = FLAG, dtype = DTYPE })

-- Linear(inputs, outputs, {bias = true, dtype = "f32"}): y = x w^T + b of x [.., inputs], with weight [outputs, inputs]
-- and bias [outputs], which begin uniform in +-1/sqrt(inputs).
--   y = nn.Linear(784, 10)(op.ones{64, 784})      -- f32[64,10]
function Linear:init(inputs, outputs, o)
  need("Linear", "inputs", SIZE, inputs)
  need("Linear", "outputs", SIZE, outputs)
  o = read_linear(o)
  local bound = 1 / math.sqrt(math.max(inputs, 1))
  self.inputs, self.outputs = inputs, outputs
  self.weight = rng.uniform({ outputs, inputs }, { low = -bound, high = bound, dtype = o.dtype })
  if o.bias ~= false then
    self.bias = rng.uniform({ outputs }, { low = -bound, high = bound, dtype = o.dtype })
  end
end

function Linear:forward(x) return op.linear(x, self.weight, self.bias) end
function Linear:extra()
  return ("%d -> %d%s"):format(self.inputs, self.outputs, self.bias and "" or ", no bias")
end

local Embedding = define "Embedding"
local read_embedding = options.of("Embedding", { dtype = DTYPE })

-- Embedding(count, width, {dtype = "f32"}): rows of a table by index, integers [..] -> [.., width]. weight [count,
-- width] begins normal. An index outside is an error.
--   y = nn.Embedding(256, 64)(op.arange(8))      -- f32[8,64]
function Embedding:init(count, width, o)
  self.count, self.width = need("Embedding", "count", SIZE, count), need("Embedding", "width", SIZE, width)
  self.weight = rng.normal({ count, width }, { dtype = read_embedding(o).dtype })
end

function Embedding:forward(index) return op.embedding(self.weight, index) end
function Embedding:extra() return ("%d x %d"):format(self.count, self.width) end

-- ---- normalisation

local LayerNorm = define "LayerNorm"
local read_layernorm = options.of("LayerNorm", { eps = EPS, bias = FLAG, dtype = DTYPE }, { eps = 1e-5 })
local SHAPE = options.each(SIZE)

-- LayerNorm(shape, {eps = 1e-5, bias = true}): (x - mean) / sqrt(var + eps) * weight + bias over the last axes, which
-- have that shape, a number or a list.
--   y = nn.LayerNorm(64)(op.ones{8, 64})      -- f32[8,64]
function LayerNorm:init(shape, o)
  o = read_layernorm(o)
  shape = list(need("LayerNorm", "shape", SHAPE, shape), 1)
  self.dims, self.eps = #shape, o.eps or 1e-5
  self.weight = op.ones(shape, { dtype = o.dtype })
  if o.bias ~= false then self.bias = op.zeros(shape, { dtype = o.dtype }) end
end

function LayerNorm:forward(x)
  return op.layernorm(x, self.weight, self.bias, { dims = self.dims, eps = self.eps })
end
function LayerNorm:extra() return table.concat(self.weight.shape, "x") end

local RMSNorm = define "RMSNorm"
local read_rmsnorm = options.of("RMSNorm", { eps = EPS, dtype = DTYPE }, { eps = 1e-5 })

-- RMSNorm(shape, {eps = 1e-5}): x / sqrt(mean(x^2) + eps) * weight over the last axes, which have that shape, a number
-- or a list.
--   y = nn.RMSNorm(64)(op.ones{8, 64})      -- f32[8,64]
function RMSNorm:init(shape, o)
  o = read_rmsnorm(o)
  shape = list(need("RMSNorm", "shape", SHAPE, shape), 1)
  self.dims, self.eps = #shape, o.eps or 1e-5
  self.weight = op.ones(shape, { dtype = o.dtype })
end

function RMSNorm:forward(x) return op.rmsnorm(x, self.weight, { dims = self.dims, eps = self.eps }) end
function RMSNorm:extra() return table.concat(self.weight.shape, "x") end

local BatchNorm = define "BatchNorm"
local read_batchnorm = options.of("BatchNorm", { eps = EPS, momentum = SHARE }, { eps = 1e-5, momentum = 0.1 })

-- BatchNorm(channels, {eps = 1e-5, momentum = 0.1}): (x - mean) / sqrt(var + eps) * weight + bias for each channel of
-- x [N, channels, ..]: statistics of the batch while training, which also move the running ones by momentum; these
-- are used after model:eval().
--   y = nn.BatchNorm(16)(rng.normal{4, 16, 8, 8})      -- f32[4,16,8,8]
function BatchNorm:init(channels, o)
  o = read_batchnorm(o)
  need("BatchNorm", "channels", SIZE, channels)
  self.eps, self.momentum = o.eps or 1e-5, o.momentum or 0.1
  self.weight, self.bias = op.ones { channels }, op.zeros { channels }
  self:buffer("running_mean", op.zeros { channels })
  self:buffer("running_var", op.ones { channels })
end

local function all_axes_but_1(x)
  local axes = { 0 }
  for a = 2, x.ndim - 1 do axes[#axes + 1] = a end
  return axes
end

function BatchNorm:forward(x)
  if not self.training then
    return op.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, { eps = self.eps })
  end
  local axes = all_axes_but_1(x)
  local wide = x.dtype == "f64" and x or x:to "f32" -- narrow statistics would be rounded
  local mean, var = wide:mean { axis = axes }, wide:var { axis = axes }
  local n, m = x.numel / x.shape[2], self.momentum
  self.running_mean:copy_(self.running_mean * (1 - m) + mean:detach() * m)
  self.running_var:copy_(self.running_var * (1 - m) + var:detach() * (m * n / math.max(n - 1, 1)))
  return op.batch_norm(x, mean, var, self.weight, self.bias, { eps = self.eps })
end
function BatchNorm:extra() return tostring(self.weight.shape[1]) end

local GroupNorm = define "GroupNorm"
local read_groupnorm = options.of("GroupNorm", { eps = EPS }, { eps = 1e-5 })

-- A number of groups divides what is grouped.
local function need_groups(what, groups, name, n)
  if n % groups == 0 then return end
  core.fail(("%s: %d groups do not divide %s = %d"):format(what, groups, name, n))
end

-- GroupNorm(groups, channels, {eps = 1e-5}): as LayerNorm over groups of the channels of x [N, channels, ..], which
-- groups divides.
--   y = nn.GroupNorm(4, 16)(rng.normal{2, 16, 8, 8})      -- f32[2,16,8,8]
function GroupNorm:init(groups, channels, o)
  need("GroupNorm", "groups", COUNT, groups)
  need_groups("GroupNorm", groups, "channels", need("GroupNorm", "channels", SIZE, channels))
  self.groups, self.eps = groups, read_groupnorm(o).eps or 1e-5
  self.weight, self.bias = op.ones { channels }, op.zeros { channels }
end

function GroupNorm:forward(x)
  return op.group_norm(x, self.weight, self.bias, { groups = self.groups, eps = self.eps })
end

-- ---- convolution: Conv1d(in, out, kernel, {stride, padding, dilation, groups, bias, layout})

local LAYOUT = options.one_of("nchw", "nhwc")

local function define_conv(name, dims)
  local Conv = define(name)
  local some, more = options.each(COUNT, dims), options.each(SIZE, dims)
  local read = options.of(name, { stride = some, padding = more, dilation = some, groups = COUNT, bias = FLAG, layout = LAYOUT,
    dtype = DTYPE }, { stride = 1, padding = 0, dilation = 1, groups = 1, layout = "nchw" })

  function Conv:init(inputs, outputs, kernel, o)
    o = read(o)
    local groups = o.groups or 1
    need_groups(name, groups, "inputs", need(name, "inputs", COUNT, inputs))
    need_groups(name, groups, "outputs", need(name, "outputs", COUNT, outputs))
    need(name, "kernel", some, kernel)
    self.stride, self.padding = list(o.stride or 1, dims), list(o.padding or 0, dims)
    self.dilation, self.groups, self.layout = list(o.dilation or 1, dims), groups, o.layout or "nchw"
    local k, taps = list(kernel, dims), 1
    for i = 1, dims do taps = taps * k[i] end
    local shape = { outputs }
    if self.layout == "nchw" then shape[2] = inputs / groups end
    for i = 1, dims do shape[#shape + 1] = k[i] end
    if self.layout == "nhwc" then shape[#shape + 1] = inputs / groups end
    local bound = 1 / math.sqrt(inputs / groups * taps)
    self.weight = rng.uniform(shape, { low = -bound, high = bound, dtype = o.dtype })
    if o.bias ~= false then
      self.bias = rng.uniform({ outputs }, { low = -bound, high = bound, dtype = o.dtype })
    end
  end

  function Conv:forward(x)
    return op[name:lower()](x, self.weight, self.bias, { stride = self.stride, padding = self.padding,
      dilation = self.dilation, groups = self.groups, layout = self.layout })
  end

  function Conv:extra() return table.concat(self.weight.shape, "x") end
end

-- Conv1d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true, layout = "nchw"}): a
-- convolution of x [N, inputs, L], channels last with "nhwc", to [N, outputs, ..], with (n + 2 * padding - dilation *
-- (kernel - 1) - 1) / stride + 1 elements along an axis of n. Numbers are for all axes, lists for each; groups divides
-- inputs and outputs.
--   y = nn.Conv1d(3, 16, 3, {padding = 1})(op.ones{1, 3, 8})      -- f32[1,16,8]
define_conv("Conv1d", 1)
-- Conv2d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true, layout = "nchw"}): a
-- convolution of x [N, inputs, H, W], channels last with "nhwc", to [N, outputs, ..], with (n + 2 * padding - dilation *
-- (kernel - 1) - 1) / stride + 1 elements along an axis of n. Numbers are for all axes, lists for each; groups divides
-- inputs and outputs.
--   y = nn.Conv2d(3, 16, 3, {padding = 1})(op.ones{1, 3, 8, 8})
define_conv("Conv2d", 2)
-- Conv3d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true, layout = "nchw"}): a
-- convolution of x [N, inputs, D, H, W], channels last with "nhwc", to [N, outputs, ..], with (n + 2 * padding - dilation *
-- (kernel - 1) - 1) / stride + 1 elements along an axis of n. Numbers are for all axes, lists for each; groups divides
-- inputs and outputs.
--   y = nn.Conv3d(3, 16, 3, {padding = 1})(op.ones{1, 3, 8, 8, 8})
define_conv("Conv3d", 3)

local ConvTranspose = define "ConvTranspose"
local DIMS, SOME, MORE = options.whole { least = 1, most = 3 }, options.each(COUNT), options.each(SIZE)
local read_transpose = options.of("ConvTranspose", { dims = DIMS, stride = SOME, padding = MORE, output_padding = MORE,
  dilation = SOME, groups = COUNT, bias = FLAG }, { dims = 2, stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1 })

-- Lists are as long as there are axes.
local function need_axes(what, dims, given)
  for name, v in pairs(given) do
    if type(v) == "table" and #v ~= dims then
      core.fail(("%s: %s has %d numbers for %d axes"):format(what, name, #v, dims))
    end
  end
end

-- ConvTranspose(inputs, outputs, kernel, {dims = 2, stride = 1, padding = 0, output_padding = 0, dilation = 1, groups =
-- 1, bias = true}): the adjoint of a convolution, over 1, 2 or 3 axes: x [N, inputs, ..] -> [N, outputs, ..], with
-- (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 elements along an axis of n. Numbers
-- are for all axes, lists for each.
--   local twice = nn.ConvTranspose(16, 8, 4, {stride = 2, padding = 1})
--   y = twice(op.ones{1, 16, 5, 5})      -- f32[1,8,10,10]
function ConvTranspose:init(inputs, outputs, kernel, o)
  o = read_transpose(o)
  need("ConvTranspose", "kernel", SOME, kernel)
  local dims = o.dims or (type(kernel) == "table" and #kernel) or 2
  need_axes("ConvTranspose", dims, { kernel = kernel, stride = o.stride, padding = o.padding,
    output_padding = o.output_padding, dilation = o.dilation })
  need("ConvTranspose", "inputs", COUNT, inputs)
  need_groups("ConvTranspose", o.groups or 1, "outputs", need("ConvTranspose", "outputs", COUNT, outputs))
  local k, taps, groups = list(kernel, dims), 1, o.groups or 1
  self.o = { stride = list(o.stride or 1, dims), padding = list(o.padding or 0, dims), groups = groups,
    output_padding = list(o.output_padding or 0, dims), dilation = list(o.dilation or 1, dims) }
  local shape = { inputs, outputs / groups }
  for i = 1, dims do
    shape[#shape + 1] = k[i]
    taps = taps * k[i]
  end
  local bound = 1 / math.sqrt(outputs / groups * taps)
  self.weight = rng.uniform(shape, { low = -bound, high = bound })
  if o.bias ~= false then self.bias = rng.uniform({ outputs }, { low = -bound, high = bound }) end
end

function ConvTranspose:forward(x) return op.conv_transpose(x, self.weight, self.bias, self.o) end

local function define_pool(name, row)
  local Pool = define(name)
  local read = options.of(name, { dims = DIMS, stride = SOME, padding = MORE }, { dims = 2, padding = 0 })
  function Pool:init(window, o)
    o = read(o)
    need(name, "window", SOME, window)
    local dims = type(window) == "table" and #window or o.dims or 2
    need_axes(name, dims, { window = window, stride = o.stride, padding = o.padding })
    self.o = { window = list(window, dims), stride = list(o.stride or window, dims),
      padding = list(o.padding or 0, dims) }
  end
  function Pool:forward(x) return op[row](x, self.o) end
end

-- MaxPool(window, {dims = 2, stride = window, padding = 0}): the largest element of each window of x [N, C, ..], over 1,
-- 2 or 3 axes. Numbers are for all axes, lists for each.
--   y = nn.MaxPool(2)(op.ones{8, 16, 32, 32})      -- f32[8,16,16,16]
define_pool("MaxPool", "max_pool")
-- AvgPool(window, {dims = 2, stride = window, padding = 0}): the mean of each window of x [N, C, ..], over 1, 2 or 3
-- axes. Numbers are for all axes, lists for each.
--   y = nn.AvgPool(2)(op.ones{8, 16, 32, 32})      -- f32[8,16,16,16]
define_pool("AvgPool", "avg_pool")

-- ---- activations and small layers

local function define_activation(name, row)
  local A = define(name)
  function A:forward(x) return op[row](x) end
end

-- max(x, 0), element by element, as op.relu: any shape, floats. Without parameters.
--   y = nn.ReLU()(x)
define_activation("ReLU", "relu")

-- x times the normal distribution function of x, element by element, as op.gelu: any shape, floats. Without parameters.
--   y = nn.GELU()(x)
define_activation("GELU", "gelu")

-- x * sigmoid(x), element by element, as op.silu: any shape, floats. Without parameters.
--   y = nn.SiLU()(x)
define_activation("SiLU", "silu")

-- the hyperbolic tangent of x, element by element, as op.tanh: any shape, floats. Without parameters.
--   y = nn.Tanh()(x)
define_activation("Tanh", "tanh")

-- 1 / (1 + e^-x), element by element, as op.sigmoid: any shape, floats. Without parameters.
--   y = nn.Sigmoid()(x)
define_activation("Sigmoid", "sigmoid")

-- x, or e^x - 1 where x < 0, element by element, as op.elu: any shape, floats. Without parameters.
--   y = nn.ELU()(x)
define_activation("ELU", "elu")

-- log(1 + e^x), element by element, as op.softplus: any shape, floats. Without parameters.
--   y = nn.Softplus()(x)
define_activation("Softplus", "softplus")

-- x * tanh(log(1 + e^x)), element by element, as op.mish: any shape, floats. Without parameters.
--   y = nn.Mish()(x)
define_activation("Mish", "mish")

-- x * clamp(x + 3, 0, 6) / 6, element by element, as op.hardswish: any shape, floats. Without parameters.
--   y = nn.Hardswish()(x)
define_activation("Hardswish", "hardswish")

-- x, or 0.01 x where x < 0, element by element, as op.leaky_relu: any shape, floats. Without parameters.
--   y = nn.LeakyReLU()(x)
define_activation("LeakyReLU", "leaky_relu")

local Softmax = define "Softmax"
-- Softmax(axis = -1): e^x / sum(e^x) along the axis; floats of any shape.
--   y = nn.Softmax()(x)
function Softmax:init(axis) self.axis = need("Softmax", "axis", options.whole(), axis or -1) end
function Softmax:forward(x) return op.softmax(x, { axis = self.axis }) end

local Dropout = define "Dropout"
-- Dropout(p = 0.5): 0 with probability p, else x / (1 - p), while training; after model:eval() x itself.
--   y = nn.Dropout(0.1)(x)
function Dropout:init(p) self.p = need("Dropout", "p", SHARE, p or 0.5) end
function Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return op.dropout(x, { p = self.p })
end
function Dropout:extra() return ("p = %g"):format(self.p) end

-- All axes but the first in one: x [N, ..] -> [N, n], without copying where strides allow it.
--   y = nn.Flatten()(op.ones{64, 3, 8, 8})      -- f32[64,192]
local Flatten = define "Flatten"
function Flatten:forward(x) return x:flatten(1, -1) end

-- x as it is: in place of a layer that is left out.
--   y = nn.Identity()(x)
local Identity = define "Identity"
function Identity:forward(x) return x end

-- ---- containers

local Sequential = define "Sequential"

-- Sequential{a, b, c} or Sequential(a, b, c): modules or plain functions, one after the other. layer 1 is model[1];
-- parameters of modules alone are the model's.
--   model = nn.Sequential(nn.Linear(2, 32), op.tanh, nn.Linear(32, 1))
function Sequential:init(layers, ...)
  if core.callable(layers) then layers = { layers, ... } end
  if type(layers) ~= "table" then
    core.fail(("Sequential: modules or functions are needed, not a %s"):format(type(layers)))
  end
  for i, layer in ipairs(layers) do
    if not core.callable(layer) then
      core.fail(("Sequential: layer %d is a %s, not a module or a function"):format(i, core.is_tensor(layer) and "tensor" or type(layer)))
    end
    self[i] = layer
  end
end

function Sequential:forward(x)
  for _, layer in ipairs(self) do x = layer(x) end
  return x
end

local List = define "List"
-- List{a, b, c}: modules that another module has as a field, and calls itself; list[1] is the first.
--   local blocks = nn.List{nn.Linear(2, 2), nn.Linear(2, 2)}
function List:init(modules)
  need("List", "modules", options.table, modules or {})
  for i, m in ipairs(modules or {}) do self[i] = m end
end

-- ---- attention

local KVCache = {}
KVCache.__index = KVCache

-- Keys and values of earlier positions, for generating text step by step: an attention appends to it, k and v being
-- [B, H, T, D], and it grows by doubling.
--   local attention = nn.MultiHeadAttention(64, 4, {causal = true})
--   cache = nn.KVCache()
--   y = attention(op.ones{1, 1, 64}, {cache = cache})      -- cache.length is 1
function nn.KVCache() return setmetatable({ length = 0 }, KVCache) end

local function grown(old, new, length)
  local shape = { unpack(new.shape) }
  shape[3] = math.max(64, 2 * (length + new.shape[3]))
  local buffer = op.zeros(shape, { dtype = new.dtype })
  if old then buffer:narrow(2, 0, length):copy_(old:narrow(2, 0, length)) end
  return buffer
end

-- Appends k and v; returns all keys and values so far.
function KVCache:append(k, v)
  local n = k.shape[3]
  if not self.k or self.length + n > self.k.shape[3] then
    self.k, self.v = grown(self.k, k, self.length), grown(self.v, v, self.length)
  end
  self.k:narrow(2, self.length, n):copy_(k)
  self.v:narrow(2, self.length, n):copy_(v)
  self.length = self.length + n
  return self.k:narrow(2, 0, self.length), self.v:narrow(2, 0, self.length)
end

local MultiHeadAttention = define "MultiHeadAttention"
local attention_kinds = { kv_heads = COUNT, head_dim = COUNT, bias = FLAG, causal = FLAG, rope = options.table, window = COUNT,
  dtype = DTYPE }
local read_attention = options.of("MultiHeadAttention", attention_kinds)
local read_call = options.of("MultiHeadAttention", { mask = options.tensor, cache = options.table })

-- MultiHeadAttention(width, heads, {kv_heads = heads, head_dim = width / heads, bias = true, causal = false, rope,
-- window}): attention of x [B, S, width] with itself, and what comes out projected back to width. kv_heads, which
-- divides heads: fewer keys and values than queries. rope: a table of options of op.rope. window: how many positions
-- back are seen. Called with (x, {mask, cache}).
--   y = nn.MultiHeadAttention(64, 4, {causal = true})(op.ones{1, 8, 64})
function MultiHeadAttention:init(width, heads, o)
  o = read_attention(o)
  need("MultiHeadAttention", "width", COUNT, width)
  need("MultiHeadAttention", "heads", COUNT, heads)
  local kv = o.kv_heads or heads
  local d = o.head_dim or width / heads
  if d % 1 ~= 0 then
    d = math.floor(d)
    error(("MultiHeadAttention: heads * head_dim = %d * %d = %d, but width = %d"):format(heads, d, heads * d, width), 3)
  end
  if heads % kv ~= 0 then
    error(("MultiHeadAttention: kv_heads = %d does not divide heads = %d"):format(kv, heads), 3)
  end
  self.heads, self.kv_heads, self.head_dim = heads, kv, d
  self.causal, self.rope, self.window = o.causal or false, o.rope, o.window
  self.qkv = nn.Linear(width, (heads + 2 * kv) * d, { bias = o.bias, dtype = o.dtype })
  self.out = nn.Linear(heads * d, width, { bias = o.bias, dtype = o.dtype })
end

function MultiHeadAttention:forward(x, o)
  o = read_call(o)
  local q, k, v = op.qkv_projection(x, self.qkv.weight, self.qkv.bias,
    { heads = self.heads, kv_heads = self.kv_heads })
  if self.rope then
    local r = {}
    for key, value in pairs(self.rope) do r[key] = value end
    r.offset = o.cache and o.cache.length or 0
    q, k = op.rope(q, r), op.rope(k, r)
  end
  if o.cache then k, v = o.cache:append(k, v) end
  local y = op.attention(q, k, v, { mask = o.mask, causal = self.causal, window = self.window })
  return self.out(y:permute(0, 2, 1, 3):flatten(2, 3))
end

function MultiHeadAttention:extra() return ("%d heads of %d"):format(self.heads, self.head_dim) end

local MLP = define "MLP"
local mlp_kinds = { activation = options.operator, bias = FLAG, dtype = DTYPE }
local read_mlp = options.of("MLP", mlp_kinds, { activation = "gelu" })

-- MLP(width, hidden, {activation = "gelu", bias = true}): two linear layers with the operator activation between them,
-- x [.., width] -> [.., width].
--   y = nn.MLP(64, 256)(op.ones{8, 64})
function MLP:init(width, hidden, o)
  o = read_mlp(o)
  self.activation = o.activation or "gelu"
  local linear = { bias = o.bias, dtype = o.dtype }
  self.up = nn.Linear(need("MLP", "width", SIZE, width), need("MLP", "hidden", SIZE, hidden), linear)
  self.down = nn.Linear(hidden, width, linear)
end

function MLP:forward(x) return self.down(op[self.activation](self.up(x))) end

local TransformerBlock = define "TransformerBlock"
local block_kinds = { hidden = SIZE, norm = options.one_of("layernorm", "rmsnorm"), dropout = SHARE }
for _, kinds in ipairs { attention_kinds, mlp_kinds } do
  for name, kind in pairs(kinds) do block_kinds[name] = kind end
end
local read_block = options.of("TransformerBlock", block_kinds, { norm = "layernorm", dropout = 0, activation = "gelu" })

-- The options that are of these kinds.
local function only(o, kinds)
  local some = {}
  for name in pairs(kinds) do some[name] = o[name] end
  return some
end

-- TransformerBlock(width, heads, {hidden = 4 * width, norm = "layernorm", dropout = 0, ...}): x + attention(norm(x)),
-- then x + mlp(norm(x)), x [B, S, width]. Other options go to MultiHeadAttention and MLP. Called with (x, {mask,
-- cache}).
--   y = nn.TransformerBlock(64, 4, {causal = true})(op.ones{1, 8, 64})
function TransformerBlock:init(width, heads, o)
  o = read_block(o)
  need("TransformerBlock", "width", COUNT, width)
  local Norm = o.norm == "rmsnorm" and nn.RMSNorm or nn.LayerNorm
  self.norm1, self.attention = Norm(width), nn.MultiHeadAttention(width, heads, only(o, attention_kinds))
  self.norm2, self.mlp = Norm(width), nn.MLP(width, o.hidden or 4 * width, only(o, mlp_kinds))
  self.dropout = nn.Dropout(o.dropout or 0)
end

function TransformerBlock:forward(x, o)
  x = x + self.dropout(self.attention(self.norm1(x), o))
  return x + self.dropout(self.mlp(self.norm2(x)))
end

return nn
