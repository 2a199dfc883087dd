-- Products whose sums are long and few: gradients of a layer's weights over all rows of a batch; and sums over those rows,
-- gradients of its bias. Each element is one chain (docs/numerics.md), so small tiles have to fill the machine.
--   tessera scripts/bench/long_chains.lua [device] [rows] [dtype]
local tessera = require "tessera"
io.stdout:setvbuf "line" -- whoever ends it has what was measured
local rng, graph = tessera.rng, tessera.graph
local device, rows, dtype = arg and arg[1] or "cpu", tonumber(arg and arg[2]) or 131072, arg and arg[3] or "f32"
local now = tessera.core.now

local function timed(f, ...)
  for _ = 1, 4 do f(...) end
  if tessera.jit.wait then tessera.jit.wait() end
  local best = math.huge
  for _ = 1, 5 do
    local begun = now()
    for _ = 1, 3 do f(...) end
    f(...):flatten()[0]:item()
    best = math.min(best, (now() - begun) / 4)
  end
  return best * 1e3
end

print(("%d rows, %s, %s"):format(rows, dtype, device))
for _, size in ipairs { { 256, 256 }, { 2, 256 }, { 256, 1 }, { 64, 64 }, { 1024, 1024 } } do
  local m, n = unpack(size)
  local a, b = rng.normal({ rows, m }, { dtype = dtype }):to(device), rng.normal({ rows, n }, { dtype = dtype }):to(device)
  local ms = timed(graph.module("weights", function(a, b) return a:T():matmul(b) end), a, b)
  print(("[%d, %d]^T [%d, %d] %9.3f ms %9.1f GFLOP/s"):format(rows, m, rows, n, ms, 2e-6 * rows * m * n / ms))
end
local x = rng.normal({ rows, 256 }, { dtype = dtype }):to(device)
local ms = timed(graph.module("bias", function(x) return x:sum { axis = 0 } end), x)
print(("sum over rows of [%d, 256] %9.3f ms"):format(rows, ms))
