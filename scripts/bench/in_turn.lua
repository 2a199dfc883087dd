-- `tessera [--threads n] scripts/bench/in_turn.lua [compiled]`: what is bound by memory at 64 MiB, of a copy
-- in the same process and the same tenth of a second: for hosts whose memory is now fast and now slow by what
-- their neighbours do. Ten calls of each by turns; medians of 15 turns; GB/s count inputs and outputs once.
-- compiled: functions that become kernels, instead of the VM's operators.

local ts = require "tessera"
local op, rng, core = ts.op, ts.rng, ts.core
local compiled = arg[1] == "compiled"
if arg[1] and not compiled then error("in_turn.lua: takes 'compiled' or nothing, not '" .. arg[1] .. "'", 0) end
if not compiled then ts.jit.off() end
local N = 4096
local function normal(stream, ...) return rng.normal({ ... }, { seed = 1, stream = stream }) end
local x, y, w, b = normal(0, N, N), normal(1, N, N), normal(2, N), normal(3, N)
local image = normal(4, 16, 64, 128, 128)
local rows = {
  { "copy", 2, function() return x:clone() end },
  { "add", 3, function() return x + y end },
  { "multiply by a number", 2, function() return x * 2 end },
  { "add a row", 2, function() return x + w end },
  { "exp", 2, function() return op.exp(x) end },
  { "gelu", 2, function() return op.gelu(x) end },
  { "softmax", 2, function() return op.softmax(x) end },
  { "log_softmax", 2, function() return op.log_softmax(x) end },
  { "layernorm", 2, function() return op.layernorm(x, w, b) end },
  { "rmsnorm", 2, function() return op.rmsnorm(x, w) end },
  { "sum of each row", 1, function() return x:sum { axis = 1 } end },
  { "sum of each column", 1, function() return x:sum { axis = 0 } end },
  { "sum of everything", 1, function() return x:sum() end },
  { "max of each row", 1, function() return x:max { axis = 1 } end },
  { "transpose", 2, function() return x:T():contiguous() end },
  { "NCHW to NHWC", 2, function() return image:permute(0, 2, 3, 1):contiguous() end },
}
local function gradients(f, ...)
  local slopes, given = ts.graph.vjp(f), { ... }
  return function() return (slopes(unpack(given))) end
end
local function kernels()
  local target = rng.randint({ N }, { low = 0, high = N })
  local loss = ts.graph.grad(function(x) return op.cross_entropy(x, target) end)
  local function f(run) return ts.graph.module("in_turn", run) end
  local chain = f(function(x, y) return x * 2 - y * x + b end)
  local gelu = f(function(x, y) return op.gelu(x + b) * y + x end)
  local softmax = f(function(x) return op.softmax(x / 8) end)
  local dot = f(function(x, y) return (x * y):sum { axis = 1 } end)
  local layernorm = f(function(x, y) return op.layernorm(x + y, w, b) end)
  local rmsnorm = f(function(x, y) return op.rmsnorm(x + y, w) end)
  return {
    rows[1],
    { "x * 2 - y * x + b", 3, function() return chain(x, y) end },
    { "gelu(x + b) * y + x", 3, function() return gelu(x, y) end },
    { "softmax(x / 8)", 2, function() return softmax(x) end },
    { "layernorm(x + y)", 3, function() return layernorm(x, y) end },
    { "rmsnorm(x + y)", 3, function() return rmsnorm(x, y) end },
    { "row sums of x * y", 2, function() return dot(x, y) end },
    { "gradients of layernorm", 3, gradients(function(x, w, b) return op.layernorm(x, w, b) end, x, w, b, y) },
    { "gradients of rmsnorm", 3, gradients(function(x, w) return op.rmsnorm(x, w) end, x, w, y) },
    { "cross-entropy gradient", 2, function() return loss(x) end },
  }
end
if compiled then
  rows = kernels()
  for _, r in ipairs(rows) do
    for _ = 1, 6 do r[3]() end
    ts.jit.wait()
  end
end
local TURNS, CALLS = 15, 10
for turn = 0, TURNS do -- the first warms up
  for _, r in ipairs(rows) do
    local begun = core.now()
    for _ = 1, CALLS do r[3]() end
    r[4] = r[4] or {}
    r[4][turn] = (core.now() - begun) / CALLS
  end
end
for _, r in ipairs(rows) do table.sort(r[4]) end
local function speed(r) return r[2] * x.nbytes / r[4][math.ceil(TURNS / 2)] end
for _, r in ipairs(rows) do
  print(("%-22s %6.2f ms %6.1f GB/s %5.2f of the copy"):format(r[1], r[4][math.ceil(TURNS / 2)] * 1e3, speed(r) * 1e-9,
    speed(r) / speed(rows[1])))
end
