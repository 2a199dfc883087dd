-- What a captured function runs under leaves ends with it, and with a job that compiles it while it goes: its graph,
-- and the tensors that it captured.
local tessera = require "tessera"
local core, dist, op, graph, jit = tessera.core, tessera.dist, tessera.op, tessera.graph, tessera.jit

local function live()
  for _ = 1, 3 do collectgarbage() end
  return tessera.memory().live
end

-- Calls until it is hot, and as many more; what its kernels make is what they replace.
local function once(i, wait)
  local w = op.full({ 256, 1024 }, i)
  local f = graph.module("f" .. i, function(x) return ((x * w):sum { axis = 0 } + i):tanh() end)
  local x = op.normal({ 256, 1024 }, { seed = i })
  return dist.leaves(4, function()
    local want = f(x):hash()
    for _ = 1, 40 do f(x) end
    if wait then jit.wait() end
    return f(x):hash() == want
  end)
end

once(1, true) --> true
local before = live()
for i = 2, 13 do
  assert(once(i, i % 3 == 0))
  live() -- while it is compiled
end
jit.wait()
once(14, true) --> true
-- Each captured 1 MiB; whoever was compiled last may be there still.
live() - before <= 2 * 2 ^ 20 --> true
