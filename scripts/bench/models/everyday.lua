-- Steps of the everyday models of examples/ on a GPU, as users make them:
--   tessera scripts/bench/models/everyday.lua [DEVICE [MODEL:BATCH:DTYPE ..]]
-- A line for each: pictures a second, ms a step (the median of STEPS, behind as many until it is no faster), calls that the CPU
-- did. Beside everyday_peer.py, which has the rows of PyTorch.
local T = require "tessera"
io.stdout:setvbuf "line" -- whoever ends it has what was measured
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } everyday_time; int clock_gettime(int, everyday_time *);"

local device = arg[1] or "cuda:0"
local STEPS = tonumber(os.getenv "STEPS") or 20
local rows = { unpack(arg, 2) }
if #rows == 0 then rows = { "resnet18:128:f32", "resnet18:128:bf16", "resnet18:256:bf16", "unet:128:f32", "unet:128:bf16" } end

local time = ffi.new "everyday_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.n) * 1e-9
end

-- The median of a step in seconds, and calls of the CPU in one.
local function measure(step, batch)
  local function round()
    local all = {}
    for i = 1, STEPS do
      T.synchronize(device)
      local begin = now()
      step(unpack(batch))
      T.synchronize(device)
      all[i] = now() - begin
    end
    table.sort(all)
    return all[math.ceil(STEPS / 2)]
  end
  local last = round()
  T.jit.wait()
  local t = round()
  while t < 0.97 * last do last, t = t, round() end
  local before = T.jit.device().fallback
  step(unpack(batch))
  return math.min(t, last), T.jit.device().fallback - before
end

local own_print = print
for _, row in ipairs(rows) do
  local name, n, dtype = row:match "^(%w+):(%d+):(%w+)$"
  arg = { "--size", os.getenv "SIZE" or "full", "--steps", "0", "--batch", n, "--dtype", dtype, "--device", device }
  if name == "unet" then arg[#arg + 1], arg[#arg + 2] = "--samples", "0" end
  if name == "resnet18" then arg[#arg + 1], arg[#arg + 2] = "--target", "0" end
  print = function() end
  local example = dofile("examples/" .. name .. ".lua")
  print = own_print
  local batch = {}
  for i, t in ipairs(example.batch) do batch[i] = t:narrow(0, 0, tonumber(n)):contiguous() end
  example.model:train()
  local seconds, fallen = measure(example.step, batch)
  print(("%s\tbatch %s\t%s\t%.1f pictures/s\t%.2f ms a step\t%d calls by the CPU"):format(name, n, dtype, n / seconds, seconds * 1e3, fallen))
  io.stdout:flush()
  if os.getenv "SHOW" then print(T.jit.device_profile(example.step, unpack(batch))) end
  example, batch = nil, nil
  collectgarbage()
end
