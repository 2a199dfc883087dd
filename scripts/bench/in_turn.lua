-- `tessera [--threads n] scripts/bench/in_turn.lua`: what is bound by memory at 64 MiB, of a copy in the same
-- process and the same tenth of a second: for hosts whose memory is now fast and now slow by what their
-- neighbours do. Ten calls of each by turns; medians of 15 turns; GB/s count inputs and outputs once.

local ts = require "tessera"
local op, rng, core = ts.op, ts.rng, ts.core
ts.jit.off()
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
