-- Layers beside those that most models are made of, with PyTorch's names and options. Loaded by nn; define is that of
-- activation.lua.

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need = options.argument
local NUMBER, SIZE, ABOVE, SHARE = options.number(), options.number { least = 0 }, options.number { above = 0 }, options.number { least = 0, most = 1 }
local AXIS, COUNT, FLAG, DTYPE, TENSOR = options.whole(), options.whole { least = 1 }, options.flag, options.dtype, options.tensor
local WINDOW, PADDING = options.each(COUNT, 2), options.each(options.whole { least = 0 }, 2)

return function(nn, define)
  local function plain(row)
    return {}, {}, {}, function(x) return op[row](x) end
  end

  -- ---- activations

  -- ReLU6(): op.relu6, x limited to [0, 6], element by element, of any shape.
  --   y = nn.ReLU6()(rng.normal{4})
  define("ReLU6", plain "relu6")
  -- Hardsigmoid(): op.hardsigmoid, x / 6 + 1 / 2 limited to [0, 1], element by element, of any shape.
  --   y = nn.Hardsigmoid()(rng.normal{4})
  define("Hardsigmoid", plain "hardsigmoid")
  -- Tanhshrink(): op.tanhshrink, x - tanh(x), element by element, of any shape.
  --   y = nn.Tanhshrink()(rng.normal{4})
  define("Tanhshrink", plain "tanhshrink")
  -- Softsign(): op.softsign, x / (1 + |x|), element by element, of any shape.
  --   y = nn.Softsign()(rng.normal{4})
  define("Softsign", plain "softsign")
  -- LogSigmoid(): op.logsigmoid, log(sigmoid(x)), element by element, of any shape.
  --   y = nn.LogSigmoid()(rng.normal{4})
  define("LogSigmoid", plain "logsigmoid")
  -- SELU(): op.selu, which keeps mean 0 and variance 1.
  --   y = nn.SELU()(rng.normal{4})
  define("SELU", plain "selu")
  -- CELU({alpha = 1}): op.celu, x for x > 0, else alpha * (e^(x / alpha) - 1).
  --   y = nn.CELU(2)(rng.normal{4})
  define("CELU", { alpha = ABOVE }, { alpha = 1 }, { "alpha" }, function(x, o) return op.celu(x, { alpha = o.alpha }) end)
  -- Hardtanh({min = -1, max = 1}): op.hardtanh, x limited to [min, max].
  --   y = nn.Hardtanh(-2, 2)(rng.normal{4})
  define("Hardtanh", { min = NUMBER, max = NUMBER }, { min = -1, max = 1 }, { "min", "max" },
    function(x, o) return op.hardtanh(x, { min = o.min, max = o.max }) end)
  -- Hardshrink({lambda = 0.5}): op.hardshrink, x where |x| > lambda, else 0.
  --   y = nn.Hardshrink()(rng.normal{4})
  define("Hardshrink", { lambda = SIZE }, { lambda = 0.5 }, { "lambda" }, function(x, o) return op.hardshrink(x, { lambda = o.lambda }) end)
  -- Softshrink({lambda = 0.5}): op.softshrink, x nearer to 0 by lambda.
  --   y = nn.Softshrink()(rng.normal{4})
  define("Softshrink", { lambda = SIZE }, { lambda = 0.5 }, { "lambda" }, function(x, o) return op.softshrink(x, { lambda = o.lambda }) end)
  -- Softmin({axis = -1}): op.softmin, op.softmax of -x along an axis.
  --   y = nn.Softmin()(rng.normal{4})
  define("Softmin", { axis = AXIS }, { axis = -1 }, { "axis" }, function(x, o) return op.softmin(x, { axis = o.axis }) end)
  -- GLU({axis = -1}): op.glu, the first half along axis times the sigmoid of the second.
  --   y = nn.GLU()(rng.normal{2, 4})      -- f32[2,2]
  define("GLU", { axis = AXIS }, { axis = -1 }, { "axis" }, function(x, o) return op.glu(x, { axis = o.axis }) end)
  -- RReLU({lower = 1 / 8, upper = 1 / 3}): x for x > 0, else times a slope that is drawn for each element between lower and
  -- upper while training, and their mean afterwards.
  --   y = nn.RReLU()(rng.normal{4})
  define("RReLU", { lower = NUMBER, upper = NUMBER }, { lower = 1 / 8, upper = 1 / 3 }, { "lower", "upper" }, function(x, o, self)
    if not self.training then return op.leaky_relu(x, { slope = (o.lower + o.upper) / 2 }) end
    local slope = op.uniform(x.shape, { low = o.lower, high = o.upper, dtype = x.dtype }):to(x.device)
    return op.where(op.gt(x, 0), x, x * slope)
  end)

  local Threshold = nn.Module:extend "Threshold"
  nn.Threshold = Threshold
  -- Threshold(limit, value): op.threshold, x where it is above limit, else value.
  --   y = nn.Threshold(0.1, 20)(rng.normal{4})
  function Threshold:init(limit, value)
    self.limit, self.value = need("Threshold", "limit", NUMBER, limit), need("Threshold", "value", NUMBER, value)
    self._told = ("limit = %.14g, value = %.14g"):format(limit, value)
  end
  function Threshold:forward(x) return op.threshold(x, self.limit, self.value) end

  -- ---- dropout of channels

  local function channels(n)
    return { p = SHARE }, { p = 0.5 }, { "p" }, function(x, o, self)
      if not self.training or o.p == 0 then return x end
      local shape = { unpack(x.shape) }
      for i = math.max(x.ndim - n, 0) + 1, x.ndim do shape[i] = 1 end
      return x * op.dropout(op.ones(shape, { dtype = x.dtype }):to(x.device), { p = o.p })
    end
  end
  -- Dropout1d({p = 0.5}): nn.Dropout of whole channels of x [N, C, L] or [C, L].
  --   y = nn.Dropout1d(0.2)(rng.normal{2, 3, 4})
  define("Dropout1d", channels(1))
  -- Dropout2d({p = 0.5}): nn.Dropout of whole channels of x [N, C, H, W] or [C, H, W].
  --   y = nn.Dropout2d(0.2)(rng.normal{2, 3, 4, 4})
  define("Dropout2d", channels(2))
  -- Dropout3d({p = 0.5}): nn.Dropout of whole channels of x [N, C, D, H, W] or [C, D, H, W].
  --   y = nn.Dropout3d(0.2)(rng.normal{2, 3, 4, 4, 4})
  define("Dropout3d", channels(3))
  -- AlphaDropout({p = 0.5}): dropout that keeps mean 0 and variance 1 behind nn.SELU: what is dropped becomes -1.7581, all is
  -- scaled and moved.
  --   y = nn.AlphaDropout(0.1)(rng.normal{4})
  define("AlphaDropout", { p = options.number { least = 0, below = 1 } }, { p = 0.5 }, { "p" }, function(x, o, self)
    if not self.training or o.p == 0 then return x end
    local low = -1.7580993408473766
    local a = 1 / math.sqrt((1 - o.p) * (1 + o.p * low * low))
    local kept = op.bernoulli(x.shape, { p = 1 - o.p }):to(x.device)
    return op.where(kept, x, low) * a - a * low * o.p
  end)

  -- ---- places

  -- PixelShuffle({factor = 1}): op.pixel_shuffle, channels as pixels.
  --   y = nn.PixelShuffle(2)(op.ones{1, 4, 3, 3})      -- f32[1,1,6,6]
  define("PixelShuffle", { factor = COUNT }, { factor = 1 }, { "factor" }, function(x, o) return op.pixel_shuffle(x, o.factor) end)
  -- PixelUnshuffle({factor = 1}): op.pixel_unshuffle, pixels as channels.
  --   y = nn.PixelUnshuffle(2)(op.ones{1, 1, 6, 6})      -- f32[1,4,3,3]
  define("PixelUnshuffle", { factor = COUNT }, { factor = 1 }, { "factor" }, function(x, o) return op.pixel_unshuffle(x, o.factor) end)
  -- ChannelShuffle({groups = 1}): the channels of x [N, C, ..] in another order: of each of groups the first, then the second,
  -- ..
  --   y = nn.ChannelShuffle(2)(op.ones{1, 4, 2, 2})
  define("ChannelShuffle", { groups = COUNT }, { groups = 1 }, { "groups" }, function(x, o)
    local c = x.shape[2]
    if not c or c % o.groups ~= 0 then core.fail(("ChannelShuffle: %d groups do not divide the channels of %s"):format(o.groups, core.type_text(x))) end
    return op.unflatten(x, 1, { o.groups, c / o.groups }):transpose(1, 2):reshape(x.shape)
  end)
  -- Unflatten({axis, sizes}): op.unflatten, an axis as several.
  --   y = nn.Unflatten(1, {2, 3})(op.ones{4, 6})      -- f32[4,2,3]
  define("Unflatten", { axis = options.needed(AXIS), sizes = options.needed(options.list(AXIS, nil, 1)) }, {}, { "axis", "sizes" },
    function(x, o) return op.unflatten(x, o.axis, o.sizes) end)
  -- Unfold({window, dilation = 1, padding = 0, stride = 1}): op.im2col, windows of images as columns.
  --   y = nn.Unfold(2)(op.ones{1, 3, 4, 4})      -- f32[1,12,9]
  define("Unfold", { window = options.needed(WINDOW), dilation = WINDOW, padding = PADDING, stride = WINDOW }, { dilation = 1, padding = 0, stride = 1 },
    { "window", "dilation", "padding", "stride" },
    function(x, o) return op.im2col(x, { window = o.window, dilation = o.dilation, padding = o.padding, stride = o.stride }) end)
  -- Fold({size, window, dilation = 1, padding = 0, stride = 1}): op.col2im, columns added up to images of that size.
  --   y = nn.Fold({4, 4}, 2)(op.ones{1, 12, 9})      -- f32[1,3,4,4]
  define("Fold", { size = options.needed(options.list(COUNT, 2)), window = options.needed(WINDOW), dilation = WINDOW, padding = PADDING, stride = WINDOW },
    { dilation = 1, padding = 0, stride = 1 }, { "size", "window", "dilation", "padding", "stride" },
    function(x, o) return op.col2im(x, { size = o.size, window = o.window, dilation = o.dilation, padding = o.padding, stride = o.stride }) end)

  -- As PyTorch, the last axis first; one number for all sides.
  local function padding(axes, mode, value)
    local side = options.whole()
    local kinds = { padding = options.each(side, 2 * axes) }
    local places = { "padding" }
    if value then kinds.value, places[2] = NUMBER, "value" end
    return kinds, { padding = 0, value = value }, places, function(x, o, self)
      if x.ndim < axes then core.fail(("%s: the input is %s, and has to have %d axes at least"):format(self.class, core.type_text(x), axes)) end
      local pads = {}
      for i = 1, axes do
        local at = 2 * (axes - i)
        for s = 1, 2 do pads[2 * (i - 1) + s] = type(o.padding) == "table" and o.padding[at + s] or o.padding end
      end
      local more = {}
      for i, n in ipairs(pads) do more[i] = math.max(n, 0) end
      local function pad(y) return op.pad(y, { pads = more, mode = mode, value = mode == "constant" and (o.value or 0) or nil }) end
      local function cut(y) -- by what is negative
        for i = 1, axes do
          local axis = y.ndim - axes + i - 1
          local front, back = math.max(-pads[2 * i - 1], 0), math.max(-pads[2 * i], 0)
          if front + back > 0 then y = y:narrow(axis, front, y.shape[axis + 1] - front - back) end
        end
        return y
      end
      if mode == "reflect" then return cut(pad(x)) end -- what is cut off was reflected
      return pad(cut(x))
    end
  end
  -- ZeroPad1d({padding = 0}): zeros around the last axis: a number, or {left, right}.
  --   y = nn.ZeroPad1d({1, 2})(op.ones{1, 2, 3})      -- f32[1,2,6]
  define("ZeroPad1d", padding(1, "constant"))
  -- ZeroPad2d({padding = 0}): zeros around the last two axes: a number, or {left, right, top, bottom}; what is negative is cut
  -- off.
  --   y = nn.ZeroPad2d(1)(op.ones{1, 2, 3, 3})      -- f32[1,2,5,5]
  define("ZeroPad2d", padding(2, "constant"))
  -- ZeroPad3d({padding = 0}): zeros around the last three axes: a number, or six, those of the last axis first.
  --   y = nn.ZeroPad3d(1)(op.ones{1, 2, 3, 3, 3})      -- f32[1,2,5,5,5]
  define("ZeroPad3d", padding(3, "constant"))
  -- ConstantPad1d({padding = 0, value = 0}): as nn.ZeroPad1d, with a value.
  --   y = nn.ConstantPad1d(1, 3.5)(op.ones{1, 2, 3})      -- f32[1,2,5]
  define("ConstantPad1d", padding(1, "constant", 0))
  -- ConstantPad2d({padding = 0, value = 0}): as nn.ZeroPad2d, with a value.
  --   y = nn.ConstantPad2d(1, 3.5)(op.ones{1, 2, 3, 3})      -- f32[1,2,5,5]
  define("ConstantPad2d", padding(2, "constant", 0))
  -- ConstantPad3d({padding = 0, value = 0}): as nn.ZeroPad3d, with a value.
  --   y = nn.ConstantPad3d(1, 3.5)(op.ones{1, 2, 3, 3, 3})      -- f32[1,2,5,5,5]
  define("ConstantPad3d", padding(3, "constant", 0))
  -- ReflectionPad1d({padding = 0}): as nn.ZeroPad1d, with the image reflected at its ends.
  --   y = nn.ReflectionPad1d(1)(op.ones{1, 2, 3})      -- f32[1,2,5]
  define("ReflectionPad1d", padding(1, "reflect"))
  -- ReflectionPad2d({padding = 0}): as nn.ZeroPad2d, with the image reflected at its ends.
  --   y = nn.ReflectionPad2d(1)(op.ones{1, 2, 3, 3})      -- f32[1,2,5,5]
  define("ReflectionPad2d", padding(2, "reflect"))
  -- ReflectionPad3d({padding = 0}): as nn.ZeroPad3d, with the image reflected at its ends.
  --   y = nn.ReflectionPad3d(1)(op.ones{1, 2, 3, 3, 3})      -- f32[1,2,5,5,5]
  define("ReflectionPad3d", padding(3, "reflect"))
  -- ReplicationPad1d({padding = 0}): as nn.ZeroPad1d, with the elements at the ends.
  --   y = nn.ReplicationPad1d(1)(op.ones{1, 2, 3})      -- f32[1,2,5]
  define("ReplicationPad1d", padding(1, "replicate"))
  -- ReplicationPad2d({padding = 0}): as nn.ZeroPad2d, with the elements at the ends.
  --   y = nn.ReplicationPad2d(1)(op.ones{1, 2, 3, 3})      -- f32[1,2,5,5]
  define("ReplicationPad2d", padding(2, "replicate"))
  -- ReplicationPad3d({padding = 0}): as nn.ZeroPad3d, with the elements at the ends.
  --   y = nn.ReplicationPad3d(1)(op.ones{1, 2, 3, 3, 3})      -- f32[1,2,5,5,5]
  define("ReplicationPad3d", padding(3, "replicate"))
  -- CircularPad1d({padding = 0}): as nn.ZeroPad1d, with the image repeated.
  --   y = nn.CircularPad1d(1)(op.ones{1, 2, 3})      -- f32[1,2,5]
  define("CircularPad1d", padding(1, "circular"))
  -- CircularPad2d({padding = 0}): as nn.ZeroPad2d, with the image repeated.
  --   y = nn.CircularPad2d(1)(op.ones{1, 2, 3, 3})      -- f32[1,2,5,5]
  define("CircularPad2d", padding(2, "circular"))
  -- CircularPad3d({padding = 0}): as nn.ZeroPad3d, with the image repeated.
  --   y = nn.CircularPad3d(1)(op.ones{1, 2, 3, 3, 3})      -- f32[1,2,5,5,5]
  define("CircularPad3d", padding(3, "circular"))

  -- ---- norms, distances, pools

  -- LocalResponseNorm({size = 5, alpha = 1e-4, beta = 0.75, k = 1}): x / (k + alpha m)^beta, m being the mean of squares over
  -- size neighbouring channels of x [N, C, ..], zeros beyond the ends.
  --   y = nn.LocalResponseNorm(2)(rng.normal{1, 4, 3, 3})
  define("LocalResponseNorm", { size = COUNT, alpha = NUMBER, beta = NUMBER, k = NUMBER }, { size = 5, alpha = 1e-4, beta = 0.75, k = 1 },
    { "size", "alpha", "beta", "k" }, function(x, o)
      local shape, c = x.shape, x.shape[2]
      local flat = op.square(x):reshape(shape[1], c, -1)
      local around = op.pad(flat, { pads = { math.floor(o.size / 2), math.floor((o.size - 1) / 2), 0, 0 } })
      local sum = 0
      for i = 0, o.size - 1 do sum = sum + around:narrow(1, i, c) end
      return x / (sum * (o.alpha / o.size) + o.k):reshape(shape) ^ o.beta
    end)
  -- CosineSimilarity({axis = 1, eps = 1e-8}): op.cosine_similarity along an axis.
  --   y = nn.CosineSimilarity()(rng.normal{4, 3}, rng.normal{4, 3})      -- f32[4]
  define("CosineSimilarity", { axis = AXIS, eps = SIZE }, { axis = 1, eps = 1e-8 }, { "axis", "eps" },
    function(x, o, _, y) return op.cosine_similarity(x, y, { axis = o.axis, eps = o.eps }) end)
  -- PairwiseDistance({p = 2, eps = 1e-6, keepdims = false}): op.pairwise_distance of rows.
  --   y = nn.PairwiseDistance()(rng.normal{4, 3}, rng.normal{4, 3})      -- f32[4]
  define("PairwiseDistance", { p = NUMBER, eps = SIZE, keepdims = FLAG }, { p = 2, eps = 1e-6, keepdims = false }, { "p", "eps", "keepdims" },
    function(x, o, _, y) return op.pairwise_distance(x, y, { p = o.p, eps = o.eps, keepdims = o.keepdims }) end)

  local function power_pool(axes)
    return { p = NUMBER, window = options.needed(options.each(COUNT, axes)), stride = options.each(COUNT, axes), ceil_mode = FLAG },
      { p = 2, ceil_mode = false }, { "p", "window", "stride", "ceil_mode" }, function(x, o)
        local window, taps = o.window, 1
        if type(window) == "number" then
          window = {}
          for i = 1, axes do window[i] = o.window end
        end
        for _, n in ipairs(window) do taps = taps * n end
        local y = op.avg_pool(x ^ o.p, { window = window, stride = o.stride, ceil_mode = o.ceil_mode })
        return (op.sign(y) * op.relu(op.abs(y)) * taps) ^ (1 / o.p)
      end
  end
  -- LPPool1d({p = 2, window, stride = window, ceil_mode = false}): the sum of x^p over each window, to the 1 / p.
  --   y = nn.LPPool1d(2, 3)(op.ones{1, 2, 6})      -- f32[1,2,2]
  define("LPPool1d", power_pool(1))
  -- LPPool2d({p = 2, window, stride = window, ceil_mode = false}): as nn.LPPool1d, of two axes.
  --   y = nn.LPPool2d(2, 3)(op.ones{1, 2, 6, 6})      -- f32[1,2,2,2]
  define("LPPool2d", power_pool(2))

  local function instance_norm(name)
    local Norm = nn.Module:extend(name)
    nn[name] = Norm
    local read = options.placed(name, { eps = SIZE, affine = FLAG, dtype = DTYPE }, { eps = 1e-5, affine = false }, { "eps", "affine" })
    function Norm:init(channels, ...)
      local o = read(...)
      self.channels, self.eps = need(name, "channels", COUNT, channels), o.eps
      self._told = options.told(name, o, "channels", channels)
      if o.affine then self.weight, self.bias = op.ones({ channels }, { dtype = o.dtype }), op.zeros({ channels }, { dtype = o.dtype }) end
    end
    options.described(Norm.init)
    function Norm:forward(x) return op.group_norm(x, self.weight, self.bias, { groups = self.channels, eps = self.eps }) end
  end
  -- InstanceNorm1d(channels, {eps = 1e-5, affine = false, dtype}): nn.GroupNorm with a group for each channel of x [N, channels,
  -- L]; weight and bias if affine.
  --   y = nn.InstanceNorm1d(3)(rng.normal{2, 3, 5})
  instance_norm "InstanceNorm1d"
  -- InstanceNorm2d(channels, {eps = 1e-5, affine = false, dtype}): as nn.InstanceNorm1d, of images [N, channels, H, W].
  --   y = nn.InstanceNorm2d(3)(rng.normal{2, 3, 5, 5})
  instance_norm "InstanceNorm2d"
  -- InstanceNorm3d(channels, {eps = 1e-5, affine = false, dtype}): as nn.InstanceNorm1d, of [N, channels, D, H, W].
  --   y = nn.InstanceNorm3d(3)(rng.normal{2, 3, 5, 5, 5})
  instance_norm "InstanceNorm3d"

  local Bilinear = nn.Module:extend "Bilinear"
  nn.Bilinear = Bilinear
  local read_bilinear = options.placed("Bilinear", { bias = FLAG, dtype = DTYPE }, { bias = true }, { "bias", "dtype" })
  -- Bilinear(inputs1, inputs2, outputs, {bias = true, dtype}): y[k] = sum of x1[i] weight[k, i, j] x2[j], plus bias[k], which
  -- begin uniform in +-1/sqrt(inputs1).
  --   y = nn.Bilinear(3, 4, 5)(op.ones{2, 3}, op.ones{2, 4})      -- f32[2,5]
  function Bilinear:init(inputs1, inputs2, outputs, ...)
    local o = read_bilinear(...)
    local bound = 1 / math.sqrt(need("Bilinear", "inputs1", COUNT, inputs1))
    need("Bilinear", "inputs2", COUNT, inputs2)
    need("Bilinear", "outputs", COUNT, outputs)
    self._told = options.told("Bilinear", o, "inputs1", inputs1, "inputs2", inputs2, "outputs", outputs)
    self.weight = op.uniform({ outputs, inputs1, inputs2 }, { low = -bound, high = bound, dtype = o.dtype })
    if o.bias then self.bias = op.uniform({ outputs }, { low = -bound, high = bound, dtype = o.dtype }) end
  end
  function Bilinear:forward(x, y)
    local z = op.einsum({ x, self.weight, y }, { equation = "...i,kij,...j->...k" })
    return self.bias and z + self.bias or z
  end
end
