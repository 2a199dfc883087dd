-- Heads of attention: those of a layer's numbers, keys and values for as many heads as queries have, and which keys queries see.
-- Of layers (transformer.lua) and of models (hf/attention.lua).

local op = require("tessera.core").op

local heads = {}

--- [B, S, H D] as n heads [B, H, S, D], and back.
function heads.split(x, n) return x:reshape { x.shape[1], x.shape[2], n, x.shape[3] / n }:permute(0, 2, 1, 3) end
function heads.join(y)
  y = y:permute(0, 2, 1, 3)
  return y:reshape { y.shape[1], y.shape[2], y.shape[3] * y.shape[4] }
end

--- Keys or values for n query heads.
function heads.repeated(x, n)
  local b, kv, t, d = unpack(x.shape)
  if kv == n then return x end
  return x:unsqueeze(2):broadcast_to { b, kv, n / kv, t, d }:reshape { b, n, t, d }
end

--- Which of t keys s queries see by {causal, window, upper_left}, bool [S, T] on the device, or nil: all.
function heads.seen(s, t, o, device)
  if not (o.causal or o.window) then return nil end
  local keys, rows = op.arange(t), (op.arange(s) + (o.upper_left and 0 or t - s)):unsqueeze(1)
  local seen = o.causal and keys:le(rows)
  local near = o.window and keys:gt(rows - o.window)
  seen = seen and near and seen:logical_and(near) or seen or near
  return seen.device ~= device and seen:to(device) or seen
end

return heads
