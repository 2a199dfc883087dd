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
local read_linear = options.placed("Linear", { bias = FLAG, dtype = DTYPE }, { bias = true, dtype = "f32" }, { "bias", "dtype" })

-- Linear(inputs, outputs, {bias = true, dtype = "f32"}): y = x w^T + b, op.linear, of x [.., inputs], with weight
-- [outputs, inputs] and bias [outputs], which begin uniform in +-1/sqrt(inputs).
--   y = nn.Linear(784, 10)(op.ones{64, 784})      -- f32[64,10]
--   y = nn.Linear(3, 2, {bias = false})(op.ones{4, 5, 3})      -- f32[4,5,2]
function Linear:init(inputs, outputs, ...)
  need("Linear", "inputs", SIZE, inputs)
  need("Linear", "outputs", SIZE, outputs)
  local o = read_linear(...)
  local bound = 1 / math.sqrt(math.max(inputs, 1))
  self.inputs, self.outputs, self._told = inputs, outputs, options.told("Linear", o, "inputs", inputs, "outputs", outputs)
  self.weight = rng.uniform({ outputs, inputs }, { low = -bound, high = bound, dtype = o.dtype })
  if o.bias then
    self.bias = rng.uniform({ outputs }, { low = -bound, high = bound, dtype = o.dtype })
  end
end

function Linear:forward(x) return op.linear(x, self.weight, self.bias) end

require "tessera.nn.embedding"(nn)

-- ---- normalisation

local LayerNorm = define "LayerNorm"
local SHAPE = options.each(SIZE)
local read_layernorm = options.placed("LayerNorm", { eps = EPS, affine = FLAG, bias = FLAG, dtype = DTYPE }, { eps = 1e-5, affine = true, bias = true, dtype = "f32" },
  { "eps", "affine", "bias" })

-- LayerNorm(shape, {eps = 1e-5, affine = true, bias = true, dtype = "f32"}): (x - mean) / sqrt(var + eps) * weight + bias
-- over the last axes, which have that shape, a number or a list. Without affine there are neither weight nor bias.
--   y = nn.LayerNorm(64)(op.ones{8, 64})      -- f32[8,64]
--   y = nn.LayerNorm({3, 4}, 1e-6)(op.ones{2, 3, 4})
function LayerNorm:init(shape, ...)
  local o = read_layernorm(...)
  self._told = options.told("LayerNorm", o, "shape", need("LayerNorm", "shape", SHAPE, shape))
  shape = list(shape, 1)
  self.shape, self.dims, self.eps = shape, #shape, o.eps
  if not o.affine then return end
  self.weight = op.ones(shape, { dtype = o.dtype })
  if o.bias then self.bias = op.zeros(shape, { dtype = o.dtype }) end
end

function LayerNorm:forward(x)
  return op.layernorm(x, self.weight, self.bias, { dims = self.dims, eps = self.eps })
end

local RMSNorm = define "RMSNorm"
local read_rmsnorm = options.placed("RMSNorm", { eps = EPS, affine = FLAG, dtype = DTYPE }, { eps = 1e-5, affine = true, dtype = "f32" }, { "eps", "affine" })

-- RMSNorm(shape, {eps = 1e-5, affine = true, dtype = "f32"}): x / sqrt(mean(x^2) + eps) * weight over the last axes,
-- which have that shape, a number or a list; without affine there is no weight.
--   y = nn.RMSNorm(64)(op.ones{8, 64})      -- f32[8,64]
function RMSNorm:init(shape, ...)
  local o = read_rmsnorm(...)
  self._told = options.told("RMSNorm", o, "shape", need("RMSNorm", "shape", SHAPE, shape))
  shape = list(shape, 1)
  self.shape, self.dims, self.eps = shape, #shape, o.eps
  if o.affine then self.weight = op.ones(shape, { dtype = o.dtype }) end
end

function RMSNorm:forward(x) return op.rmsnorm(x, self.weight, { dims = self.dims, eps = self.eps }) end

local BatchNorm = define "BatchNorm"
local read_batchnorm = options.placed("BatchNorm", { eps = EPS, momentum = SHARE, affine = FLAG, running = FLAG, dtype = DTYPE },
  { eps = 1e-5, momentum = 0.1, affine = true, running = true, dtype = "f32" }, { "eps", "momentum", "affine", "running" })

