-- Derivatives of products with sparse matrices, by values and by what is dense.
local core = require "tessera.core"
local check = dofile "tests/grad/_check.lua"
local op = core.op
local function x(...) return check.random { ... } end
local function ints(list) return core.tensor(list, { dtype = "i64" }) end

local row, column = ints { 2, 0, 2, 2, 0 }, ints { 1, 3, 1, 0, -1 }
check("spmm_coo", { x(5), row, column, x(4, 3) }, { rows = 4 })
check("spmm_coo", { x(5), row, column, x(4) }, { rows = 4 })
check("spmm_coo", { x(5, 2, 3), row, column, x(4, 3, 2) }, { rows = 4 })
check("sddmm", { x(3, 2), x(2, 4), row, column })
check("sddmm", { x(3, 2), x(2, 4), row, column, x(5) })
local offsets, index = ints { 0, 2, 2, 5 }, ints { 3, 0, 1, 2, 1 }
check("spmm_csr", { x(5), offsets, index, x(4, 3) })
check("spmm_csr", { x(5), offsets, index, x(4) })
check("bsmm", { x(5, 2, 3), offsets, index, x(12, 2) })
check("bsmm", { x(5, 2, 3), offsets, index, x(12) })
check.narrow("spmm_csr", { x(5), offsets, index, x(4, 3) })
check.narrow("bsmm", { x(5, 2, 3), offsets, index, x(12, 2) })

-- The gradients are the other products: of x by the transpose, of values at the places of entries.
local graph = require "tessera.graph"
local v, d, g = x(5), x(4, 3), x(4, 3)
local function value(v, d) return op.sum(op.spmm_coo(v, row, column, d, { rows = 4 }) * g) end
graph.grad(function(v) return value(v, d) end)(v):hash() == op.sddmm(g, d:T(), row, column):hash() --> true
graph.grad(function(d) return value(v, d) end)(d):hash() == op.spmm_coo(v, column, row, g, { rows = 4 }):hash() --> true

-- Captured, both make nothing of entries x columns.
local entries, wide = ints { 4, 0, 1, 2, 3, 0, 1 }, x(5, 11)
local slopes = graph.grad(function(w, d) return op.sum(op.square(op.spmm_csr(w, ints { 0, 3, 3, 7 }, entries, d))) end, { 1, 2 })
slopes(x(7), wide)
slopes:ir("graph"):find("7,11", 1, true) --> nil
