-- What holds for tensors on a GPU, real or not. gpu(name, most): bytes of the largest copy.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op

local function equal(what, x, y)
  assert(x:hash() == y:hash(), what .. ": other bytes")
end

-- All dtypes, whole and as strided views, there and back. In-place writes make the GPU's copy
-- stale, so that the bytes that come back are those of the device only after a fresh upload.
local function round_trips(name)
  for _, d in ipairs(core.dtypes()) do
    for _, n in ipairs { 1, 64, 5000 } do
      local shape = d.block > 1 and { n, d.block } or { n, 6 }
      local x = op.arange(shape[1] * shape[2]):cast "f32":sin():reshape(shape):gt(0):cast "f32":cast(d.name)
      local y = x:to(name)
      assert(y.device == name and y.dtype == d.name)
      equal(d.name, y, x)
      equal(d.name .. " back", y:to "cpu", x)
      if d.block == 1 then
        equal(d.name .. " transposed", x:T():to(name), x:T())
        equal(d.name .. " slice of it", y["::-2, 1:5:2"], x["::-2, 1:5:2"])
        equal(d.name .. " view to it", x["::-2, 1:5:2"]:to(name):to "cpu", x["::-2, 1:5:2"])
      end
    end
  end
end

-- Results belong to the GPU, whoever computes them.
local function operators(name)
  local x = op.arange(12):reshape(3, 4):cast "f32"
  local y = x:to(name)
  local z = y:matmul(y:T()) + 1
  assert(z.device == name and z:to(name).device == name)
  equal("matmul", z, x:matmul(x:T()) + 1)
  y:add_(1)
  equal("in place", y:to "cpu", op.arange(12):reshape(3, 4):cast "f32" + 1)
  assert(tostring(y):find(name, 1, true), "it prints its device")
  assert(op.ones({ 2 }, { device = name }).device == name)
  local ok, why = pcall(function() return y + op.ones { 3, 4 } end)
  assert(ok or why:find("inputs on " .. name, 1, true), why)
end

local function storm(name)
  local keep = {}
  for i = 1, 2000 do
    keep[i % 37] = op.full({ 1 + i * 7919 % 30000 }, i):to(name)
    assert(keep[i % 37][0]:item() == i)
  end
end

return function(name, most)
  round_trips(name)
  operators(name)
  storm(name)
  local x = op.arange(most / 8)
  equal("large", x:to(name):to "cpu", x)
  collectgarbage()
  tessera.synchronize()
  tessera.synchronize(name)
end
