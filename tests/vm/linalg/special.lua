-- Matrices with a NaN or an infinity: an error where an iteration would not end, else NaN.
local tessera = require "tessera"
local op = tessera.op
local function with(value, d)
  local x = op.eye(4) * 2 + 1
  x[1][2], x[2][1] = value, value
  return x:cast(d)
end
for _, d in ipairs { "f32", "f64", "complex64", "complex128" } do
  for _, v in ipairs { 1 / 0, -1 / 0, 0 / 0 } do
    select(2, pcall(op.svd, with(v, d))):match "svd: .*" --> svd: matrix 0 has a NaN or an infinity
    select(2, pcall(op.eigh, with(v, d))):match "eigh: .*" --> eigh: matrix 0 has a NaN or an infinity
    op.cofactor(with(v, d)):isnan():all():item() --> true
  end
  op.cofactor(with(1, d)):isnan():any():item() --> false
end
select(2, pcall(op.svd, op.stack { with(1, "f64"), with(0 / 0, "f64") })):match "svd: .*" --> svd: matrix 1 has a NaN or an infinity
