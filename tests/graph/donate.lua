-- Arguments that the caller gives away: results take over their bytes where nobody else looks
-- at them.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local f = graph.module("f", function(x, s) return x * 2 + s end, { donate = { 1 } })
local x, s = op.ones { 4 }, op.full({ 4 }, 3)
local at = x:data_ptr()
local y = f(x, s)
y:totable() --> {5, 5, 5, 5}
y:data_ptr() == at --> true
s:totable() --> {3, 3, 3, 3}
-- A view keeps its bytes, and so does an argument that is given twice.
local z = op.ones { 4 }
local v = z:narrow(0, 0, 2)
f(z, s):totable() --> {5, 5, 5, 5}
v:totable() --> {1, 1}
z:totable() --> {1, 1, 1, 1}
f(z, z):totable() --> {3, 3, 3, 3}
-- What is read after the result is made cannot be taken over.
local g = graph.module("g", function(x) return x * 2, x:sum() end, { donate = { 1 } })
local w = op.ones { 4 }
select(2, g(w)):item() --> 4
-- The mean of an argument in the result's shape only: no donation by type.
local h = graph.module("h", function(x) return x:cast("f64") * 2 end, { donate = { 1 } })
h(op.ones { 2 }):totable() --> {2, 2}
