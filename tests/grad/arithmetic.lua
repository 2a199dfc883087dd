-- Derivatives of arithmetic.
local check = dofile "tests/grad/_check.lua"
check("neg", { check.random { 3 } })
check("mul", { check.random { 2, 3 }, check.random { 2, 3 } })
check("mul", { check.random { 2, 1 }, check.random { 3 } })
check("mul", { check.complex { 2 }, check.complex { 3, 2 } })
check("mul", { check.complex { 2 }, check.random { 3, 2 } })
