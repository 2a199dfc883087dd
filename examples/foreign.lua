-- Functions of C libraries as operators: a radial wave fitted with the Bessel functions of
-- the C library, and zlib's checksum.

local tessera = require "tessera"
local op, graph, rng, optim = tessera.op, tessera.graph, tessera.rng, tessera.optim

-- The signature is C's prototype; "each" calls the function for each element. What the
-- derivative is, the library does not say: j0' = -j1 and j1'(x) = j0(x) - j1(x) / x.
local j0, j1
j0 = op.foreign("m", "j0", "double j0(each double x)",
  { adjoint = function(x, _, dy) return -j1(x) * dy end })
j1 = op.foreign("m", "j1", "double j1(each double x)",
  { adjoint = function(x, y, dy) return (j0(x) - y / x) * dy end })

-- Heights of a round membrane at distances r: a * j0(k r), seen with noise.
rng.seed(3)
local r = op.linspace(0.1, 6, 120, { dtype = "f64" })
local seen = 1.7 * j0(r * 2.4) + rng.normal({ 120 }, { std = 0.02, dtype = "f64" })

local model = { a = tessera.tensor(1, { dtype = "f64" }), k = tessera.tensor(2.1, { dtype = "f64" }) }
local function loss(a, k) return ((a * j0(r * k) - seen) ^ 2):mean() end

-- Gauss-Newton by hand would need j1; here one captured gradient does, and Adam descends.
local slope = graph.value_and_grad(loss, { 1, 2 })
local adam = optim.Adam({ model.a, model.k }, { lr = 0.02 })
local value
for _ = 1, 400 do
  local da, dk
  value, da, dk = slope(model.a, model.k)
  adam:step { da, dk }
end
print(("a = %.3f, k = %.3f, loss = %.2g"):format(model.a:item(), model.k:item(), value:item()))
assert(math.abs(model.a:item() - 1.7) < 0.02 and math.abs(model.k:item() - 2.4) < 0.01)

-- The second derivative goes through both adjoints.
local curve = graph.grad(function(x) return graph.grad(function(y) return j0(y):sum() end)(x):sum() end)(r)
assert((curve + j0(r) - j1(r) / r):abs():max():item() < 1e-12)

-- A checksum: elements by pointer, their number from the tensor, the start as an option.
local crc32 = op.foreign("z", "crc32",
  "unsigned long crc32(unsigned long crc = 0, const u8 *data, unsigned int n = data.nbytes)")
local text = tessera.tensor({ ("123456789"):byte(1, -1) }, { dtype = "u8" })
print(("crc32 = %08x"):format(crc32(text):item()))
assert(crc32(text):item() == 0xcbf43926)
assert(crc32(text["4:"], { crc = crc32(text["0:4"]):item() }):item() == 0xcbf43926)
return { model.a, model.k }
