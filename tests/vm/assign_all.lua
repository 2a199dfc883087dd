-- Several assignments together: all or none, whatever the one that cannot be is.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
local a, spread = op.zeros { 2 }, op.zeros({ 1 }):broadcast_to { 3 }
core.assign_all({ a, spread }, { op.ones { 2 }, op.ones { 3 } }) --! overlap
a:totable() --> {0, 0}
core.assign_all({ a, op.zeros { 3 } }, { op.ones { 2 }, op.ones { 4 } }) --! does not fit
a:totable() --> {0, 0}
-- One value for two, a part of a destination for another, gradients behind one that is no leaf.
local b, value = op.zeros { 2 }, op.ones { 2 }
core.assign_all({ a, b }, { value, value })
a:totable() --> {1, 1}
b:totable() --> {1, 1}
core.assign_all({ a["0:1"], a["1:2"] }, { a["1:2"] + 1, a["0:1"] + 2 })
a:totable() --> {2, 3}
local w = op.ones { 2 }
w.requires_grad = true
local y = w * 2
core.assign_all({ y["0:1"] }, { op.full({ 1 }, 7) })
y:sum():backward()
w.grad:totable() --> {0, 2}
