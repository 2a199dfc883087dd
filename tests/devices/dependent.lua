-- Launches that begin before the one in front of them ends (jit/launch/dependent.h): random programs, in
-- which calls read what others have just written, overwrite what others still read, or have
-- nothing to do with each other, have the CPU's bits. On a GPU tensors are so large that
-- kernels do begin early.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local device = require "_device"
local op, rng = tessera.op, tessera.rng
local name = device.name
if not name then return print(device.skipped) end

local large = device.kind == "cuda"
local ROWS, COLS, POOL = large and 768 or 6, large and 1024 or 32, 6
local CALLS, PROGRAMS = large and 120 or 24, large and 60 or 12

local function choose(n) return math.random(n) end
-- Of two tensors, and a place for the result.
local calls = {
  function(x, y) return x * 0.5 + y end,
  function(x, y) return op.maximum(x, y) - x * 0.25 end,
  function(x) return op.softmax(x) end,
  function(x, y) return op.layernorm(x + y) end,
  function(x) return op.rmsnorm(x) end,
  function(x, y) return x - op.sum(y, { axis = 1, keepdims = true }) * (1 / COLS) end,
  function(x, y) return x - op.sum(y, { axis = 0, keepdims = true }) * (1 / ROWS) end,
  function(x) return op.clone(x:T()):T() end,
  function(x, y) return op.cast(op.cast(x, "bf16") + op.cast(y, "bf16"), "f32") * 0.5 end,
  function(x, y) return op.gelu(x) + op.tanh(y) end,
  function(x) return op.sort(x) * 0.5 end,
  function(x, y) return op.where(x:gt(y), x, y * 0.5) end,
  function(x, y) x:add_(y) return x:mul_(0.5) end,
  function(x, y) x:copy_(y) return x end,
}

local function program(seed, where)
  math.randomseed(seed)
  tessera.core.seed(seed)
  local pool = {}
  for i = 1, POOL do pool[i] = rng.normal({ ROWS, COLS }):to(where) end
  for _ = 1, CALLS do
    local f, i, j, to = calls[choose(#calls)], choose(POOL), choose(POOL), choose(POOL)
    pool[to] = f(pool[i], pool[j])
    if choose(8) == 1 then collectgarbage() end
  end
  local sums = {}
  for i = 1, POOL do sums[i] = pool[i]:hash() end
  return table.concat(sums, " ")
end

local failed = 0
for seed = 1, PROGRAMS do
  local want, got = program(seed, "cpu"), program(seed, name)
  if want ~= got then
    failed = failed + 1
    print(("program %d: %s, not %s"):format(seed, got, want))
  end
end
print(("%d programs of %d calls on %s"):format(PROGRAMS, CALLS, name))
assert(failed == 0, failed .. " programs have other bits")
