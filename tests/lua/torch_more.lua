-- Layers and functions of make_more.py beside PyTorch's: values and gradients, captured, on a device; lengths that are lists.
local tessera = require "tessera"
local op, nn, data, graph, rng = tessera.op, tessera.nn, tessera.data, tessera.graph, tessera.rng
local layers = dofile "tests/lua/_layers.lua"
local function fn(name, f, what) layers.check(name, nil, function(_, ...) return f(...) end, what) end

-- ---- images at places
for _, outside in ipairs { "zeros", "border", "reflection" } do
  for word, corners in pairs { False = false, True = true } do
    fn(("grid_bicubic_%s_%s"):format(outside, word), function(x, g)
      return op.grid_sample(x, g, { mode = "bicubic", padding = outside, align_corners = corners })
    end)
  end
end
fn("affine2_False", function(t) return op.affine_grid(t, { 2, 3, 4, 5 }) end)
fn("affine2_True", function(t) return op.affine_grid(t, { 2, 3, 4, 5 }, true) end)
fn("affine3_False", function(t) return op.affine_grid(t, { 2, 3, 2, 3, 4 }) end)
fn("affine3_True", function(t) return op.affine_grid(t, { 2, 3, 2, 3, 4 }, { align_corners = true }) end)
-- A derivative beside differences.
local image = rng.normal({ 1, 1, 3, 4 }, { seed = 1, stream = 1, dtype = "f64" })
local grid = rng.uniform({ 1, 2, 3, 2 }, { seed = 1, stream = 2, low = -1.2, high = 1.2, dtype = "f64" })
local function area(x, g) return (op.grid_sample(x, g, { mode = "bicubic", padding = "border" }) * op.arange(6):reshape(1, 1, 2, 3)):sum() end
local by_image, by_grid = graph.grad(area, { 1, 2 })(image, grid)
for _, case in ipairs { { image, by_image, function(v) return area(v, grid) end }, { grid, by_grid, function(v) return area(image, v) end } } do
  local x, slope, f = unpack(case)
  for i = 0, x.numel - 1 do
    local step = (op.arange(x.numel):eq(i):cast "f64" * 1e-6):reshape(x.shape)
    local got, want = slope:reshape(-1)[i]:item(), ((f(x + step) - f(x - step)) / 2e-6):item()
    assert(math.abs(got - want) < 1e-6 * math.max(1, math.abs(want)), i)
  end
end
op.grid_sample(op.ones { 1, 1, 2, 2, 2 }, op.zeros { 1, 1, 1, 1, 3 }, { mode = "bicubic" }) --! grid_sample: mode 'bicubic' is for images [N, C, H, W], not f32[1,1,2,2,2]
op.affine_grid(op.ones { 1, 2, 3 }, { 1, 1, 4 }) --! affine_grid: theta f32[1,2,3] does not fit size {1, 1, 4}
op.affine_grid(op.ones { 2, 2, 3 }, { 1, 1, 4, 4 }) --! affine_grid: theta f32[2,2,3] does not fit size {1, 1, 4, 4}

-- ---- quantiles of what are numbers
local x = layers.stored "nanquantile/x"
local function same(name, got)
  local want = layers.stored("nanquantile/" .. name)
  assert(table.concat(got.shape, ",") == table.concat(want.shape, ","), name)
  op.allclose(got, want, { rtol = 1e-14, equal_nan = true }) --> true
end
for word, axis in pairs { None = false, ["0"] = 0, ["1"] = 1 } do
  same("one_" .. word, op.nanquantile(x, 0.3, { axis = axis or nil }))
  same("some_" .. word, op.nanquantile(x, { 0, 0.25, 0.9, 1 }, { axis = axis or nil }))
end
for _, method in ipairs { "lower", "higher", "midpoint", "nearest" } do
  same(method, op.nanquantile(x, 0.4, { axis = 1, method = method, keepdims = true }))
end
fn("nanquantile", function(x) return op.nanquantile(op.where(x:gt(0.8), 0 / 0, x), 0.35, 1) end)
op.nanquantile(tessera.tensor { 1 / 0, -1 / 0, 0 / 0 }, { 0, 1 }) --> [-inf  inf]
--> f32[2]
op.nanquantile(op.zeros { 0 }, 0.5):isnan():item(), op.nanquantile(op.ones { 2, 2 }, 0.5, { keepdims = true }).ndim --> true, 2
op.nanquantile(op.ones { 3 }, 2) --! nanquantile: q must be a number in [0, 1], or a list, not 2
op.nanquantile(op.ones { 3 }, 0.5, 1) --! nanquantile: axis 1 is out of range for f32[3]

-- ---- pools that give places, and their reverse
for axes, o in ipairs { { 3, size = { 7 } }, { { 3, 2 }, padding = 1, size = { 6, 5 } }, { 2, size = { 4, 4, 5 } } } do
  local pool = nn["MaxPool" .. axes .. "d"](o[1], { stride = o.stride, padding = o.padding, return_indices = true })
  local back = nn["MaxUnpool" .. axes .. "d"](o[1], { stride = o.stride, padding = o.padding })
  fn("pool_places" .. axes, function(x) return (pool(x)) end)
  local _, places = pool(layers.of("pool_places" .. axes, "in")[1])
  places:hash() == layers.stored(("pool_places%d/places"):format(axes)):hash() --> true
  fn("unpool" .. axes, function(x)
    local y, at = pool(x)
    return back(y, at, { size = o.size })
  end)
