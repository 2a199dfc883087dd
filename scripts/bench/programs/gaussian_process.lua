-- A Gaussian process of 200 points: how likely they are, and the slopes by its three parameters.

local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph

local N = 200
local x = rng.uniform({ N, 2 }, { dtype = "f64", low = -3, high = 3 })
local y = x:sin():sum { axis = 1, keepdims = true } + rng.normal({ N, 1 }, { dtype = "f64", std = 0.1 })
local start = tessera.tensor({ 0, 0.3, -2 }, { dtype = "f64" })

-- theta: logarithms of the length, of the height and of the noise.
local function unlikelihood(theta, x, y)
  local length, height, noise = theta:exp():unbind()
  local squares = x:square():sum { axis = 1, keepdims = true }
  local distance2 = squares + squares:T() - op.matmul(x, x:T()) * 2
  local k = height * (distance2 / (length * length) * -0.5):exp() + noise * op.eye(N, { dtype = "f64" })
  local l = op.cholesky(k)
  local a = op.tri_solve(l, y)
  return a:square():sum() * 0.5 + l:diagonal():log():sum() + N / 2 * math.log(2 * math.pi)
end

return {
  data = { start, x, y },
  start = function(captured)
    local theta = start:clone()
    if captured then
      local slope = graph.grad(unlikelihood)
      return function() return (slope(theta, x, y)) end
    end
    theta.requires_grad = true
    return function()
      theta.grad = nil
      unlikelihood(theta, x, y):backward()
      return theta.grad
    end
  end,
}
