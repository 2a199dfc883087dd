-- Products with sparse matrices that run at once have the bits of their definition, as derivatives have, and its messages.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local function same(a, b) return a.dtype == b.dtype and a:hash() == b:hash() end
local function whole(t, d) return tessera.tensor(t, { dtype = d or "i64" }) end
local coo = {}
local function steps_coo(rows)
  coo[rows] = coo[rows] or graph.module(function(v, r, c, x) return op.spmm_coo(v, r, c, x, { rows = rows }) end)
  return coo[rows]
end
local steps_csr = graph.module(function(v, o, c, x) return op.spmm_csr(v, o, c, x) end)
local steps_sddmm = graph.module(function(a, b, r, c, v) return op.sddmm(a, b, r, c, v) end)

local seed = 0
local function normal(shape, dtype)
  seed = seed + 1
  return op.normal(shape, { seed = seed, stream = 1 }):cast(dtype)
end
local function places(n, most)
  seed = seed + 1
  return (op.uniform({ n }, { seed = seed, stream = 2 }) * most):cast "i64"
end

-- Rows in no order, several entries of one place, rows without any; columns that fill registers, and not.
local wrong = {}
for _, d in ipairs { "f32", "f64" } do
  for _, n in ipairs { 0, 1, 2, 7, 8, 16, 33, 64, 100, 200 } do
    local e, m, k = 300, 40, 23
    local v, x, row, column = normal({ e }, d), normal({ k, n }, d), places(e, m - 3), places(e, k)
    local y = op.spmm_coo(v, row, column, x, { rows = m })
    if not same(y, steps_coo(m)(v, row, column, x)) then wrong[#wrong + 1] = "coo " .. d .. n end
    local sorted, order = row:sort()
    local by_row = op.spmm_coo(v:index_select(order), sorted, column:index_select(order) - k, x, { rows = m })
    if not same(by_row, y) then wrong[#wrong + 1] = "sorted " .. d .. n end
    local offsets = op.concat { whole { 0 }, op.one_hot(row, { classes = m }):cast("i64"):sum({ axis = 0 }):cumsum { axis = 0 } }
    local csr = op.spmm_csr(v:index_select(order), offsets, column:index_select(order):cast "i32", x)
    if not same(csr, y) or not same(csr, steps_csr(v:index_select(order), offsets, column:index_select(order), x)) then
      wrong[#wrong + 1] = "csr " .. d .. n
    end
    if n > 0 then
      local a = normal({ m, n }, d)
      for _, b in ipairs { normal({ n, k }, d), x:T() } do
        if not same(op.sddmm(a, b, row, column, v), steps_sddmm(a, b, row, column, v)) then wrong[#wrong + 1] = "sddmm " .. d .. n end
      end
    end
  end
end
table.concat(wrong, " ") -->
local v = normal({ 4 }, "f32")
local line = normal({ 3 }, "f32")
local from_end = op.spmm_coo(v, whole { 1, 0, 1, -1 }, whole { 0, 2, 2, 1 }, line, { rows = 3 })
same(from_end, op.spmm_coo(v, whole { 1, 0, 1, 2 }, whole { 0, 2, 2, 1 }, line:unsqueeze(1), { rows = 3 }):reshape(3)) --> true

-- Gradients, beside those of the steps.
local function grads(f, ...)
  local given, y = { ... }, nil
  for i = 1, #given do
    given[i] = given[i]:detach():clone()
    given[i].requires_grad = true
  end
  y = f(unpack(given))
  local by = op.cos(op.arange(op.ones_like(y):sum():item()):cast(y.dtype)):reshape(y.shape)
  ;(y * by):sum():backward()
  for i = 1, #given do given[i] = given[i].grad end
  return given
end
local row, column = places(60, 9), places(60, 7)
local values, x, a, b = normal({ 60 }, "f64"), normal({ 7, 5 }, "f64"), normal({ 9, 5 }, "f64"), normal({ 5, 7 }, "f64")
local function compare(f, g, ...)
  local p, q = grads(f, ...), grads(g, ...)
  for i = 1, #p do
    if not same(p[i], q[i]) then return i end
  end
  return true
end
local function product(v_, x_) return op.spmm_coo(v_, row, column, x_, { rows = 9 }) end
local function by_steps(v_, x_)
  local y = v_:unsqueeze(1) * op.index_select(x_, column, { axis = 0 })
  return op.index_add(op.zeros({ 9, 5 }, { dtype = "f64" }), row, y, { axis = 0 })
end
compare(product, by_steps, values, x) --> true
compare(function(v_, x_) return product(v_, x_:unsqueeze(1)):reshape(9) end, product, values, normal({ 7 }, "f64")) --> true
local function elements(a_, b_, v_) return op.sddmm(a_, b_, row, column, v_) end
local function elements_by_steps(a_, b_, v_)
  return v_ * (op.index_select(a_, row, { axis = 0 }) * op.index_select(b_:T(), column, { axis = 0 })):sum { axis = 1 }
end
compare(elements, elements_by_steps, a, b, values) --> true
local offsets = whole { 0, 20, 20, 45, 60 }
local function by_offsets(v_, x_) return op.spmm_csr(v_, offsets, column, x_) end
local function by_rows(v_, x_) return op.spmm_coo(v_, op.csr_rows(offsets, { entries = 60 }), column, x_, { rows = 4 }) end
compare(by_offsets, by_rows, values, x) --> true

op.spmm_csr(v, whole { 1, 4 }, whole { 0, 0, 0, 0 }, x:cast "f32") --! spmm_csr: offsets begin at 1, not 0
op.spmm_csr(v, whole { 0, 3, 2, 4 }, whole { 0, 0, 0, 0 }, x:cast "f32") --! spmm_csr: row 1 begins at entry 3 and ends at 2
op.spmm_csr(v, whole { 0, 3 }, whole { 0, 0, 0, 0 }, x:cast "f32") --! spmm_csr: offsets end at 3, of 4 entries
op.spmm_csr(v, whole { 0, 4 }, whole { 0, 0, 7, 0 }, x:cast "f32") --! spmm_csr: index 7 is out of range
op.spmm_coo(v, whole { 0, 4, 0, 0 }, whole { 0, 0, 6, 0 }, x:cast "f32", { rows = 4 }) --! spmm_coo: index 4 is out of range
op.sddmm(a, b, whole { 9 }, whole { 0 }) --! sddmm: index 9 is out of range
op.sddmm(a, b, whole { 0 }, whole { 7 }) --! sddmm: index 7 is out of range

-- Blocks in any order: those of bsmm where they stand by rows, and the product of the whole matrix.
do
  local rng = require "tessera".rng
  local entries, p, q, n = 30, 13, 40, 37
  local blocks, x = rng.normal { entries, p, q }, rng.normal { 6, q, n }
  local row, column = (rng.uniform { entries } * 5):cast "i64", (rng.uniform { entries } * 6):cast "i64"
  local y = op.spmm_coo(blocks, row, column, x, { rows = 5 })
  local order = op.argsort(row)
  local sorted = op.spmm_coo(blocks:index_select(order), row:index_select(order), column:index_select(order), x, { rows = 5 })
  assert(y:hash() == sorted:hash())
  local offsets = op.concat { op.zeros({ 1 }, { dtype = "i64" }), op.bincount(row, { length = 5 }):cumsum() }
  local by_rows = op.bsmm(blocks:index_select(order), offsets, column:index_select(order), x:reshape(6 * q, n))
  assert(by_rows:reshape(5, p, n):hash() == y:hash())
  local sum = op.index_add(op.zeros { 5, p, n }, row, op.matmul(blocks, x:index_select(column)), { axis = 0 })
  assert(sum:hash() == y:hash())
end
