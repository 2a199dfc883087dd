-- Losses of routers, made of operators. Loaded by op when one is first named (named_functions.lua).

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need = options.argument
local F = {}

local function axes_of_tokens(logits)
  local axes = {}
  for d = 1, logits.ndim - 1 do axes[d] = d - 1 end
  return axes
end

-- load_balance_loss(logits, index): what uneven experts cost (arXiv 2101.03961): experts times the sum over experts of the
-- share of all choices that an expert gets and the mean over tokens of its softmax: 1 where both are even, up to the number of
-- experts. logits [.., experts] are the router's, index [.., k] its choices. Shares have no gradient.
--   logits = rng.normal{8, 4}
--   w, index = op.router(logits, {k = 2})
--   loss = op.load_balance_loss(logits, index)
function F.load_balance_loss(logits, index)
  need("load_balance_loss", "logits", options.tensor, logits)
  need("load_balance_loss", "index", options.tensor, index)
  if logits.ndim < 2 or index.ndim ~= logits.ndim then
    core.fail(("load_balance_loss: logits [.., experts] and index [.., k] do not fit: %s x %s"):format(core.type_text(logits),
      core.type_text(index)))
  end
  local experts = logits.shape[logits.ndim]
  local _, _, sizes = op.moe_places(index, { experts = experts })
  local wide = logits.dtype == "f64" and "f64" or "f32"
  local share = sizes:cast(wide) / math.max(index.numel, 1)
  local p = op.softmax(logits:cast(wide)):mean { axis = axes_of_tokens(logits) }
  return (share * p):sum() * experts
end

-- router_z_loss(logits): the mean over tokens of the square of logsumexp(logits), which keeps logits [.., experts] small
-- (arXiv 2202.08906).
--   loss = op.router_z_loss(rng.normal{8, 4})
function F.router_z_loss(logits)
  need("router_z_loss", "logits", options.tensor, logits)
  local wide = logits.dtype == "f64" and "f64" or "f32"
  return op.logsumexp(logits:cast(wide), { axis = -1 }):square():mean()
end

return F
