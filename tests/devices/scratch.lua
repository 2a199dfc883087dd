-- Launches of a function that are put off take no memory when they are made: blocks that the
-- program has given back by then are still to be read. Sums, losses and products here have
-- scratch on a GPU, and slabs of a few bytes are what it would be taken from.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local op, graph, nn, optim, rng = tessera.op, tessera.graph, tessera.nn, tessera.optim, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
tessera.numerics.profile "strict"

local w, b, v = rng.normal { 7, 3 }, rng.normal { 7 }, rng.normal { 4, 7 }
local function body(x, y)
  local h = op.sigmoid(op.matmul(x, w:T()) + b)
  local z, p = op.matmul(h, v:T()), op.softmax(y)
  local g = op.softmax(z) - p
  return { op.cross_entropy(z, p), g:sum { axis = 0 }, op.matmul(g, v), op.matmul(g:T(), h), h * g:sum() }
end
for _, set in ipairs { { 1, 2, 4 }, { 1, 3 }, { 4 }, { 1, 2, 3, 4, 5 } } do
  local function f(x, y)
    local r, out = body(x, y), {}
    for k, i in ipairs(set) do out[k] = r[i] end
    return unpack(out)
  end
  local m = graph.module("scratch", f)
  for i = 1, 8 do
    local x, y = rng.normal { 2, 3 }, rng.normal { 2, 4 }
    local want, got = { f(x, y) }, { m(x:to(name), y:to(name)) }
    for k, t in ipairs(want) do
      assert(got[k]:hash() == t:hash(), ("call %d, result %d of %s"):format(i, k, table.concat(set, ",")))
    end
  end
end

-- Training with batches of alternating sizes: parameters are the CPU's, bit by bit.
local function train(on)
  return tessera.device(on, function()
    rng.seed(3)
    local m = nn.Sequential(nn.Linear(3, 4), op.sigmoid, nn.LayerNorm(4), nn.Linear(4, 4))
    local opt = optim.SGD(m:parameters(), { lr = 0.02, momentum = 0.5, nesterov = true })
    local step = graph.training_step(m, function(n, x, y) return op.bce_with_logits(n(x), y:sigmoid()) end, opt)
    local said = {}
    for i = 1, 30 do
      local n = i % 5 == 0 and 3 or 2
      opt.lr = opt.lr * 0.999
      local x = rng.normal({ n, 3 }, { seed = i % 7, stream = n }):to(on)
      said[#said + 1] = step(x, rng.normal({ n, 4 }, { seed = i % 7, stream = 9 }):to(on)):to "cpu":hash()
    end
    for _, p in ipairs(m:parameters()) do said[#said + 1] = p:to "cpu":hash() end
    return said
  end)
end
local want, got = train "cpu", train(name)
for i, h in ipairs(want) do assert(got[i] == h, i <= 30 and "loss of step " .. i or "parameter " .. i - 30) end
