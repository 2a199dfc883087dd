-- Lotka's and Volterra's hares and lynxes by Runge and Kutta's method, 100 steps, and how the mean distance from what was
-- counted depends on the four rates.

local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local STEPS, DT = 100, 0.1
local function vector(...) return tessera.tensor({ ... }, { dtype = "f64" }) end

local function change(u, rates)
  local hares, lynxes = u:select(0, 0), u:select(0, 1)
  local a, b, c, d = rates:unbind()
  return op.stack { a * hares - b * hares * lynxes, c * hares * lynxes - d * lynxes }
end

local function next_of(u, rates)
  local k1 = change(u, rates)
  local k2 = change(u + k1 * (DT / 2), rates)
  local k3 = change(u + k2 * (DT / 2), rates)
  local k4 = change(u + k3 * DT, rates)
  return u + (k1 + k2 * 2 + k3 * 2 + k4) * (DT / 6)
end

local function distance(rates, start, counted)
  local u, sum = start, 0
  for i = 1, STEPS do
    u = next_of(u, rates)
    sum = sum + (u - counted:select(0, i - 1)):square():sum()
  end
  return sum / STEPS
end

local function solve(rates, start)
  local u, list = start, {}
  for i = 1, STEPS do
    u = next_of(u, rates)
    list[i] = u
  end
  return op.stack(list)
end

local start = vector(1, 1)
return {
  data = { vector(1.3, 0.9, 0.8, 1.8), start, solve(vector(1.5, 1, 1, 2), start) },
  start = function(captured)
    local rates, counted = vector(1.3, 0.9, 0.8, 1.8), solve(vector(1.5, 1, 1, 2), start)
    if captured then
      local slope = graph.grad(distance)
      return function() return (slope(rates, start, counted)) end
    end
    rates.requires_grad = true
    return function()
      rates.grad = nil
      distance(rates, start, counted):backward()
      return rates.grad
    end
  end,
}
