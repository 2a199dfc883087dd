-- Commands and functions that show, measure or pin a captured function: wrong words, wrong order, missing
-- arguments, before it ran, and what is not captured.
local tessera = require "tessera"
local core, op, graph, jit = tessera.core, tessera.op, tessera.graph, tessera.jit
local program = arg[-1] or "bin/tessera"

local begin = [[
f = graph.module("f", function(x) return op.gelu(x * 2 + 1) end)
x = op.ones{8}
k = op.kernel("scale", {x = "f32[M,N]"}, {y = "f32[M,N]"}, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] / x[r]:abs():max() end
end)
attention = f
model = nn.Linear(2, 2)
function plain(x) return x end
]]

-- What a command says; after a first call of f, where that is wanted.
local function said(command, called)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(begin, called == false and "" or "f(x);\n", command, "\n")
  file:close()
  local p = io.popen(program .. " -i < " .. path .. " 2>&1")
  local text = p:read "*a"
  p:close()
  os.remove(path)
  return (text:gsub("%s+$", ""))
end

-- Usage and help name targets and levels, whichever there are.
local help = said "? :ir"
help:match "^[^\n]*" --> :ir f [level [kernel] [target]]
for _, level in ipairs(core.jit_levels "function") do
  assert(help:find("  " .. level.name .. " ", 1, true), level.name)
  assert(#level.help > 10)
end
for _, target in ipairs(core.jit_targets()) do assert(help:find(target, 1, true), target) end

said ":ir f tile":match "tile @f<N>" --> tile @f<N>
said ":ir f tile sm_90a":match "target sm_90a" --> target sm_90a
said ":ir f(x) tile sm_90a":match "target sm_90a" --> target sm_90a
said ':ir f "tile"':match "tile @f<N>" --> tile @f<N>
said(":ir f(x) tile", false):match "tile @f<N>" --> tile @f<N>
said ":ir graph.module('g', op.tanh)(x) graph":match "graph @%w+" --> graph @g
said ":ir k":match "tile @scale" --> tile @scale
said ":ir k(op.ones{4, 4}) explicit":match "tile @scale" --> tile @scale
said ":why f":match "^// tier %d" --> // tier 0
said(":why f(x)", false):match "^// tier %d" --> // tier 0
said ":tune k(op.ones{4, 4})":match "^scale: 1 kernel, up to %d+ candidates of each, in at most %d+ s[^\n]*\n[^\n]*autotune.budget{[^\n]*\nkernel scale" ~= nil --> true
said ":profile f(x)":match "time +part" ~= nil --> true
said(":profile f", false):match "runs the function[^\n]*" --> runs the function, and needs its arguments: x

-- Each names what is wrong, what there is, and what was meant; none is of the parser.
local cases = {
  { ":ir", ":ir f [level [kernel] [target]]", "the text of a captured function", "example  :ir f tile sm_90a" },
  { ":ir f tlie", "there is no level 'tlie'; levels are captured, rewrites, graph", "did you mean 'tile'?" },
  { ":ir f tile sm90", "there is no target 'sm90'; targets are avx512, avx2, base, sm_80", "did you mean 'sm_90a'?" },
  { ":ir f sm_90a", "there is no level 'sm_90a'", "it is a target, and stands behind the level" },
  { ":ir f tile 0 1", ":ir takes one kernel, not 0 and '1'" },
  { ":ir f tile 9", "there is no kernel 9", "hint: it has 0 " },
  { ":ir f graph 0", "level 'graph' is of a whole function, not of one kernel", "kernels have schedule, tile" },
  { ":ir f sm_90a tile", "there is no target 'tile'", "it is a level, and stands in front of the target" },
  { ":ir f graph sm_90a", "level 'graph' is of what runs here, not of sm_90a", "targets have schedule, tile" },
  { ":ir tile f", "'tile' is a level; the function comes first", "usage: :ir f" },
  { ":ir sm_90a", "'sm_90a' is a target; the function comes first" },
  { ":ir f tile sm_90a more", ":ir takes one target, not sm_90a and 'more'" },
  { ":ir f(x tile", "cannot read 'f(x tile'", "usage: :ir f" },
  { ":ir nosuch", "there is no 'nosuch'" },
  { ":ir atention tile", "there is no 'atention'; did you mean 'attention'?" },
  { ":ir plain", "not a plain function", "graph.module(f) captures it" },
  { ":ir print tile", "not a plain function" },
  { ":ir op.gelu", "not the operator gelu", "graph.module(op.gelu) captures it" },
  { ":ir op.gelu(x) tile", "not the operator gelu" },
  { ":ir x", "not f32[8]" },
  { ":ir 5", "not a number" },
  { ":ir model", "not a Linear", "graph.module(f) captures it" },
  { ":ir k tils", "there is no level 'tils'; levels are tile, explicit, llvm, asm, tiles", "did you mean 'tiles'?" },
  { ":ir k tiles sm_9", "there is no target 'sm_9'" },
  { ":tiles", ":tiles f", "the kernels of a captured function", "example  :tiles f" },
  { ":tiles f tile", "takes a function alone, not 'tile'" },
  { ":tiles k", "not the kernel scale" },
  { ":why op.gelu(x)", "not the operator gelu", "usage: :why f" },
  { ":rewrites nosuch", "there is no 'nosuch'" },
  { ":tune f(", "cannot read 'f('" },
  { ":tune k", "scale: takes 1 tensor, 0 given" },
  { ":tune plain", "or a kernel of op.kernel, not a plain function" },
  { ":profile f", "time   part", "Its limit: " }, -- for the arguments of its last call
  { ":profile plain(x)", " in all: ", " Lua" },
  { ":profile k(op.ones{4, 4})", "scale", "Its limit: " },
  { ":profile k", "runs the function, and needs its arguments", "usage: :profile f(x, y)" },
  { ":profile plain", "runs the function, and needs its arguments" },
  { ":profile op.gelu(x)", "gelu", " in all: " },
  { ":profile x", ":profile takes a function, not a tensor" },
  { ":profile nosuch(x)", "there is no 'nosuch'" },
  { ":tils f", "there is no command ':tils'; did you mean ':tiles'?" },
}
for _, case in ipairs(cases) do
  local text = said(case[1])
  for i = 2, #case do assert(text:find(case[i], 1, true), case[1] .. " says " .. text) end
  assert(not text:find("<eof>", 1, true) and not text:find("unexpected symbol", 1, true), text)
end
for _, command in ipairs { ":ir f", ":tiles f", ":why f", ":tune f", ":rewrites f" } do
  assert(said(command, false):find("f has not run yet: call it", 1, true), command)
end
-- The words are looked at before the function is.
said(":ir f tlie", false):match "hint.*" --> hint: did you mean 'tile'?

-- ---- the same as functions
local f = graph.module("f", function(x) return op.gelu(x * 2 + 1) end)
local x = op.ones { 8 }
f:ir("tile", x, { target = "sm90" }) --! hint: did you mean 'sm_90a'?
f:ir "tlie" --! hint: did you mean 'tile'?
f:ir "tile" --! f has not run yet: call it, or give arguments
f:rewrites() --! f has not run yet
f(x)
local plain = graph.module("plain", op.gelu)
plain(x)
plain:rewrites():match "[^\n]+" --> no rule fired
f:ir("tile", "sm_90a") --! the target is an option: f:ir("tile", {target = "sm_90a"})
f:ir("graph", { target = "sm_90a" }) --! level 'graph' is of what runs here, not of sm_90a
f.ir "tile" --! f:ir: it is called with a colon, f:ir(..), on a captured function
f.rewrites() --! f:rewrites: it is called with a colon
local k = op.kernel("scale", { x = "f32[M,N]" }, { y = "f32[M,N]" }, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] / x[r]:abs():max() end
end)
k:ir "tlie" --! hint: did you mean 'tile'?
k:ir("tile", { target = "sm_9" }) --! there is no target 'sm_9'
k:ir("tile", "sm_90a") --! kernel:ir
k.ir "tile" --! k:ir: it is called with a colon, k:ir(..), on a kernel
jit.ir("tlie", op.gelu, x) --! hint: did you mean 'tile'?
jit.ir(op.gelu, "tile", x) --! jit.ir: level must be one of 'tile', 'explicit'
jit.ir "tile" --! jit.ir: a function is needed, not nothing
jit.ir() --! jit.ir: level must be one of
jit.pin(op.gelu) --! jit.pin takes a captured function, as graph.module makes them, not the operator gelu
jit.pin(k) --! not the kernel scale
tessera.autotune.tune(x) --! autotune.tune takes a captured function, as graph.module makes them, or a kernel of op.kernel, not f32[8]
tessera.profile.report(nil) --! not nothing
tessera.profile.report(tessera.nn.Linear(2, 2), {args = {op.ones{1, 2}}}):match "in all" --> in all
tessera.profile.report(3) --! not a number

-- A training step is a captured function to all of them, also before its first call.
local train = [[
m = nn.Sequential(nn.Linear(8, 16), op.relu, nn.Linear(16, 4))
step = graph.training_step(m, function(m, x, y) return op.mse(m(x), y) end, optim.SGD(m:parameters(), {lr = 0.1}))
a, b = op.ones{32, 8}, op.ones{32, 4}
step(a, b); ]]
said(train .. "\n:ir step graph"):find("sgd_step", 1, true) ~= nil --> true
said(train .. "\n:tiles step"):find "space" ~= nil --> true
said(train .. "\n:why step"):find "matmul" ~= nil --> true
said(train .. "\n:rewrites step"):find "transposed_product" ~= nil --> true
said(train .. "\n:profile step(a, b)"):find "matmul at" ~= nil --> true
said(train .. "\n:tune step"):find "the default" ~= nil --> true

-- A text of several lines is shown as it is, another string in quotes.
said 'f:ir "graph"':find "\n  %%0 = " ~= nil --> true
said '"a"':match "[^\n]*$" --> "a"
