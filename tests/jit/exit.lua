-- os.exit while a kernel compiles: its code, and nothing that crashes on the way out.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local PROGRAM = [[
local tessera = require "tessera"
local op = tessera.op
local f = tessera.graph.module("f", function(x, y) return op.gelu(x * y + 1):softmax{axis = -1}:sum{axis = 0} end)
local x, y = op.uniform({256, 256}, {seed = 1}), op.uniform({256, 256}, {seed = 2})
for i = 1, %d do f(x, y) end
os.exit(%s)
]]
for calls = 10, 50, 2 do
  for ending, code in pairs { ["0, true"] = 0, ["7"] = 7, ["false, true"] = 1 } do
    -- A state that is not closed leaks, to a sanitizer.
    local environment = "ASAN_OPTIONS=detect_leaks=0 TESSERA_CACHE=off"
    local out, status = tiers.run(PROGRAM:format(calls, ending), "", environment)
    assert(status == code and out == "", ("%d calls, os.exit(%s): %s %s"):format(calls, ending, tostring(status), out))
  end
end
local exit = function(code) return select(2, tiers.run("os.exit(" .. code .. ")")) end
exit "", exit "true", exit "3.0", exit "nil, true" --> 0, 0, 3, 0
exit "{}" --> 1
