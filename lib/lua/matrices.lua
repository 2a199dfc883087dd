-- Functions of matrices, made of operators of linear algebra. Loaded by op when one is first named
-- (named_functions.lua).

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need = options.argument
local TENSOR, FLAG, WHOLE, SIZE = options.tensor, options.flag, options.whole(), options.number { least = 0 }
local M = {}

local function adjoint(x) return x.dtype:match "^complex" and x:T():conj() or x:T() end

-- svdvals(a): the singular values of op.svd alone, descending.
--   s = op.svdvals(op.eye(3))
function M.svdvals(a)
  local _, s = op.svd(need("svdvals", "a", TENSOR, a))
  return s
end

-- eigvalsh(a): the eigenvalues of op.eigh alone, ascending.
--   w = op.eigvalsh(op.eye(3))
function M.eigvalsh(a) return (op.eigh(need("eigvalsh", "a", TENSOR, a))) end

-- matrix_power(a, n): a product of n times a, by squaring; of n < 0 of inverses.
--   y = op.matrix_power(op.eye(3) * 2, 3)
function M.matrix_power(a, n)
  need("matrix_power", "a", TENSOR, a)
  need("matrix_power", "n", WHOLE, n)
  if n < 0 then a, n = op.inv(a), -n end
  local y
  if n == 0 then
    local one = op.eye(a.shape[a.ndim], { dtype = a.dtype }):to(a.device)
    return op.broadcast_to(one, { shape = a.shape }) * 1
  end
  while true do
    if n % 2 == 1 then y = y and y:matmul(a) or a end
    n = math.floor(n / 2)
    if n == 0 then return y end
    a = a:matmul(a)
  end
end

-- multi_dot(list): the product of several matrices, the first and the last may be vectors, in the order that multiplies
-- least.
--   y = op.multi_dot{op.ones{10, 100}, op.ones{100, 5}, op.ones{5, 50}}      -- f32[10,50]
function M.multi_dot(list)
  options.tensors("multi_dot", "matrix", list)
  local n = #list
  if n < 2 then core.fail "multi_dot: two matrices at least are needed" end
  local x, first, last = { unpack(list) }, list[1].ndim == 1, list[n].ndim == 1
  if first then x[1] = x[1]:unsqueeze(0) end
  if last then x[n] = x[n]:unsqueeze(1) end
  local size = { [0] = x[1].shape[1] }
  for i = 1, n do size[i] = x[i].shape[2] end
  local cost, cut = {}, {}
  for i = 1, n do cost[i], cut[i] = { [i] = 0 }, {} end
  for length = 1, n - 1 do
    for i = 1, n - length do
      local j = i + length
      for k = i, j - 1 do
        local c = cost[i][k] + cost[k + 1][j] + size[i - 1] * size[k] * size[j]
        if not cost[i][j] or c < cost[i][j] then cost[i][j], cut[i][j] = c, k end
      end
    end
  end
  local function product(i, j)
    if i == j then return x[i] end
    return product(i, cut[i][j]):matmul(product(cut[i][j] + 1, j))
  end
  local y = product(1, n)
  if first then y = y:squeeze(0) end
  return last and y:squeeze(-1) or y
end

local ORDER = options.kind("a number, 'fro' or 'nuc'", function(v) return type(v) == "number" or v == "fro" or v == "nuc" end)
local read_norm = options.placed("matrix_norm", { ord = ORDER, keepdims = FLAG }, { ord = "fro", keepdims = false }, { "ord", "keepdims" })
-- matrix_norm(a, {ord = "fro", keepdims = false}): a norm of the matrices in the last two axes: "fro" the root of the sum
-- of squares, "nuc" the sum of singular values; 2 and -2 the largest and least of those, 1 and -1 sums of columns, inf
-- and -inf of rows.
--   y = op.matrix_norm(op.eye(3), 2)      -- 1
function M.matrix_norm(a, ...)
  need("matrix_norm", "a", TENSOR, a)
  local o = read_norm(...)
  local ord, y = o.ord, nil
  local function last(v) return v:reshape { unpack(a.shape, 1, a.ndim - 2) } end
  if ord == "fro" then
    y = op.norm(a, { axis = { -2, -1 } })
  elseif ord == "nuc" then
    y = M.svdvals(a):sum { axis = -1 }
  elseif ord == 2 or ord == -2 then
    local s = M.svdvals(a)
    y = ord > 0 and s:max { axis = -1 } or s:min { axis = -1 }
  elseif math.abs(ord) == 1 or math.abs(ord) == math.huge then
    local sums = a:abs():sum { axis = math.abs(ord) == 1 and -2 or -1 }
    y = ord > 0 and sums:max { axis = -1 } or sums:min { axis = -1 }
  else
    core.fail(("matrix_norm: ord %s is none of 'fro', 'nuc', 1, 2, inf and their negatives"):format(tostring(ord)))
  end
  y = last(y)
  return o.keepdims and y:unsqueeze(-1):unsqueeze(-1) or y
end

-- matrix_cond(a [, p]): the condition number, norms of order p of a and of its inverse multiplied; by default the largest
-- singular value over the least.
--   y = op.matrix_cond(op.eye(3))      -- 1
function M.matrix_cond(a, p)
  need("matrix_cond", "a", TENSOR, a)
  if p == nil or p == 2 then
    local s = M.svdvals(a)
    return s:max { axis = -1 } / s:min { axis = -1 }
  elseif p == -2 then
    local s = M.svdvals(a)
    return s:min { axis = -1 } / s:max { axis = -1 }
  end
  return M.matrix_norm(a, p) * M.matrix_norm(op.inv(a), p)
end

local read_rank = options.placed("matrix_rank", { rtol = SIZE, atol = SIZE }, { atol = 0 }, { "rtol", "atol" })
-- matrix_rank(a, {rtol, atol = 0}): how many singular values are above rtol times the largest, or atol; rtol is the larger size
-- times eps of the type by default.
--   y = op.matrix_rank(op.ones{3, 3})      -- 1
function M.matrix_rank(a, ...)
  local o = read_rank(...)
  local s = M.svdvals(a)
  local eps = s.dtype == "f64" and 2 ^ -52 or 2 ^ -23
  local rtol = o.rtol or o.atol > 0 and 0 or math.max(a.shape[a.ndim], a.shape[a.ndim - 1]) * eps
  local limit = op.maximum(s:max { axis = -1, keepdims = true } * rtol, o.atol)
  return op.gt(s, limit):sum { axis = -1 }
end

local read_cholesky = options.placed("cholesky_solve", { upper = FLAG }, { upper = false }, { "upper" })
-- cholesky_solve(b, l, {upper = false}): x with a x = b, l being op.cholesky(a), or its upper form.
--   l = op.cholesky(op.eye(3) * 4)
--   x = op.cholesky_solve(op.ones{3, 1}, l)      -- 0.25
function M.cholesky_solve(b, l, ...)
  need("cholesky_solve", "l", TENSOR, l)
  if read_cholesky(...).upper then l = adjoint(l) end
  return op.tri_solve(adjoint(l), op.tri_solve(l, b), { lower = false })
end

-- vecdot(x, y [, axis]): the sum of conj(x) y along axis, by default the last.
--   y = op.vecdot(op.ones{2, 3}, op.ones{2, 3})      -- 3, 3
function M.vecdot(x, y, axis)
  need("vecdot", "x", TENSOR, x)
  return (op.conj(x) * y):sum { axis = axis or -1 }
end

return M
