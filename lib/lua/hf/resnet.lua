-- ResNet: a stem, stages of basic or bottleneck layers. Gives the features [B, C, H, W] and their means [B, C, 1, 1], or logits
-- of classes. Norms are those of batches: m:train() moves their statistics.

local bert = require "tessera.hf.bert"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op

local Convolution = blocks.define "Convolution"

function Convolution:init(inputs, outputs, kernel, stride)
  self.stride, self.padding = stride, math.floor(kernel / 2)
  self:want("weight", { outputs, inputs, kernel, kernel })
end

function Convolution:forward(x) return op.conv2d(x, self.weight, nil, { stride = self.stride, padding = self.padding }) end

-- The library's layer, whose tensors are declared.
local Norm = blocks.define("BatchNorm", blocks.Block)
local BatchNorm = require("tessera.nn").BatchNorm

function Norm:init(channels)
  self.channels, self.eps, self.momentum = channels, 1e-5, 0.1
  for _, name in ipairs { "weight", "bias", "running_mean", "running_var" } do self:want(name, { channels }) end
end
Norm.forward = BatchNorm.forward

local Unit = blocks.define "ConvolutionUnit"

function Unit:init(inputs, outputs, kernel, stride, activation)
  self.convolution, self.normalization = Convolution(inputs, outputs, kernel, stride), Norm(outputs)
  self.activation = activation
end

function Unit:forward(x)
  local y = self.normalization(self.convolution(x))
  return self.activation and self.activation(y) or y
end

local Layer = blocks.define "ResNetLayer"

function Layer:init(c, inputs, outputs, stride)
  local f = blocks.activation(c.hidden_act)
  self.activation = f
  if inputs ~= outputs or stride ~= 1 then self.shortcut = Unit(inputs, outputs, 1, stride) end
  local units
  if c.layer_type == "bottleneck" then
    local narrow, early = math.floor(outputs / 4), c.downsample_in_bottleneck
    units = { Unit(inputs, narrow, 1, early and stride or 1, f), Unit(narrow, narrow, 3, early and 1 or stride, f), Unit(narrow, outputs, 1, 1) }
  else
    units = { Unit(inputs, outputs, 3, stride, f), Unit(outputs, outputs, 3, 1) }
  end
  self.layer = blocks.list(#units, function(i) return units[i] end)
end

function Layer:forward(x)
  local y = x
  for _, unit in ipairs(self.layer) do y = unit(y) end
  return self.activation(y + (self.shortcut and self.shortcut(x) or x))
end

local Body = blocks.define "ResNetModel"

function Body:init(c)
  self.embedder = blocks.group("embedder", Unit(c.num_channels, c.embedding_size, 7, 2, blocks.activation(c.hidden_act)))
  local inputs = c.embedding_size
  self.encoder = blocks.group("stages", blocks.list(#c.hidden_sizes, function(stage)
    local outputs, first = c.hidden_sizes[stage], stage > 1 or c.downsample_in_first_stage
    return blocks.group("layers", blocks.list(c.depths[stage], function(i)
      local layer = Layer(c, inputs, outputs, i == 1 and first and 2 or 1)
      inputs = outputs
      return layer
    end))
  end))
end

function Body:forward(x)
  x = op.max_pool(self.embedder.embedder(x), { window = { 3, 3 }, stride = { 2, 2 }, padding = { 1, 1 } })
  for _, stage in ipairs(self.encoder.stages) do
    for _, layer in ipairs(stage.layers) do x = layer(x) end
  end
  return x, x:mean { axis = { 2, 3 }, keepdims = true }
end

local ResNet = blocks.define "ResNet"
local read = options.of("the model", { image = options.tensor })

function ResNet:init(c, gives)
  self.resnet = Body(c)
  if gives == "classes" then -- behind a layer that only flattens
    local last = blocks.Linear(c.hidden_sizes[#c.hidden_sizes], bert.labels(c), true)
    self.classifier = blocks.list(2, function(i) return i == 1 and blocks.Block() or last end)
  end
end

-- m(image), or m{image = ..}, image [B, 3, H, W]: features and their means, or logits of classes.
function ResNet:forward(image, o)
  if type(image) == "table" and not core.is_tensor(image) then image, o = nil, image end
  image = read(o).image or image
  local channels = self.config.num_channels
  if not image or image.ndim ~= 4 or image.shape[2] ~= channels then
    core.fail(("the model: image is %s, and has to be [batch,%d,height,width]"):format(image and core.type_text(image) or "not given", channels))
  end
  local x, pooled = self.resnet(image)
  if self.classifier then return self.classifier[2](pooled:flatten(1)) end
  return x, pooled
end

return {
  architectures = { ResNetModel = "hidden", ResNetForImageClassification = "classes" },
  plain = "hidden", prefix = "resnet", needs = { "embedding_size", "hidden_sizes", "depths" },
  defaults = { num_channels = 3, layer_type = "bottleneck", hidden_act = "relu", downsample_in_first_stage = false,
    downsample_in_bottleneck = false },
  ignored = { "num_batches_tracked$" },
  check = function(c)
    local wrong = {}
    if #c.hidden_sizes ~= #c.depths then wrong[1] = ("hidden_sizes has %d numbers and depths %d"):format(#c.hidden_sizes, #c.depths) end
    if c.layer_type ~= "basic" and c.layer_type ~= "bottleneck" then
      wrong[#wrong + 1] = ("layer_type '%s' is unknown: basic, bottleneck"):format(tostring(c.layer_type))
    end
    return wrong
  end,
  build = ResNet,
}
