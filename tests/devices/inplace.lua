-- Calls in place on a device, where most write straight over their operand: against the CPU.
package.path = "tests/devices/?.lua;" .. package.path
local device = require "_device"
if not device.name then return print(device.skipped) end
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local steps = {
  function(x, y) x:add_(y) end,
  function(x) x:add_(x) end,
  function(x) x:mul_(x) end,
  function(x, y) x:sub_(y[2]) end,
  function(x) x:sub_(x[1]) end, -- reads what it has written, if it is not careful
  function(x) x:add_(x:T()) end,
  function(x) x["::-1"]:add_(x) end,
  function(x) x[3]:mul_(2) end,
  function(x, y) x["..., 1"] = y[0] x:T():add_(y) end,
  function(x, y) x:div_(y):exp_() end,
  function(x) x:maximum_(0.25) end,
  function(x, y) x:add_(y:cast "f64":cast "f32") end,
  function(x) x:relu_():neg_() end,
}

local function agree(dtype)
  for i, step in ipairs(steps) do
    rng.seed(i)
    local x, y = (rng.normal { 5, 5 } * 8):cast(dtype), (rng.normal { 5, 5 } * 8 + 9):cast(dtype)
    local a, b = x:to(device.name), y:to(device.name)
    local kept = a:clone()
    local fine, why = pcall(step, x, y)
    local also, same = pcall(step, a, b)
    assert(fine == also, ("%s %d: %s %s"):format(dtype, i, why, same))
    if not fine then assert(tostring(why):match "[^:]*$" == tostring(same):match "[^:]*$", why) end
    assert(a:hash() == x:hash() and a.device == device.name, ("%s: step %d"):format(dtype, i))
    assert(kept:hash() ~= a:hash() or not fine)
  end
  return true
end
agree "f32" --> true
agree "f64" --> true
agree "i32" --> true

-- What cannot be stored is left alone, and gradients are asked about first.
local n = op.arange(4):to(device.name)
n:add_(1.5) --! add_: the result
n:sum():item() --> 6
local w = op.ones { 3 }:to(device.name)
w.requires_grad = true
w:add_(w) --! is changed in place
local u = op.zeros { 3 }:to(device.name)
u:copy_(w * 2)
u[1] = u[0] * w[1]
u["1:"]:exp_()
;(u * u):sum():backward()
local near = w.grad:to "cpu":sum():item()
math.abs(near - (8 + 12 * math.exp(4))) < 1e-2 --> true
w.grad.device == device.name --> true
-- A tensor that is moved passes gradients on, to where it came from.
local here = tessera.tensor { 1, 2, 3 }:requires_grad_()
local there = here:to(device.name)
;(there * there):sum():backward()
here.grad --> [2. 4. 6.]
--> f32[3]
