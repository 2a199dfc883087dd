-- A step of training of the reasoning models, of their sizes for a GPU; reasoning_peer.py is the same in compiled PyTorch:
--   tessera scripts/bench/models/reasoning.lua [DEVICE [hrm|trm [BATCH]]]
-- The step is that of examples/hrm.lua or trm.lua. SIZE=laptop and so on, and OPTIONS, are theirs. Prints a line: milliseconds, the
-- median of rounds when steps are no longer getting faster, and FLOP/s of products; SHOW=1: what takes the time. TUNE=seconds: what could be
-- chosen for its kernels is measured, rows of jit/tune/tuned.def are printed, and the line again.
local tessera = require "tessera"
io.stdout:setvbuf "line" -- whoever ends it has what was measured
local core, op, rng = tessera.core, tessera.op, tessera.rng
local device, name, batch = arg[1] or "cuda:0", arg[2] or "hrm", arg[3]
package.path = "examples/reasoning/?.lua;" .. package.path
local supervision = require "supervision"

local ROUNDS, STEPS = tonumber(os.getenv "ROUNDS") or 7, tonumber(os.getenv "STEPS") or 10

-- How often a step multiplies by each weight of a stack: a backward pass counts twice.
local PASSES = { hrm = 2 * 6 + 2 * 2, trm = 3 * 7 + 2 * 7 }

local function weights_of(model)
  local n = 0
  for _, p in ipairs(model:named_parameters()) do
    if p[1]:find "blocks" then n = n + p[2].numel end
  end
  return n
end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

local function measure(train, model, o)
  local side = math.floor(math.sqrt(o.cells) + 0.5)
  local answers = rng.randint({ o.batch, o.cells }, { low = 1, high = side + 1, device = device })
  local puzzles = op.where(rng.uniform({ o.batch, o.cells }, { device = device }):lt(0.35), answers, 0)
  local function round()
    local begin = core.now()
    for _ = 1, STEPS do train(puzzles, answers) end
    tessera.synchronize(device)
    return (core.now() - begin) / STEPS
  end
  local first = core.now()
  train(puzzles, answers):item()
  first = core.now() - first
  for _ = 1, 3 do
    round()
    tessera.jit.wait()
  end
  local function timed()
    local times = {}
    for i = 1, ROUNDS do times[i] = round() end
    return median(times)
  end
  -- One of hrm's stacks is half of its weights, and each pass is of one.
  local flops = 2 * weights_of(model) / (name == "hrm" and 2 or 1) * PASSES[name] * o.batch * o.cells
  local function line(t)
    print(("%s\tbatch %d\t%.2f ms a step\t%.1f TFLOP/s of products\tfirst step %.1f s"):format(name, o.batch, t * 1e3, flops / t / 1e12, first))
  end
  line(timed())
  local seconds = tonumber(os.getenv "TUNE")
  if seconds then
    tessera.autotune.budget { ms = 1000 * seconds, total = 1000 * seconds, candidates = 31 }
    tessera.autotune.tune(train.step)
    io.stderr:write(tessera.autotune.report(), "\n")
    dofile "scripts/bench/tuned_rows.lua"(device, 2)
    line(timed())
  end
  if os.getenv "SHOW" then
    print(train.step:tiles())
    print(tessera.profile.report(function() round() end))
  end
end

local real = supervision.trainer
function supervision.trainer(model, optimizer, o)
  measure(real(model, optimizer, o), model, o)
  os.exit(0)
end

local size = os.getenv "SIZE" or "gpu"
local cpu = device:match "^cpu"
arg = { "--size", size, "--device", cpu and "cpu" or device, "--pool", "0", "--test", "1" }
if batch then arg[#arg + 1], arg[#arg + 2] = "--batch", batch end
for word in (os.getenv "OPTIONS" or ""):gmatch "%S+" do arg[#arg + 1] = word end
dofile(("examples/%s.lua"):format(name))
