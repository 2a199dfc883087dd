-- ViT: patches of images as tokens behind one for the class, layers with norms before attention and perceptron. Gives hidden states
-- and, where the file has a pooler, what it makes of the first token; or logits of classes.

local attention = require "tessera.hf.attention"
local bert = require "tessera.hf.bert"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op

local vit = {}

local Patches = blocks.define "Patches"

--- Patches(channels, width, size, bias): images [B, C, H, W] as rows [B, patches, width].
function Patches:init(channels, width, size, bias)
  self.size = size
  self:want("weight", { width, channels, size, size })
  if bias then self:want("bias", { width }) end
end

function Patches:forward(x)
  local y = op.conv2d(x, self.weight, self.bias, { stride = self.size })
  return y:reshape { y.shape[1], y.shape[2], y.shape[3] * y.shape[4] }:T()
end
vit.Patches = Patches

--- The image of a call, [B, channels, size, size], checked against the configuration.
function vit.need_image(image, c)
  local s = image and image.ndim == 4 and image.shape
  if s and s[2] == c.num_channels and s[3] == c.image_size and s[4] == c.image_size then return image end
  core.fail(("the model: image is %s, and has to be [batch,%d,%d,%d]"):format(image and core.type_text(image) or "not given", c.num_channels,
    c.image_size, c.image_size))
end

local Layer = blocks.define "ViTLayer"

function Layer:init(c)
  local width = c.hidden_size
  local function output(inputs) return blocks.group("dense", blocks.Linear(inputs, width, true)) end
  self.layernorm_before = blocks.LayerNorm(width, c.layer_norm_eps)
  self.attention = blocks.group("attention", attention.Heads(width, c.num_attention_heads, { "query", "key", "value" }, { bias = c.qkv_bias }),
    "output", output(width))
  self.layernorm_after = blocks.LayerNorm(width, c.layer_norm_eps)
  self.intermediate = blocks.group("dense", blocks.Linear(width, c.intermediate_size, true))
  self.output, self.activation = output(c.intermediate_size), blocks.activation(c.hidden_act)
end

function Layer:forward(x)
  local a = self.attention
  x = x + a.output.dense(a.attention(self.layernorm_before(x), {}))
  return x + self.output.dense(self.activation(self.intermediate.dense(self.layernorm_after(x))))
end

local Embeddings = blocks.define "ViTEmbeddings"

function Embeddings:init(c)
  self:want("cls_token", { 1, 1, c.hidden_size })
  self:want("position_embeddings", { 1, (c.image_size / c.patch_size) ^ 2 + 1, c.hidden_size })
  self.patch_embeddings = blocks.group("projection", Patches(c.num_channels, c.hidden_size, c.patch_size, true))
end

function Embeddings:forward(image)
  local x = self.patch_embeddings.projection(image)
  local first = self.cls_token:broadcast_to { x.shape[1], 1, x.shape[3] }
  return op.concat({ first, x }, { axis = 1 }) + self.position_embeddings
end

local Body = blocks.define "ViTModel"

function Body:init(c, pooled)
  self.embeddings = Embeddings(c)
  self.encoder = blocks.group("layer", blocks.list(c.num_hidden_layers, function() return Layer(c) end))
  self.layernorm = blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
  if pooled then
    self.pooler = blocks.group("dense", blocks.Linear(c.hidden_size, c.pooler_output_size or c.hidden_size, true))
    self.activation = blocks.activation(c.pooler_act or "tanh")
  end
end

function Body:forward(image)
  local x = self.embeddings(image)
  for _, layer in ipairs(self.encoder.layer) do x = layer(x) end
  x = self.layernorm(x)
  return x, self.pooler and self.activation(self.pooler.dense(x:select(1, 0)))
end

local ViT = blocks.define "ViT"
local read = options.of("the model", { image = options.tensor })

function ViT:init(c, gives, has)
  self.vit = Body(c, gives == "hidden" and has "vit.pooler.dense.weight")
  if gives == "classes" then self.classifier = blocks.Linear(c.hidden_size, bert.labels(c), true) end
end

--- The image of m(image) and of m{image = ..}.
function vit.image(x, o, c)
  if type(x) == "table" and not core.is_tensor(x) then x, o = nil, x end
  return vit.need_image(read(o).image or x, c)
end

-- m(image), or m{image = ..}, image [B, 3, H, W]: hidden states [B, 1 + patches, width], and the pooler's; or logits of classes.
function ViT:forward(image, o)
  local x, pooled = self.vit(vit.image(image, o, self.config))
  if self.classifier then return self.classifier(x:select(1, 0)) end
  return x, pooled
end

vit.architectures = { ViTModel = "hidden", ViTForImageClassification = "classes" }
vit.plain, vit.prefix = "hidden", "vit"
vit.needs = { "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size" }
vit.defaults = { hidden_act = "gelu", layer_norm_eps = 1e-12, num_channels = 3, qkv_bias = true }
vit.ignored = { "^vit%.pooler%." }
vit.build = ViT

return vit
