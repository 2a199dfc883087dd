-- What a program chooses for kernels, at operators and by f:choose: taken, or rounded with a remark; never ignored without a
-- word. Errors say what there is.
local ts = require "tessera"
local core = require "tessera.core"
local op, rng, graph, jit = ts.op, ts.rng, ts.graph, ts.jit
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
jit.eager(true)
ts.autotune.mode "off" -- what others measured on this machine
local a, b, c = rng.normal({ 100, 64 }, { seed = 1 }), rng.normal({ 64, 99 }, { seed = 2 }), rng.normal({ 99 }, { seed = 3 })

-- ---- at operators
local f = graph.module("f", function(a, b, c)
  local h = op.gelu(op.matmul(a, b, { rows = 50, threads = 64 }) + c)
  return op.softmax(h, { stages = 9, columns = 3 }), (a * 2):relu { unroll = 3 }
end)
local plain = graph.module("plain", function(a, b, c)
  return op.softmax(op.gelu(op.matmul(a, b) + c)), (a * 2):relu()
end)
local want = { plain(a, b, c) }
local have = { f(a, b, c) }
have[1]:hash() == want[1]:hash() and have[2]:hash() == want[2]:hash() --> true
local why, tiles = f:ir "why", f:ir "tiles"
for _, text in ipairs { why, tiles } do
  text:match "remark: threads = 64 has no effect: a matrix product for %w+ has no such choice; it has rows, columns, depth, high, pack\n" ~= nil --> true
  text:match "remark: rows = 50 becomes %d+: whole register tiles, as far as the result goes\n" ~= nil --> true
  text:match "remark: stages = 9 becomes 4: 1 to 4\n" ~= nil --> true
  text:match "remark: columns = 3 has no effect: a kernel of rows for %w+ has no such choice; it has stages, unroll, vector, grain, stream\n" ~= nil --> true
  text:match "remark: unroll = 3 becomes 4: powers of two from 1 to 8\n" ~= nil --> true
  text:match "choice: unroll 4, chosen by the user" ~= nil --> true
end
-- What a product takes into itself leaves it what was chosen for it; and the text says it, and reads it.
local text = f:ir "graph"
text:match 'matmul %%a, %%b, %%c {epilogue="bias_gelu"} choose "rows 50 threads 64"' ~= nil --> true
text:match 'relu [^\n]* choose "unroll 3"' ~= nil --> true
ts.core.graph_load(text):text "graph" == text --> true
local heads = graph.module("heads", function(q)
  return op.matmul(op.softmax(op.matmul(q, q:transpose(-1, -2)) * 0.25, { grain = 3 }), q)
end)
local q = rng.normal({ 2, 4, 200, 16 }, { seed = 5 })
local plainly = heads(q):hash()
heads:ir("graph"):match 'attention [^\n]*choose "grain 3"' ~= nil --> true
heads:ir("why"):match "remark: grain = 3 has no effect: " ~= nil --> true
-- What only reads it does not have it.
local chain = graph.module("chain", function(a, b) return op.matmul(op.matmul(a, b, { rows = 12 }), b:T()) * 1 end)
chain(a, b)
select(2, chain:ir("graph"):gsub("choose", "")) --> 1
-- Two calls that choose differently are two.
local two = graph.module("two", function(a) return op.exp(a, { unroll = 2 }) * op.exp(a, { unroll = 8 }) end)
two(a)
select(2, two:ir("graph"):gsub("exp", "")) --> 2
-- An operator without choices, and one that has no kernel at all.
local none = graph.module("none", function(a) return op.sort(a, { stages = 2 }), op.matmul(a["0:4, 0:4"], a["0:4, 0:4"], { rows = 8 }) end)
none(a)
none:ir("why"):match "remark: stages = 2 has no effect: the VM runs this operator, with kernels of its own\n" ~= nil --> true
none:ir("why"):match "remark: rows = 8 has no effect: the VM runs this operator, with kernels of its own\n" ~= nil --> true

-- ---- errors at operators
op.matmul(a, b, { stage = 2 }) --! matmul: unknown option 'stage'
op.matmul(a, b, { stage = 2 }) --! did you mean 'stages'?
op.matmul(a, b, { stages = "x" }) --! matmul: option 'stages' must be an integer above 0, not string
op.matmul(a, b, { stages = 0 }) --! matmul: option 'stages' must be an integer above 0, not 0
op.softmax(a, { stages = 1.5 }) --! softmax: option 'stages' must be an integer above 0, not 1.5
op.softmax(a, { tile_shape = {} }) --! softmax: option 'tile_shape' must be 1 to 3 integers above 0
op.softmax(a, { tile_shape = { 1, "x" } }) --! softmax: option 'tile_shape' must be 1 to 3 integers above 0
op.conv2d(rng.normal { 1, 4, 4, 4 }, rng.normal { 4, 4, 1, 1 }, nil, { group = 2 }) --! did you mean 'groups'?

