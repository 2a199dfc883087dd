-- Losses as layers, with PyTorch's names and options, and op.ctc_loss. Loaded by nn and by op.

local core = require "tessera.core"
local options = require "tessera.options"
local lengths = require "tessera.nn.lengths"
local op = core.op
local need = options.argument
local losses = {}

local REDUCTION = options.one_of("mean", "sum", "none")
local TENSOR, INDEX, SHARE, NUMBER = options.tensor, options.whole(), options.number { least = 0, most = 1 }, options.number { least = 0 }

-- ---- connectionist temporal classification

local LOW = -1e30 -- in place of -inf, whose slopes are no numbers
local ctc_kinds = { blank = options.whole { least = 0 }, reduction = REDUCTION, zero_infinity = options.flag }
local ctc_defaults = { blank = 0, reduction = "mean", zero_infinity = false }
local read_ctc = options.of("ctc_loss", ctc_kinds, ctc_defaults)

-- x one place further along the last axis.
local function later(x, places) return op.pad(x, { pads = { places, 0 }, value = LOW }):narrow(-1, 0, x.shape[x.ndim]) end

-- ctc_loss(logp, targets, input_lengths, target_lengths, {blank = 0, reduction = "mean", zero_infinity =
-- false}): -log of the probability that logp [T, N, C], log_softmax of scores of T steps, give the targets
-- [N, S], of which target_lengths count, in input_lengths steps, both N whole numbers in a tensor or a list: each class any number of times in a row,
-- blanks between (Graves 2006). "mean" divides by the lengths of the targets before. A target that does
-- not fit into its steps gives inf, or, with zero_infinity, 0 without a slope.
--   logp = op.log_softmax(rng.normal{6, 1, 4})
--   targets = op.ones({1, 2}, {dtype = "i64"})
--   y = op.ctc_loss(logp, targets, {6}, {2})
function losses.ctc_loss(logp, targets, input_lengths, target_lengths, given)
  local o = read_ctc(given)
  need("ctc_loss", "logp", TENSOR, logp)
  need("ctc_loss", "targets", TENSOR, targets)
  if logp.ndim ~= 3 then core.fail(("ctc_loss: logp is %s, and has to be [steps, batch, classes]"):format(core.type_text(logp))) end
  local steps, batch, classes = unpack(logp.shape)
  if targets.ndim ~= 2 or targets.shape[1] ~= batch then
    core.fail(("ctc_loss: targets are %s, and have to be [%d, longest target]\n  hint: data.pad_sequence(list, {batch_first = true})"):format(
      core.type_text(targets), batch))
  end
  local blank = o.blank
  if blank >= classes then core.fail(("ctc_loss: blank %d is none of %d classes"):format(blank, classes)) end
  if targets.dtype:match "^[fcb]" then core.fail(("ctc_loss: targets are whole numbers, not %s\n  hint: targets:cast(\"i64\")"):format(core.type_text(targets))) end
  input_lengths = lengths("ctc_loss", "input_lengths", input_lengths, batch, steps):to(logp.device)
  target_lengths = lengths("ctc_loss", "target_lengths", target_lengths, batch, targets.shape[2]):to(logp.device)
  local wide = logp.dtype == "f64" and "f64" or "f32"
  local S = targets.shape[2]
  local L, device = 2 * S + 1, logp.device
  -- Blanks around and between the targets.
  targets = targets:cast "i64"
  local inside = op.arange(S, { device = device }):unsqueeze(0):lt(target_lengths:unsqueeze(1))
  targets = op.where(inside, targets, targets * 0 + blank)
  if not core.capturing() and targets.numel > 0 and (targets:max():item() >= classes or targets:min():item() < 0) then
    core.fail(("ctc_loss: a target is none of %d classes, from 0 on"):format(classes))
  end
  local blanks = op.full({ batch, 1 }, blank, { dtype = "i64", device = device })
  local path = blanks
  if S > 0 then
    path = op.concat({ op.stack({ blanks:expand(batch, S), targets }, { axis = 2 }):reshape(batch, 2 * S), blanks }, { axis = 1 })
  end
  local before = op.pad(path, { pads = { 2, 0 }, value = blank }):narrow(1, 0, L)
  local skips = path:ne(blank):logical_and(path:ne(before))
  local scores = op.gather(logp:cast(wide), path:unsqueeze(0):expand(steps, batch, L), { axis = 2 })
  local first = op.where(op.arange(L, { device = device }):eq(0), op.zeros({}, { dtype = wide, device = device }),
    op.full({}, LOW, { dtype = wide, device = device })):unsqueeze(0):expand(batch, L) * 1
  local real = op.arange(steps, { device = device }):unsqueeze(1):lt(input_lengths:unsqueeze(0)):unsqueeze(-1)
  local low = op.full({}, LOW, { dtype = wide, device = device })
  local last = op.scan(function(alpha, at)
    local ways = op.stack({ alpha, later(alpha, 1), op.where(skips, later(alpha, 2), low) }, { axis = -1 })
    return op.where(at[2], op.maximum(op.logsumexp(ways, { axis = -1 }) + at[1], LOW), alpha)
  end, first, { scores, real })
  local ends = (target_lengths:cast "i64" * 2):unsqueeze(1)
  local full = op.gather(last, ends, { axis = 1 })
  local short = op.gather(last, op.maximum(ends - 1, 0), { axis = 1 })
  short = op.where(ends:gt(0), short, low)
  local y = -op.logsumexp(op.concat({ full, short }, { axis = 1 }), { axis = 1 })
  local none = y:gt(-LOW / 2)
  y = op.where(none, y * 0 + (o.zero_infinity and 0 or math.huge), y)
  if o.reduction == "none" then return y end
  if o.reduction == "sum" then return y:sum() end
  return (y / op.maximum(target_lengths, 1):cast(wide)):mean()
