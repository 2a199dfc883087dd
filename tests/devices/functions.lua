-- Captured functions on a device against the CPU, bit by bit: the cases of tests/vectors between
-- pointwise neighbours, so that groups form, without kernels of groups and with them; gradients;
-- and a training step, whose parameters live there.
package.path = "tests/agree/?.lua;tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, nn, optim, rng = tessera.core, tessera.op, tessera.graph, tessera.nn, tessera.optim, tessera.rng
local cases = require "_cases"
local shared = require "_captured"
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if not tessera.jit.status() then print "skipped: nothing is compiled here: kernels" end
local every = os.getenv "ALL" and 1 or 4 * (tonumber(os.getenv "SAMPLE") or os.getenv "LONG" and 1 or 2) -- cases; all of them with ALL=1

local function run(f, list)
  core.seed(17)
  local ok, h = pcall(function()
    local out, parts = { f(unpack(list)) }, {}
    for i, y in ipairs(out) do
      parts[i] = core.is_tensor(y) and y.dtype .. "[" .. table.concat(y.shape, ",") .. "]" .. y:hash() or tostring(y)
    end
    return table.concat(parts, " ")
  end)
  return ok and h or "error"
end

local number = 0
for c in cases.each() do
  number = number + 1
  local sums = device.kind ~= "sim" and (c.row == "matmul" or c.row == "attention")
  if number % every == 0 and not sums and #c.x > 0 and c.row ~= "empty_like" then
    local x = cases.inputs(c)
    local f = shared.neighbours(c, x)
    local here, there = shared.present(x), shared.present(x, name)
    local want = run(f, here)
    cases.expect(cases.name(c), run(f, there) == want, "another answer")
    tessera.jit.eager(true)
    cases.expect(cases.name(c) .. " with kernels", run(f, there) == want, "another answer")
    tessera.jit.eager(false)
  end
end

-- Parameters of a model stay where they are, and learn the same.
local function train(where)
  core.seed(3)
  return tessera.device(where, function()
    local model = nn.Sequential(nn.Linear(2, 32), op.tanh, nn.LayerNorm(32), nn.Linear(32, 1))
    local step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end,
      optim.AdamW(model:parameters(), { lr = 1e-2 }))
    local loss
    for _ = 1, 12 do loss = step(rng.normal { 64, 2 }, rng.normal { 64, 1 }) end
    local list = { loss:hash() }
    for _, p in ipairs(model:parameters()) do list[#list + 1] = p:hash() end
    return table.concat(list, " "), model:parameters()[1].device
  end)
end
local want = train "cpu"
train(name) == want --> true
select(2, train(name)) == name --> true
tessera.jit.eager(true)
train(name) == want --> true
tessera.jit.eager(false)

local function backward(where)
  core.seed(5)
  return tessera.device(where, function()
    local w = rng.normal { 4, 3 }
    w.requires_grad = true
    rng.normal { 5, 4 }:matmul(w):tanh():sum():backward()
    return w.grad:hash(), w.grad.device == where
  end)
end
backward(name) == backward "cpu" --> true
select(2, backward(name)) --> true

-- Loops, branches, recursions.
local loop = graph.module("loop", function(x)
  local y = op.while_loop(function(v) return v:sum():lt(100) end, function(v) return v * 2 + 1 end, x)
  return op.cond(y:mean():gt(3), function(v) return v - 1 end, function(v) return v + 1 end, y)
end)
local x = op.arange(6):cast "f32"
loop(x:to(name)):hash() == loop(x):hash() --> true
loop(x:to(name)).device == name --> true
graph.module("two", function(a, b) return a + b end)(x:to(name), x):hash() == (x + x):hash() --> true

-- Launches of a function as one, once its addresses have come back; any other bytes, sizes, or
-- arguments are seen.
local chain = graph.module("chain", function(a)
  for _ = 1, 6 do a = ((a * 1.5):softmax() + a):T() end
  return a
end)
local a, b = rng.normal { 8, 8 }, rng.normal { 8, 8 }
tessera.jit.eager(true)
local function same(n, x)
  local ok, there = true, x:to(name)
  for _ = 1, n do ok = ok and chain(there):hash() == chain(x):hash() end
  return ok
end
local before = core.jit_device().replays
same(12, a) --> true
core.jit_device().replays > before --> true
same(12, b) --> true
local there = a:to(name)
for i = 1, 8 do
  there:add_(1)
  a:add_(1)
  if chain(there):hash() ~= chain(a):hash() then error("after a change " .. i) end
end
tessera.jit.eager(false)

-- What runs on the device is what is shown.
local shown = graph.module("shown", function(v) return (v * 2):tanh() end)
tessera.jit.eager(true)
shown(a:to(name))
tessera.jit.eager(false)
shown:ir "bytecode":match("// tier 2 on (%S+):") == name --> true
shown:ir "tiles":match(" on (%S+)") == name --> true
shown:ir "llvm":match "_kernel void" or tessera.jit.status() --> _kernel void
shown:ir "why":match("// tier 2 on (%S+):") == name --> true

-- A constant that several results share, with a copy of it, beside a kernel.
do
  tessera.jit.eager(true)
  local function f(x, y)
    y:copy_(-1)
    x:add_(x)
    return y, y:cast "i8", y, x * 1
  end
  local g = tessera.graph.module("shared", f)
  local function arguments(on) return tessera.tensor({ -2.5, 0.5 }):to(on), tessera.tensor({ -1, 2 }, { dtype = "i8" }):to(on) end
  local want = { f(arguments "cpu") }
  for turn = 1, 6 do
    for i, y in ipairs { g(arguments(name)) } do assert(y:to "cpu":hash() == want[i]:hash(), ("turn %d, result %d"):format(turn, i)) end
    if turn == 3 then tessera.jit.wait() end
  end
  tessera.jit.eager(false)
end
