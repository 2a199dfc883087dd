-- No matrices, and matrices of no rows: results of the right shapes, and nothing is read.
local tessera = require "tessera"
local op = tessera.op
local calls = {
  { "inv", op.inv }, { "det", op.det }, { "slogdet", op.slogdet }, { "lu", op.lu }, { "cholesky", op.cholesky },
  { "qr", op.qr }, { "complete qr", function(a) return op.qr(a, { mode = "complete" }) end }, { "eigh", op.eigh },
  { "eig", op.eig }, { "eigvals", op.eigvals }, { "svd", op.svd }, { "pinv", op.pinv }, { "cofactor", op.cofactor },
  { "hermitian pinv", function(a) return op.pinv(a, { hermitian = true }) end },
  { "solve", function(a) return op.solve(a, a) end }, { "tri_solve", function(a) return op.tri_solve(a, a) end },
}
local bad = {}
for _, d in ipairs { "f16", "f32", "f64", "complex64", "complex128" } do
  for _, shape in ipairs { { 0, 1, 1 }, { 0, 3, 3 }, { 2, 0, 3, 3 }, { 0, 20, 20 }, { 0, 40, 40 }, { 0, 0 }, { 3, 0, 0 }, { 0, 0, 0 } } do
    for _, c in ipairs(calls) do
      local out = { pcall(c[2], op.zeros(shape):cast(d)) }
      local name = ("%s %s {%s}: "):format(c[1], d, table.concat(shape, ","))
      if not out[1] then bad[#bad + 1] = name .. tostring(out[2]) end
      for i = 2, out[1] and #out or 1 do
        out[i]:hash() -- computes it
        for j = 1, #shape - 2 do
          if out[i].shape[j] ~= shape[j] then bad[#bad + 1] = name .. "another shape" end
        end
      end
    end
  end
end
table.concat(bad, "\n") --> 
