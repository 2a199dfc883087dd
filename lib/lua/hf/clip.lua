-- CLIP: a text and an image, each as a vector of norm 1; gives the logits of images by texts, and both vectors.

local attention = require "tessera.hf.attention"
local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local encoder = require "tessera.hf.encoder"
local options = require "tessera.options"
local vit = require "tessera.hf.vit"
local op = core.op

local Layer = blocks.define "CLIPLayer"

function Layer:init(c, causal)
  local width = c.hidden_size
  self.layer_norm1, self.layer_norm2 = blocks.LayerNorm(width, c.layer_norm_eps), blocks.LayerNorm(width, c.layer_norm_eps)
  self.self_attn = attention.Heads(width, c.num_attention_heads, { "q_proj", "k_proj", "v_proj", "out_proj" }, { causal = causal })
  self.mlp = blocks.MLP(width, c.intermediate_size, { activation = c.hidden_act, bias = true, up = "fc1", down = "fc2" })
end

function Layer:forward(x, o)
  x = x + self.self_attn(self.layer_norm1(x), o)
  return x + self.mlp(self.layer_norm2(x))
end

local function layers(c, causal)
  return blocks.group("layers", blocks.list(c.num_hidden_layers, function() return Layer(c, causal) end))
end

local Text = blocks.define "CLIPText"

function Text:init(c)
  self.last = c.eos_token_id
  self.embeddings = blocks.group("token_embedding", blocks.Embedding(c.vocab_size, c.hidden_size), "position_embedding",
    blocks.Embedding(c.max_position_embeddings, c.hidden_size))
  self.encoder = layers(c, true)
  self.final_layer_norm = blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
end

-- Of the first end of the text; old configurations say 2 and mean the largest token.
function Text:forward(o)
  local ids = o.ids
  local x = self.embeddings.token_embedding(ids) + self.embeddings.position_embedding(o.positions or encoder.count(ids))
  for _, layer in ipairs(self.encoder.layers) do x = layer(x, { mask = o.seen }) end
  x = self.final_layer_norm(x)
  local at = self.last == 2 and ids:argmax { axis = 1 } or ids:eq(self.last):cast("i64"):argmax { axis = 1 }
  local index = at:reshape(-1, 1, 1):broadcast_to { x.shape[1], 1, x.shape[3] }
  return op.gather(x, index, { axis = 1 }):squeeze(1)
end

local Embeddings = blocks.define "CLIPEmbeddings"

function Embeddings:init(c)
  self:want("class_embedding", { c.hidden_size })
  self.patch_embedding = vit.Patches(c.num_channels, c.hidden_size, c.patch_size)
  self.position_embedding = blocks.Embedding((c.image_size / c.patch_size) ^ 2 + 1, c.hidden_size)
end

function Embeddings:forward(image)
  local x = self.patch_embedding(image)
  local first = self.class_embedding:broadcast_to { x.shape[1], 1, x.shape[3] }
  return op.concat({ first, x }, { axis = 1 }) + self.position_embedding.weight
end

local Vision = blocks.define "CLIPVision"

function Vision:init(c)
  self.embeddings = Embeddings(c)
  self.pre_layrnorm = blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
  self.encoder = layers(c, false)
  self.post_layernorm = blocks.LayerNorm(c.hidden_size, c.layer_norm_eps)
end

function Vision:forward(image)
  local x = self.pre_layrnorm(self.embeddings(image))
  for _, layer in ipairs(self.encoder.layers) do x = layer(x, {}) end
  return self.post_layernorm(x:select(1, 0))
end

local Clip = blocks.define "CLIP"
local read = options.of("the model", { image = options.tensor, ids = options.tensor, mask = options.tensor })

function Clip:init(c)
  local text, vision = c.text_config, c.vision_config
  self.text_model, self.vision_model = Text(text), Vision(vision)
  self.visual_projection = blocks.Linear(vision.hidden_size, c.projection_dim)
  self.text_projection = blocks.Linear(text.hidden_size, c.projection_dim)
  self:want("logit_scale", {})
end

local function unit(x) return x / op.norm(x, { axis = -1, keepdims = true }) end

-- m:text(ids, {mask}): vectors [B, width] of norm 1.
--   local t = m:text(ids)
function Clip:text(ids, o) return unit(self.text_projection(self.text_model(encoder.arguments(ids, o)))) end

-- m:image(images): vectors [B, width] of norm 1.
--   local v = m:image(images)
function Clip:image(images) return unit(self.visual_projection(self.vision_model(vit.need_image(images, self.config.vision_config)))) end

-- m{image, ids, mask}: logits [images, texts], the texts' vectors, the images'.
function Clip:forward(o)
  o = read(o)
  if not (o.image and o.ids) then core.fail "the model: image and ids are needed\n  hint: m:text(ids) and m:image(image) take one of them" end
  local text, image = self:text(o.ids, { mask = o.mask }), self:image(o.image)
  return op.matmul(image, text:T()) * op.exp(self.logit_scale), text, image
end

local function with_defaults(c, more)
  for k, v in pairs { hidden_act = "quick_gelu", layer_norm_eps = 1e-5, num_channels = 3, max_position_embeddings = 77, eos_token_id = 2 } do
    if c[k] == nil then c[k] = v end
  end
  for k, v in pairs(more) do
    if c[k] == nil then c[k] = v end
  end
end

return {
  architectures = { CLIPModel = "logits" },
  needs = { "text_config", "vision_config", "projection_dim" },
  ignored = { "position_ids$" },
  check = function(c)
    with_defaults(c.text_config, { vocab_size = 49408, hidden_size = 512, num_hidden_layers = 12, num_attention_heads = 8, intermediate_size = 2048 })
    with_defaults(c.vision_config, { hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12, intermediate_size = 3072, image_size = 224,
      patch_size = 32 })
    return {}
  end,
  build = Clip,
}
