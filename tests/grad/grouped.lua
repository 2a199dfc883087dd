-- Derivatives of products of groups of rows.
local core = require "tessera.core"
local check = dofile "tests/grad/_check.lua"
local op = core.op
local function x(...) return check.random { ... } end
local function sizes(list, dtype) return core.tensor(list, { dtype = dtype or "i64" }) end
local c = check.complex

for _, list in ipairs { { 2, 3 }, { 0, 5 }, { 1, 2 }, { 4, 4 }, { 0, 0 } } do
  check("grouped_matmul", { x(5, 3), x(2, 3, 2), sizes(list) })
  check("grouped_matmul_weight_grad", { x(5, 3), x(5, 2), sizes(list, "i32") })
end
check("grouped_matmul", { c { 4, 2 }, c { 2, 2, 3 }, sizes { 1, 2 } })
check("grouped_matmul", { c { 4, 2 }, x(2, 2, 3), sizes { 1, 2 } })
check("grouped_matmul", { x(4, 2), c { 2, 2, 3 }, sizes { 1, 3 } })
check("grouped_matmul_weight_grad", { c { 4, 2 }, c { 4, 3 }, sizes { 1, 2 } })
check("grouped_matmul_weight_grad", { x(4, 2), c { 4, 3 }, sizes { 1, 2 } })
check("grouped_matmul", { x(3, 4):T(), x(2, 2, 3):T(), sizes { 3, 1 } })
check("grouped_matmul_weight_grad", { x(3, 4):T(), x(2, 4):T(), sizes { 3, 1 } })
check("grouped_matmul", { x(4, 3), x(1, 3, 2), sizes { 4 } })
check("grouped_matmul", { x(0, 3), x(2, 3, 2), sizes { 0, 0 } })
check("grouped_matmul", { x(4, 0), x(2, 0, 2), sizes { 1, 3 } })
check("grouped_matmul_weight_grad", { x(0, 3), x(0, 2), sizes { 0, 0 } })

check.narrow("grouped_matmul", { x(6, 3), x(2, 3, 4), sizes { 2, 3 } })
check.narrow("grouped_matmul_weight_grad", { x(6, 3), x(6, 4), sizes { 2, 3 } })

-- Each group's gradients are those of its own product.
local a, w, g = x(7, 3), x(3, 3, 2), x(7, 2)
local ga, gw, gs = core.vjp("grouped_matmul", { a, w, sizes { 2, 0, 4 } }, {}, { g })
assert(gs == false)
local at = 0
for i, n in ipairs { 2, 0, 4 } do
  local one, two = core.vjp("matmul", { a:narrow(0, at, n), w[i - 1] }, {}, { g:narrow(0, at, n) })
  assert(ga:narrow(0, at, n):contiguous():hash() == one:hash() and gw[i - 1]:contiguous():hash() == two:hash())
  at = at + n
end
ga[6]:abs():sum():item() --> 0

-- accumulate, and types that differ: each gradient is of its operand's type.
local half = a:cast "bf16"
for _, o in ipairs { {}, { accumulate = "f32" } } do
  local y = op.grouped_matmul(half, w:cast "bf16", sizes { 2, 0, 4 }, o)
  local one, two = core.vjp("grouped_matmul", { half, w:cast "bf16", sizes { 2, 0, 4 } }, o, { op.ones_like(y) })
  assert(one.dtype == "bf16" and two.dtype == "bf16")
end
local one, two = core.vjp("grouped_matmul", { half, w:cast "f32", sizes { 2, 0, 4 } }, {}, { g:cast "f32" })
assert(one.dtype == "bf16" and two.dtype == "f32")
