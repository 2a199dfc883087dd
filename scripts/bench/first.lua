-- `tessera scripts/bench/first.lua WHAT`: milliseconds of the compiler.
--   first  of a function's first kernel in this process
--   later  of the next one; fill  nothing, but the disk has both
--   compiles  how many kernels this process compiled, of those that the disk could have
--   stop   the longest time that a call of a GPT's training step was held up by a promotion

local ts = require "tessera"
local op, rng, graph, jit = ts.op, ts.rng, ts.graph, ts.jit

local x = rng.normal { 512, 512 }

-- A fast processor has to call more often before enough time was spent.
local function compile(f)
  local before = jit.stats()
  local m = graph.module("f", f)
  for _ = 1, 100 do
    for _ = 1, 50 do m(x) end
    jit.wait()
    m(x)
    if jit.stats().kernels > before.kernels then break end
  end
  return jit.stats().compile_ms - before.compile_ms
end

local first = compile(function(v) return op.softmax(v / 8) end)
local later = compile(function(v) return op.relu(v * 2 + v) - v end)
if arg[1] == "first" then print(first) end
if arg[1] == "later" then print(later) end
if arg[1] == "compiles" then print(jit.stats().kernels - jit.stats().from_disk) end
if arg[1] == "stop" then
  arg = {}
  local step = dofile "scripts/bench/gpt.lua" (4, 128, 4, 128, 12, 76)
  for _ = 1, 20 do step() end
  jit.wait()
  for _ = 1, 3 do step() end
  print(jit.stats().install_ms_max)
end
