-- Convolutions, pools, embeddings, norms and activations beside PyTorch's, with its options by place.
local tessera = require "tessera"
local op, nn, graph = tessera.op, tessera.nn, tessera.graph
local layers = dofile "tests/lua/_layers.lua"

layers.check("conv_same", nn.Conv2d(3, 4, { 3, 2 }, { padding = "same", dilation = { 2, 1 } }))
layers.check("conv_places", nn.Conv1d(4, 6, 3, 2, 1, 1, 2, false))
for _, mode in ipairs { "reflect", "replicate", "circular" } do
  layers.check("conv_" .. mode, nn.Conv2d(2, 3, 3, { padding = { 1, 2 }, padding_mode = mode }))
end
layers.check("conv_transpose", nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, false))
layers.check("max_ceil", nn.MaxPool2d(3, 2, 1, { ceil_mode = true }))
layers.check("max_ceil_wide", nn.MaxPool({ 2, 3 }, { 3, 2 }, { 0, 1 }, { 2, 1 }, false, true))
layers.check("avg_ceil", nn.AvgPool2d(3, 2, 1, true))
layers.check("avg_ceil_inside", nn.AvgPool2d(3, 2, 1, true, false))
layers.check("avg_ceil_1d", nn.AvgPool1d(4, 3, 2, true))
layers.check("avg_ceil_3d", nn.AvgPool({ 2, 2, 2 }, { ceil_mode = true }))
layers.check("avg_ceil_narrow", nn.AvgPool(5, { dims = 1, stride = 4, ceil_mode = true }))
layers.check("embedding_padding", nn.Embedding(5, 3, 2))
for _, mode in ipairs { "sum", "mean", "max" } do
  layers.check("bag_" .. mode, nn.EmbeddingBag(5, 3, mode))
  layers.check("bag_padding_" .. mode, nn.EmbeddingBag(5, 3, { mode = mode, padding_idx = 2 }))
  layers.check("bag_offsets_" .. mode, nn.EmbeddingBag(5, 3, { mode = mode }))
end
layers.check("bag_last", nn.EmbeddingBag(5, 3, { mode = "sum", include_last_offset = true }))
layers.check("bag_weights", nn.EmbeddingBag(5, 3, "sum"), function(m, i, o, w) return m(i, o, { weights = w }) end)
layers.check("layernorm_plain", nn.LayerNorm({ 2, 4 }, 1e-3, false))
layers.check("layernorm_scale", nn.LayerNorm(4, { bias = false }))
layers.check("rmsnorm", nn.RMSNorm(4, 1e-3))
layers.check("batchnorm_plain", nn.BatchNorm(2, 1e-3, 0.3, false))
layers.check("batchnorm_batch", nn.BatchNorm(2, { running = false }):eval())
layers.check("groupnorm_plain", nn.GroupNorm(2, 4, 1e-3, false))
layers.check("gelu_tanh", nn.GELU "tanh")
layers.check("leaky_relu", nn.LeakyReLU(0.2))
layers.check("elu", nn.ELU { alpha = 0.5 })
layers.check("softplus", nn.Softplus(2, 1))
layers.check("prelu", nn.PReLU(3))
layers.check("prelu_one", nn.PReLU())
layers.check("flatten", nn.Flatten(1, 2))
layers.check("upsample", nn.Upsample { scale = 2, mode = "linear", align_corners = true })

-- Elements at places between them.
for _, mode in ipairs { "bilinear", "nearest" } do
  for _, outside in ipairs { "zeros", "border", "reflection" } do
    for word, corners in pairs { False = false, True = true } do
      layers.check(("grid_%s_%s_%s"):format(mode, outside, word), nil, function(_, x, g)
        return op.grid_sample(x, g, { mode = mode, padding = outside, align_corners = corners })
      end)
    end
  end
end

-- Channels last have the results of channels first.
local x = tessera.rng.normal({ 2, 3, 6, 7 }, { seed = 1, stream = 1 })
local function last(x) return x:permute(0, 2, 3, 1) end
local function both(make)
  local a, b = make "nchw", make "nhwc"
  if a.weight then
    b:load_state_dict { weight = last(a.weight:detach()), bias = a.bias }
  end
  layers.near("nhwc", b(last(x)), last(a(x)), 1e-6)
