-- Intel's GPUs by the real driver of Level Zero in its simulation mode: what is asked of it is looked at by its
-- validation layer, which says nothing, and kernels are built by its compiler; none is executed, so that results are
-- anything.
local program = arg[-1] or "bin/tessera"
local root = io.popen("pwd"):read "*l"
if not program:match "^/" then program = root .. "/" .. program end
local dir = os.tmpname()
os.remove(dir)
assert(os.execute("mkdir " .. dir) == 0)

local mode = "NEOReadDebugKeys=1 SetCommandStreamReceiver=1 ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 "
  .. "ZE_ENABLE_HANDLE_LIFETIME=1 TESSERA_CACHE=off "

-- What a program printed with this GPU, its complaints too. The driver leaves files where it runs.
local function run(gpu, code)
  local f = assert(io.open(dir .. "/code.lua", "w"))
  f:write('local tessera = require "tessera"\nlocal op, core = tessera.op, tessera.core\ncore.jit_later(false)\n', code)
  f:close()
  local p = io.popen(("cd %s && %s %s %s code.lua 2>&1"):format(dir, mode, gpu, program))
  local out = p:read "*a"
  p:close()
  return (out:gsub("\n$", ""))
end
local function done()
  os.execute("rm -rf " .. dir)
end

local gpus = {
  pvc = "ProductFamilyOverride=pvc HardwareInfoOverride=1x4x8",
  dg2 = "ProductFamilyOverride=dg2 HardwareInfoOverride=1x4x16",
  tgllp = "ProductFamilyOverride=tgllp HardwareInfoOverride=1x6x16",
}
local there = run(gpus.pvc, [[print(tessera.devices().missing.level_zero or "there")]])
if there ~= "there" then
  done()
  return print("skipped: " .. there:gsub("\n.*", ""))
end

for _, name in ipairs { "pvc", "dg2", "tgllp" } do
  local text = run(gpus[name], [[for _, d in ipairs(tessera.devices()) do if d.name == "level_zero:0" then print(d.text) end end]])
  assert(text:find("code of " .. name, 1, true) and text:find("not used yet", 1, true), name .. ": " .. text)
end

-- Bytes of all sizes go there and come back, kernels are built and launched, also as one; more events than theirs have turns.
local all = [[
local x = op.arange(3000000):cast "f32"
local y = x:to "level_zero:0"
for i = 1, 40 do
  y = y + y
  y["0:100"]:to "cpu"
  y = y:to("cpu"):to "level_zero:0"
end
local z = y + x:to "level_zero:0"
print(z.device, #tostring(z:sum():item()) > 0)
tessera.synchronize "level_zero:0"
local chain = tessera.graph.module("chain", function(a)
  for _ = 1, 6 do a = ((a * 1.5):softmax() + a):T() end
  return a
end)
tessera.jit.eager(true)
local a = op.ones({ 8, 8 }):to "level_zero:0"
for _ = 1, 12 do chain(a) end
local s = tessera.jit.device()
print(s.kernels > 1, s.fallback, s.refused, s.replays > 4)
x, y, z = nil, nil, nil
collectgarbage()
core.trim()
print(op.ones({ 5 }, { device = "level_zero:0" }).device)]]
for _, name in ipairs { "pvc", "dg2" } do
  local said = run(gpus[name], all)
  assert(said == "level_zero:0\ttrue\ntrue\t0\t0\ttrue\nlevel_zero:0", name .. ": " .. said)
end

-- A GPU of two tiles is two devices, between which bytes go without the host.
local two = run(gpus.pvc .. " CreateMultipleSubDevices=2", [[
local names = {}
for _, d in ipairs(tessera.devices()) do if d.name:find "level_zero" then names[#names + 1] = d.name end end
print(table.concat(names, " "))
local y = (op.ones { 1000 }):to "level_zero:0" * 2
print((y:to "level_zero:1" + 1).device)]])
(two:gsub("\n", " ")) --> level_zero:0 level_zero:1 level_zero:1

-- Numbers of 64 bits where there are none: the CPU has them.
local narrow = run(gpus.dg2, [[
local x = op.ones({ 64 }, { dtype = "f64" }):to "level_zero:0"
print((x + x):sum():item(), tessera.jit.device().fallback > 0)]])
narrow --> 128	true
done()
