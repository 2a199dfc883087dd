-- Edited kernels of the simulated device: schedules and kernels with roles, what the debugger's checks find in them, and
-- what is kept.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local device = require "_device"
if device.name ~= "sim:0" then return print "skipped: this is of the simulated device" end
local op, graph, jit, rng = tessera.op, tessera.graph, tessera.jit, tessera.rng
core.patches_forget()

local f = graph.module("f", function(x, w, b) return op.softmax(op.gelu(op.matmul(x, w) + b)) end)
local function half(...) return rng.normal { ... }:cast "bf16":to "sim:0" end
local x, w, b = half(128, 128), half(128, 128), half(128)
jit.eager(true)
f(x, w, b)
local want = f(x, w, b):hash()
jit.eager(false)

local text = f:ir("schedule", { kernel = 0 })
assert(text:find "target sm_90a" and text:find "with [^\n]*rows 128 columns 64", text)
f:with("schedule", text).unchanged --> true
local e = f:with("schedule", (text:gsub("columns 64", "columns 128")))
assert(e.equal and not e.unchanged and e.target == "sim:0", tostring(e))
e:keep()
assert(f:ir "why":find "edited by the user" and f:ir "tiles":find "edited by the user", f:ir "why")
local d = f:diff("tile", 0)
assert(d:find "\n%-tile [^\n]* tile 128x64x" and d:find "\n%+tile [^\n]* tile 128x128x", d)
f(x, w, b):hash() == want --> true
f:without(0) --> true
f:ir "why":find "edited by the user" --> nil
f(x, w, b):hash() == want --> true

local kernel = f:ir("tile", { kernel = 0 })
f:with("tile", kernel).unchanged --> true
local function refused(changed, ...)
  local ok, why = pcall(f.with, f, "tile", changed)
  assert(not ok, "it was taken")
  for _, words in ipairs { ... } do assert(tostring(why):find(words, 1, true), tostring(why)) end
end
refused((kernel:gsub("\n *await %%full[^\n]*", "", 1)), "line ", "race", "is read before the copy to it has come")
refused((kernel:gsub("\n *expect %%full[^\n]*", "", 1)), "line ", "barrier")
refused((kernel:gsub("\n *arrive %%full[^\n]*", "", 1)), "line ", "deadlock")
refused((kernel:gsub("target sm_90a", "target sm_80")), "")
refused((kernel:gsub("load %%sa%[%%(%d+), ", "load %%sa[9, ", 1)), "line ")

-- Rows: block form, whose threads are the compiler's.
local rows = f:ir("tile", { kernel = 1 })
e = f:with("tile", (rows:gsub("mul (%%%d+), (%%%d+) : f32%[128%]", "mul %2, %1 : f32[128]")))
assert(e.equal and not e.unchanged, tostring(e))
e = f:with("tile", (rows:gsub("mul (%%%d+), (%%%d+) : f32%[128%]", "sub %2, %1 : f32[128]")))
assert(not e.equal and e.first:find "%%y0%[%d+,%d+%]: now", tostring(e))
refused((rows:gsub("load %%x0%[%%2", "load %%x0[%%1")), "line ", "position 128 is outside of axis 0")
e:keep() --! f: the edited kernel has other bits
f(x, w, b):hash() == want --> true

-- What looks at kernels leaves how functions are compiled as it was.
jit.eager(true)
f:with("tile", kernel).unchanged --> true
f:debug(0, x, w, b).clean --> true
tessera.core.jit_eager(false) --> true

-- Memory of the device is counted back as it was counted.
local function bytes()
  collectgarbage()
  for _, d in ipairs(tessera.devices()) do
    if d.name == "sim:0" then return d.live end
  end
end
local odd = graph.module("odd", function(x) return x * 2 end)
local y = rng.normal{ 7, 3 }:to "sim:0"
odd(y)
local doubled = odd:ir("tile", { kernel = 0 })
odd:with("tile", doubled)
local before = bytes()
for _ = 1, 3 do odd:with("tile", doubled) end
assert(before and bytes() == before, bytes())