end
both(function(layout) return nn.Conv2d(3, 4, 2, { padding = "same", layout = layout }) end)
both(function(layout) return nn.Conv2d(3, 4, 3, { padding = 1, padding_mode = "reflect", layout = layout }) end)
both(function(layout) return nn.MaxPool(3, 2, { ceil_mode = true, layout = layout }) end)
both(function(layout) return nn.AvgPool(3, 2, 1, { ceil_mode = true, layout = layout }) end)
-- The slope of a mean is its own transpose, over the end too.
local function mean(x) return op.avg_pool(x, { window = 3, stride = 2, padding = 1, ceil_mode = true }) end
local slope = graph.grad(function(x, g) return (mean(x) * g):sum() end)
local y = mean(x)
local g = tessera.rng.normal(y.shape, { seed = 2, stream = 1 })
math.abs((slope(x, g) * x):sum():item() - (y * g):sum():item()) < 1e-4 --> true

-- What is no option, or is too much, is an error.
nn.Conv2d(3, 4, 3, { pad = 1 }) --! Conv2d: unknown option 'pad'
nn.Conv2d(3, 4, 3, 1, "full") --! Conv2d: option 'padding' must be a whole number >= 0, or a list of 2, 'same' or 'valid', not 'full'
nn.Conv2d(3, 4, 3, 2, "same") --! Conv2d: padding 'same' has no meaning with a stride
nn.Conv2d(3, 4, 3, 1, 0, 1, 1, true, "zeros", 5) --! Conv2d: too many arguments; by place are stride, padding, dilation
nn.ReLU(1) --! ReLU: option 'inplace' must be a boolean, not 1
nn.LeakyReLU { slop = 0.2 } --! LeakyReLU: unknown option 'slop'
nn.Linear(3, 2, { biass = false }) --! hint: did you mean 'bias'?
nn.Linear(3, 2, false).bias --> nil
nn.Linear(3, 2, true, "f64").weight.dtype --> f64
nn.EmbeddingBag(3, 2)(op.arange(3)) --! EmbeddingBag: the index is i64[3], and has to be [bags, n], or a vector with offsets
nn.Embedding(3, 2, 3) --! Embedding: padding_idx 3 is no row of 3
nn.PReLU(2)(op.zeros { 1, 3 }) --! PReLU: 2 slopes are for as many channels, and x is f32[1,3]
-- What PyTorch counts is no unknown entry of a state.
local bn = nn.BatchNorm(2)
local state = bn:state_dict()
state.num_batches_tracked = tessera.tensor(3)
#bn:load_state_dict(state).unknown --> 0

-- Padding by a word, of the operators.
for _, c in ipairs { { 1, "0", {} }, { 2, "dilation", { dilation = { 2, 1 } } }, { 2, "groups", { groups = 2 } }, { 3, "0", {} } } do
  for _, word in ipairs { "same", "valid" } do
    local row, o = op["conv" .. c[1] .. "d"], { padding = word }
    for k, v in pairs(c[3]) do o[k] = v end
    layers.check(("conv%dd_%s_%s"):format(c[1], word, c[2]), nil, function(_, x, w, b) return row(x, w, b, o) end)
  end
end
do
  local x, w = tessera.rng.normal { 1, 4, 5, 6 }, tessera.rng.normal { 8, 4, 2, 3 }
  local wide = op.conv2d(x, w, { padding = "same" })
  local back = op.conv2d(last(x), w:permute(0, 2, 3, 1), { padding = "same", layout = "nhwc" })
  layers.near("nhwc", back, last(wide), 1e-6)
  local deep = op.depthwise_conv2d(x, tessera.rng.normal { 4, 1, 2, 2 }, { padding = "same" })
  deep.shape[3] .. " " .. deep.shape[4] --> 5 6
  op.conv2d(x, w, { padding = "same", stride = 2 }) --! conv2d: padding 'same' has no meaning with a stride
  op.conv2d(x, w, { padding = "both" }) --! conv2d: option 'padding' must be integers, 'same' or 'valid', not 'both'
end

-- Images of three axes.
for _, mode in ipairs { "bilinear", "nearest" } do
  for _, outside in ipairs { "zeros", "border", "reflection" } do
    for word, corners in pairs { False = false, True = true } do
      layers.check(("grid3_%s_%s_%s"):format(mode, outside, word), nil, function(_, x, g)
        return op.grid_sample(x, g, { mode = mode, padding = outside, align_corners = corners })
      end)
    end
  end
end
