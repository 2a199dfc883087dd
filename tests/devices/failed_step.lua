-- Each allocation on the way to an optimiser's step on a device may fail, and all behind it: parameters are all old
-- or all new, and the next step has its kernels. FAIL_STEP=1: every point; else every third.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, optim = tessera.core, tessera.op, tessera.optim
local name = require "_device".name
if name ~= "sim:0" then return print "skipped: only where kernels are made in a moment" end
core.arena_single(true)

-- Two types, so two kernels.
local function learner()
  local params = {}
  for i, dtype in ipairs { "f32", "bf16" } do
    local p = op.normal({ 40 }, { seed = i }):cast(dtype):to(name)
    p.requires_grad = true
    p.grad = op.ones_like(p)
    params[i] = p
  end
  return optim.AdamW(params):prepare(), function() return params[1]:hash() .. params[2]:hash() end
end

local opt, state = learner()
local old = state()
opt:step()
local new = state()
local ran, fine = 0, false
for n = 1, 10000, tonumber(os.getenv "FAIL_STEP") or 3 do
  local opt, state = learner()
  tessera.jit.flush()
  core.fail_after(n, "on")
  local why
  fine, why = pcall(opt.step, opt)
  core.fail_after(0)
  assert(fine or tostring(why):find "memory", why)
  assert(state() == (fine and new or old), "mixed behind a failure at " .. n)
  local before = core.jit_device().fallback
  opt:step()
  assert(core.jit_device().fallback == before, "the CPU runs it behind a failure at " .. n)
  ran = ran + 1
  if fine then break end
end
assert(fine and ran > 100, ran)
