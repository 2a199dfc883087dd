-- The text of graphs over a mesh: read and printed again it is the same; what is wrong in it is an error.
local tessera = require "tessera"
local core, dist, op, graph = tessera.core, tessera.dist, tessera.op, tessera.graph

local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }
local x = dist.tensor { shape = { 8, 6 }, mesh = mesh, layout = { "dp", "tp" }, init = "normal" }
local w = dist.tensor { shape = { 6, 4 }, mesh = mesh, layout = { "tp" }, init = "normal" }
local f = graph.module("f", function(a, b) return op.matmul(a, b):relu(), a:reshard { { "tp", "dp" }, block = 2 } end)
f(x, w)
local text = f:ir "graph"
text:match "^[^\n]*" --> mesh {dp=2 tp=2} on [0,0,0,0]
print(text:match "(graph.*)\n") --> graph @f(%a: f32[8@dp,6@tp], %b: f32[6@tp,4]) -> %0, %1 {
-->   %0 = matmul %a, %b {epilogue="relu"} : f32[8@dp,4]
-->   %1 = reshard %a {spec="tp*dp/2,"} : f32[8@tp*dp/2,6]
--> }
assert(core.graph_parse(text) == text)

-- Leaves, and devices that are only planned with.
local planned = dist.Mesh { axes = { "a" }, shape = { 3 }, devices = { false, false, false } }
local g = graph.module("g", function(y) return y:sum { axis = 0 } end)
local y = dist.tensor { shape = { 12, 2 }, mesh = planned, layout = { "a", leaves = 6 }, dtype = "bf16" }
g(y)
print((g:ir "graph"):match "(.*)\n") --> mesh {a=3} leaves 6
--> graph @g(%y: bf16[12@a,2]) -> %0 {
-->   %0 = sum %y {axis=[0]} : bf16[2]
--> }
assert(core.graph_parse(g:ir "graph") == g:ir "graph")

local function read(head, type) return assert(core.graph_parse(head .. "graph @h(%x: " .. type .. ") -> %x {\n}\n")) end
read("mesh {a=2 b=3}\n", "f32[4@a*b/2,8]"):match "%%x: %S+" --> %x: f32[4@a*b/2,8])
-- What is in parentheses splits how it is kept alone.
read("mesh {dp=2 tp=2}\n", "f32[8@tp*(dp),6,4@(dp)]") --! mesh axis dp splits two axes
read("mesh {dp=2 tp=2}\n", "f32[8@tp*(dp),6]"):match "%%x: %S+" --> %x: f32[8@tp*(dp),6])
read("mesh {dp=2 tp=2}\n", "f32[8@(tp*dp)/2]"):match "%%x: %S+" --> %x: f32[8@(tp*dp)/2])
read("mesh {dp=2 tp=2}\n", "f32[8@(dp]") --! expected ')'
read("mesh {dp=2 tp=2}\n", "f32[8@()]") --! an axis of the mesh
read("", "f32[4@a]") --! no mesh stands before the graph
read("mesh {a=2}\n", "f32[4@b]") --! the mesh has no axis b
read("mesh {a=2}\n", "f32[4@a,4@a]") --! mesh axis a splits two axes
read("mesh {a=2}\n", "f32[4@a/0]") --! a block has 1 element at least
read("mesh {a=0}\n", "f32[4]") --! a number from 1 to 4096 stands here
read("mesh {a=4096 b=4096}\n", "f32[4]") --! a mesh has at most 4096 devices
read("mesh {a=2 a=2}\n", "f32[4]") --! the mesh has two axes 'a'
read("mesh {a=2} on [0]\n", "f32[4]") --! 1 devices for a mesh of 2
read("mesh {a=2} on [0,99]\n", "f32[4]") --! a number from 0 to
read("mesh {a=2} leaves 0\n", "f32[4]") --! a number from 1 to 4096
read("mesh {}\n", "f32[4]") --! a mesh has 1 to
read("mesh {a=2\n", "f32[4]") --! expected '=' and a size
assert(core.graph_parse((text:gsub("4] ", "4@tp] "):gsub("f32%[8@dp,4%]", "f32[8@tp,4]")))) --! the line says f32[8@tp,4]
