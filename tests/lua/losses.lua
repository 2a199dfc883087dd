-- Losses with weights, ignored targets and smoothing, and of sequences, beside PyTorch's.
local tessera = require "tessera"
local op, nn, rng = tessera.op, tessera.nn, tessera.rng
local layers = dofile "tests/lua/_layers.lua"

local w = layers.stored "loss/weight"
local narrow = { f32 = w:to "f32", f64 = w }
-- The weight in the type, and on the device, of the input.
local function check(name, make, what)
  layers.check("loss_" .. name, nil, function(_, x, ...) return make(narrow[x.dtype]:to(x.device))(x, ...) end, what)
end
for _, red in ipairs { "mean", "sum", "none" } do
  check("ce_weight_" .. red, function(w) return nn.CrossEntropyLoss(w, { reduction = red }) end)
  check("ce_smooth_" .. red, function(w) return nn.CrossEntropyLoss { weight = w, label_smoothing = 0.2, reduction = red } end)
  check("ce_probs_" .. red, function(w) return nn.CrossEntropyLoss { weight = w, label_smoothing = 0.2, reduction = red } end)
  check("nll_weight_" .. red, function(w) return nn.NLLLoss(w, 3, red) end)
  check("bce_logits_" .. red, function(w) return nn.BCEWithLogitsLoss(w, w * 2, red) end)
  check("bce_" .. red, function(w) return nn.BCELoss(w, red) end)
  check("smooth_l1_" .. red, function() return nn.SmoothL1Loss(0.4, red) end)
  check("kl_" .. red, function() return nn.KLDivLoss { log_target = true, reduction = red } end)
end
check("ce_plain", function() return nn.CrossEntropyLoss { label_smoothing = 0.1 } end)
check("ce_image", function(w) return nn.CrossEntropyLoss(w) end)
check("ce_image_probs", function(w) return nn.CrossEntropyLoss(w) end)
check("nll_plain", function() return nn.NLLLoss() end)
check("huber", function() return nn.HuberLoss(0.7) end)
check("l1_zero", function() return nn.SmoothL1Loss(0) end)

-- The operator takes a weight by place and by name; without one it is what it was.
local x, t = rng.normal { 5, 4 }, op.arange(5) % 4
local weight = op.arange(4):cast "f32" + 1
op.cross_entropy(x, t, weight):hash() == op.cross_entropy(x, t, { weight = weight }):hash() --> true
math.abs(op.cross_entropy(x, t, op.ones { 4 }):item() - op.cross_entropy(x, t):item()) < 1e-6 --> true
x:cross_entropy(t, weight):hash() == op.cross_entropy(x, t, weight):hash() --> true
op.cross_entropy(x, t, op.ones { 3 }) --! cross_entropy: one weight for each class is needed: f32[5,4] x f32[3]
op.nll(x, t, op.ones { 3 }) --! nll: one weight for each class is needed: f32[5,4] x f32[3]
op.smooth_l1(x, x, { beta = -1 }) --! smooth_l1: beta must not be negative
nn.CrossEntropyLoss { weigth = weight } --! hint: did you mean 'weight'?
nn.MSELoss "avg" --! MSELoss: option 'reduction' must be one of 'mean', 'sum', 'none', not 'avg'
-- Weights move and are saved with the model, and are not trained.
local loss = nn.CrossEntropyLoss(weight)
#loss:parameters(), loss:state_dict().weight:hash() == weight:hash() --> 0, true

-- Sequences.
local function ctc(o) return function(_, x, ...)
  local t, a, b = ...
  return op.ctc_loss(op.log_softmax(x), t, a, b, o)
end end
for _, red in ipairs { "mean", "sum", "none" } do layers.check("ctc_" .. red, nil, ctc { reduction = red }) end
layers.check("ctc_blank", nil, ctc { blank = 4 })
layers.check("ctc_far", nil, ctc { zero_infinity = true })
local logp = op.log_softmax(rng.normal { 2, 1, 3 })
local function i64(t) return tessera.tensor(t, { dtype = "i64" }) end
op.ctc_loss(logp, i64 { { 1, 1 } }, i64 { 2 }, i64 { 2 }):item() --> inf
nn.CTCLoss { zero_infinity = true }(logp, i64 { { 1, 1 } }, i64 { 2 }, i64 { 2 }):item() --> 0
op.ctc_loss(logp, i64 { 1, 1 }, i64 { 2 }, i64 { 2 }) --! ctc_loss: targets are i64[2], and have to be [1, longest target]
op.ctc_loss(logp, i64 { { 1 } }, i64 { 2 }, i64 { 1 }, { blank = 3 }) --! ctc_loss: blank 3 is none of 3 classes