-- BatchNorm(channels, {eps = 1e-5, momentum = 0.1, affine = true, running = true, dtype = "f32"}): (x - mean) / sqrt(var +
-- eps) * weight + bias for each channel of x [N, channels, ..]: statistics of the batch while training, which also move
-- running_mean and running_var by the share momentum; these are used after model:eval(). Without affine there are
-- neither weight nor bias; without running the batch is used always.
--   y = nn.BatchNorm(16)(rng.normal{4, 16, 8, 8})      -- f32[4,16,8,8]
function BatchNorm:init(channels, ...)
  local o = read_batchnorm(...)
  need("BatchNorm", "channels", SIZE, channels)
  self._told = options.told("BatchNorm", o, "channels", channels)
  self.channels, self.eps, self.momentum = channels, o.eps, o.momentum
  if o.affine then
    self.weight, self.bias = op.ones({ channels }, { dtype = o.dtype }), op.zeros({ channels }, { dtype = o.dtype })
  end
  if not o.running then return end
  self:buffer("running_mean", op.zeros({ channels }, { dtype = o.dtype }))
  self:buffer("running_var", op.ones({ channels }, { dtype = o.dtype }))
end

-- What PyTorch counts, and nothing here reads.
BatchNorm._ignored = { num_batches_tracked = true }

local function all_axes_but_1(x)
  local axes = { 0 }
  for a = 2, x.ndim - 1 do axes[#axes + 1] = a end
  return axes
end

function BatchNorm:forward(x)
  if not core.is_tensor(x) or x.ndim < 2 or x.shape[2] ~= self.channels then
    core.fail(("BatchNorm: x must be a tensor [N, %d, ..], not %s"):format(self.channels, core.is_tensor(x) and core.type_text(x) or "a " .. type(x)))
  end
  if not self.training and self.running_mean then
    return op.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, { eps = self.eps })
  end
  local axes = all_axes_but_1(x)
  local wide = x.dtype == "f64" and x or x:to "f32" -- narrow statistics would be rounded
  local mean, var = wide:mean { axis = axes }, wide:var { axis = axes }
  if self.running_mean and self.training then
    local n, m = x.numel / x.shape[2], self.momentum
    self.running_mean:copy_(self.running_mean * (1 - m) + mean:detach() * m)
    self.running_var:copy_(self.running_var * (1 - m) + var:detach() * (m * n / math.max(n - 1, 1)))
  end
  return op.batch_norm(x, mean, var, self.weight, self.bias, { eps = self.eps })
end
for _, name in ipairs { "BatchNorm1d", "BatchNorm2d", "BatchNorm3d" } do nn[name] = BatchNorm end -- of any number of axes

local GroupNorm = define "GroupNorm"
local read_groupnorm = options.placed("GroupNorm", { eps = EPS, affine = FLAG, dtype = DTYPE }, { eps = 1e-5, affine = true, dtype = "f32" }, { "eps", "affine" })

-- GroupNorm(groups, channels, {eps = 1e-5, affine = true, dtype = "f32"}): as nn.LayerNorm over groups of the channels of
-- x [N, channels, ..], which groups divides, and all space axes; weight and bias for each channel, unless affine is
-- false.
--   y = nn.GroupNorm(4, 16)(rng.normal{2, 16, 8, 8})      -- f32[2,16,8,8]
function GroupNorm:init(groups, channels, ...)
  need("GroupNorm", "groups", COUNT, groups)
  need("GroupNorm", "channels", SIZE, channels)
  if channels % groups ~= 0 then core.fail(("GroupNorm: %d groups do not divide channels = %d"):format(groups, channels)) end
  local o = read_groupnorm(...)
  self.groups, self.channels, self.eps = groups, channels, o.eps
  self._told = options.told("GroupNorm", o, "groups", groups, "channels", channels)
  if o.affine then
    self.weight, self.bias = op.ones({ channels }, { dtype = o.dtype }), op.zeros({ channels }, { dtype = o.dtype })
  end
end

function GroupNorm:forward(x)
  return op.group_norm(x, self.weight, self.bias, { groups = self.groups, eps = self.eps })
end

require "tessera.nn.convolution"(nn)
require "tessera.nn.layers"(nn, require "tessera.nn.activation"(nn))

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
-- List{a, b, c}: modules by number, list[1], that another module has as a field, whose parameters they are; it has no
-- forward: who has it calls them.
--   local blocks = nn.List{nn.Linear(2, 2), nn.Linear(2, 2)}
function List:init(modules)
  need("List", "modules", options.table, modules or {})
  for i, m in ipairs(modules or {}) do self[i] = m end
end

for name, class in pairs(require "tessera.nn.recurrent") do nn[name] = class end
require "tessera.nn.transformer"(nn)
require "tessera.experts.layer"(nn)
require("tessera.nn.losses").into(nn)

return require("tessera.named")("tessera.nn", nn)
