-- Losses that compare scores with margins, and those of distributions, with PyTorch's names and options. Loaded by
-- losses.lua, whose `define` makes a layer.

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need, NUMBER, FLAG, TENSOR = options.argument, options.number(), options.flag, options.tensor
local ABOVE, SIZE = options.number { above = 0 }, options.number { least = 0 }

return function(define)
  local function reduced(y, o)
    if o.reduction == "none" then return y end
    return o.reduction == "sum" and y:sum() or y:mean()
  end

  -- PoissonNLLLoss({log_input = true, full = false, eps = 1e-8, reduction = "mean"}): e^x - y x, or, of rates instead of
  -- their logarithms, x - y log(x + eps); full adds Stirling's approximation of log y! where y > 1.
  --   y = nn.PoissonNLLLoss()(rng.normal{4}, op.ones{4})
  define("PoissonNLLLoss", { log_input = FLAG, full = FLAG, eps = SIZE }, { log_input = true, full = false, eps = 1e-8 },
    { "log_input", "full", "eps" }, function(_, o, x, t)
      local y = o.log_input and op.exp(x) - t * x or x - t * op.log(x + o.eps)
      if o.full then
        local some = op.gt(t, 1)
        local s = op.where(some, t, 1)
        y = y + op.where(some, s * op.log(s) - s + op.log(s * (2 * math.pi)) / 2, 0)
      end
      return reduced(y, o)
    end)

  -- GaussianNLLLoss({full = false, eps = 1e-6, reduction = "mean"}): (log v + (x - t)^2 / v) / 2 of a mean x, a target t
  -- and a variance v, which is at least eps; full adds log(2 pi) / 2.
  --   y = nn.GaussianNLLLoss()(rng.normal{4}, rng.normal{4}, op.ones{4})
  define("GaussianNLLLoss", { full = FLAG, eps = SIZE }, { full = false, eps = 1e-6 }, { "full", "eps" }, function(_, o, x, t, v)
    if need("GaussianNLLLoss", "the variance", TENSOR, v).ndim == x.ndim - 1 then v = v:unsqueeze(-1) end
    v = v + (op.maximum(v, o.eps) - v):detach() -- the limit has no slope
    local y = (op.log(v) + op.square(x - t) / v) / 2
    return reduced(o.full and y + math.log(2 * math.pi) / 2 or y, o)
  end, 3)

  -- HingeEmbeddingLoss({margin = 1, reduction = "mean"}): x where the target is 1, max(0, margin - x) where it is -1.
  --   y = nn.HingeEmbeddingLoss()(rng.normal{4}, op.ones{4})
  define("HingeEmbeddingLoss", { margin = NUMBER }, { margin = 1 }, { "margin" }, function(_, o, x, t)
    local zero = x * 0
    return reduced(op.where(op.ne(t, 1), op.relu(o.margin - x), zero) + op.where(op.ne(t, -1), x, zero), o)
  end)

  -- MarginRankingLoss({margin = 0, reduction = "mean"}): max(0, margin - t (x - y)) of scores x and y and targets t of 1,
  -- where x shall be greater, or -1.
  --   y = nn.MarginRankingLoss()(rng.normal{4}, rng.normal{4}, op.ones{4})
  define("MarginRankingLoss", { margin = NUMBER }, { margin = 0 }, { "margin" },
    function(_, o, x, y, t) return reduced(op.relu(o.margin - t * (x - y)), o) end, 3)

  -- SoftMarginLoss({reduction = "mean"}): log(1 + e^(-t x)) of targets t of 1 and -1.
  --   y = nn.SoftMarginLoss()(rng.normal{4}, op.ones{4})
  define("SoftMarginLoss", {}, {}, {}, function(_, o, x, t) return reduced(op.softplus(-t * x), o) end)

  -- CosineEmbeddingLoss({margin = 0, reduction = "mean"}): of rows x and y 1 - cos where the target is 1, max(0, cos -
  -- margin) where it is -1, cos being that of the angle between them.
  --   y = nn.CosineEmbeddingLoss()(rng.normal{4, 3}, rng.normal{4, 3}, op.ones{4})
  define("CosineEmbeddingLoss", { margin = NUMBER }, { margin = 0 }, { "margin" }, function(_, o, x, y, t)
    local eps = 1e-12
    local cos = (x * y):sum { axis = -1 } / op.sqrt((op.square(x):sum { axis = -1 } + eps) * (op.square(y):sum { axis = -1 } + eps))
    local zero = cos * 0
    return reduced(op.where(op.eq(t, 1), 1 - cos, zero) + op.where(op.eq(t, -1), op.relu(cos - o.margin), zero), o)
  end, 3)

  -- TripletMarginLoss({margin = 1, p = 2, eps = 1e-6, swap = false, reduction = "mean"}): max(0, d(a, x) - d(a, y) + margin) of
  -- rows a, x like a and y unlike it, d being op.pairwise_distance; swap takes d(x, y) for d(a, y) where it is less.
  --   y = nn.TripletMarginLoss()(rng.normal{4, 3}, rng.normal{4, 3}, rng.normal{4, 3})
  define("TripletMarginLoss", { margin = NUMBER, p = ABOVE, eps = SIZE, swap = FLAG }, { margin = 1, p = 2, eps = 1e-6, swap = false },
    { "margin", "p", "eps", "swap" }, function(_, o, a, x, y)
      local function far(u, v) return op.pairwise_distance(u, v, { p = o.p, eps = o.eps }) end
      local near, away = far(a, x), far(a, y)
      if o.swap then away = op.minimum(away, far(x, y)) end
      return reduced(op.relu(near - away + o.margin), o)
    end, 3)

  -- MultiMarginLoss({p = 1, margin = 1, weight, reduction = "mean"}): the mean over other classes i than the target t of
  -- max(0, margin - x[t] + x[i])^p, p being 1 or 2, of scores [N, classes]; weight, a tensor, has a number for each class.
  --   y = nn.MultiMarginLoss()(rng.normal{4, 3}, op.arange(4) % 3)
  define("MultiMarginLoss", { p = options.whole { least = 1, most = 2 }, margin = NUMBER, weight = TENSOR }, { p = 1, margin = 1 },
    { "p", "margin", "weight" }, function(self, o, x, t)
      need("MultiMarginLoss", "the target", TENSOR, t)
      if x.ndim == 0 then core.fail("MultiMarginLoss: scores have an axis of classes, and x is " .. core.type_text(x)) end
      local classes, single = x.shape[x.ndim], x.ndim == 1
      if single then x, t = x:unsqueeze(0), t:reshape(1) end
      local own = t:unsqueeze(-1)
      local z = op.relu(x - op.gather(x, own, { axis = -1 }) + o.margin)
      if o.p == 2 then z = op.square(z) end
      if self.weight then z = z * op.index_select(self.weight, t, { axis = 0 }):unsqueeze(-1) end
      local others = op.arange(classes):to(x.device):ne(own)
      local y = op.where(others, z, z * 0):sum { axis = -1 } / classes
      return reduced(single and y:squeeze(0) or y, o)
    end)

  -- MultiLabelSoftMarginLoss({weight, reduction = "mean"}): the mean over classes of op.bce_with_logits of scores [N, classes]
  -- and targets of 0 and 1; weight, a tensor, has a number for each class.
  --   y = nn.MultiLabelSoftMarginLoss()(rng.normal{4, 3}, op.ones{4, 3})
  define("MultiLabelSoftMarginLoss", { weight = TENSOR }, {}, { "weight" }, function(self, o, x, t)
    local y = op.bce_with_logits(x, t, { reduction = "none" })
    if self.weight then y = y * self.weight end
    return reduced(y:mean { axis = -1 }, o)
  end)
end
