-- The mixture over frequencies (examples/spectral_moe.lua) and the graph network of the size of a GPU: the transform of
-- signals and back, a step of training of the mixture and of a dense network of equal work, and a step over edges.
--   bin/tessera scripts/bench/models/spectral.lua [cuda:0] [transforms|steps|edges]
-- Environment: SIZES: lengths of signals; WIDTH: channels; DTYPE: bf16 or f32; NODES: members; PROF=1: what takes the
-- time of a step over edges. spectral_peer.py is PyTorch's side.
local T = require "tessera"
io.stdout:setvbuf "line" -- whoever ends it has what was measured
local op, graph = T.op, T.graph
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, n; } spectral_time; int clock_gettime(int, spectral_time *);"
local device, what = arg[1] or "cuda:0", arg[2]
local WIDTH, DTYPE = tonumber(os.getenv "WIDTH" or 1024), os.getenv "DTYPE" or "bf16"
local sizes = {}
for n in (os.getenv "SIZES" or "4096 16384 65536"):gmatch "%d+" do sizes[#sizes + 1] = tonumber(n) end

local function now()
  local t = ffi.new "spectral_time"
  ffi.C.clock_gettime(1, t)
  return tonumber(t.s) + tonumber(t.n) * 1e-9
end

-- The median of ten, after calls until kernels are there.
local function seconds(f)
  local stop = now() + 1.5
  repeat
    f()
    T.synchronize(device)
  until now() > stop
  local all = {}
  for i = 1, 10 do
    local begin = now()
    f()
    T.synchronize(device)
    all[i] = now() - begin
  end
  table.sort(all)
  return (all[5] + all[6]) / 2
end

if not what or what == "transforms" then
  for _, n in ipairs(sizes) do
    local x = op.normal({ 1, n, WIDTH }, { seed = 1, stream = 1, device = device })
    local z = op.rfft(x, { axis = 1, norm = "ortho" })
    local bytes = 4 * x.numel + 8 * z.numel
    local there = seconds(function() return op.rfft(x, { axis = 1, norm = "ortho" }) end)
    local back = seconds(function() return op.irfft(z, { axis = 1, n = n, norm = "ortho" }) end)
    print(("rfft [1, %d, %d] f32 along 1: %.1f us, %.0f GB/s; irfft: %.1f us, %.0f GB/s"):format(n, WIDTH, there * 1e6,
      bytes / there / 1e9, back * 1e6, bytes / back / 1e9))
  end
end

-- A step of an example, which is asked for no steps of its own.
local function steps_of(path, words)
  local make, print_, found = graph.training_step, print, {}
  graph.training_step = function(...)
    found[#found + 1] = make(...)
    return found[#found]
  end
  print = function() end
  local given = arg
  arg = { "--steps", "0", "--device", device, unpack(words) }
  local made = dofile(path)
  arg, print, graph.training_step = given, print_, make
  return found, made
end

if not what or what == "steps" then
  for _, n in ipairs(sizes) do
    for _, name in ipairs { "mixture", "dense" } do
      local found = steps_of("examples/spectral_moe.lua", { "--size", "gpu", "--n", n, "--width", WIDTH, "--dtype", DTYPE, "--only", name })
      local x = op.normal({ 1, n, WIDTH }, { seed = 1, stream = 2, device = device })
      local y = op.normal({ 1, n, WIDTH }, { seed = 1, stream = 3, device = device })
      local before = T.jit.device()
      local took = seconds(function() found[1](x, y) end)
      local after = T.jit.device()
      local tokens, W = n / 2 + 1, 2 * WIDTH
      local flop = 3 * 2 * tokens * 3 * (2 * 2 * W * 4096 + W * 16)
      print(("%s, step of [1, %d, %d] %s: %.2f ms, %.0f tokens/s, %.0f TFLOP/s; calls that the CPU ran: %d"):format(name, n, WIDTH, DTYPE,
        took * 1e3, tokens / took, flop / took / 1e12, after.fallback - before.fallback))
      collectgarbage()
    end
  end
end

if not what or what == "edges" then
  local nodes = tonumber(os.getenv "NODES" or 200000)
  local found, made = steps_of("examples/graph_network.lua", { "--nodes", nodes, "--degree", 16, "--width", 128 })
  local index = op.arange(100):to(device)
  local target = op.take(made.group, index)
  local before = T.jit.device()
  local took = seconds(function() found[1](made.features, index, target) end)
  local after = T.jit.device()
  local edges = made.sender.numel
  print(("graph network, %d members, %d edges, width 128: %.2f ms, %.0f million edges/s; calls that the CPU ran: %d"):format(nodes, edges,
    took * 1e3, edges / took / 1e6, after.fallback - before.fallback))
  if os.getenv "PROF" then print(T.profile.report(function() found[1](made.features, index, target) end)) end
end
