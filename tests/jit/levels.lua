-- The levels of whatever runs by kernels: a captured function that is cold, hot, from disk, back on
-- the VM, and a loop of plain code; each down to the lines of the program.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local tiers = require "_tiers"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end

local here = debug.getinfo(1, "l").currentline
local f = graph.module("f", function(x, y)
  local a = x * 2
  local b = a + y
  local c = op.gelu(b)
  local d = op.layernorm(c)
  return d * 0.5
end)
local x, y = op.uniform({ 6, 512 }, { seed = 1 }), op.uniform({ 6, 512 }, { seed = 2 })
f:ir "tile" --! has not run yet

-- The line of the first statement of a level that has this word, counted from the function's.
local function line(text, word)
  local n = text:match("= " .. word .. " [^\n]*// [^\n]*levels%.lua:(%d+)\n")
  return n and tonumber(n) - here - 1
end
local function levels(ir)
  assert(ir "schedule":find "layernorm mul: [^\n]* at [^\n]*levels%.lua:")
  for _, level in ipairs { "tile", "explicit" } do
    local text = ir(level)
    local lines = {}
    for _, word in ipairs { "mul", "add %%%d+, %%%d+ : f32%b[]", "gelu_erf", "sum" } do lines[#lines + 1] = line(text, word) end
    assert(table.concat(lines, " ") == "1 2 3 4", level .. ": " .. table.concat(lines, " ") .. "\n" .. text)
  end
  local code, places = ir "llvm", ("levels%%.lua:%d\n"):rep(4, ".*"):format(here + 2, here + 3, here + 4, here + 5)
  assert(code:find "// group 0: mul add gelu_erf layernorm mul at [^\n]*levels%.lua:.*define i64 @rounds0")
  assert(code:find(("= fadd <%%d+ x float> [^\n]*  ; [^\n]*levels%%.lua:%d\n"):format(here + 3)), code)
  assert(code:find(places) and not code:find "!dbg" and not code:find "!DI", code)
  code = ir "asm"
  assert(code:find "// group 0: mul add gelu_erf layernorm mul at [^\n]*levels%.lua:.*rounds0:")
  assert(code:find(("\t# [^\n]*levels%%.lua:%d\n"):format(here + 3)), code)
  assert(not code:find "%.loc" and not code:find "%.cfi", code)
end
local function of(g) return function(level) return g:ir(level) end end

f(x, y)
levels(of(f))
f:ir "bytecode":match "// tier 0" --> // tier 0
jit.eager(true)
jit.flush()
f(x, y)
levels(of(f))
f:ir "bytecode":match "fused r0, r1 .-// mul add gelu_erf layernorm mul at .-levels%.lua:" ~= nil --> true
f:ir "tiles":match "%d+ bytes of code" ~= nil --> true
f:ir "tiel" --! there is no level 'tiel'; levels are captured, rewrites, graph,
f:ir(true) --! there is no level 'true'; levels are

-- Back on the VM the levels are those of the kernel that would be, and it says why.
core.jit_returns(1)
f(x, y)
jit.wait()
for _ = 1, 40 do f(x, y) end
core.jit_returns(0)
levels(of(f))
jit.eager(false)

-- A loop of plain code.
jit.flush()
#jit.loops() --> 0
jit.traces(true)
here = debug.getinfo(1, "l").currentline
local function round(x, y)
  local a = x * 2
  local b = a + y
  local c = op.gelu(b)
  local d = op.layernorm(c)
  return (d * 0.5)
end
jit.eager(true)
local z = x
for _ = 1, 60 do z = round(z, y) end
jit.wait()
local loop = jit.loops()[1]
tostring(loop):match "^loop at [^:]*levels.lua:%d+%.%.%d+: 5 calls, %d+ runs, by kernels$" ~= nil --> true
levels(function(level) return loop:ir(level) end)
loop:ir "graph":match "gelu_erf [^\n]*levels%.lua" ~= nil --> true
loop:ir "bytecode":match "// tier 1" --> // tier 1
loop:ir "why":match "promoted: 1 kernel of 5 operators" ~= nil --> true
loop:ir "tiel" --! there is no level 'tiel'; levels are graph, schedule, tile
jit.flush()
loop:ir "tile" --! is no more
#jit.loops() --> 0
jit.traces(false)
jit.eager(false)

-- From disk: what the kernel is made of is not kept there, and shown all the same.
local program = [[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
jit.eager(true)
local f = graph.module("f", function(x) return op.softmax(x * 2) end)
f(op.ones{4, 100})
io.write(jit.stats().from_disk, " ")
for _, level in ipairs{"schedule", "tile", "explicit", "llvm", "asm"} do io.write(tostring(#f:ir(level) > 100), " ") end
]]
tiers.directory(function(dir)
  local first = tiers.run(program, "", "TESSERA_CACHE=" .. dir)
  local second = tiers.run(program, "", "TESSERA_CACHE=" .. dir)
  assert(first == "0 " .. ("true "):rep(5) and second == "1 " .. ("true "):rep(5), first .. "\n" .. second)
end)