end

-- ---- layers

--- The layers, into nn.
function losses.into(nn)
  local ORDINAL = { "the first input", "the second input", "the third input" }
  -- inputs: how many tensors, two if it is not said; forward looks at what cannot be a number.
  local function define(name, kinds, defaults, places, forward, inputs)
    local Loss = nn.Module:extend(name)
    nn[name] = Loss
    kinds.reduction, defaults.reduction = kinds.reduction or REDUCTION, defaults.reduction or "mean"
    places[#places + 1] = "reduction"
    local read = options.placed(name, kinds, defaults, places)
    function Loss:init(...)
      self.o = read(...)
      self._told = options.told(name, self.o)
      for k, v in pairs(self.o) do
        if core.is_tensor(v) then
          self:buffer(k, v)
          self.o[k] = nil
        end
      end
    end
    options.described(Loss.init)
    function Loss:forward(...)
      for i = 1, inputs or 2 do need(name, ORDINAL[i], i == 1 and TENSOR or options.operand, (select(i, ...))) end
      return forward(self, self.o, ...)
    end
  end

  local function plain(row)
    return {}, {}, {}, function(_, o, x, y) return op[row](x, y, { reduction = o.reduction }) end
  end

  -- MSELoss({reduction = "mean"}): op.mse, (x - y)^2. reduction: "mean", "sum" or "none", as of all losses.
  --   y = nn.MSELoss("sum")(rng.normal{4}, rng.normal{4})
  define("MSELoss", plain "mse")
  -- L1Loss({reduction = "mean"}): op.l1, |x - y| of tensors of one shape.
  --   y = nn.L1Loss()(x, x * 2)
  define("L1Loss", plain "l1")
  -- SmoothL1Loss({beta = 1, reduction = "mean"}): op.smooth_l1, (x - y)^2 / (2 beta) where |x - y| < beta, else |x - y| -
  -- beta / 2.
  --   y = nn.SmoothL1Loss(0.5)(x, x * 2)
  define("SmoothL1Loss", { beta = NUMBER }, { beta = 1 }, { "beta" },
    function(_, o, x, y) return op.smooth_l1(x, y, { beta = o.beta, reduction = o.reduction }) end)
  -- HuberLoss({delta = 1, reduction = "mean"}): op.huber, (x - y)^2 / 2 where |x - y| <= delta, else delta * (|x - y| -
  -- delta / 2).
  --   y = nn.HuberLoss(0.5)(x, x * 2)
  define("HuberLoss", { delta = options.number { above = 0 } }, { delta = 1 }, { "delta" },
    function(_, o, x, y) return op.huber(x, y, { delta = o.delta, reduction = o.reduction }) end)
  -- BCELoss({weight, reduction = "mean"}): op.bce of probabilities; weight, a tensor, multiplies the terms.
  --   y = nn.BCELoss()(op.sigmoid(x), op.ones_like(x))
  define("BCELoss", { weight = TENSOR }, {}, { "weight" },
    function(self, o, p, y) return op.bce { p, y, self.weight, reduction = o.reduction } end)
  -- BCEWithLogitsLoss({weight, pos_weight, reduction = "mean"}): op.bce_with_logits; weight multiplies the
  -- terms, pos_weight those of what is true, as one number for each class: both tensors.
  --   y = nn.BCEWithLogitsLoss{pos_weight = op.full({3}, 2)}(rng.normal{4, 3}, op.ones{4, 3})
  define("BCEWithLogitsLoss", { weight = TENSOR, pos_weight = TENSOR }, {}, { "weight", "pos_weight" }, function(self, o, x, y)
    return op.bce_with_logits(x, y, { weight = self.weight, pos_weight = self.pos_weight, reduction = o.reduction })
  end)
  -- KLDivLoss({reduction = "mean", log_target = false}): op.kl_divergence of logarithms and probabilities,
  -- or of logarithms both; "batchmean" divides by the batch alone.
  --   y = nn.KLDivLoss("batchmean")(op.log_softmax(x), op.softmax(x * 2))
  define("KLDivLoss", { reduction = options.one_of("mean", "sum", "none", "batchmean"), log_target = options.flag }, { log_target = false }, {},
    function(_, o, logp, q) return op.kl_divergence(logp, o.log_target and q:exp() or q, { reduction = o.reduction }) end)

  -- Classes last: as PyTorch has them, they are axis 1 of more than two.
  local function last(x)
    if x.ndim <= 2 then return x end
    local order = { 0 }
    for a = 2, x.ndim - 1 do order[#order + 1] = a end
    order[#order + 1] = 1
    return x:permute(unpack(order))
  end

  -- NLLLoss({weight, ignore_index = -100, reduction = "mean"}): op.nll of logarithms [N, classes, ..] (axis 1)
  -- and targets [N, ..]: weight, a tensor, has a number for each class; targets ignore_index do not count.
  --   y = nn.NLLLoss()(op.log_softmax(rng.normal{4, 3}), op.arange(4) % 3)
  define("NLLLoss", { weight = TENSOR, ignore_index = INDEX }, { ignore_index = -100 }, { "weight", "ignore_index" }, function(self, o, x, t)
    return op.nll(last(x), t, { weight = self.weight, ignore_index = o.ignore_index, reduction = o.reduction })
  end)
  -- CrossEntropyLoss({weight, ignore_index = -100, label_smoothing = 0, reduction = "mean"}): op.cross_entropy
  -- of logits [N, classes, ..] (axis 1; op.cross_entropy has them last) and targets [N, ..] of whole
  -- numbers, or of probabilities in the shape of the logits. weight, a tensor, has a number for each
  -- class; targets ignore_index do not count; label_smoothing is the share that all classes get.
  --   y = nn.CrossEntropyLoss{label_smoothing = 0.1}(rng.normal{4, 3}, op.arange(4) % 3)
  define("CrossEntropyLoss", { weight = TENSOR, ignore_index = INDEX, label_smoothing = SHARE },
    { ignore_index = -100, label_smoothing = 0 }, { "weight", "ignore_index", "label_smoothing" }, function(self, o, x, t)
      if need("CrossEntropyLoss", "the target", TENSOR, t).ndim == x.ndim then t = last(t) end
      return op.cross_entropy(last(x), t, { weight = self.weight, ignore_index = o.ignore_index, label_smoothing = o.label_smoothing,
        reduction = o.reduction })
    end)
  -- CTCLoss({blank = 0, reduction = "mean", zero_infinity = false}): op.ctc_loss(logp, targets, input_lengths,
  -- target_lengths).
  --   logp = op.log_softmax(rng.normal{6, 1, 4})
  --   targets = op.ones({1, 2}, {dtype = "i64"})
  --   y = nn.CTCLoss()(logp, targets, {6}, {2})
  define("CTCLoss", { blank = ctc_kinds.blank, zero_infinity = options.flag }, { blank = 0, zero_infinity = false }, { "blank" },
    function(_, o, ...)
      local logp, targets, inputs, lengths = ...
      return losses.ctc_loss(logp, targets, inputs, lengths, o)
    end)
  require "tessera.nn.margin"(define)
end

return losses
