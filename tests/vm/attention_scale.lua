-- Attention with a scale that is negative, zero or no number: the rows that a kernel pads do not
-- take part. Against the definition in f64.
local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
local function draw(n, i, d) return rng.normal({ 1, 2, n, 8 }, { seed = i, stream = n }):cast(d) end
local function defined(q, k, v, scale, causal)
  local s = op.matmul(q:cast "f64", k:cast "f64":T()) * scale
  if causal then s = op.where(op.tril(op.ones({ q.shape[3], k.shape[3] }, { dtype = "bool" })), s, -math.huge) end
  return op.matmul(op.softmax(s), v:cast "f64")
end
local close = { f32 = 1e-5, f64 = 1e-12, bf16 = 0.03, f16 = 0.005 }
local wrong = {}
for d, tol in pairs(close) do
  for _, scale in ipairs { -0.1, -2, 0, 0 / 0 } do
    for _, n in ipairs { 1, 3, 17, 130 } do
      for _, causal in ipairs { false, true } do
        local q, k, v = draw(n, 1, d), draw(n, 2, d), draw(n, 3, d)
        local got = op.attention(q, k, v, { scale = scale, causal = causal }):cast "f64"
        local want = defined(q, k, v, scale, causal)
        local what = ("%s scale %g n %d causal %s"):format(d, scale, n, tostring(causal))
        if scale ~= scale then
          if not got:isnan():all():item() then wrong[#wrong + 1] = what end
        else
          if not ((got - want):abs():max():item() <= tol) then wrong[#wrong + 1] = what end
          local function slope(f) return graph.grad(function(...) return (f(...) * 0.5):cast "f64":sum() end, { 1, 2, 3 }) end
          local a = { slope(function(x, y, z) return op.attention(x, y, z, { scale = scale, causal = causal }) end)(q, k, v) }
          local b = { slope(function(x, y, z) return defined(x, y, z, scale, causal) end)(q, k, v) }
          for i = 1, 3 do
            if not ((a[i]:cast "f64" - b[i]:cast "f64"):abs():max():item() <= 20 * tol) then wrong[#wrong + 1] = what .. " gradient " .. i end
          end
        end
      end
    end
  end
end
table.concat(wrong, "\n") --> 
