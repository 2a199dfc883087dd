-- Eigenvalues of symmetric matrices that divide and conquer deflates to few poles, also to two or to one: one
-- number beside a diagonal, clustered values, Wilkinson's matrices, and such matrices glued together. What they
-- promise, real and complex, of eigh and of pinv of a Hermitian matrix.
local tessera = require "tessera"
local op = tessera.op

-- Diagonal and what stands beside it; both from 1 on.
local kinds = {}
for _, few in ipairs { 1e-9, 1e-3 } do
  kinds["diagonal and " .. few] = function(n)
    local d, e = {}, {}
    for i = 1, n do d[i], e[i] = i, few end
    return d, e
  end
  kinds["two values and " .. few] = function(n)
    local d, e = {}, {}
    for i = 1, n do d[i], e[i] = 1 + i % 2, few end
    return d, e
  end
  kinds["Wilkinson's glued by " .. few] = function(n)
    local d, e = {}, {}
    for i = 1, n do
      local at = (i - 1) % 21
      d[i], e[i] = math.abs(at - 10), at == 20 and few or 1
    end
    return d, e
  end
end
kinds["one of the diagonal apart"] = function(n)
  local d, e = {}, {}
  for i = 1, n do d[i], e[i] = i, i == math.floor(n / 2) and 0.5 or 0 end
  return d, e
end
kinds["Wilkinson's"] = function(n)
  local d, e = {}, {}
  for i = 1, n do d[i], e[i] = math.abs(i - (n + 1) / 2), 1 end
  return d, e
end
kinds["1 2 1"] = function(n)
  local d, e = {}, {}
  for i = 1, n do d[i], e[i] = 2, 1 end
  return d, e
end

local function tridiagonal(n, d, e, dtype)
  local rows = {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do rows[i][j] = i == j and d[i] or math.abs(i - j) == 1 and e[math.min(i, j)] or 0 end
  end
  return tessera.tensor(rows, { dtype = "f64" }):cast(dtype)
end

local function adjoint(x) return op.conj(x:transpose()) end
local function largest(x) return x:abs():max():cast("f64"):item() end

local bad = {}
local function check(name, n, d, most, limit)
  if not (most <= limit) then bad[#bad + 1] = ("%s, %s, n %d: %g"):format(name, d, n, most) end
end

-- A unitary matrix, for what is no longer tridiagonal.
local function turned(n, dtype)
  local a = op.normal({ n, n }, { seed = 2, stream = 1, dtype = "f64" })
  if dtype:find "complex" then a = op.complex(a, op.normal({ n, n }, { seed = 3, stream = 1, dtype = "f64" })) end
  return (op.qr(a:cast(dtype)))
end

local function same(name, n, dtype, a)
  local eps = (dtype == "f32" or dtype == "complex64") and 2 ^ -23 or 2 ^ -52
  local w, v = op.eigh(a)
  local size = largest(w)
  check(name .. ": values", n, dtype, largest(a:matmul(v) - v * w:reshape { 1, n }:cast(dtype)) / size / eps, 10 + 2 * n)
  check(name .. ": vectors", n, dtype, largest(adjoint(v):matmul(v) - op.eye(n, { dtype = dtype })) / eps, 10 + 2 * n)
  check(name .. ": order", n, dtype, (w["0:-1"]:gt(w["1:"])):any():item() and 1 or 0, 0)
  -- of what is far from singular: a values of 2 size on
  local shifted = a + 3 * size * op.eye(n, { dtype = dtype })
  local p = op.pinv(shifted, { hermitian = true })
  check(name .. ": pinv", n, dtype, largest(shifted:matmul(p) - op.eye(n, { dtype = dtype })) / eps, 10 + 2 * n)
end

for name, make in pairs(kinds) do
  for _, n in ipairs { 26, 27, 33, 40, 51, 64, 100, 200 } do
    local d, e = make(n)
    for _, dtype in ipairs { "f32", "f64", "complex64", "complex128" } do
      same(name, n, dtype, tridiagonal(n, d, e, dtype))
      if n <= 64 then -- clustered spectra of full matrices
        local u = turned(n, dtype)
        local a = u:matmul(tridiagonal(n, d, e, dtype)):matmul(adjoint(u))
        same(name .. ", turned", n, dtype, (a + adjoint(a)) * 0.5)
      end
    end
  end
end
table.concat(bad, "\n") --> 
