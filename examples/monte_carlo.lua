-- The price of an option by simulation: randomness is a function of seed, stream and
-- index, so the answer is the same for any number of threads.

local tessera = require "tessera"
local op, rng, numerics = tessera.op, tessera.rng, tessera.numerics

local SPOT, STRIKE, RATE, SIGMA, YEARS, PATHS = 100, 105, 0.03, 0.2, 1, 4e6

local function price(seed)
  local z = rng.normal({ PATHS }, { dtype = "f64", seed = seed, stream = 0 })
  local final = op.exp(z * (SIGMA * math.sqrt(YEARS)) + (RATE - SIGMA ^ 2 / 2) * YEARS) * SPOT
  local payoff = op.relu(final - STRIKE) * math.exp(-RATE * YEARS)
  return payoff:mean(), (payoff:std() / math.sqrt(PATHS)):item()
end

-- Black and Scholes (1973).
local function phi(x) return 0.5 * op.erfc(tessera.tensor({ -x / math.sqrt(2) }, { dtype = "f64" })):item() end
local d1 = (math.log(SPOT / STRIKE) + (RATE + SIGMA ^ 2 / 2) * YEARS) / (SIGMA * math.sqrt(YEARS))
local exact = SPOT * phi(d1) - STRIKE * math.exp(-RATE * YEARS) * phi(d1 - SIGMA * math.sqrt(YEARS))

local p, deviation = price(11)
print(("simulated %.4f +- %.4f, exact %.4f"):format(p:item(), deviation, exact))
assert(math.abs(p:item() - exact) < 5 * deviation)

local threads = tessera.threads()
tessera.threads(1)
assert(numerics.hash(price(11)) == numerics.hash(p), "one thread, the same bits")
tessera.threads(threads)
return { price = p }
