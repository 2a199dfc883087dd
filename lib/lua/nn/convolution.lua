-- Convolutions and pools as layers. Loaded by nn.

local core = require "tessera.core"
local options = require "tessera.options"
local op, rng = core.op, core.op
local need, FLAG, DTYPE = options.argument, options.flag, options.dtype
local SIZE, COUNT, LAYOUT = options.whole { least = 0 }, options.whole { least = 1 }, options.one_of("nchw", "nhwc")
local DIMS, SOME, MORE = options.whole { least = 1, most = 3 }, options.each(COUNT), options.each(SIZE)
local MODE = options.one_of("zeros", "reflect", "replicate", "circular")

local function list(v, n)
  if type(v) == "table" then return { unpack(v, 1, n) } end
  local out = {}
  for i = 1, n do out[i] = v end
  return out
end

-- A number of groups divides what is grouped.
local function need_groups(what, groups, name, n)
  if n % groups == 0 then return end
  core.fail(("%s: %d groups do not divide %s = %d"):format(what, groups, name, n))
end

-- Lists are as long as there are axes.
local function need_axes(what, dims, given)
  for name, v in pairs(given) do
    if type(v) == "table" and #v ~= dims then
      core.fail(("%s: %s has %d numbers for %d axes"):format(what, name, #v, dims))
    end
  end
end

-- What stands around an image, as op.pad takes it: all of a number on both sides of each axis, or for
-- "same" what lets the result have the image's size, more of it behind where it is odd.
local function around(name, o, kernel, dims)
  local pads, padding, dilation = {}, o.padding, list(o.dilation, dims)
  local n = list(padding == "valid" and 0 or padding, dims)
  for i = 1, dims do
    local all = padding == "same" and dilation[i] * (kernel[i] - 1) or 2 * n[i]
    if padding == "same" and list(o.stride, dims)[i] ~= 1 then
      core.fail(("%s: padding 'same' has no meaning with a stride"):format(name))
    end
    pads[2 * i - 1], pads[2 * i] = math.floor(all / 2), math.ceil(all / 2)
  end
  return pads
end

-- Padding that the operator knows, or none and what op.pad has to do before.
local function split_padding(self, pads, dims)
  local even = self.padding_mode == "zeros"
  for i = 1, dims do even = even and pads[2 * i - 1] == pads[2 * i] end
  self.padding = {}
  for i = 1, dims do self.padding[i] = even and pads[2 * i] or 0 end
  if even then return end
  if self.layout == "nhwc" then pads[#pads + 1], pads[#pads + 2] = 0, 0 end
  self.around = { pads = pads, mode = self.padding_mode == "zeros" and "constant" or self.padding_mode }
end

return function(nn)
  local function define(name)
    local class = nn.Module:extend(name)
    nn[name] = class
    return class
  end

  local function define_conv(name, dims)
    local Conv = define(name)
    local some, more = options.each(COUNT, dims), options.each(SIZE, dims)
    local padding = { text = more.text .. ", 'same' or 'valid'", holds = function(v) return v == "same" or v == "valid" or more.holds(v) end }
    local read = options.placed(name, { stride = some, padding = padding, dilation = some, groups = COUNT, bias = FLAG, layout = LAYOUT,
      padding_mode = MODE, dtype = DTYPE }, { stride = 1, padding = 0, dilation = 1, groups = 1, bias = true, layout = "nchw", padding_mode = "zeros" },
      { "stride", "padding", "dilation", "groups", "bias", "padding_mode" })

    function Conv:init(inputs, outputs, kernel, ...)
      local o = read(...)
      local groups = o.groups
      need_groups(name, groups, "inputs", need(name, "inputs", COUNT, inputs))
      need_groups(name, groups, "outputs", need(name, "outputs", COUNT, outputs))
      need(name, "kernel", some, kernel)
      self._told = options.told(name, o, "inputs", inputs, "outputs", outputs, "kernel", kernel)
      self.stride, self.dilation, self.groups, self.layout = list(o.stride, dims), list(o.dilation, dims), groups, o.layout
      self.padding_mode = o.padding_mode
      local k, taps = list(kernel, dims), 1
      split_padding(self, around(name, o, k, dims), dims)
      for i = 1, dims do taps = taps * k[i] end
      local shape = { outputs }
      if self.layout == "nchw" then shape[2] = inputs / groups end
      for i = 1, dims do shape[#shape + 1] = k[i] end
      if self.layout == "nhwc" then shape[#shape + 1] = inputs / groups end
      local bound = 1 / math.sqrt(inputs / groups * taps)
      self.weight = rng.uniform(shape, { low = -bound, high = bound, dtype = o.dtype })
      if o.bias then
        self.bias = rng.uniform({ outputs }, { low = -bound, high = bound, dtype = o.dtype })
      end
    end
    options.described(Conv.init)

    function Conv:forward(x)
      if self.around then x = op.pad(x, self.around) end
      return op[name:lower()](x, self.weight, self.bias, { stride = self.stride, padding = self.padding,
        dilation = self.dilation, groups = self.groups, layout = self.layout })
    end
  end

  -- Conv1d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true,
  -- padding_mode = "zeros", layout = "nchw", dtype}): as nn.Conv2d, of one axis: x [N, inputs, L].
  --   y = nn.Conv1d(4, 8, 3, {padding = "same"})(rng.normal{2, 4, 9})   -- f32[2,8,9]
  define_conv("Conv1d", 1)

  -- Conv2d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true,
  -- padding_mode = "zeros", layout = "nchw", dtype}): op.conv2d of x [N, inputs, H, W], with layout
  -- "nhwc" [N, H, W, inputs]. Sizes are a number for both axes, or two; options may stand by place in
  -- this order. padding is what stands on both sides, "same" keeps the size (stride 1), "valid" is none;
  -- padding_mode says what it is: "zeros", or of the image "reflect", "replicate", "circular". weight
  -- [outputs, inputs / groups, height, width] (nhwc: inputs / groups last) and bias begin uniform in
  -- +-1 / sqrt(inputs / groups * taps).
  --   y = nn.Conv2d(3, 8, 3, {padding = 1})(rng.normal{2, 3, 9, 9})     -- f32[2,8,9,9]
  --   y = nn.Conv2d(3, 8, {3, 4}, 2, 1)(rng.normal{2, 3, 9, 9})         -- f32[2,8,5,4]
  define_conv("Conv2d", 2)

  -- Conv3d(inputs, outputs, kernel, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true,
  -- padding_mode = "zeros", layout = "nchw", dtype}): as nn.Conv2d, of three axes: x [N, inputs, D, H, W].
  --   y = nn.Conv3d(2, 4, 3)(rng.normal{1, 2, 5, 5, 5})   -- f32[1,4,3,3,3]
  define_conv("Conv3d", 3)

  local transpose_kinds = { dims = DIMS, stride = SOME, padding = MORE, output_padding = MORE, dilation = SOME, groups = COUNT, bias = FLAG,
    dtype = DTYPE }
  local transpose_defaults = { stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1, bias = true }
  local transpose_places = { "stride", "padding", "output_padding", "groups", "bias", "dilation" }

  local function define_transpose(name, fixed)
    local Conv = define(name)
    local kinds = {}
    for k, v in pairs(transpose_kinds) do kinds[k] = v end
    if fixed then kinds.dims = nil end
    local read = options.placed(name, kinds, transpose_defaults, transpose_places)

    function Conv:init(inputs, outputs, kernel, ...)
      local o = read(...)
      need(name, "kernel", SOME, kernel)
      local dims = fixed or o.dims or (type(kernel) == "table" and #kernel) or 2
      need_axes(name, dims, { kernel = kernel, stride = o.stride, padding = o.padding,
        output_padding = o.output_padding, dilation = o.dilation })
      local groups = o.groups
      need_groups(name, groups, "inputs", need(name, "inputs", COUNT, inputs))
      need_groups(name, groups, "outputs", need(name, "outputs", COUNT, outputs))
      self._told = options.told(name, o, "inputs", inputs, "outputs", outputs, "kernel", kernel)
      local k, taps = list(kernel, dims), 1
      self.o = { stride = list(o.stride, dims), padding = list(o.padding, dims), groups = groups,
        output_padding = list(o.output_padding, dims), dilation = list(o.dilation, dims) }
      local shape = { inputs, outputs / groups }
      for i = 1, dims do
        shape[#shape + 1] = k[i]
        taps = taps * k[i]
      end
      local bound = 1 / math.sqrt(outputs / groups * taps)
      self.weight = rng.uniform(shape, { low = -bound, high = bound, dtype = o.dtype })
      if o.bias then self.bias = rng.uniform({ outputs }, { low = -bound, high = bound, dtype = o.dtype }) end
    end
    options.described(Conv.init)
    function Conv:forward(x) return op.conv_transpose(x, self.weight, self.bias, self.o) end  end

  -- ConvTranspose(inputs, outputs, kernel, {dims, stride = 1, padding = 0, output_padding = 0,
  -- groups = 1, bias = true, dilation = 1, dtype}): op.conv_transpose over as many axes as kernel has
  -- numbers, or dims, or 2. ConvTranspose1d, 2d and 3d have theirs in the name.
  --   y = nn.ConvTranspose(4, 2, 2, {stride = 2})(rng.normal{1, 4, 3, 3})   -- f32[1,2,6,6]
  define_transpose("ConvTranspose")
  -- ConvTranspose1d(inputs, outputs, kernel, {stride = 1, padding = 0, output_padding = 0, groups = 1,
  -- bias = true, dilation = 1, dtype}): as nn.ConvTranspose, of one axis.
  --   y = nn.ConvTranspose1d(4, 2, 2, 2)(op.ones{1, 4, 3})      -- f32[1,2,6]
  define_transpose("ConvTranspose1d", 1)
  -- ConvTranspose2d(inputs, outputs, kernel, {stride = 1, padding = 0, output_padding = 0, groups = 1,
  -- bias = true, dilation = 1, dtype}): as nn.ConvTranspose, of two axes.
  --   y = nn.ConvTranspose2d(4, 2, 2, 2)(op.ones{1, 4, 3, 3})      -- f32[1,2,6,6]
  define_transpose("ConvTranspose2d", 2)
  -- ConvTranspose3d(inputs, outputs, kernel, {stride = 1, padding = 0, output_padding = 0, groups = 1,
  -- bias = true, dilation = 1, dtype}): as nn.ConvTranspose, of three axes.
  --   y = nn.ConvTranspose3d(4, 2, 2, 2)(op.ones{1, 4, 3, 3, 3})      -- f32[1,2,6,6,6]
  define_transpose("ConvTranspose3d", 3)

  -- ---- pools

  -- Some give the places of what they found, too.
  local function define_pool(name, row, fixed, own, own_defaults, places)
    local Pool = define(name)
    local kinds = { stride = SOME, padding = MORE, dilation = SOME, ceil_mode = FLAG, layout = LAYOUT }
    if not fixed then kinds.dims = DIMS end
    for k, v in pairs(own) do kinds[k] = v end
    local defaults = { padding = 0, dilation = 1, ceil_mode = false, layout = "nchw" }
    for k, v in pairs(own_defaults) do defaults[k] = v end
    local read = options.placed(name, kinds, defaults, places)
    function Pool:init(window, ...)
      local o = read(...)
      need(name, "window", SOME, window)
      local dims = fixed or type(window) == "table" and #window or o.dims or 2
      need_axes(name, dims, { window = window, stride = o.stride, padding = o.padding, dilation = o.dilation })
      self._told, self.return_indices = options.told(name, o, "window", window), o.return_indices
      self.o = { window = list(window, dims), stride = list(o.stride or window, dims), padding = list(o.padding, dims),
        dilation = list(o.dilation, dims), ceil_mode = o.ceil_mode, count_include_pad = o.count_include_pad, layout = o.layout }
    end
    options.described(Pool.init)
    function Pool:forward(x)
      if self.return_indices then return op[row](x, self.o), op.max_pool_index(x, self.o) end
      return op[row](x, self.o)
    end
  end

  local most, mean = { "stride", "padding", "dilation", "return_indices", "ceil_mode" }, { "stride", "padding", "ceil_mode", "count_include_pad" }
  local places, unplaced = { return_indices = FLAG }, { return_indices = false }
  local counts, counted = { count_include_pad = FLAG }, { count_include_pad = true }
  -- MaxPool(window, {dims, stride = window, padding = 0, dilation = 1, return_indices = false, ceil_mode = false,
  -- layout = "nchw"}): op.max_pool over as many axes as window has numbers, or dims, or 2. With ceil_mode the last
  -- window may reach over the end; with return_indices op.max_pool_index is a second result, for nn.MaxUnpool2d.
  -- MaxPool1d, 2d and 3d have their axes in the name.
  --   y = nn.MaxPool(3, {stride = 2, padding = 1})(rng.normal{1, 2, 7, 7})   -- f32[1,2,4,4]
  define_pool("MaxPool", "max_pool", nil, places, unplaced, most)
  -- MaxPool1d(window, {stride = window, padding = 0, dilation = 1, return_indices = false, ceil_mode = false, layout = "nchw"}):
  -- as nn.MaxPool, of one axis.
  --   y = nn.MaxPool1d(2)(op.ones{1, 2, 8})      -- f32[1,2,4]
  define_pool("MaxPool1d", "max_pool", 1, places, unplaced, most)
  -- MaxPool2d(window, {stride = window, padding = 0, dilation = 1, return_indices = false, ceil_mode = false, layout = "nchw"}):
  -- as nn.MaxPool, of two axes.
  --   y = nn.MaxPool2d(2)(op.ones{1, 2, 8, 8})      -- f32[1,2,4,4]
  define_pool("MaxPool2d", "max_pool", 2, places, unplaced, most)
  -- MaxPool3d(window, {stride = window, padding = 0, dilation = 1, return_indices = false, ceil_mode = false, layout = "nchw"}):
  -- as nn.MaxPool, of three axes.
  --   y = nn.MaxPool3d(2)(op.ones{1, 2, 8, 8, 8})      -- f32[1,2,4,4,4]
  define_pool("MaxPool3d", "max_pool", 3, places, unplaced, most)
  -- AvgPool(window, {dims, stride = window, padding = 0, ceil_mode = false, count_include_pad = true,
  -- dilation = 1, layout = "nchw"}): op.avg_pool, as nn.MaxPool. Without count_include_pad padding is
  -- not counted.
  --   y = nn.AvgPool(2)(rng.normal{1, 2, 6, 6})   -- f32[1,2,3,3]
  define_pool("AvgPool", "avg_pool", nil, counts, counted, mean)
  -- AvgPool1d(window, {stride = window, padding = 0, ceil_mode = false, count_include_pad = true,
  -- dilation = 1, layout = "nchw"}): as nn.AvgPool, of one axis.
  --   y = nn.AvgPool1d(2)(op.ones{1, 2, 8})      -- f32[1,2,4]
  define_pool("AvgPool1d", "avg_pool", 1, counts, counted, mean)
  -- AvgPool2d(window, {stride = window, padding = 0, ceil_mode = false, count_include_pad = true,
  -- dilation = 1, layout = "nchw"}): as nn.AvgPool, of two axes.
  --   y = nn.AvgPool2d(2)(op.ones{1, 2, 8, 8})      -- f32[1,2,4,4]
  define_pool("AvgPool2d", "avg_pool", 2, counts, counted, mean)
  -- AvgPool3d(window, {stride = window, padding = 0, ceil_mode = false, count_include_pad = true,
  -- dilation = 1, layout = "nchw"}): as nn.AvgPool, of three axes.
  --   y = nn.AvgPool3d(2)(op.ones{1, 2, 8, 8, 8})      -- f32[1,2,4,4,4]
  define_pool("AvgPool3d", "avg_pool", 3, counts, counted, mean)

  local function define_unpool(name, dims)
    local Unpool = define(name)
    local some = options.each(COUNT, dims)
    local read = options.placed(name, { stride = some, padding = options.each(SIZE, dims) }, { padding = 0 }, { "stride", "padding" })
    local read_call = options.of(name, { size = options.list(COUNT, dims) })
    function Unpool:init(window, ...)
      self.o = read(...)
      self.o.window = need(name, "window", some, window)
      self._told = options.told(name, self.o, "window", window)
    end
    options.described(Unpool.init)
    function Unpool:forward(x, index, given)
      local o = self.o
      return op.max_unpool(x, index, { window = o.window, stride = o.stride, padding = o.padding, size = read_call(given).size })
    end
  end
  -- MaxUnpool1d(window, {stride = window, padding = 0}): op.max_unpool, the reverse of nn.MaxPool1d with return_indices, of
  -- one axis. unpool(x, index, {size}): size is that of the image, {L}, the least if it is not given.
  --   y, index = nn.MaxPool1d(2, {return_indices = true})(rng.normal{1, 2, 8})
  --   x = nn.MaxUnpool1d(2)(y, index)      -- f32[1,2,8]
  define_unpool("MaxUnpool1d", 1)
  -- MaxUnpool2d(window, {stride = window, padding = 0}): as nn.MaxUnpool1d, of two axes.
  --   pool = nn.MaxPool2d(2, {return_indices = true})
  --   y, index = pool(rng.normal{1, 2, 8, 8})
  --   x = nn.MaxUnpool2d(2)(y, index)      -- f32[1,2,8,8]
  define_unpool("MaxUnpool2d", 2)
  -- MaxUnpool3d(window, {stride = window, padding = 0}): as nn.MaxUnpool1d, of three axes.
  --   pool = nn.MaxPool3d(2, {return_indices = true})
  --   y, index = pool(rng.normal{1, 2, 4, 4, 4})
  --   x = nn.MaxUnpool3d(2)(y, index)      -- f32[1,2,4,4,4]
  define_unpool("MaxUnpool3d", 3)

  local AdaptiveAvgPool = define "AdaptiveAvgPool"
  local read_adaptive = options.placed("AdaptiveAvgPool", {})
  -- AdaptiveAvgPool(size): op.adaptive_avg_pool: means, so that the space axes have the size, a number
  -- for each axis.
  --   y = nn.AdaptiveAvgPool({1, 1})(rng.normal{1, 2, 7, 7})   -- f32[1,2,1,1]
  function AdaptiveAvgPool:init(size, ...)
    self.size = need("AdaptiveAvgPool", "size", SOME, size)
    self._told = options.told("AdaptiveAvgPool", read_adaptive(...), "size", size)
  end
  function AdaptiveAvgPool:forward(x)
    need("AdaptiveAvgPool", "the input", options.tensor, x)
    return op.adaptive_avg_pool(x, { size = list(self.size, x.ndim - 2) })
  end
end
