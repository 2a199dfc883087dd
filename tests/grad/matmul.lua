-- Derivatives of products.
local check = dofile "tests/grad/_check.lua"
local function x(...) return check.random { ... } end
local c = check.complex

check("matmul", { x(2, 3), x(3, 4) })
check("matmul", { x(3, 2):T(), x(4, 3):T() })
check("matmul", { x(3), x(3) })
check("matmul", { c { 3 }, c { 3 } })
check("matmul", { x(3), x(3, 2) })
check("matmul", { x(3), x(2, 3, 2) })
check("matmul", { x(2, 3), x(3) })
check("matmul", { x(2, 2, 3), x(3) })
check("matmul", { x(2, 2, 3), x(3, 2) })
check("matmul", { x(2, 2, 3), x(1, 1, 3, 2) })
check("matmul", { x(2, 3), x(3, 3, 2) })
check("matmul", { x(1, 2, 3), x(3, 3, 2) })
check("matmul", { x(2, 2, 3), x(2, 3, 2) })
check("matmul", { x(2, 1, 2, 3), x(1, 2, 3, 1) })
check("matmul", { x(2, 1, 2, 2), x(2, 2, 2) })
check("matmul", { c { 2, 2, 3 }, c { 3, 2 } })
check("matmul", { c { 2, 3 }, c { 2, 3, 2 } })
check("matmul", { c { 2, 3 }, x(3, 2) })
check("matmul", { x(0, 3), x(3, 2) })
check("matmul", { x(2, 0), x(0, 2) })
check("matmul", { x(0, 2, 3), x(3, 2) })
check("matmul", { x(2, 3), x(3, 4), x(4) })
check("matmul", { x(2, 2, 3), x(3, 4), x(4), x(2, 1, 4) })
check("matmul", { c { 2, 3 }, x(3, 2), c { 2, 1 } })
for _, words in ipairs { "relu", "silu", "gelu", "relu_silu" } do
  check("matmul", { x(2, 3), x(3, 4) }, { epilogue = words })
end
check("matmul", { x(2, 3), x(3, 4), x(4) }, { epilogue = "bias_relu" })
check("matmul", { x(2, 2, 3), x(3, 4), x(4), x(4) }, { epilogue = "bias_gelu_residual" })
check("matmul", { x(2, 3), x(3, 4), false, x(2, 4) }, { epilogue = "relu_residual" })
check("matmul", { x(2, 3), x(3, 4), false, x(2, 4) }, { epilogue = "residual_relu" })
check("matmul", { x(2, 3), x(3), x(2) }, { epilogue = "silu_bias" })

check("gemm", { x(3, 2), x(4, 3), x(2, 4) }, { alpha = 2, beta = 3, trans_a = true, trans_b = true })
check("gemm", { x(2, 3), x(3, 2) })
check("dot", { x(3), x(3) })
check("outer", { x(3), c { 2 } })
check("factorized_matmul", { x(2, 3), x(3, 1), x(1, 4) })
check("einsum", { x(2, 2, 3), x(2, 3, 2) }, { equation = "bij,bjk->bik" })
check("einsum", { x(2, 2), x(2) }, { equation = "ii,i->i" })
check("einsum", { x(2, 3), x(3, 2), x(2) }, { equation = "ij,jk,k" })
check("einsum", { x(2, 3, 2), x(1, 2) }, { equation = "...i,...i->..." })

check.narrow("matmul", { x(2, 3, 4), x(4, 3) })
check.narrow("matmul", { x(2, 8), x(8, 4), x(4) }, { epilogue = "bias_gelu" }, 4)

-- Weights stored in blocks have no gradient; x and the bias do.
for _, d in ipairs { "q8_0", "q4_k" } do
  local w = check.random({ 3, 256 }):cast("f32"):cast(d)
  check("quantized_matmul", { check.random { 2, 256 }, w, check.random { 3 } })
  check("quantized_matmul", { check.random { 256 }, w })
end