-- ---- f:choose

f(a, b, c)
plain(a, b, c)
plain:choose(1).origin --> default by the model
local x = plain:choose("softmax", { vector = 40, rows = 3 })
x.origin --> chosen by the user
x.choice --> vector 32
#x.remarks --> 2
x.remarks[1]:match "^rows = 3 has no effect: a kernel of rows for %w+ has no such choice" ~= nil --> true
x.remarks[2]:match "^vector = 40 becomes 32: powers of two from 16 to %d+$" ~= nil --> true
plain:ir("tiles"):match "choice: vector 32, chosen by the user" ~= nil --> true
plain:ir("why"):match "remark: vector = 40 becomes 32" ~= nil --> true
tostring(plain:choose(1)):match "for %w+: vector 32, chosen by the user\n  its kernel has vector = 32\n" ~= nil --> true
plain:choose(0, { tile_shape = { 12, 64 } }).choice:match "^rows %d+ columns %d+$" ~= nil --> true
have = { plain(a, b, c) }
have[1]:hash() == want[1]:hash() --> true
-- It stays where code is forgotten, and goes where it is said.
jit.flush()
plain(a, b, c)
plain:choose(1).choice --> vector 32
plain:choose(1, "default").origin --> default by the model
plain:choose(0, false).origin --> default by the model
plain:choose(1, { grain = 2 }).choice --> grain 2
plain:choose(1, nil).choice == "" --> true

plain:choose(7) --! plain:choose: there is no group 7; there is 0 matmul, 1 softmax, 2 mul relu
plain:choose("sofmax", {}) --! plain:choose: there is no group 'sofmax'; there is 0 matmul
plain:choose(0, { row = 1 }) --! plain:choose: there is no option 'row'; did you mean 'rows'?
plain:choose(0, { [1] = 1 }) --! options are rows, columns, depth, stages
plain:choose(0, { rows = "x" }) --! plain:choose: option 'rows' must be an integer above 0, not a string
plain:choose(0, { rows = -1 }) --! plain:choose: option 'rows' must be an integer above 0, not -1
plain:choose(0, { tile_shape = {} }) --! option 'tile_shape' must be 1 to 3 integers above 0
plain:choose(0, "fast") --! options are a table such as {rows = 128}, or "default", not 'fast'
plain:choose() --! plain:choose: a group's number or name comes first
none:choose(0, { stages = 2 }) --! none:choose: group 0 (sort) has no kernel, so nothing can be chosen
tostring(none:choose(0)) --> group 0 (sort): it has no kernel, so nothing can be chosen
graph.module("cold", op.tanh):choose(0) --! cold has not run yet: call it

-- Of the tuner's words: measured by this process, and not again what the program chose.
plain:choose(2, { unroll = 2 })
ts.autotune.mode "cached"
ts.autotune.budget { ms = 2000, candidates = 2 }
local records = ts.autotune.tune(plain)
records[1].why .. ": " .. records[1].kernel:match "^%w+ %w+" --> chosen by the user: mul relu
records[2].share >= records[3].share and records[2].ms > 0 --> true
plain:choose(0).origin --> tuned on this machine now
plain:choose(2).origin --> chosen by the user
plain:ir("tiles"):match "tuned on this machine now  // matmul" ~= nil --> true
local text = ts.autotune.text(records)
text:match "^mul relu at [^\n]*: not measured, chosen by the user\nmatmul at [^\n]*, %d+%% of the run time, at most [%d.]+ m?s\n +[%d.]+ [mu]?s  the default" ~= nil --> true
text:match ": not tried: the model expects less of it\n" ~= nil --> true
text:match "  <%- runs: " ~= nil --> true
ts.autotune.plan(plain):match "^plain: 2 kernels, up to 2 candidates of each, in at most 4 s, shared by run time\n  %(2 s for a kernel, [^\n]* gives more%)\n$" ~= nil --> true

-- ---- other targets are told of what their kernels would do
local g = graph.module("g", function(a, b) return op.matmul(a, b, { tile_shape = { 100, 70, 60 }, stages = 99 }) end)
local p, q = rng.normal({ 256, 256 }, { dtype = "bf16" }), rng.normal({ 256, 256 }, { dtype = "bf16" })
g(p, q)
for _, name in ipairs { "sm_90a", "sm_80" } do
  local tiles = g:ir("tiles", { target = name })
  tiles:match("rows = 100 becomes %d+: the nearest that this kernel for " .. name .. " has") ~= nil --> true
  tiles:match "depth = 60 becomes 64: " ~= nil --> true
  tiles:match "stages = 99 becomes %d+: at least 2, and as many as help and fit into %d+ KB of shared memory" ~= nil --> true
end
