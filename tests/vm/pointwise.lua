-- Large results go past the caches in whole lines: they equal the same rows computed a few
-- at a time, which do not, for rows that begin anywhere in a line, on every instruction set.
local tessera = require "tessera"
local op, rng, core = tessera.op, tessera.rng, tessera.core

local isas, default = {}, core.isa()
for _, name in ipairs { "avx512", "avx2", "base" } do
  if pcall(core.isa, name) then isas[#isas + 1] = name end
end
core.isa(default)

local function equal(a, b) return op.all(op.eq(a, b)):item() end

-- f of whole rows and of 97 rows at a time
local function same(f, rows, ...)
  local inputs = { ... }
  for _, isa in ipairs(isas) do
    core.isa(isa)
    local whole = f(unpack(inputs))
    for lo = 0, rows - 1, 97 do
      local part, cut = {}, ("%d:%d"):format(lo, math.min(lo + 97, rows))
      for i, x in ipairs(inputs) do part[i] = x.shape[1] == rows and x[cut] or x end
      if not equal(whole[cut], f(unpack(part))) then
        core.isa(default)
        return isa .. ", rows " .. cut
      end
    end
  end
  core.isa(default)
  return true
end

local x, row = rng.normal { 1021, 4003 }, rng.normal { 4003 }
local wide, half = x:cast "f64", x:cast "bf16"
same(function(a, b) return a + b end, 1021, x, row) --> true
same(function(a) return a * 1.5 end, 1021, x) --> true
same(function(a, b) return op.where(op.gt(a, 0), a, b) end, 1021, x, row) --> true
same(function(a, b) return op.fma(a, b, 2) end, 1021, wide, row:cast "f64") --> true
same(function(a, b) return a + b end, 1021, half, row) --> true
same(function(a) return op.clamp(a, -1, 1) end, 1021, x) --> true
same(function(a) return a:cast "complex64":abs() end, 1021, x) --> true
same(function(a) return op.gelu(a[":, ::2"]) end, 1021, rng.normal { 1021, 8003 }) --> true

-- rows shorter than two lines, and one long row that begins within a line
same(function(a, b) return a - b end, 200003, rng.normal { 200003, 19 }, rng.normal { 19 }) --> true
equal((x:flatten()["1:"] + 1)["4000000:"], x:flatten()["4000001:"] + 1) --> true

-- ---- -0.0 as a number keeps its sign, and integers stay integers
local sides = tessera.tensor { 1, -1 }
1 / (sides * -0.0) --> [-inf  inf]
--> f32[2]
op.atan2(-0.0, sides) --> [-0.0000 -3.1416]
--> f32[2]
1 / op.where(sides:gt(0), -0.0, sides) --> [-inf  -1.]
--> f32[2]
sides / -0.0 --> [-inf  inf]
--> f32[2]
1 / op.maximum(sides * 0, -0.0) --> [ inf -inf]
--> f32[2]
tessera.tensor({ 3, -3 }, { dtype = "i32" }) + -0.0 --> [ 3 -3]
--> i32[2]
tessera.tensor({ 3, 250 }, { dtype = "u8" }) * -0.0 --> [0 0]
--> u8[2]
op.exp(-0.0).dtype --> f32
