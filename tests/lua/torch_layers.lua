-- Layers, losses and optimisers of layers.lua, margin.lua and composed.lua beside PyTorch's.
local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng
local layers = dofile "tests/lua/_layers.lua"
local function layer(name, m, f, what) layers.check("layer_" .. name, m, f, what) end

layer("relu6", nn.ReLU6())
layer("hardsigmoid", nn.Hardsigmoid())
layer("tanhshrink", nn.Tanhshrink())
layer("softsign", nn.Softsign())
layer("logsigmoid", nn.LogSigmoid())
layer("selu", nn.SELU())
layer("celu", nn.CELU(2))
layer("hardtanh", nn.Hardtanh(-0.4, 0.6))
layer("hardshrink", nn.Hardshrink(0.3))
layer("softshrink", nn.Softshrink(0.3))
layer("softmin", nn.Softmin(0))
layer("glu", nn.GLU(0))
layer("rrelu", nn.RReLU(0.1, 0.5):eval())
layer("threshold", nn.Threshold(0.1, 20))
layer("pixel_shuffle", nn.PixelShuffle(2))
layer("pixel_unshuffle", nn.PixelUnshuffle(2))
layer("channel_shuffle", nn.ChannelShuffle(3), function(m, x) return m(x) * 1 end)
layer("unflatten", nn.Unflatten(1, { 2, 3 }), function(m, x) return m(x) * 1 end)
layer("unfold", nn.Unfold({ 2, 3 }, 1, 1, 2))
layer("fold", nn.Fold({ 5, 6 }, 3, 1, 1, 2))
for n, pads in ipairs { { 1, 2 }, { 1, 2, 2, 0 }, { 1, 0, 1, 1, 0, 1 } } do
  for _, kind in ipairs { "Zero", "Reflection", "Replication", "Circular" } do
    layer(kind .. n, nn[("%sPad%dd"):format(kind, n)](pads))
  end
  layer("Constant" .. n, nn[("ConstantPad%dd"):format(n)](pads, 0.5))
end
layer("cut", nn.ZeroPad2d { padding = { -1, 1, 0, -2 } })
layer("lrn", nn.LocalResponseNorm(3, 0.2, 0.6, 1.5))
layer("cosine", nn.CosineSimilarity(1))
layer("pairwise", nn.PairwiseDistance(1.5))
layer("lp1", nn.LPPool1d(1.5, 2, 1))
layer("lp2", nn.LPPool2d(2, { 2, 3 }))
for n = 1, 3 do layer("instance" .. n, nn[("InstanceNorm%dd"):format(n)](3, 1e-3, n == 2)) end
layer("bilinear", nn.Bilinear(3, 4, 5))
layer("bilinear_plain", nn.Bilinear(3, 4, 2, false))

-- Draws: whole channels, and what keeps mean and variance.
local x = op.ones { 40, 10, 3, 3 }
local y = nn.Dropout2d(0.25)(x)
local kept = y:sum { axis = { 2, 3 } }
kept:ne(0):logical_and(kept:sub(12):abs():gt(1e-4)):any():item() --> false
math.abs(kept:ne(0):cast("f32"):mean():item() - 0.75) < 0.08 --> true
nn.Dropout2d(0.25):eval()(x):hash() == x:hash() --> true
local z = nn.AlphaDropout(0.3)(rng.normal { 100000 })
math.abs(z:mean():item()) < 0.03, math.abs(z:var():item() - 1) < 0.05 --> true, true
local r = nn.RReLU(0.1, 0.2)(-op.ones { 1000 })
r:min():item() >= -0.2 and r:max():item() <= -0.1 --> true

-- Losses.
local w = layers.stored "margin/weight"
local narrow = { f32 = w:to "f32", f64 = w }
for _, red in ipairs { "mean", "sum", "none" } do
  local o = { reduction = red }
  local function loss(name, make)
    layers.check(("margin_%s_%s"):format(name, red), nil, function(_, x, ...) return make(narrow[x.dtype]:to(x.device))(x, ...) end)
  end
  loss("poisson", function() return nn.PoissonNLLLoss(o) end)
  loss("poisson_full", function() return nn.PoissonNLLLoss(false, true, 1e-3, red) end)
  loss("gauss", function() return nn.GaussianNLLLoss(o) end)
  loss("gauss_full", function() return nn.GaussianNLLLoss(true, 0.3, o) end)
  loss("hinge", function() return nn.HingeEmbeddingLoss(0.7, red) end)
  loss("ranking", function() return nn.MarginRankingLoss(0.3, o) end)
  loss("soft", function() return nn.SoftMarginLoss(red) end)
  loss("cosine", function() return nn.CosineEmbeddingLoss(0.1, o) end)
  loss("triplet", function() return nn.TripletMarginLoss(0.8, 3, o) end)
  loss("triplet_swap", function() return nn.TripletMarginLoss { swap = true, reduction = red } end)
  loss("multi", function() return nn.MultiMarginLoss(o) end)
  loss("multi_square", function(w) return nn.MultiMarginLoss(2, 0.7, w, red) end)
  loss("labels", function(w) return nn.MultiLabelSoftMarginLoss(w, red) end)
end

-- Optimisers.
for name, make in pairs {
  Adamax = function(p) return optim.Adamax(p, 0.01) end,
  Adamax_all = function(p) return optim.Adamax(p, 0.01, { 0.8, 0.9 }, 1e-3, 0.1) end,
  Adadelta = function(p) return optim.Adadelta(p) end,
  Adadelta_all = function(p) return optim.Adadelta(p, 0.5, 0.8, 1e-3, 0.1) end,
  ASGD = function(p) return optim.ASGD(p) end,
  ASGD_all = function(p) return optim.ASGD(p, 0.1, 0.05, 0.6, 3, 0.1) end,
  Rprop = function(p) return optim.Rprop(p) end,
  Rprop_all = function(p) return optim.Rprop(p, 0.02, { 0.4, 1.5 }, { 0.001, 0.1 }) end,
} do layers.steps(name, function(p, q) return make { p, q } end) end

-- A captured training step has the bits of eager ones.
for _, name in ipairs { "Adamax", "Adadelta", "ASGD", "Rprop" } do
  local function trained(eager)
    tessera.core.seed(3)
    local m = nn.Linear(3, 2)
    local opt = optim[name](m:parameters())
    local x = rng.normal({ 5, 3 }, { seed = 1, stream = 1 })
    local function loss(m, x) return op.mse(m(x), x:narrow(1, 0, 2)) end
    local step = tessera.graph.training_step(m, loss, opt)
    for _ = 1, 5 do
      if eager then
        opt:zero_grad()
        loss(m, x):backward()
        opt:step()
      else
        step(x)
      end
    end
    return m.weight:hash() .. m.bias:hash()
  end
  assert(trained(true) == trained(false), name)
end
