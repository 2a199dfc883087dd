-- Arguments of which one is changed in place are refused exactly if they share an element.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local x = op.arange(24):cast "f32"
local views = {}
for _, key in ipairs { "::2", "1::2", "::3", "1::3", "0:12", "12:24", "11:13", "5:5", "2:9:4", "23:24", "::-1", "::5", "22::-2" } do
  views[#views + 1] = x[key]
end
local m = x:reshape(4, 6)
for _, v in ipairs { m["0:2"], m["2:4"], m[":, 0:3"], m[":, 3:6"], m["::2, ::2"], m["1::2, ::2"], m["::2, 1::2"], m:T()["::2"],
  m:T()["1::2"], m["1:3, 2:4"], m:select(1, 3), m:select(0, 1), m:T()["2:3"], x:reshape(2, 3, 4):permute { 2, 0, 1 }["1::2"],
  x:reshape(2, 3, 4)["::, 1:2, ::3"], x:unfold(0, 4, 6):select(1, 0) } do
  views[#views + 1] = v
end
local function set(t)
  local elements = {}
  t = t:reshape(-1)
  for i = 0, t.numel - 1 do elements[t[i]:item()] = true end
  return elements
end
local f = graph.module("f", function(a, b) a:add_(0) return b * 1 end)
local sets, wrong, refused = {}, {}, 0
for i, v in ipairs(views) do sets[i] = set(v) end
for i, a in ipairs(views) do
  for j, b in ipairs(views) do
    local share = false
    for k in pairs(sets[j]) do share = share or sets[i][k] end
    local ok, why = pcall(f, a, b)
    if ok == (share or false) or not (ok or tostring(why):find "two arguments share elements") then wrong[#wrong + 1] = i .. " " .. j end
    refused = refused + (ok and 0 or 1)
  end
end
table.concat(wrong, ", ") --> 
refused > #views and refused < #views * #views --> true
-- Numbers of two sizes over the same bytes.
local z = op.complex(op.ones { 4 }, op.zeros { 4 })
local parts = z:real_view()
local g = graph.module("g", function(a, b) a:add_(1) return b:abs() end)
g(parts[":, 0"], z["0:2"]) --! share elements
g(parts["2:4"], z["0:2"]) --> [1. 1.]
--> f32[2]
-- Captured tensors: one part is changed, the other one read.
local a, b, c = x["::2"], x["1::2"], x["2:4"]
local h = graph.module("h", function(y) a:add_(y) return b * 1 end)
h(op.ones { 12 })["0:3"] --> [1. 3. 5.]
--> f32[3]
x["0:4"] --> [1. 1. 3. 3.]
--> f32[4]
graph.module("k", function(y) a:add_(y) return c * 1 end)(op.ones { 12 }) --! a view is changed in place
