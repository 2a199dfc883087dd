local tessera = require "tessera"
-- Layers: layouts, epilogues, rounding, errors. Values against PyTorch: nn_vectors.lua.
local op, rng = tessera.op, tessera.rng

local function same(a, b) return not op.ne(a, b):any():item() end

-- ---- both layouts and every way of convolution give the same bits
local function last(x)
  local p = {0}
  for i = 2, x.ndim - 1 do p[i] = i end
  p[x.ndim] = 1
  return x:permute(p):contiguous()
end

for _, c in ipairs {{3, 5, 1, 3}, {16, 16, 16, 3}, {8, 24, 1, 1}, {6, 40, 2, 2}, {32, 4, 2, 5}} do
  for _, dtype in ipairs {"f32", "f64", "bf16", "f16"} do
    local x, w = rng.normal({2, c[1], 13, 17}):cast(dtype), rng.normal({c[2], c[1] / c[3], c[4], c[4]}):cast(dtype)
    local b = rng.normal({c[2]}):cast(dtype)
    for _, s in ipairs {1, 2, 3} do
      local o = {groups = c[3], stride = {s, s}, padding = {1, 1}}
      local y = op.conv2d(x, w, b, o)
      o.layout = "nhwc"
      assert(same(last(y), op.conv2d(last(x), last(w), b, o)), dtype)
      -- one image alone is the same image in a batch
      o.layout = "nchw"
      assert(same(op.conv2d(x:narrow(0, 1, 1), w, b, o), y:narrow(0, 1, 1)), "batch")
      -- more output channels, another kernel: the same channels
      if c[3] == 1 then
        local wide = op.concat({w, rng.normal({32, c[1], c[4], c[4]}):cast(dtype)}, {axis = 0})
        assert(same(op.conv2d(x, wide, nil, o):narrow(1, 0, c[2]), op.conv2d(x, w, nil, o)), "channels")
      end
    end
  end
end

-- ---- epilogues: one rounding at the end, so f32 steps are the operators themselves
local x, w, b = rng.normal {2, 4, 9, 9}, rng.normal {8, 4, 3, 3}, rng.normal {8}
local r = rng.normal {2, 8, 7, 7}
local plain = op.conv2d(x, w)
local shifted = plain + b:reshape {1, 8, 1, 1}
assert(same(op.conv2d(x, w, b), shifted))
assert(same(op.conv2d(x, w, b, {epilogue = "bias_relu"}), shifted:relu()))
assert(same(op.conv2d(x, w, nil, {epilogue = "silu"}), plain:silu()))
assert(same(op.conv2d(x, w, b, r, {epilogue = "bias_gelu_residual"}), op.gelu(shifted) + r))
assert(same(op.conv2d(x, w, b, r), shifted + r))
op.conv2d(x, w, b, {epilogue = "relu"})    --! does not name it
op.conv2d(x, w, nil, {epilogue = "bias"})  --! bias is missing
op.conv2d(x, w, nil, {epilogue = "swish"}) --! cannot read the epilogue

-- ---- errors name what does not fit
op.conv2d(rng.normal {4, 9, 9}, w)              --! conv2d: x must be [N,C,H,W], not f32[4,9,9]
op.conv2d(rng.normal {1, 3, 9, 9}, w)           --! channels do not fit: x f32[1,3,9,9], w f32[8,4,3,3], groups 1
op.conv2d(x, w, nil, {stride = {1, 2, 3}})      --! stride has 3 numbers for 2 space axes
op.conv2d(x, rng.normal {8, 4, 11, 3})          --! a window of 11 with dilation 1 does not fit
op.conv2d(x, w, rng.normal {4})                 --! bias must be [8]
op.max_pool(x, {window = {3, 3}, padding = {2, 2}}) --! padding 2 is more than half of the window 3
op.interpolate(x)                               --! give either size or scale
op.softmax(x, {axis = 4})                       --! axis 4 is out of range
op.layernorm(x, rng.normal {8})                 --! weight f32[8] does not fit the last 1 axes
op.attention(rng.normal {1, 3, 4, 8}, rng.normal {1, 2, 4, 8}, rng.normal {1, 2, 4, 8}) --! heads do not fit
op.attention(rng.normal {1, 2, 4, 8}, rng.normal {1, 2, 4, 6}, rng.normal {1, 2, 4, 6}) --! sizes of heads differ
op.cross_entropy(rng.normal {3, 4}, tessera.tensor({0, 1, 4}, {dtype = "i64"})) --! target 4 of row 2 is not one of 4 classes
op.cross_entropy(rng.normal {3, 4}, tessera.tensor({0, 1}, {dtype = "i64"}))    --! a target index for each row
op.rope(rng.normal {2, 3, 7})                   --! 7 dims of f32[2,3,7]; an even number is needed
op.adam_step(b, b, b, b, {lr = 0.1, step = 0})  --! the first is 1
op.adam_step(b, x, b, b, {lr = 0.1, step = 1})  --! does not fit p

-- ---- NaN wins a pool, integers keep their type, empty tensors work
local nan = 0 / 0
op.max_pool(tessera.tensor {{{1, nan, 3, 2}}}, {window = {2}}):isnan():totable() --> {{{true, false}}}
op.max_pool(tessera.tensor({{{1, -5, -3, -7}}}, {dtype = "i8"}), {window = {2}}):totable() --> {{{1, -3}}}
op.max_pool(tessera.tensor {{{-1, -2}}}, {window = {2}, padding = {1}}):totable() --> {{{-1, -2}}}
assert(op.conv1d(rng.normal {0, 2, 5}, rng.normal {3, 2, 2}).shape[1] == 0)
assert(op.attention(rng.normal {1, 2, 0, 4}, rng.normal {1, 2, 3, 4}, rng.normal {1, 2, 3, 4}).shape[3] == 0)
assert(op.attention(rng.normal {1, 2, 3, 4}, rng.normal {1, 2, 0, 4}, rng.normal {1, 2, 0, 4}):abs():sum():item() == 0)
op.softmax(rng.normal {0, 3}).shape[1] --> 0
op.softmax(tessera.tensor(3)):item() --> 1

