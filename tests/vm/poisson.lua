-- The Poisson distribution: counts of many draws beside their expectation by chi-square, at fixed seeds;
-- the same numbers for any number of threads, captured, by kernels and on a device.
local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
local n = 20000

-- How far the statistic is above what it is, in standard deviations (Wilson and Hilferty).
local function excess(rate, seed)
  local x = op.poisson(op.full({ n }, rate, { dtype = "f64" }), { seed = seed, stream = 1 })
  local most = math.floor(rate + 12 * math.sqrt(rate) + 20)
  local counts = op.bincount(x:cast "i64", { length = most + 1 }):totable()
  -- Classes of at least 8 expected draws, the ends together.
  local p, sum, statistic, classes, want, got = math.exp(-rate), 0, 0, 0, 0, 0
  for k = 0, most do
    if k > 0 then p = p * rate / k end
    want, got, sum = want + p * n, got + counts[k + 1], sum + p
    if want >= 8 and (1 - sum) * n >= 8 then
      statistic, classes, want, got = statistic + (got - want) ^ 2 / want, classes + 1, 0, 0
    end
  end
  want = want + (1 - sum) * n
  statistic = statistic + (got - want) ^ 2 / want
  local freedom = classes
  return ((statistic / freedom) ^ (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
end
local far = {}
for i, rate in ipairs { 0.3, 1, 4.5, 9.99, 10, 11, 17, 60, 300 } do
  local e = excess(rate, i)
  if e > 3.5 or e ~= e then far[#far + 1] = ("%g: %g"):format(rate, e) end
end
table.concat(far, ", ") -->

local rates = op.arange(40):cast "f32" * 0.7
local x = op.poisson(rates, { seed = 3, stream = 4 })
x:hash() == rng.poisson(rates, { seed = 3, stream = 4 }):hash() --> true
x.dtype, op.poisson(rates:cast "bf16", { seed = 1 }).dtype --> f32, bf16
-- The first numbers of more are the same.
op.poisson(op.concat { rates, rates }, { seed = 3, stream = 4 })["0:40"]:hash() == x:hash() --> true
local threads = tessera.threads()
local many = op.full({ 5000 }, 20)
local before = op.poisson(many, { seed = 1, stream = 1 }):hash()
tessera.threads(1)
op.poisson(many, { seed = 1, stream = 1 }):hash() == before --> true
tessera.threads(threads)
local f = graph.module(function(r) return op.poisson(r, { seed = 3, stream = 4 }) end)
f(rates):hash() == x:hash() --> true
tessera.jit.pin(f)
f(rates):hash() == x:hash() --> true
op.poisson(rates:to "sim:0", { seed = 3, stream = 4 }):hash() == x:hash() --> true
-- The next call draws others.
op.poisson(rates):hash() ~= op.poisson(rates):hash() --> true
local drawn = graph.module(function(r) return op.poisson(r) end)
drawn(rates):hash() ~= drawn(rates):hash() --> true
rates.requires_grad = true
op.poisson(rates):sum():backward() --! does not depend on a tensor that requires gradients
