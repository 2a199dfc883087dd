-- Activations and other layers without parameters of size. Loaded by nn; gives what defines one.

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local FLAG = options.flag
local NUMBER, ABOVE, SHARE, AXIS = options.number(), options.number { above = 0 }, options.number { least = 0, most = 1 }, options.whole()

return function(nn)
  -- forward(x, o, layer, ...): of the options of the layer, which may stand by place. Where PyTorch has inplace it is
  -- accepted and does nothing: memory that is not needed any more is used again anyway.
  local inplace = { ReLU = true, SiLU = true, Mish = true, Hardswish = true, LeakyReLU = true, ELU = true, Dropout = true }
  local function define(name, kinds, defaults, places, forward)
    local A = nn.Module:extend(name)
    nn[name] = A
    if inplace[name] then
      kinds.inplace, defaults.inplace = FLAG, false
      places[#places + 1] = "inplace"
    end
    local read = options.placed(name, kinds, defaults, places)
    function A:init(...)
      self.o = read(...)
      self._told = options.told(name, self.o)
    end
    options.described(A.init)
    function A:forward(x, ...) return forward(options.argument(name, "the input", options.tensor, x), self.o, self, ...) end
  end

  local function plain(row)
    return {}, {}, {}, function(x) return op[row](x) end
  end

  -- ReLU({inplace = false}): op.relu, max(x, 0). inplace, as of all that have it, changes nothing: it is there
  -- for programs that say it.
  --   y = nn.ReLU()(x)
  define("ReLU", plain "relu")
  -- SiLU({inplace = false}): op.silu, x * sigmoid(x), element by element, of any shape; inplace as of nn.ReLU.
  --   y = nn.SiLU()(x)
  define("SiLU", plain "silu")
  -- Tanh(): op.tanh, the hyperbolic tangent of x, element by element, of any shape.
  --   y = nn.Tanh()(x)
  define("Tanh", plain "tanh")
  -- Sigmoid(): op.sigmoid, 1 / (1 + e^-x), element by element, of any shape.
  --   y = nn.Sigmoid()(x)
  define("Sigmoid", plain "sigmoid")
  -- Mish({inplace = false}): op.mish, x * tanh(log(1 + e^x)), element by element; inplace as of nn.ReLU.
  --   y = nn.Mish()(x)
  define("Mish", plain "mish")
  -- Hardswish({inplace = false}): op.hardswish, x * clamp(x + 3, 0, 6) / 6, element by element; inplace as of
  -- nn.ReLU.
  --   y = nn.Hardswish()(x)
  define("Hardswish", plain "hardswish")
  -- GELU({approximate = "none"}): op.gelu, or its tanh form if approximate is "tanh".
  --   y = nn.GELU("tanh")(rng.normal{4})
  define("GELU", { approximate = options.one_of("none", "tanh") }, { approximate = "none" }, { "approximate" },
    function(x, o) return op.gelu(x, { approximate = o.approximate }) end)
  -- LeakyReLU({slope = 0.01, inplace = false}): op.leaky_relu, x for x > 0, else slope * x.
  --   y = nn.LeakyReLU(0.2)(rng.normal{4})
  define("LeakyReLU", { slope = NUMBER }, { slope = 0.01 }, { "slope" }, function(x, o) return op.leaky_relu(x, { slope = o.slope }) end)
  -- ELU({alpha = 1, inplace = false}): op.elu, x for x > 0, else alpha * (e^x - 1).
  --   y = nn.ELU()(x)
  define("ELU", { alpha = NUMBER }, { alpha = 1 }, { "alpha" }, function(x, o) return op.elu(x, { alpha = o.alpha }) end)
  -- Softplus({beta = 1, threshold = 20}): op.softplus, log(1 + e^(beta x)) / beta, and x where beta x is above the
  -- threshold, which is PyTorch's here: that of op.softplus is infinite.
  --   y = nn.Softplus(2)(rng.normal{4})
  define("Softplus", { beta = ABOVE, threshold = NUMBER }, { beta = 1, threshold = 20 }, { "beta", "threshold" },
    function(x, o) return op.softplus(x, { beta = o.beta, threshold = o.threshold }) end)
  -- Softmax({axis = -1}): op.softmax along an axis.
  --   y = nn.Softmax(1)(rng.normal{2, 3})
  define("Softmax", { axis = AXIS }, { axis = -1 }, { "axis" }, function(x, o) return op.softmax(x, { axis = o.axis }) end)
  -- LogSoftmax({axis = -1}): op.log_softmax along an axis.
  --   y = nn.LogSoftmax()(x)
  define("LogSoftmax", { axis = AXIS }, { axis = -1 }, { "axis" }, function(x, o) return op.log_softmax(x, { axis = o.axis }) end)
  -- Dropout({p = 0.5, inplace = false}): while training each element is 0 with probability p, the others are divided by
  -- 1 - p; afterwards x itself.
  --   y = nn.Dropout(0.1)(rng.normal{4})
  define("Dropout", { p = SHARE }, { p = 0.5 }, { "p" }, function(x, o, self)
    if not self.training or self.o.p == 0 then return x end
    return op.dropout(x, { p = o.p })
  end)
  -- Flatten({first = 1, last = -1}): the axes from first to last become one.
  --   y = nn.Flatten()(op.ones{64, 3, 8, 8})      -- f32[64,192]
  define("Flatten", { first = AXIS, last = AXIS }, { first = 1, last = -1 }, { "first", "last" },
    function(x, o) return x:flatten(o.first, o.last) end)

  local PReLU = nn.Module:extend "PReLU"
  nn.PReLU = PReLU
  local read_prelu = options.placed("PReLU", { count = options.whole { least = 1 }, slope = NUMBER, dtype = options.dtype },
    { count = 1, slope = 0.25 }, { "count", "slope", "dtype" })
  -- PReLU({count = 1, slope = 0.25, dtype}): x for x > 0, else weight * x, where the weight, count numbers
  -- that begin as slope, is learnt: one for all, or one for each channel (axis 1).
  --   y = nn.PReLU(3)(rng.normal{2, 3, 4})
  function PReLU:init(...)
    local o = read_prelu(...)
    self._told = options.told("PReLU", o)
    self.weight = op.full({ o.count }, o.slope, { dtype = o.dtype })
  end
  function PReLU:forward(x)
    options.argument("PReLU", "the input", options.tensor, x)
    local w, shape = self.weight, {}
    for i = 1, math.max(x.ndim - 1, 1) do shape[i] = 1 end
    if w.numel > 1 then
      if x.ndim < 2 or x.shape[2] ~= w.numel then
        core.fail(("PReLU: %d slopes are for as many channels, and x is %s"):format(w.numel, core.type_text(x)))
      end
      shape[1] = w.numel
    end
    return op.where(x:gt(0), x, x * w:reshape(shape))
  end

  local Identity = nn.Module:extend "Identity"
  nn.Identity = Identity
  -- Identity(...): x as it is, whatever it is made with: it stands in place of other layers.
  --   y = nn.Identity()(x)
  function Identity:init() end
  function Identity:forward(x) return x end

  local Upsample = nn.Module:extend "Upsample"
  nn.Upsample = Upsample
  local MANY = options.each(options.whole { least = 1 })
  local read_upsample = options.placed("Upsample", { size = MANY, scale = options.each(ABOVE), mode = options.one_of("nearest", "linear", "cubic"),
    align_corners = FLAG }, { mode = "nearest", align_corners = false }, { "size", "scale", "mode", "align_corners" })
  -- Upsample({size, scale, mode = "nearest", align_corners = false}): op.interpolate of [N, C, ...] to a
  -- size, or by a scale, one of which is needed: a number, or one for each space axis. "linear" is
  -- bilinear of two axes.
  --   y = nn.Upsample({scale = 2, mode = "linear"})(rng.normal{1, 2, 3, 3})   -- f32[1,2,6,6]
  function Upsample:init(...)
    self.o = read_upsample(...)
    self._told = options.told("Upsample", self.o)
    if (self.o.size == nil) == (self.o.scale == nil) then core.fail "Upsample: either size or scale is needed" end
  end
  local function spread(v, n)
    if type(v) ~= "number" then return v end
    local out = {}
    for i = 1, n do out[i] = v end
    return out
  end
  function Upsample:forward(x)
    local o, n = self.o, options.argument("Upsample", "the input", options.tensor, x).ndim - 2
    return op.interpolate(x, { size = spread(o.size, n), scale = spread(o.scale, n), mode = o.mode, align_corners = o.align_corners })
  end
  return define
end
