-- Derivatives of reading and writing by index and by mask.
local core = require "tessera.core"
local check = dofile "tests/grad/_check.lua"
local function x(...) return check.random { ... } end
local function i(...) return core.tensor({ ... }, { dtype = "i64" }) end
local c = check.complex

check("gather", { x(3, 4), i({ 0, -1 }, { 3, 3 }) }, { axis = 1 })
check("gather", { c { 3, 2 }, i({ 2, 0 }) }, { axis = 0 })
check("scatter", { x(3, 4), i({ 0, 2 }, { 3, 3 }), x(2, 2) }, { axis = 1 })
check("scatter", { x(4), i(1, 3, 1, 1), x(4) }, { axis = 0 })
check("scatter", { x(4, 3), i({ 1, 3, 1 }, { 1, 0, 2 }), x(1) }, { axis = 0 })
check("scatter", { c { 3 }, i(2), c { 1 } }, { axis = 0 })
check("scatter_add", { x(3, 4), i({ 0, 2 }, { 3, 3 }), x(2, 2) })
check("scatter_add", { c { 4 }, i(1, 3, 1), x(1) })
check("take", { x(2, 3), i({ 5, 0 }, { -1, 5 }) })
check("take", { c { 2, 3 }:T(), i(1, 1) })
check("index_select", { x(3, 2, 2), i(1, 0, 1, -2) }, { axis = 1 })
check("index_select", { c { 3, 2 }, i({ 2, 2 }, { 0, 2 }) })
check("index_select", { x(3), core.tensor(2, { dtype = "i64" }) })
check("index_add", { x(3, 4), i(1, 1), x(2, 4) })
check("index_add", { x(3, 4), i({ 0, 3 }, { 3, 3 }), x(3, 2, 2) }, { axis = -1 })
local mask = core.tensor({ { true, false, true }, { false, false, true } })
check("masked_select", { x(2, 3), mask })
check("masked_select", { c { 3 }, mask })
check("masked_select", { x(2, 3), core.tensor { false } })
check("masked_scatter", { x(2, 3), mask, x(3) })
check("masked_scatter", { c { 2, 3 }, mask:select(0, 0), x(2, 2) })
check("masked_fill", { x(2, 3), mask }, { value = 2 })
check("nonzero", { x(2, 3) })

check.narrow("gather", { x(3, 4), i({ 0, 0, 0, 0 }) }, { axis = 0 }, 2)
check.narrow("index_select", { x(3, 2), i(1, 1, 1, 0, 1) }, {}, 2)
check.narrow("masked_select", { x(2, 3), mask })
