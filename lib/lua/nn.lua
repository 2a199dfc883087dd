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

-- Linear(inputs, outputs, {bias = true, dtype = "f32"}): y = x w^T + b.
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

-- Embedding(count, width, {dtype = "f32"}): rows of a table by index.
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

-- LayerNorm(shape, {eps = 1e-5, bias = true}): over the last axes, which have that shape.
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

-- BatchNorm(channels, {eps, momentum}): statistics of the batch while training,
-- which also update the running ones used afterwards.
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

define_conv("Conv1d", 1)
define_conv("Conv2d", 2)
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

-- ConvTranspose(in, out, kernel, {dims = 2, stride, padding, output_padding, ...}).
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

define_pool("MaxPool", "max_pool")
define_pool("AvgPool", "avg_pool")

-- ---- activations and small layers

local function define_activation(name, row)
  local A = define(name)
  function A:forward(x) return op[row](x) end
end

for name, row in pairs { ReLU = "relu", GELU = "gelu", SiLU = "silu", Tanh = "tanh", Sigmoid = "sigmoid",
  ELU = "elu", Softplus = "softplus", Mish = "mish", Hardswish = "hardswish", LeakyReLU = "leaky_relu" } do
  define_activation(name, row)
end

local Softmax = define "Softmax"
function Softmax:init(axis) self.axis = need("Softmax", "axis", options.whole(), axis or -1) end
function Softmax:forward(x) return op.softmax(x, { axis = self.axis }) end

local Dropout = define "Dropout"
function Dropout:init(p) self.p = need("Dropout", "p", SHARE, p or 0.5) end
function Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return op.dropout(x, { p = self.p })
end
function Dropout:extra() return ("p = %g"):format(self.p) end

local Flatten = define "Flatten"
function Flatten:forward(x) return x:flatten(1, -1) end

local Identity = define "Identity"
function Identity:forward(x) return x end

-- ---- containers

local Sequential = define "Sequential"

-- Sequential{a, b, c} or Sequential(a, b, c): modules or plain functions, one after the other.
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
function List:init(modules)
  need("List", "modules", options.table, modules or {})
  for i, m in ipairs(modules or {}) do self[i] = m end
end

for name, class in pairs(require "tessera.recurrent") do nn[name] = class end
require "tessera.transformer"(nn)

return nn
