-- Products with sparse matrices on a device against the CPU: entries by rows and in no order, sums and columns of one and of many
-- elements, indices that are wrong; and gradients of a captured function.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
local check, random = on.check, on.random
local name = on.name

local ENTRIES, ROWS, INNER = 500, 30, 40
local function places(most, dtype) return (rng.uniform { ENTRIES } * most):cast(dtype or "i64") end
for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
  for _, n in ipairs { 1, 3, 37, 300, 5000 } do
    local row, column = places(ROWS - 2), places(INNER, "i32") - (n == 3 and INNER or 0)
    local values, x, a = random({ ENTRIES }, d), random({ INNER, n }, d), random({ ROWS, n }, d)
    check("spmm_coo " .. d, function(v, r, c, y) return op.spmm_coo(v, r, c, y, { rows = ROWS }) end, values, row, column, x)
    check("sddmm " .. d, op.sddmm, a, x:T(), row, column)
    check("sddmm by values " .. d, op.sddmm, a, x:T():contiguous(), row, column, values)
    if n == 3 then
      check("spmm_coo of a vector " .. d, function(v, r, c, y) return op.spmm_coo(v, r, c, y, { rows = ROWS }) end, values, row,
        column, random({ INNER }, d))
    end
  end
end

-- Blocks: of one row and column and of more than a tile has.
for i, c in ipairs { { 2, 3, 2 }, { 16, 16, 70 }, { 33, 130, 37 }, { 1, 1, 1 } } do
  local p, q, n = unpack(c)
  for _, d in ipairs(i == 1 and { "f32", "f64", "bf16", "f16" } or { "f32" }) do
    local first = op.concat { op.zeros({ 1 }, { dtype = "i64" }), (rng.uniform { 10 } * 4):cast("i64"):cumsum() }
    local entries = first[-1]:item()
    local blocks, row = random({ entries, p, q }, d), (rng.uniform { entries } * 10):cast "i64"
    local column = (rng.uniform { entries } * 12):cast "i32" - 6
    check("bsmm " .. d, op.bsmm, blocks, first, column, random({ 6 * q, n }, d))
    check("blocks in no order " .. d, function(b, r, c, x) return op.spmm_coo(b, r, c, x, { rows = 10 }) end, blocks, row, column, random({ 6, q, n }, d))
  end
end

-- Entries that stand by rows, in a function and in its gradients.
local offsets = op.concat { op.zeros({ 1 }, { dtype = "i64" }), op.bincount(places(ROWS - 1), { length = ROWS }):cumsum() }
local column, by = places(INNER), random { ROWS, 33 }
local slopes = graph.grad(function(v, x, o, c, g) return (op.spmm_csr(v, o, c, x):square() * g):sum() end, { 1, 2 })
local values, x = random { ENTRIES }, random { INNER, 33 }
local there = {}
for i, t in ipairs { values, x, offsets, column, by } do there[i] = t:to(name) end
local want, got = { slopes(values, x, offsets, column, by) }, nil
for _ = 1, 3 do got = { slopes(unpack(there)) } end
got[1]:to("cpu"):hash() == want[1]:hash(), got[2]:to("cpu"):hash() == want[2]:hash() --> true, true

-- Rows of entries: empty ones, one, many.
for i, counts in ipairs { { 3 }, { 0, 0, 4, 0, 1, 0 }, { 700 }, { 0, 1 } } do
  for _, d in ipairs { "i64", "i32" } do
    local first = op.concat { op.zeros({ 1 }, { dtype = "i64" }), tessera.tensor(counts, { dtype = "i64" }):cumsum() }
    check("csr_rows " .. i, function(o) return op.csr_rows(o, first[-1]:item()) end, first:cast(d))
  end
end
check("csr_rows", function(o) return op.csr_rows(o, ENTRIES) end, offsets)
local many = op.concat { op.zeros({ 1 }, { dtype = "i64" }), (rng.uniform { 3000 } * 4):cast("i64"):cumsum() }
check("csr_rows of many", function(o) return op.csr_rows(o, many[-1]:item()) end, many)

local function wrong(f, ...)
  local t = {}
  for i, v in ipairs { ... } do t[i] = v:to(name) end
  local _, why = pcall(function() return f(unpack(t)):sum():item() end)
  return tostring(why):match "(%S+: index[^\n]*)" or tostring(why):match "(%S+: row[^\n]*)" or tostring(why):match "(%S+: offsets[^\n]*)"
end
local v, bad, fine = op.ones { 3 }, tessera.tensor({ 0, 1, 9 }, { dtype = "i64" }), op.zeros({ 3 }, { dtype = "i64" })
local function product(w, r, c, y) return op.spmm_coo(w, r, c, y, { rows = 3 }) end
wrong(product, v, bad, fine, op.ones { 2, 2 }) --> spmm_coo: index 9 is out of range for axis 0 of f32[3,2], of size 3
wrong(product, v, fine, bad, op.ones { 2, 2 }) --> spmm_coo: index 9 is out of range for axis 0 of f32[2,2], of size 2
wrong(op.sddmm, op.ones { 2, 2 }, op.ones { 2, 12 }, bad, bad) --> sddmm: index 9 is out of range for axis 0 of f32[2,2], of size 2
wrong(op.sddmm, op.ones { 12, 2 }, op.ones { 2, 2 }, bad, bad) --> sddmm: index 9 is out of range for axis 1 of f32[2,2], of size 2

local function rows(list, n)
  return wrong(function(o) return op.csr_rows(o, n) end, tessera.tensor(list, { dtype = "i64" }))
end
rows({ 0, 2, 1 }, 1) --> csr_rows: row 1 begins at entry 2 and ends at 1
rows({ 0, -1, 1 }, 1) --> csr_rows: row 0 begins at entry 0 and ends at -1
rows({ 1, 2 }, 2) --> csr_rows: offsets begin at 1, not 0
rows({ 0, 1, 2 }, 3) --> csr_rows: offsets end at 2, of 3 entries
wrong(op.spmm_csr, v, tessera.tensor({ 0, 3, 2 }, { dtype = "i64" }), fine, op.ones { 2, 2 }) --> spmm_csr: row 1 begins at entry 3 and ends at 2
