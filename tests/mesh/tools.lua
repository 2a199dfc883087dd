-- Functions over a mesh in f:ir, f:tiles, f:why, f:choose, f:tune, f:with, f:diff and profiles: what is shown and changed are
-- the kernels of the pieces that devices run, with what they send each other in between.
local tessera = require "tessera"
local core, dist, op, rng, graph, jit, autotune = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.jit, tessera.autotune
autotune.mode "off"
local mesh = dist.Mesh { axes = { "tp" }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }
local x, w = rng.normal { 96, 512 }, rng.normal { 512, 160 }
local xs, ws = dist.shard(x, mesh, { nil, "tp" }), dist.shard(w, mesh, { "tp" })
local function body(a, b) return op.gelu(op.softmax(op.matmul(a, b) * 2) + 1) end
local f = graph.module("f", body)
local y = f(xs, ws):hash()

-- ---- texts: of each stage what runs there, of one device's sizes
local text = f:ir "schedule"
text:match "^// f on mesh tp=4 %(cpu:0 .. cpu:0%): what its devices run, stage by stage\n" ~= nil --> true
local stage0, sent, stage1 = text:match "(// stage 0 on cpu:0 .. cpu:0, 4 alike: kernels s0/..\n.-)(// all_reduce [^\n]*)\n(// stage 1.*)$"
sent --> // all_reduce over tp, 360 KiB: f32[96,160] -> f32[96,160], for matmul at tests/mesh/tools.lua:9
assert(stage0:find "matmul %%%d+ space %[96,160%]" and not stage0:find "softmax", stage0)
assert(stage1:find "mul softmax add gelu_erf" and stage1:find "kernels s1/..", stage1)
f:ir("tile", { kernel = "s0/0" }):match "// group s0/0: matmul at [^\n]*\n.-%%x0: f32%[96,128%], %%x1: f32%[128,160%]" ~= nil --> true
f:ir "tile":match "// group s1/0: mul softmax add gelu_erf" ~= nil --> true
f:ir("schedule", { target = "sm_90a" }):match "target sm_90a" --> target sm_90a
f:ir "graph":match "f32%[96,512@tp%]" --> f32[96,512@tp]
f:ir("tile", { kernel = 0 }) --! f runs in pieces on its mesh: there is no kernel 0; kernels are such as s0/0, s1/0
f:ir("tile", { kernel = "s7/0" }) --! there is no kernel s7/0

-- What is sent is what f:collectives says before a run, and dist.sent behind it.
local planned = f:collectives(xs, ws)
local told = f:facts "tile"
#told.sent, told.sent[1].kind, told.sent[1].bytes == planned[1].bytes --> 1, all_reduce, true
#told.stages, told.stages[1].piece, #told.stages[2].devices, told.stages[2].shows.kernels[1].group --> 2, s0, 4, s1/0
f:why().stages[2].shows.functions[1].groups[1].group --> s1/0
tostring(f:tiles()):match "s1/0 rows space %[96,160%]" --> s1/0 rows space [96,160]
tostring(f:tiles()) == f:ir "tiles" --> true

-- ---- a profile has each kernel of the pieces, and what is sent, with bytes
local function rows() return tessera.profile.measure(f, { args = { xs, ws }, runs = 3 }).instructions end
local function named(list, what)
  for _, r in ipairs(list) do
    if r.what:find(what, 1, true) then return r end
  end
end
if jit.status() then jit.pin(f) end
local list = rows()
local reduce, product = named(list, "all_reduce"), named(list, "matmul")
reduce.bytes == planned[1].bytes, reduce.calls, reduce.time_ns > 0, reduce.where --> true, 1, true, tests/mesh/tools.lua:9
product.calls, product.where --> 4, tests/mesh/tools.lua:9
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
local soft = named(list, "softmax")
soft.what, soft.calls --> mul softmax add gelu_erf, 4
#soft.phases > 0 --> true
f:ir "bytecode":match "// stage 1.-fused" ~= nil --> true

-- ---- changed on all devices, with the same bits
tostring(f:choose("s1/0", { grain = 2 })):match "^group s1/0 %(mul softmax add gelu_erf%) for %w+: grain 2, chosen by the user" ~= nil --> true
tostring(f:tiles()):match "s1/0 rows[^\n]*choice: grain 2, chosen by the user" ~= nil --> true
for _, at in ipairs(f.current.graph:pieces()[2].at) do
  assert(f.current.graph:piece(at):facts "tiles":find "grain 2, chosen by the user")
end
f(xs, ws):hash() == y --> true
f:choose("s9/0") --! there is no group 's9/0'; there is s0/0 matmul, s1/0 mul softmax add gelu_erf
f:choose("s1/0", "default")
autotune.budget { ms = 200, candidates = 2 }
autotune.mode "cached"
local tuned = autotune.tune(f) -- each kernel once; who runs the same one gets what won
autotune.mode "off"
#tuned, tuned[1].kernel:match "^%w+", tuned[2].kernel:match "^[%w ]+" --> 2, matmul, mul softmax add gelu
local e = f:with("schedule", (f:ir("schedule", { kernel = "s1/0" }):gsub("(out %%%d+)[^\n]*", "%1 with vector 32 unroll 1")))
e.equal, e.unchanged, e.kernel --> true, false, s1/0
e:keep()
tostring(f:tiles()):match "s1/0 rows[^\n]*edited by the user" ~= nil --> true
assert(f:diff("tile", "s1/0"):find "\n%+tile @f[^\n]* vector 32", f:diff("tile", "s1/0"))
f(xs, ws):hash() == y --> true
f:without "s1/0" --> true
f:without "s1/0" --> false
f:debug("s1/0", xs, ws).clean --> true

-- ---- parts of other sizes are pieces of their own; functions that cannot be cut say so
local uneven = graph.module("uneven", function(a) return op.softmax(a * 2) + 1 end)
uneven(dist.shard(rng.normal { 7, 8 }, mesh, { "tp" }))
tostring(uneven:tiles()):match "// stage 0 on cpu:0: kernels s0.0/..\n.-// stage 0 on cpu:0 .. cpu:0, 3 alike: kernels s0.1/..\n" ~= nil --> true
local loops = graph.module("loops", function(a) return op.while_loop(function(_, i) return op.lt(i, 3) end, function(s, i) return s * 2, i + 1 end, a, tessera.tensor(0)) end)
loops(xs)
tostring(loops:tiles()):gsub("\n$", "") --> // loops: its loops and branches (while_loop at tests/mesh/tools.lua:82) run round by round on its mesh; their functions, and what stands between them, in pieces; :profile shows what runs, 1
loops:choose(0, { grain = 2 }) --! f:choose: loops has no kernels of its own: its loops and branches (while_loop at tests/mesh/tools.lua:82) run round by round
loops:tune() --! loops has no kernels of its own: its loops and branches (while_loop at tests/mesh/tools.lua:82) run round by round on its mesh
list = tessera.profile.measure(loops, { args = { xs }, runs = 2 }).instructions
list[1].what, named(list, "mul").calls --> while_loop, 12

-- ---- with other leaves there are other pieces
dist.leaves(8)
f(xs, ws)
local old = f.current.graph:piece(0)
dist.leaves(4)
f(xs, ws)
f:ir "schedule":match "stage 0" --> stage 0
dist.leaves(1)
