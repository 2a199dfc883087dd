-- Whatever is chosen for a kernel of a device, the bits are the same: every candidate of kernels
-- of each kind. A tuned choice is kept on disk and used by a process that measures nothing. A
-- second time with the code of a GPU, emulated.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, jit, autotune = tessera.core, tessera.op, tessera.graph, tessera.jit, tessera.autotune
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local emulated, real = os.getenv "TESSERA_SIM" == "emulate", device.kind ~= "sim"

core.seed(9)
local function R(shape, dtype) return op.cast(op.normal(shape), dtype or "f32"):to(name) end
local n = real and 4 or 1
local cases = {
  map = { function(a, b) return op.gelu(a * 2 + b), a - b end, R({ 7001 * n }), R({ 7001 * n }) },
  halves = { function(a, b) return (a * b + a):relu() end, R({ 9, 1031 * n }, "bf16"), R({ 1031 * n }, "bf16") },
  rows = { function(a, b) return op.layernorm(op.gelu(a + b)), op.softmax(a) end, R({ 40 * n, 771 }), R({ 771 }) },
  long = { function(a, b) return (a * b):sum { axis = 1 } end, R({ 3 * n, 4500 }), R({ 3 * n, 4500 }) },
  columns = { function(a) return (a * 2):sum { axis = 0 } end, R({ 600 * n, 40 * n }) },
  product = { function(a, b, c) return op.gelu(op.matmul(a, b, { bias = c }), { approximate = "tanh" }) end,
    R({ 136 * n, 32 * n }, "bf16"), R({ 32 * n, 136 * n }, "bf16"), R({ 136 * n }, "bf16") },
  turned = { function(a, b) return op.matmul(a:T(), b) end, R({ 64 * n, 128 * n }, "bf16"), R({ 64 * n, 136 * n }, "bf16") },
}
local order = emulated and { "map", "rows", "long", "columns" }
  or { "map", "halves", "rows", "long", "columns", "product", "turned" }
local most = 0
for _, what in ipairs(order) do
  local case = cases[what]
  local f = graph.module(what, case[1])
  local function hash()
    local t = { f(unpack(case, 2)) }
    for i = 1, #t do t[i] = t[i]:hash() end
    return table.concat(t, " ")
  end
  jit.eager(true)
  local want, seen = nil, {}
  for i = 0, emulated and what ~= "long" and 6 or 31 do
    core.autotune_force(i)
    jit.flush()
    local have = hash()
    want = want or have
    if have ~= want then error(("%s: candidate %d has other bits"):format(what, i)) end
    local text = f:ir "schedule"
    if seen[text] and i > 0 then break end -- the compiler's own choice again: there are no more
    seen[text] = true
    if i > most then most = i end
  end
  core.autotune_force()
  jit.flush()
  jit.eager(false)
end
most >= (emulated and 6 or 8) --> true

-- Measured, kept, and found again. The times of a simulated device mean nothing.
if not emulated then
  local folder = os.tmpname()
  os.remove(folder)
  local code = [[
local tessera = require "tessera"
local op, graph, jit, autotune = tessera.op, tessera.graph, tessera.jit, tessera.autotune
local f = graph.module("f", function(a, b) return (a * b + 1):relu() end)
local x = op.uniform({ 300, 500 }, { seed = 1 }):to "NAME"
jit.eager(true)
f(x, x)
]]
  local function child(text)
    local path = os.tmpname()
    local file = io.open(path, "w")
    file:write((code:gsub("NAME", name)) .. text)
    file:close()
    local p = io.popen(("TESSERA_CACHE=%s %s %s 2>&1"):format(folder, arg[-1] or "bin/tessera", path))
    local out = p:read "*a"
    p:close()
    os.remove(path)
    return out
  end
  local first = child [[
autotune.budget { ms = 1e5, total = 1e6 }
local r = autotune.tune(f)
for _, k in ipairs(r) do
  if k.why or k.differing > 0 then print(k.kernel, k.why, k.differing) end
  local best
  for _, c in ipairs(k) do if c.best then best = c.choice end end
  print(k.kernel, #k > 8, best)
end
]]
  local kernel, many, best = first:match "^([^\t]*)\t(%a+)\t([^\n]*)\n$"
  if many ~= "true" then error(first) end
  kernel --> map mul+add+relu 300x500 in f32 f32 out f32
  local again = child [[print(f:ir "schedule")]]
  if best ~= "as it was" and not again:match("with " .. best) then error(best .. "\n" .. again) end
  child [[autotune.mode "off" jit.flush() f(x, x) io.write(tostring(f:ir("schedule"):match " with " == nil))]] --> true
  os.execute("rm -rf " .. folder)
end

if emulated then print "skipped: winners on disk, which the run without emulation looks at" end
if device.kind == "sim" and not emulated then
  local p = io.popen(("TESSERA_SIM=emulate %s scripts/run_test.lua tests/devices/tune.lua 2>&1 && echo fine"):format(arg[-1] or "bin/tessera"))
  local text = p:read "*a"
  p:close()
  if not text:match "fine\n$" then error(text) end
end
