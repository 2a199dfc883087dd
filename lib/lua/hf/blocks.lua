-- What models are put together of: modules whose tensors are declared by name and shape, so that a plan and all faults
-- are known before a byte is there; the loader (load.lua) puts the file's tensors in. Attention: attention.lua.

local core = require "tessera.core"
local Module = require "tessera.module"
local op = core.op

local blocks = {}

--- A class of such modules. self:want(name, shape [, make]) declares a tensor, [..] in the order of the file. make =
--- {from = names, shapes = .., join = f, apart, split}: it is what f makes of several tensors of the file, whose names are told. apart: they
--- stay as they are, by their names, unless another dtype is asked for. split: MXFP4 becomes NAME_blocks and NAME_scales on a device.
local Block = Module:extend "Block"
blocks.Block = Block

function Block:want(name, shape, make)
  local wants = rawget(self, "_wants")
  if not wants then
    wants = {}
    rawset(self, "_wants", wants)
  end
  wants[#wants + 1] = { name = name, shape = shape, from = make and make.from, shapes = make and make.shapes, join = make and make.join,
    apart = make and make.apart, split = make and make.split }
end

function blocks.define(name, parent) return (parent or Block):extend(name) end

-- ---- activations

local function quick_gelu(x) return x * op.sigmoid(x * 1.702) end
local function gelu_tanh(x) return op.gelu(x, { approximate = "tanh" }) end
local ACTIVATION = { silu = op.silu, swish = op.silu, gelu = op.gelu, gelu_new = gelu_tanh, gelu_fast = gelu_tanh,
  gelu_pytorch_tanh = gelu_tanh, quick_gelu = quick_gelu, relu = op.relu, tanh = op.tanh, sigmoid = op.sigmoid }

--- The activation by its name in configurations; an error that lists what there is.
function blocks.activation(name)
  local f = ACTIVATION[name]
  if f then return f end
  local words = {}
  for word in pairs(ACTIVATION) do words[#words + 1] = word end
  table.sort(words)
  local guess = core.suggest(tostring(name), words)
  core.fail(("hf.load: the activation '%s' is unknown%s\n  hint: there are %s"):format(core.shown(tostring(name)),
    guess and (", did you mean '%s'?"):format(guess) or "", table.concat(words, ", ")))
end

-- ---- linear, embedding

local Linear = blocks.define "Linear"
blocks.Linear = Linear

--- Linear(inputs, outputs, bias): x w^T + bias with w [outputs, inputs], which may be stored in blocks.
function Linear:init(inputs, outputs, bias)
  self.inputs, self.outputs = inputs, outputs
  self:want("weight", { outputs, inputs })
  if bias then self:want("bias", { outputs }) end
end

function Linear:forward(x) return op.linear(x, self.weight, self.bias) end
function Linear:extra() return ("inputs = %d, outputs = %d"):format(self.inputs, self.outputs) end

local Embedding = blocks.define "Embedding"
blocks.Embedding = Embedding

--- Embedding(count, width): rows of a table by index; of one stored in blocks as f32.
function Embedding:init(count, width)
  self.count, self.width = count, width
  self:want("weight", { count, width })
end

local in_blocks = {}
for _, d in ipairs(core.dtypes()) do in_blocks[d.name] = d.block > 1 end
--- Whether tensors of a dtype are stored in blocks.
function blocks.in_blocks(dtype) return in_blocks[dtype] end

function Embedding:forward(ids) return op.embedding(self.weight, ids) end
function Embedding:extra() return ("count = %d, width = %d"):format(self.count, self.width) end

-- ---- norms

local RMSNorm = blocks.define "RMSNorm"
blocks.RMSNorm = RMSNorm

--- RMSNorm(width, eps [, above]): x / sqrt(mean(x^2) + eps) * (weight + above) over the last axis; above is 1 in gemma.
function RMSNorm:init(width, eps, above)
  self.eps, self.above = eps, above or 0
  self:want("weight", { width })
end

function RMSNorm:forward(x)
  local w = self.weight
  if self.above ~= 0 then w = (w.dtype == "f64" and w or w:cast "f32") + self.above end -- in 16 bits the sum would be rounded
  return op.rmsnorm(x, w, { eps = self.eps })
end

local LayerNorm = blocks.define "LayerNorm"
blocks.LayerNorm = LayerNorm

--- LayerNorm(width, eps [, bias = true]): over the last axis.
function LayerNorm:init(width, eps, bias)
  self.eps = eps
  self:want("weight", { width })
  if bias ~= false then self:want("bias", { width }) end
end

function LayerNorm:forward(x) return op.layernorm(x, self.weight, self.bias, { eps = self.eps }) end

-- ---- perceptrons

local MLP = blocks.define "MLP"
blocks.MLP = MLP

--- MLP(width, hidden, {activation, bias, up, down}): two linear layers of these names, an activation between.
function MLP:init(width, hidden, o)
  self.activation, self.names = blocks.activation(o.activation), { o.up, o.down }
  self[o.up] = Linear(width, hidden, o.bias)
  self[o.down] = Linear(hidden, width, o.bias)
end

function MLP:forward(x) return self[self.names[2]](self.activation(self[self.names[1]](x))) end

local GatedMLP = blocks.define "GatedMLP"
blocks.GatedMLP = GatedMLP

--- GatedMLP(width, hidden, activation [, bias]): down(activation(gate(x)) * up(x)).
function GatedMLP:init(width, hidden, activation, bias)
  self.activation = blocks.activation(activation)
  self.gate_proj = Linear(width, hidden, bias)
  self.up_proj = Linear(width, hidden, bias)
  self.down_proj = Linear(hidden, width, bias)
end

function GatedMLP:forward(x) return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x)) end

local Group = blocks.define "Group"

--- group("a", A, "b", B ..): a module with these as fields, whose names files have and which does nothing itself.
function blocks.group(...)
  local g = Group()
  for i = 1, select("#", ...), 2 do
    local name, part = select(i, ...)
    if part then g[name] = part end
  end
  return g
end

--- A list of n modules, f(i) for i from 1 on.
function blocks.list(n, f)
  local list = require("tessera.nn").List()
  for i = 1, n do list[i] = f(i) end
  return list
end

return blocks
