-- Derivatives of solvers and decompositions, at well-conditioned matrices.
local core = require "tessera.core"
local op, graph = core.op, require("tessera").graph
local check = dofile "tests/grad/_check.lua"
local function x(...) return check.random { ... } end
local c = check.complex

-- Matrices of distinct singular values and eigenvalues, none near zero.
local function regular(m)
  local n = m.shape[#m.shape]
  return m * 0.3 + op.eye(n, { dtype = "f64" }) * op.arange(1, n + 1)
end
local function dagger(m) return m:T():conj() end
local function hermitian(m) return (regular(m) + dagger(regular(m))) * 0.5 end

for _, lower in ipairs { true, false } do
  for _, transpose in ipairs { false, true } do
    for _, unit in ipairs { false, true } do
      local o = { lower = lower, transpose = transpose, unit = unit }
      check("tri_solve", { regular(x(3, 3)), x(3, 2) }, o)
      check("tri_solve", { regular(c { 2, 2 }), c { 2, 1 } }, o)
    end
  end
end
check("tri_solve", { regular(x(2, 3, 3)), x(3, 2) })
check("tri_solve", { regular(x(3, 3)), x(2, 3, 1) }, { transpose = true })
check("tri_solve", { regular(x(2, 3, 3)), x(3) })

check("solve", { regular(x(3, 3)), x(3, 2) })
check("solve", { regular(x(3, 3)), x(3) })
check("solve", { regular(x(2, 2, 2)), x(2) })
check("solve", { regular(x(2, 2)), x(2, 2, 1) })
check("solve", { regular(c { 2, 2 }), c { 2, 2 } })
check("inv", { regular(x(3, 3)) })
check("inv", { regular(c { 2, 2, 2 }) })

check("det", { x(3, 3) })
check("det", { x(2, 2, 2) })
check("det", { x(1, 1) })
check("det", { c { 3, 3 } })
check("det", { x(0, 0) })
check("cofactor", { regular(x(3, 3)) })
check("cofactor", { regular(c { 2, 2 }) })
check("det", { core.tensor({ { 1, 2 }, { 2, 4 } }, { dtype = "f64" }) }, {}, { second = false })
check("det", { core.tensor({ { 1, 2, 0 }, { 2, 4, 1 }, { 3, 6, 1 } }, { dtype = "f64" }) }, {}, { second = false })
check("det", { op.zeros({ 3, 3 }, { dtype = "f64" }) }, {}, { second = false })
local column, row = c { 3, 1 }, c { 1, 3 }
check("det", { column:matmul(row) + c { 3, 1 }:matmul(c { 1, 3 }) }, {}, { second = false, tolerance = 1e-6 })

local symmetric = { hermitian = true }
for _, upper in ipairs { false, true } do
  check("cholesky", { hermitian(x(3, 3)) }, { upper = upper }, symmetric)
  check("cholesky", { hermitian(c { 2, 2, 2 }) }, { upper = upper }, symmetric)
end

check("qr", { regular(x(3, 3)) })
check("qr", { x(4, 2) })
check("qr", { x(2, 2, 4) })
check("qr", { c { 3, 2 } })
check("qr", { regular(c { 2, 2 }) })
check("qr", { c { 2, 3 } })
check("qr", { x(2, 3) }, { mode = "complete" })
-- Far from where another row would become the pivot.
local function pivoted(m)
  local rows, columns = m.shape[#m.shape - 1], m.shape[#m.shape]
  local diagonal = op.eye(rows, columns, { dtype = "f64" }) * op.arange(1, columns + 1)
  return (m * 0.3 + diagonal):flip { -2 }
end
check("lu", { pivoted(x(3, 3)) })
check("lu", { pivoted(x(2, 4)) })
check("lu", { pivoted(x(2, 4, 2)) })
check("lu", { pivoted(c { 3, 3 }) })
check("lu", { pivoted(c { 3, 2 }) })

check("eigh", { hermitian(x(3, 3)) }, {}, symmetric)
check("eigh", { hermitian(x(2, 2, 2)) }, {}, symmetric)
check("svd", { regular(x(3, 3)) })
check("svd", { regular(x(2, 2)):narrow(0, 0, 1) })
check("svd", { x(4, 2) })
check("svd", { x(2, 2, 3) })
check("svd", { regular(x(2, 2)) }, { full = true })
check("svd", { x(2, 3) }, { full = true }, { only = 1, second = false })
check("svd", { c { 3, 2 } }, {}, { only = 2 })
check("svd", { x(3, 2) }, {}, { only = 3 })
check("eigh", { hermitian(x(3, 3)) }, {}, { hermitian = true, only = 1 })
check("eigh", { hermitian(c { 2, 2, 2 }) }, {}, { hermitian = true, only = 1 })
check("eigh", { hermitian(x(2, 2)) }, {}, { hermitian = true, only = 2 })
core.vjp("svd", { x(3, 2) }, { full = true }, { x(3, 3) }) --! use full=false
core.vjp("qr", { x(3, 2) }, { mode = "complete" }, { x(3, 3) }) --! use mode="reduced"

check("eigvals", { regular(x(3, 3)) })
check("eigvals", { x(2, 3, 3) })
check("eigvals", { regular(c { 3, 3 }) })
check("eig", { x(3, 3) }, {}, { only = 1 })
check("eig", { regular(c { 2, 2 }) }, {}, { only = 1 })
check("eig", { regular(x(3, 3)) }, {}, { second = false, only = 1 })
check("eigvals", { x(0, 0) })
check("pinv", { x(3, 3) })
check("pinv", { x(2, 4, 2) })
check("pinv", { x(2, 3) })
check("pinv", { c { 3, 2 } })
check("pinv", { regular(c { 2, 2 }) })
check("pinv", { op.eye(3, { dtype = "f64" }):narrow(1, 0, 2):clone() }) -- equal singular values
check("pinv", { x(0, 3) })
check("pinv", { hermitian(x(3, 3)) }, { hermitian = true }, symmetric)
check("pinv", { hermitian(c { 2, 2 }) }, { hermitian = true }, symmetric)

-- Complex vectors in what does not depend on their phase: v d v^H and u d v^H.
local d = core.tensor({ 2, -1, 0.5 }, { dtype = "f64" })
local function pair(p, q) return (p:real() * q:real() + p:imag() * q:imag()):sum():item() end
local function slope(f, a, e)
  local h = 1e-3
  local function at(t) return f(a + e * t) end
  return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
end
local function near(a, b) assert(math.abs(a - b) < 1e-8, ("%.12g, by differences %.12g"):format(a, b)) end

do
  local a, w, e = hermitian(c { 3, 3 }), hermitian(c { 3, 3 }), hermitian(c { 3, 3 })
  local function f(m)
    local _, v = op.eigh(m)
    return pair((v * d):matmul(dagger(v)), w)
  end
  local _, v = op.eigh(a)
  near(pair(core.vjp("eigh", { a }, {}, { false, w:matmul(v * d) * 2 }), e), slope(f, a, e))
end
for _, a in ipairs { x(3, 3), c { 3, 3 } } do -- columns of norm 1: |v|^2 and v d v^-1
  local u, w, e = x(3, 3), c { 3, 3 }, c { 3, 3 }
  if a.dtype == "f64" then e = e:real() end
  local function f(m)
    local l, v = op.eig(m)
    return (v:abs():square() * u):sum() + ((l * l):real()):sum()
  end
  near(pair(graph.grad(f)(a), e), slope(function(m) return f(m):item() end, a, e))
  local function h(m)
    local _, v = op.eig(m)
    local y = (v * d):matmul(op.inv(v))
    return (y:real() * w:real() + y:imag() * w:imag()):sum()
  end
  near(pair(graph.grad(h)(a), e), slope(function(m) return h(m):item() end, a, e))
end
for _, m in ipairs { { 3, 3 }, { 4, 3 }, { 3, 4 } } do
  local a, w, e = c(m), c(m), c(m)
  local function f(a)
    local u, _, vh = op.svd(a)
    return pair((u * d):matmul(vh), w)
  end
  local u, _, vh = op.svd(a)
  local g = core.vjp("svd", { a }, {}, { w:matmul(dagger(vh)) * d, false, d:reshape(3, 1) * dagger(u):matmul(w) })
  near(pair(g, e), slope(f, a, e))
end

for _, name in ipairs { "inv", "det", "cofactor", "cholesky", "qr", "svd", "eigh" } do
  check.narrow(name, { hermitian(x(3, 3)) }, {}, 10)
end
check.narrow("lu", { pivoted(x(3, 3)) }, {}, 10)
check.narrow("solve", { regular(x(3, 3)), x(3, 2) }, {}, 10)
check.narrow("tri_solve", { regular(x(3, 3)), x(3, 2) }, {}, 10)
