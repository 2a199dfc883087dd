-- Memory that runs out: the n-th allocation of every row fails, for n = 1, 2, .. until
-- the call succeeds. Each failure is the clean error, and nothing leaks. Allocations are
-- those of tensors, of scratch memory (vm/core/scratch.h) and of the plans of transforms.
package.path = "tests/errors/?.lua;tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"
local rows = require "_rows"

local function live()
  core.trim() -- plans of transforms are made again
  local m = core.memory()
  return m.live, m.held
end

local MOST = 2000 -- allocations of one call

-- How much more there is than before. A trace that was compiled meanwhile keeps its constants:
-- what is there without traces counts then, before and after the same call.
local function more(f, n, before, held)
  local after, holds = live()
  if after == before and holds == held then return nil end
  core.jit_flush()
  before, held = live()
  core.seed(1)
  core.fail_after(n)
  pcall(f)
  core.fail_after(0)
  core.jit_flush()
  after, holds = live()
  if after == before and holds == held then return nil, before, held end
  return ("%d bytes leak, %d of tensors"):format(holds - held, after - before)
end

-- f is run with every allocation failing in turn; what is wrong, or nil.
local function walk(f)
  local ok, why = pcall(f)
  if not ok then return why end
  why = nil
  local before, held = live()
  for n = 1, MOST do
    core.seed(1)
    core.fail_after(n, "on")
    local done, e = pcall(f)
    local failed = core.fail_after(0) < 0
    if not done and not tostring(e):find("out of memory", 1, true) then
      return ("allocation %d: %s"):format(n, tostring(e))
    end
    e = nil
    local leak, now, holds = more(f, n, before, held)
    if leak then return ("allocation %d: %s%s"):format(n, leak, failed and "" or ", on success") end
    before, held = now or before, holds or held
    if not failed then return nil end
  end
  return "fails at every allocation"
end

for row, list in rows.each(2) do
  for _, c in ipairs(list) do
    local x = cases.inputs(c)
    local why = walk(function() return cases.call(c, x) end)
    cases.expect(cases.name(c), not why, why)
  end
end

-- Making a tensor from a table, reading and writing files.
local tessera = require "tessera"
local name = os.tmpname()
local made = {
  ["tensor of a table"] = function() return core.tensor { { 1, 2 }, { 3, 4 } } end,
  ["from_bytes"] = function() return core.from_bytes(("x"):rep(64), "f32", { 16 }) end,
  ["slices"] = function() return core.tensor({ 1, 2, 3 })["::-1"]:bytes() end,
  ["save and load"] = function()
    tessera.save(name .. ".safetensors", { a = core.op.ones(3):flip() })
    return tessera.load(name .. ".safetensors")
  end,
  ["save and load npy"] = function()
    tessera.save(name .. ".npy", core.op.ones({ 3, 2 }):T())
    return tessera.load(name .. ".npy")
  end,
  ["table"] = function() return core.op.ones({ 3, 2 }):T():totable() end,
  ["many inputs"] = function()
    local x = core.op.ones(2)
    return core.op.concat { x, x, x, x, x, x, x, x, x, x }
  end,
  ["another device"] = function() return (core.op.ones(2000):to "null:0" + 1):to "cpu" end,
  ["display"] = function() return tostring(core.op.ones({ 3, 2 }):T()) end,
  ["in place"] = function() return core.op.ones({ 3, 2 }):T():add_(1):mul_(2) end,
  ["assignment"] = function()
    local t = core.op.ones({ 3, 2 })
    t[0] = 5
    t["1:, 0"] = core.tensor { 1, 2 }
    t[t:gt(3)] = 0
    return t
  end,
}

-- Calls large enough for several threads, each with its part of scratch memory.
local op = core.op
local function normal(shape, dtype)
  return core.op.arange(shape[1] * (shape[2] or 1) * (shape[3] or 1) * (shape[4] or 1))
    :reshape(shape):cast "f32":sin():cast(dtype)
end
local image, last = normal({ 2, 4, 40, 40 }, "bf16"), normal({ 2, 40, 40, 8 }, "bf16")
local one, depth = normal({ 4, 1, 3, 3 }, "bf16"), normal({ 8, 3, 3, 1 }, "bf16")
local wide, heads = normal({ 64, 5000 }, "bf16"), normal({ 1, 4, 300, 64 }, "bf16")
local rows, signal = normal({ 64, 1000 }, "f32"), normal({ 8, 4099 }, "f32")
local target = op.zeros({ 64 }, { dtype = "i64" })
made["conv in rows"] = function() return op.conv2d(image, one, { groups = 4, padding = 1 }) end
made["conv, few channels last"] = function()
  return op.conv2d(last, normal({ 4, 3, 3, 8 }, "bf16"), { layout = "nhwc", epilogue = "relu" })
end
made["conv in lanes"] = function()
  return op.conv2d(last, depth, { groups = 8, layout = "nhwc", padding = 1 })
end
made["conv_transpose"] = function()
  return op.conv_transpose(image, normal({ 4, 2, 3, 3 }, "bf16"), { stride = 2 })
end
made["rope"] = function() return op.rope(heads) end
made["cross_entropy"] = function() return op.cross_entropy(wide, target, { reduction = "none" }) end
made["interpolate"] = function() return op.interpolate(image, { size = { 90, 90 }, mode = "cubic" }) end
made["avg_pool"] = function() return op.avg_pool(image, { 3 }) end
made["long rows"] = function() return wide:softmax(), wide:T():softmax() end
made["reductions"] = function()
  return wide:sum { axis = { 0, 1 } }, wide:std { axis = 1 }, wide:T():argmax(1), wide:norm()
end
made["attention"] = function() return op.attention(heads, heads, heads) end
made["transforms"] = function()
  return op.fft(rows), op.rfft(signal), op.dct(rows:T(), { axis = 0 }), op.fft2(rows)
end
local points, image32, gates = rows:reshape { 8, 50, 160 }, image:cast "f32", normal({ 6, 8, 64 }, "f32")
made["cdist"] = function() return op.cdist(rows, rows * 2), op.cdist(rows:T(), rows:T() * 1e25) end
made["cdist of a long batch"] = function() return op.cdist(points, points:cast "f64") end
made["lstm"] = function() return op.lstm(gates, normal({ 64, 16 }, "f32"), normal({ 8, 16 }, "f32"), normal({ 8, 16 }, "f64")) end
made["batch_norm"] = function()
  local of = normal({ 4 }, "f32")
  return op.batch_norm(image32, of, of:abs(), of), op.batch_norm(image32:permute(2, 1, 0, 3), of, of:abs())
end
made["factors"] = function() return op.svd(rows["0:8, 0:6"]), op.qr(rows["0:8, 0:6"]) end
for what, f in pairs(made) do
  local why = walk(f)
  cases.expect("memory " .. what, not why, why)
end
os.remove(name)
os.remove(name .. ".npy")
os.remove(name .. ".safetensors")
