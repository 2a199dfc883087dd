-- A compile that ends within LLVM, which would end the process: a reason in the log, the same bits
-- by operators, and another attempt later. Of functions, loops, kernels in Lua and the tuner.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
if not require "tessera".jit.status() then return print "skipped: nothing is compiled here" end

local out, status = tiers.run([[
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit, autotune = tessera.op, tessera.graph, tessera.jit, tessera.autotune
local x = op.uniform({ 64, 512 }, { seed = 1 })
local f = graph.module("f", function(x) return op.gelu(x * 2 + 1) - x, (x * 3):sum { axis = 1 } end)
local function hash() local y, s = f(x) return y:hash() .. s:hash() end
jit.off()
local want = hash()
jit.on()
jit.eager(true)
core.jit_break(1e6)
assert(hash() == want)
print(f:ir "why":match "refused: [^\n]*")
print(f:ir "asm":match "no kernel: [^\n]*")

local k = op.kernel("twice", { x = "f32[64,512]" }, { y = "f32[64,512]" }, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] * 2 end
end)
assert(k(x):hash() == (x * 2):hash())
print(k:status())
core.jit_break(0) -- it is tried again when the interpreter has cost enough
for calls = 1, 5000 do
  assert(k(x):hash() == (x * 2):hash())
  if k:status() == "compiled" then break end
end
print("then", (k:status()))
core.jit_break(1e6)
autotune.budget { ms = 1e5, total = 1e6 }
print(autotune.tune(f)[1].why)

jit.traces(true)
local function loop()
  local y = x
  for _ = 1, 100 do y = (y * 0.5 + 1):tanh() end
  return y:hash()
end
jit.off()
want_loop = loop()
jit.on()
assert(loop() == want_loop)
print(jit.stats().promoted, jit.loops()[1]:ir "why":match "refused: [^\n]*")

-- Several functions at once, some of which fail, in the background.
jit.flush()
jit.eager(false)
core.jit_break(5)
local many = {}
for i = 1, 10 do many[i] = graph.module("m" .. i, function(x) return (x * i + 1):tanh() * x end) end
for _ = 1, 300 do
  for i = 1, 10 do many[i](x) end
end
jit.wait()
assert(jit.stats().refused >= 5)

-- What failed is compiled later.
core.jit_break(0)
jit.flush()
jit.eager(true)
assert(hash() == want)
print(f:ir "why":match "promoted: 1 kernel of %d operators")
]], "-jv", "TESSERA_CACHE=off ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0") -- what LLVM held is lost
assert(status == 0, out)
local lines = {}
for line in out:gmatch "[^\n]+" do
  if line:sub(1, 1) ~= "[" then lines[#lines + 1] = line end
end
local said = table.concat(lines, "\n"):gsub("in [%d.]+ ms", "in no time"):gsub("\t", " ")
-- A loop begins with the operator at which it got hot.
said = said:gsub("(0 refused: [^\n]*)%(%l+ %.%. %l+%)", "%1(one round)")
said --> refused: no group has a kernel, in no time; group 0 (mul .. sum): jit: LLVM: Cannot select: intrinsic %llvm.nvvm.membar.gl
--> no kernel: jit: LLVM: Cannot select: intrinsic %llvm.nvvm.membar.gl
--> interpreted jit: LLVM: Cannot select: intrinsic %llvm.nvvm.membar.gl
--> then compiled
--> its kernel could not be compiled
--> 0 refused: no group has a kernel, in no time; group 0 (one round): jit: LLVM: Cannot select: intrinsic %llvm.nvvm.membar.gl
--> promoted: 1 kernel of 6 operators
out:find "%[jit refused f%(f32%[64,512%]%) [^\n]*: no group has a kernel, in [%d.]+ ms; group 0 %(mul .. sum%): jit: LLVM: Cannot select: " ~= nil --> true