end
op.max_unpool(op.ones { 1, 1, 2 }, op.full({ 1, 1, 2 }, 9, { dtype = "i64" }), { window = 2 }) --! max_unpool: a place is none of 4 elements of size {4}
op.max_unpool(op.ones { 1, 1, 2 }, op.ones { 1, 1, 3 }, { window = 2 }) --! max_unpool: x and index are [N, C, ..] of one shape, not f32[1,1,2] and f32[1,1,3]
op.max_pool(op.ones { 1, 1, 4, 4 }, { window = { 2, 2 }, return_indices = true }) --! op.max_pool_index(x, ..) gives them

-- ---- transformers
for name, o in pairs { plain = {}, first = { norm_first = true, batch_first = true, activation = "gelu" } } do
  o.dropout, o.hidden, o.encoder_layers, o.decoder_layers = 0, 12, 2, 1
  layers.check("transformer_" .. name, nn.Transformer(8, 2, o))
  layers.check(("transformer_%s_causal"):format(name), nn.Transformer(8, 2, o), function(m, s, t) return m(s, t, { causal = true }) end)
end
local model = nn.Transformer(8, 2, 1, 1, 12, 0)
local weight = model.encoder.layers[1].linear1.weight:abs():max():item()
weight > 0.3 and weight < math.sqrt(6 / 20) --> true
model(op.ones { 3, 1, 8 }, op.ones { 2, 1, 8 }, { tgt_mask = op.ones { 2, 2 } }) --! it is 'mask' here
nn.Transformer(8, 3) --! 3 heads do not divide width = 8

-- ---- lengths that are lists of numbers
local i64 = function(list) return tessera.tensor(list, { dtype = "i64" }) end
local logp, targets = op.log_softmax(rng.normal({ 6, 2, 4 }, { seed = 2, stream = 1 })), i64 { { 1, 2 }, { 3, 0 } }
op.ctc_loss(logp, targets, { 6, 4 }, { 2, 1 }):hash() == op.ctc_loss(logp, targets, i64 { 6, 4 }, i64 { 2, 1 }):hash() --> true
nn.CTCLoss()(logp, targets, { 6, 4 }, i64 { 2, 1 }):hash() == op.ctc_loss(logp, targets, { 6, 4 }, { 2, 1 }):hash() --> true
graph.module("ctc", function(l, t) return op.ctc_loss(l, t, { 6, 4 }, { 2, 1 }) end)(logp, targets):hash() == op.ctc_loss(logp, targets, { 6, 4 }, { 2, 1 }):hash() --> true
for _, name in ipairs { "RNN", "LSTM", "GRU" } do
  local layer, steps = nn[name](3, 4, { bidirectional = true }), rng.normal({ 5, 2, 3 }, { seed = 3, stream = 1 })
  local y = layer(steps, nil, { lengths = { 5, 2 } })
  y:hash() == layer(steps, nil, { lengths = i64 { 5, 2 } }):hash() --> true
  graph.module("steps", function(x) return (layer(x, nil, { lengths = { 5, 2 } })) end)(steps):hash() == y:hash() --> true
end
local list = data.unpad_sequence(op.ones { 4, 2, 3 }, { 4, 1 })
list[1].shape, list[2].shape --> {4, 3}, {1, 3}
nn.LSTM(2, 3)(op.ones { 4, 2, 2 }, nil, { lengths = { 4 } }) --! LSTM: lengths is a list of 1, and has to be 2 whole numbers, a list or a tensor
nn.GRU(2, 3)(op.ones { 4, 2, 2 }, nil, { lengths = { 4, 1.5 } }) --! GRU: lengths is a list of something else
nn.RNN(2, 3)(op.ones { 4, 2, 2 }, nil, { lengths = 4 }) --! RNN: lengths is a number, and has to be 2 whole numbers
nn.LSTM(2, 3)(op.ones { 4, 2, 2 }, nil, { length = { 4, 4 } }) --! LSTM: unknown option 'length'
nn.LSTM(2, 3)(op.ones { 4, 2 }, nil, { lengths = { 4 } }) --! LSTM: lengths are of a batch, and the input has none
data.unpad_sequence(op.ones { 4, 2, 3 }, { 5, 1 }) --! data.unpad_sequence: lengths lie between 0 and 4, not [5 1]
data.pad_sequence { op.ones { 2, 3 }, op.ones { 2, 4 } } --! data.pad_sequence: sequence 2 is f32[2,4], the first f32[2,3]: they differ in their lengths alone, axis 0
op.ctc_loss(logp, targets + 3, { 6, 6 }, { 2, 2 }) --! ctc_loss: a target is none of 4 classes, from 0 on
op.ctc_loss(logp, targets, { 6, 6 }, nil) --! ctc_loss: target_lengths is nothing, and has to be 2 whole numbers
op.ctc_loss(logp, op.ones { 2, 2 }, { 6, 6 }, { 2, 2 }) --! ctc_loss: targets are whole numbers, not f32[2,2]
