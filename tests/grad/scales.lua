-- Derivatives through numbers of few bits: of what they are multiplied with, and of their scales.
local core = require "tessera.core"
local check = dofile "tests/grad/_check.lua"
local op = core.op
local function x(...) return check.random { ... } end
local codes = op.randint({ 4, 6 }, 0, 16, { seed = 1, stream = 1 })

check("dequantize", { codes, x(), x() }, { dtype = "f64" })
check("dequantize", { codes, x(4, 1) }, { dtype = "f64" })
check("dequantize", { codes:cast "i8", x(2, 3), x(2, 3) }, { block = { 2, 2 }, dtype = "f64" })
check("dequantize", { codes:cast "u8", x(4, 3) }, { block = { 1, 4 }, packed = true, dtype = "f64" })
check("scaled_linear", { x(2, 6), codes, x(4, 2), x(4, 2), x(4) }, { block = { 1, 3 } })
check("scaled_linear", { x(2, 3, 12), codes:cast "i8", x(2, 3) }, { block = { 2, 4 }, packed = true })
check("quantize", { x(3, 4) }, { to = "i8", block = { 1, 2 } })
