-- All launches of a function as one persistent kernel (jit/persistent): generated functions have the bits of
-- their kernels alone, call after call, with blocks that are threads on the simulated device.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local device = require "_device"
local op, rng, core, graph = tessera.op, tessera.rng, tessera.core, tessera.graph
local name = device.name
if not name then return print(device.skipped) end

tessera.jit.eager(true)
tessera.jit.later(false)

local ROWS, COLS, POOL, NODES, FUNCTIONS = 4, 64, 4, 10, 10
local function choose(n) return math.random(n) end
local steps = {
  function(x, y) return x * 0.5 + y end,
  function(x, y) return op.maximum(x, y) - x * 0.25 end,
  function(x) return op.softmax(x) end,
  function(x) return op.rmsnorm(x) end,
  function(x, y) return x - op.sum(y, { axis = 0, keepdims = true }) * (1 / ROWS) end,
  function(x) return op.clone(x:T()):T() end,
  function(x, y) return op.matmul(x, y:T()):matmul(y) * 0.01 end,
  function(x) return op.rope(x:reshape { 1, ROWS, COLS }):reshape { ROWS, COLS } end,
  function(x, y) return op.gelu(x) + op.tanh(y) end,
  function(x) return op.sort(x) * 0.5 end,
  function(x, y) return op.where(x:gt(y), x, y * 0.5) end,
}

local function generated(seed)
  math.randomseed(seed)
  local plan = {}
  for i = 1, NODES do plan[i] = { steps[choose(#steps)], choose(POOL), choose(POOL), choose(POOL) } end
  return graph.module("generated", function(...)
    local pool = { ... }
    for _, p in ipairs(plan) do pool[p[4]] = p[1](pool[p[2]], pool[p[3]]) end
    return unpack(pool)
  end)
end

local function hashes(...)
  local list = {}
  for i, t in ipairs { ... } do list[i] = t:hash() end
  return table.concat(list, " ")
end

local function launches() return select(2, core.jit_persistent()) end

local ones, differ = 0, 0
for seed = 1, FUNCTIONS do
  local f, x = generated(seed), {}
  core.seed(seed)
  for i = 1, POOL do x[i] = rng.normal({ ROWS, COLS }):to(name) end
  local want = hashes(f(unpack(x)))
  core.jit_persistent(true, name == "sim:0" and choose(5) or 0)
  local before = launches()
  for _ = 1, 8 do
    if hashes(f(unpack(x))) ~= want then differ = differ + 1 end
  end
  if launches() > before then ones = ones + 1 end
  core.jit_persistent(false)
end
differ --> 0
ones >= FUNCTIONS / 2 --> true

-- What it is, and why not, is said.
core.jit_persistent(true, name == "sim:0" and 3 or 0)
local f = graph.module("chain", function(x, w) return op.softmax(op.matmul(op.rmsnorm(op.matmul(x, w)), w) * 0.5) end)
local x, w = rng.normal({ 4, 64 }):cast "bf16":to(name), rng.normal({ 64, 64 }):cast "bf16":to(name)
for _ = 1, 6 do f(x, w) end
tostring(f:ir "schedule"):match "\npersistent blocks" ~= nil --> true
core.jit_persistent(false)
for _ = 1, 2 do f(x, w) end
tostring(f:ir "schedule"):match "no persistent kernel: jit.persistent is off" --> no persistent kernel: jit.persistent is off
