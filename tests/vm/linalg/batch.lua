-- Small matrices: a batch gives what its matrices give alone, bit for bit, on one thread and on two, and what
-- a factorisation promises; errors name the matrix.
local tessera = require "tessera"
local op = tessera.op

local function normal(shape, d, seed) return op.normal(shape, { seed = seed or 1, stream = #shape, dtype = d == "f32" and d or "f64" }):cast(d) end
local function largest(x) return x:abs():max():cast("f64"):item() end
local function adjoint(x) return x:transpose() end

-- {name, operands of n x n matrices, call}
local cases = {
  { "inv", function(a) return a end, function(a) return op.inv(a) end },
  { "det", function(a) return a end, function(a) return op.det(a) end },
  { "slogdet", function(a) return a end, function(a) return op.slogdet(a) end },
  { "lu", function(a) return a end, function(a) return op.lu(a) end },
  { "solve", function(a, b) return a, b end, function(a, b) return op.solve(a, b) end },
  { "lower", function(a, b) return a + 4 * op.eye(a.shape[3], { dtype = a.dtype }), b end, function(a, b) return op.tri_solve(a, b) end },
  { "upper", function(a, b) return a + 4 * op.eye(a.shape[3], { dtype = a.dtype }), b end, function(a, b) return op.tri_solve(a, b, { lower = false, transpose = true }) end },
  { "cholesky", function(a) return a:matmul(adjoint(a)) + op.eye(a.shape[3], { dtype = a.dtype }) end, function(a) return op.cholesky(a) end },
  { "upper cholesky", function(a) return a:matmul(adjoint(a)) + op.eye(a.shape[3], { dtype = a.dtype }) end, function(a) return op.cholesky(a, { upper = true }) end },
  { "qr", function(a) return a end, function(a) return op.qr(a) end },
  { "complete qr", function(a) return a end, function(a) return op.qr(a, { mode = "complete" }) end },
  { "eigh", function(a) return a + adjoint(a) end, function(a) return op.eigh(a) end },
}

local function hashes(...)
  local out = { ... }
  for i, x in ipairs(out) do out[i] = x:hash() end
  return table.concat(out, " ")
end

local count, differ = 21, {}
for _, d in ipairs { "f32", "f64", "complex64" } do
  for n = 1, 34, d == "complex64" and 11 or 1 do
    local a, b = normal({ count, n, n }, d), normal({ count, n, 3 }, d, 2)
    for _, c in ipairs(cases) do
      local x, y = c[2](a, b)
      tessera.threads(1)
      local all = { c[3](x, y) }
      tessera.threads(2)
      if hashes(unpack(all)) ~= hashes(c[3](x, y)) then differ[#differ + 1] = c[1] .. " on two threads" end
      for _, i in ipairs { 0, count - 1 } do
        local one, two = x[i], y and y[i]
        for j, z in ipairs { c[3](one, two) } do
          if z:hash() ~= all[j][i]:hash() then differ[#differ + 1] = ("%s %s %d"):format(c[1], d, n) end
        end
      end
    end
  end
end
table.concat(differ, ", ") --> 

-- what comes out is what was asked for
local bad = {}
local function near(name, n, x, y, eps)
  local most = largest(x - y)
  if not (most <= eps * (30 + 4 * n)) then bad[#bad + 1] = ("%s %d %g"):format(name, n, most / eps) end
end
for _, d in ipairs { "f32", "f64" } do
  local eps = d == "f32" and 2 ^ -23 or 2 ^ -52
  for n = 1, 34 do
    local one = op.eye(n, { dtype = d })
    local a = normal({ 9, n, n }, d) + 2 * math.sqrt(n) * one
    local b, h = normal({ 9, n, 2 }, d, 3), a + adjoint(a)
    near("inv", n, a:matmul(op.inv(a)), one, eps)
    near("solve", n, a:matmul(op.solve(a, b)), b, eps)
    local p, l, u = op.lu(a)
    near("lu", n, p:matmul(l):matmul(u), a, 4 * eps)
    local s = a:matmul(adjoint(a))
    local c = op.cholesky(s)
    near("cholesky", n, c:matmul(adjoint(c)), s, 8 * eps)
    near("half of cholesky", n, op.triu(c, { diagonal = 1 }), 0 * one, eps)
    local q, r = op.qr(a)
    near("qr", n, q:matmul(r), a, 4 * eps)
    near("q", n, adjoint(q):matmul(q), one, eps)
    local w, v = op.eigh(h)
    near("eigh", n, h:matmul(v), v * w:reshape { 9, 1, n }, 8 * eps)
    near("vectors", n, adjoint(v):matmul(v), one, 2 * eps)
  end
end
table.concat(bad, ", ") --> 

-- broadcasting, vectors, 16 bits
local a, b = normal({ 6, 4, 4 }, "f64"), normal({ 4, 2 }, "f64")
op.solve(a, b)[5]:hash() == op.solve(a[5], b):hash() --> true
op.solve(a[2], normal({ 6, 4, 2 }, "f64"))[3]:hash() == op.solve(a[2], normal({ 6, 4, 2 }, "f64")[3]):hash() --> true
op.solve(a, normal({ 4 }, "f64"))[5]:hash() == op.solve(a[5], normal({ 4 }, "f64")):hash() --> true
op.solve(a:reshape { 2, 3, 4, 4 }, normal({ 3, 4, 2 }, "f64"))[1][1]:hash() == op.solve(a[4], normal({ 3, 4, 2 }, "f64")[1]):hash() --> true
for _, d in ipairs { "f16", "bf16" } do
  local x = a:cast(d)
  op.inv(x):hash() == op.inv(x:cast("f32")):cast(d):hash() --> true
  op.det(x):hash() == op.det(x:cast("f32")):cast(d):hash() --> true
  op.qr(x):hash() == op.qr(x:cast("f32")):cast(d):hash() --> true
  op.eigh(x):hash() == op.eigh(x:cast("f32")):cast(d):hash() --> true
end

-- the matrix, and the pivot
local function spoilt(n, i, change)
  local x = normal({ 20, n, n }, "f64")
  x = x:matmul(adjoint(x)) + op.eye(n, { dtype = "f64" })
  change(x[i])
  return x
end
for _, n in ipairs { 3, 8, 17, 40 } do
  local z = spoilt(n, 13, function(x) x[2] = 0 end)
  select(2, pcall(op.inv, z)):match "inv: .*" == ("inv: matrix 13 is singular (at pivot %d)"):format(n - 1) --> true
  select(2, pcall(op.solve, z, z)):match "solve: .*" == ("solve: matrix 13 is singular (at pivot %d)"):format(n - 1) --> true
  select(2, pcall(op.tri_solve, z, z)):match "tri_solve: .*" --> tri_solve: matrix 13 is singular (at pivot 2)
  select(2, pcall(op.cholesky, z)):match "cholesky: .*" --> cholesky: matrix 13 is not positive definite (at pivot 2)
  op.det(z)[13]:item() == 0 --> true
  op.slogdet(z)[13]:item() --> 0
  local f = spoilt(n, 13, function(x) x[0][0] = 0 / 0 end)
  select(2, pcall(op.eigh, f)):match "eigh: .*" --> eigh: matrix 13 has a NaN or an infinity
  op.inv(f)[13]:isnan():all():item() --> true
  op.inv(f)[12]:isnan():any():item() --> false
  op.det(f)[13]:isnan():item() --> true
end

-- A determinant that leaves the range on the way.
op.det(op.eye(4, { dtype = "f64" }) * 1e200):item() --> inf
op.det(op.eye(4, { dtype = "f64" }):reshape { 1, 4, 4 } * op.ones({ 9, 1, 1 }, { dtype = "f64" }) * -1e200)[8]:item() --> inf
