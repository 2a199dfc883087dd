-- Matrices beyond what LAPACK counts in 32 bits are an error that says so, before memory is asked for: the
-- operands here are one number, seen everywhere, or none.
local tessera = require "tessera"
local op = tessera.op
local function seen(dtype, ...) return op.ones({ 1, 1 }, { dtype = dtype }):broadcast_to { ... } end
local function wide(call, ...)
  local ok, why = pcall(call, ...)
  return ok and "no error" or tostring(why):match "too large for LAPACK" or tostring(why)
end

local N, LONG = 50000, 2 ^ 31
local all = {}
for _, d in ipairs { "f32", "f64", "complex64", "complex128" } do
  for name, call in pairs {
    eigh = op.eigh, svd = op.svd, pinv = op.pinv, cofactor = op.cofactor,
    hermitian = function(a) return op.pinv(a, { hermitian = true }) end,
    captured = tessera.graph.module("f", function(a) return (op.eigh(a)) end),
  } do
    local told = wide(call, seen(d, N, N))
    if told ~= "too large for LAPACK" then all[#all + 1] = ("%s %s: %s"):format(name, d, told) end
  end
  for name, call in pairs {
    lu = op.lu, qr = op.qr, svd = op.svd, pinv = op.pinv, solve = function(a) return op.solve(op.zeros { 0, 0 }, a:T()) end,
  } do
    for _, shape in ipairs { { LONG, 0 }, { 0, LONG, 3 } } do
      local a = op.zeros(shape, { dtype = d })
      if name == "solve" and #shape == 3 then a = op.zeros({ LONG, 0 }, { dtype = d }) end
      local told = wide(call, a)
      if told ~= "too large for LAPACK" then all[#all + 1] = ("%s %s [%s]: %s"):format(name, d, table.concat(shape, ","), told) end
    end
  end
end
table.concat(all, "\n") -->

-- complex qr takes 64 numbers a row and column
wide(op.qr, op.zeros({ 2 ^ 26, 0 }, { dtype = "complex64" })) --> too large for LAPACK
-- No matrix needs no workspace.
(op.eigh(op.zeros { 0, N, N })).shape[2] == N --> true
select(2, op.svd(op.zeros({ 0, N, N }, { dtype = "complex64" }))).shape[2] == N --> true