-- ---- 16-bit layers are the f32 result rounded once
for _, dtype in ipairs {"bf16", "f16"} do
  local q, k, v = rng.normal({1, 2, 5, 8}):cast(dtype), rng.normal({1, 2, 150, 8}):cast(dtype), rng.normal({1, 2, 150, 8}):cast(dtype)
  local o = {causal = true}
  local wide = op.attention(q:cast "f32", k:cast "f32", v:cast "f32", nil, nil, o)
  assert(same(op.attention(q, k, v, nil, nil, o), wide:cast(dtype)))
  local a, c = x:cast(dtype), w:cast(dtype)
  assert(same(op.conv2d(a, c), op.conv2d(a:cast "f32", c:cast "f32"):cast(dtype)))
  assert(same(op.avg_pool(a, {window = {3, 3}}), op.avg_pool(a:cast "f32", {window = {3, 3}}):cast(dtype)))
  assert(same(op.softmax(a), op.softmax(a:cast "f32"):cast(dtype)))
  local e = a:narrow(3, 0, 8)
  assert(same(op.rope(e), op.rope(e:cast "f32"):cast(dtype)))
end

-- ---- state of an optimiser keeps its own type
local p = rng.normal({100}):cast "bf16"
local m = op.zeros {100}
local p2, m2, v2 = op.adam_step(p, p, m, m, {lr = 0.1, step = 1})
assert(p2.dtype == "bf16" and m2.dtype == "f32" and v2.dtype == "f32")
op.sgd_step(p, p, {lr = 1}):abs():sum():item() --> 0

-- ---- scans of other types
op.cumsum(tessera.tensor({1, 2, 3}, {dtype = "u8"})).dtype --> i64
select(2, op.cummax(tessera.tensor {1, 3, 2, nan, 5})):totable() --> {0, 1, 1, 3, 3}
op.cumprod(tessera.tensor({1, 2, 3}):cast "complex64"):real():totable() --> {1, 2, 6}

-- ---- small planes that are padded where they are used, and images that are padded before: rows of any height
for _, dtype in ipairs {"f32", "f64", "bf16"} do
  for height = 1, 17 do
    for _, width in ipairs {1, 7, 16, 33} do
      local a, f = rng.normal({2, 3, height, width}, {dtype = dtype}), rng.normal({3, 1, 3, 3}, {dtype = dtype})
      local turned = a:permute(0, 1, 3, 2):contiguous():permute(0, 1, 3, 2)
      for _, o in ipairs {{padding = 1, groups = 3}, {padding = {2, 1}, stride = {2, 1}, groups = 3, epilogue = "relu"}} do
        assert(op.conv2d(a, f, o):hash() == op.conv2d(turned, f, o):hash())
      end
    end
  end
end

-- ---- transposed: images together, where weights are packed once, and one by one
for _, dtype in ipairs {"f32", "f64", "bf16"} do
  for _, size in ipairs {{2, 9, 40, 3}, {7, 5, 13, 3}, {6, 150, 9, 3}, {14, 64, 8, 3}, {5, 20, 33, 1}, {4, 12, 16, 4}} do
    local side, cin, cout, window = unpack(size)
    local a, f = rng.normal({3, 2 * cin, side, side}, {dtype = dtype}), rng.normal({2 * cin, cout, window, window}, {dtype = dtype})
    for _, o in ipairs {{groups = 2}, {groups = 2, padding = 1}, {groups = 2, stride = 2}, {groups = 2, stride = {1, 3}, output_padding = {0, 1}}} do
      local bias, y = rng.normal({2 * cout}, {dtype = dtype}), nil
      if window > 1 or not o.padding then y = op.conv_transpose(a, f, bias, o) end
      for i = 0, y and 2 or -1 do
        assert(op.conv_transpose(a:narrow(0, i, 1), f, bias, o):hash() == y:narrow(0, i, 1):hash())
      end
      -- and one group by itself
      if y then
        o.groups = 1
        local own = op.conv_transpose(a:narrow(1, cin, cin), f:narrow(0, cin, cin), bias:narrow(0, cout, cout), o)
        assert(own:hash() == y:narrow(1, cout, cout):hash())
      end
    end
  end
end

-- ---- depthwise, with and without channels last, and its own operator
for _, o in ipairs {{stride = {1, 1}, padding = {1, 1}}, {stride = {2, 1}, dilation = {1, 2}}} do
  local a, f, c = rng.normal {2, 35, 9, 8}, rng.normal {35, 1, 3, 3}, rng.normal {35}
  local y = op.depthwise_conv2d(a, f, c, o)
  for ch = 0, 34, 17 do
    assert(same(op.conv2d(a:narrow(1, ch, 1), f:narrow(0, ch, 1), c:narrow(0, ch, 1), o), y:narrow(1, ch, 1)))
  end
  o.layout = "nhwc"
  assert(same(op.depthwise_conv2d(last(a), last(f), c, o), last(y)))
  o.groups, o.epilogue = 35, "bias_relu"
  assert(same(op.conv2d(last(a), last(f), c, o), last(y):relu()))
end
