-- Memory that runs out in the threads that compile, in LLVM too: the function runs on the VM.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
if not require "tessera".jit.status() then return print "skipped: nothing is compiled here" end

local PROGRAM = [[
local tessera = require "tessera"
local core, op, graph = tessera.core, tessera.op, tessera.graph
local x = op.normal({ 33, 40 }, { seed = 1 })
local function body(a) return ((a * 2 + 1):tanh() * a):softmax():sum { axis = 1 } end
local want = body(x):hash()
local COUNT = tonumber(os.getenv "FUZZ_COUNT")
core.jit_eager(true)
graph.module("first", body)(x) -- what LLVM makes once and keeps is made before
core.jit_wait()

local wrong, n = 0, 1
local function calls(f, times)
  for _ = 1, times do wrong = wrong + (f(x):hash() == want and 0 or 1) end
end
while n <= (COUNT or 40000) do
  core.jit_flush()
  core.fail_after(n, "elsewhere")
  calls(graph.module("again", body), 2)
  core.jit_wait()
  core.fail_after(0, "elsewhere")
  n = COUNT and n + 1 or math.floor(n * 1.7) + 1
end
local refused = core.jit_stats().refused
core.jit_flush()
local f = graph.module("last", body)
calls(f, 3)
print(wrong, refused > 0, core.jit_stats().promoted > 0)
]]
tiers.run(PROGRAM, "", "TESSERA_CACHE=off") --> 0	true	true
--> , 0
