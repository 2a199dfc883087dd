-- Measures what could be chosen for kernels on a GPU and prints what won, as rows of jit/tune/tuned.def:
--
--   tessera scripts/bench/gpu_tune.lua [--device cuda:0] [--seconds 60] [--percent 3] > rows
--
-- The kernels are those of a step of examples/gpt2.lua, and products beside it. The time before
-- is that of the compiler's own choice, whatever is known already.

local tessera = require "tessera"
local core, op, graph, jit, autotune, rng = tessera.core, tessera.op, tessera.graph, tessera.jit, tessera.autotune, tessera.rng
local options = { device = "cuda:0", seconds = 60, percent = 3 }
for i = 1, #arg, 2 do options[arg[i]:match "^%-%-(%a+)$"] = tonumber(arg[i + 1]) or arg[i + 1] end
local device = options.device
local row = dofile "scripts/bench/gpu_ours.lua"

autotune.budget { ms = 5000, total = options.seconds * 1000, candidates = 31 }


-- The step, of which the row gives only a function.
local training_step, step = graph.training_step, nil
graph.training_step = function(...)
  step = training_step(...)
  return step
end
local ok, why = pcall(row.gpt2, 32, 1024)
graph.training_step = training_step
if ok then ok, why = pcall(autotune.tune, step) end
if not ok then io.stderr:write(tostring(why), "\n") end

local function normal(shape) return rng.normal(shape):cast "bf16":to(device) end
for _, s in ipairs { { 8192, 8192, 8192 }, { 4096, 4096, 4096 }, { 2048, 2048, 2048 }, { 8192, 16384, 4096 } } do
  local m, n, k = unpack(s)
  for _, turned in ipairs { "nn", "nt", "tn" } do
    local a = turned:sub(1, 1) == "n" and normal { m, k } or normal { k, m }
    local b = turned:sub(2, 2) == "n" and normal { k, n } or normal { n, k }
    local f = graph.module("product", function(a, b)
      return op.matmul(turned:sub(1, 1) == "n" and a or a:T(), turned:sub(2, 2) == "n" and b or b:T())
    end)
    jit.eager(true)
    f(a, b)
    jit.eager(false)
    local fine, message = pcall(autotune.tune, f)
    if not fine then io.stderr:write(tostring(message), "\n") end
  end
  collectgarbage()
end

dofile "scripts/bench/tuned_rows.lua"(device, options.percent)
