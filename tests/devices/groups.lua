-- Steps of an optimiser, and weights that are rounded, are launched many at a time: with the bits
-- of the CPU, in fewer launches. A second time with the code of a GPU, emulated.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, nn, optim = tessera.core, tessera.op, tessera.graph, tessera.nn, tessera.optim
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local emulated = os.getenv "TESSERA_SIM" == "emulate"

-- f32 weights of several sizes, of which a copy in bf16 is multiplied.
local widths = { 24, 40, 16, 8, 72, 24, 10 }
local function train(where, make, dtype)
  core.seed(3)
  return tessera.device(where, function()
    local Net = nn.Module:extend "Net"
    function Net:init()
      self.w, self.b = nn.List(), nn.List()
      for i = 1, #widths - 1 do
        self.w[i] = nn.Linear(widths[i], widths[i + 1])
      end
    end
    function Net:forward(x)
      for _, l in ipairs(self.w) do
        x = op.tanh(op.matmul(x, l.weight:cast(dtype):T(), { bias = l.bias:cast(dtype) }))
      end
      return x
    end
    local net = Net()
    local step = graph.training_step(net, function(m, x) return m(x):cast("f32"):square():mean() end, make(net:parameters()))
    local x, text = op.normal({ 12, widths[1] }, { seed = 1, stream = 1 }):cast(dtype), {}
    for _ = 1, emulated and 2 or 4 do text[#text + 1] = step(x):hash() end
    for _, p in ipairs(net:parameters()) do text[#text + 1] = p:hash() end
    return table.concat(text, " "), step, x
  end)
end

local makers = {
  AdamW = function(p) return optim.AdamW(p, { lr = 1e-2, weight_decay = 0.1 }) end,
  Adam = function(p) return optim.Adam(p, { lr = 1e-2, weight_decay = 0.1 }) end,
  SGD = function(p) return optim.SGD(p, { lr = 1e-2, momentum = 0.9 }) end,
  Lion = function(p) return optim.Lion(p, { lr = 1e-2 }) end,
}
local function count(profile, what)
  for _, row in ipairs(profile) do
    if row.name == what then return row.count end
  end
  return 0
end

for kind, make in pairs(makers) do
  for _, dtype in ipairs(emulated and { "bf16" } or { "bf16", "f16", "f32" }) do
    tessera.jit.eager(true)
    local want = train("cpu", make, dtype)
    local got, step, x = train(name, make, dtype)
    tessera.jit.eager(false)
    -- Products of 16 bits have another order on a real GPU.
    if (device.kind == "sim" or dtype == "f32") and got ~= want then error(kind .. " " .. dtype .. ": another answer") end
    local profile = tessera.jit.device_profile(function() step(x) end)
    local steps, casts, all = count(profile, kind:lower():gsub("adamw", "adam") .. "_step"), count(profile, "cast"), 2 * (#widths - 1)
    local few = steps < all / 2 and (dtype == "f32" or casts < all / 2) or not device.together
    if steps == 0 or (dtype ~= "f32" and casts == 0) or not few then
      error(("%s %s: %d launches of steps, %d of casts, for %d parameters"):format(kind, dtype, steps, casts, all))
    end
  end
end

-- What a step widens itself is not widened before.
local w = op.ones { 4, 6 }
local step = graph.training_step({ w }, function(_, x) return op.matmul(x, w:cast "bf16"):cast("f32"):sum() end, optim.SGD({ w }, { lr = 1 }))
step(op.ones({ 2, 4 }, { dtype = "bf16" })):item() --> 48
w[0][0]:item() --> -1
step:rewrites():match "narrow_gradient[^\n]*: the step widens it itself" ~= nil --> true

if device.kind == "sim" and not emulated then
  local p = io.popen(("TESSERA_SIM=emulate %s scripts/run_test.lua tests/devices/groups.lua 2>&1 && echo fine"):format(arg[-1] or "bin/tessera"))
  local text = p:read "*a"
  p:close()
  if not text:match "fine\n$" then error(text) end
end
