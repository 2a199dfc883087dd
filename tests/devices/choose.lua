-- What a program chooses for kernels of a GPU: the bits stay, on the simulated one with and without a copy engine; eager calls
-- take options of operators as well, and say what became of them.
package.path = "tests/devices/?.lua;" .. package.path
local ts = require "tessera"
local core, op, graph, jit = ts.core, ts.op, ts.graph, ts.jit
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local BIN = arg[-1] or "bin/tessera"
local function run(before, code)
  local p = io.popen(("%s %s %s 2>&1"):format(before, BIN, code))
  local text = p:read "*a"
  p:close()
  return (text:gsub("\n$", ""))
end
if not device.unit then -- those of maps and rows alone
  assert(run("", "tests/jit/tune/_choices.lua " .. name) == "map rows columns")
  return print("skipped: products of " .. device.target .. " have no choices")
end
run("", "tests/jit/tune/_choices.lua " .. name) --> map rows columns matmul attention conv
if device.kind == "sim" then
  assert(run("TESSERA_GPU=sm_80", "tests/jit/tune/_choices.lua " .. name) == "map rows columns matmul attention")
end

-- ---- remarks of kernels
ts.autotune.mode "off"
jit.eager(true)
local function R(shape) return op.cast(op.normal(shape, { seed = 1, stream = 1 }), "bf16"):to(name) end
local f = graph.module("f", function(a, b) return op.softmax(op.matmul(a, b, { tile_shape = { 60, 60 }, stages = 40, threads = 3 }), { threads = 100 }) end)
local a, b = R { 136, 64 }, R { 64, 136 }
f(a, b)
local why = f:ir "why"
why:match "\n      remark: rows = 60 becomes 64: the nearest that this kernel for [%w_]+ has\n" ~= nil --> true
why:match "\n      remark: columns = 60 becomes 64: the nearest that this kernel for [%w_]+ has\n" ~= nil --> true
why:match "\n      remark: stages = 40 becomes %d+: at least 2, and as many as help and fit into %d+ KB of shared memory\n" ~= nil --> true
why:match "\n      remark: threads = 3 has no effect: a matrix product for [%w_]+ has no such choice; it has rows, columns, depth, stages, cluster, group, limit\n" ~= nil --> true
why:match "\n      remark: threads = 100 becomes 128: powers of two from 32 to 1024\n" ~= nil --> true
f:ir("tiles"):match "tile %[64,64,64%]" ~= nil --> true
f:choose(0, { rows = 128, columns = 128 }).choice --> rows 128 columns 128
f:ir("tiles"):match "tile %[128,128,64%]" ~= nil --> true
f:choose(0, "default")
f:ir("tiles"):match "tile %[64,64,64%]" ~= nil --> true

-- ---- eager calls
local want = op.matmul(a, b):hash()
op.matmul(a, b, { rows = 64, columns = 64, stages = 2 }):hash() == want --> true
local file = os.tmpname()
local h = io.open(file, "w")
h:write((([[
local ts = require "tessera"
local op = ts.op
ts.core.jit_later(false)
local a = op.ones({64, 64}, {dtype = "bf16"}):to "NAME"
op.matmul(a, a, {rows = 3, threads = 2}):hash()
op.matmul(op.ones{4, 4}, op.ones{4, 4}, {rows = 3})
]]):gsub("NAME", name)))
h:close()
local text = run("", "-jv " .. file)
os.remove(file)
text:match "%[jit remark matmul on [%w:]+: threads = 2 has no effect: a matrix product for [%w_]+ has no such choice" ~= nil --> true
text:match "%[jit remark matmul on [%w:]+: rows = 3 becomes 64: " ~= nil --> true
text:match "%[jit remark matmul [^\n]*:6: rows 3 has no effect: the VM's own kernels run calls on the CPU; a captured function has others%]" ~= nil --> true
