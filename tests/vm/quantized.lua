-- Products with weights stored in blocks have the bits of those with the weights as numbers.
local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
local formats = {}
for _, d in ipairs(tessera.core.dtypes()) do
  if d.block > 1 then formats[#formats + 1] = d end
end

local function normal(shape, stream, dtype) return rng.normal(shape, { seed = 5, stream = stream }):cast(dtype or "f32") end
local function all_formats()
  for n, format in ipairs(formats) do
    for _, rows in ipairs { 1, 2, 3, 37 } do
      for _, out in ipairs { 1, 13, 96 } do
        local k = 256 * (n % 3 + 1) + (format.block == 32 and 32 or 0)
        local x, w, bias = normal({ rows, k }, 1), normal({ out, k }, 2):cast(format.name), normal({ out }, 3)
        local numbers = w:cast "f32"
        local y = op.linear(x, w)
        local name = ("%s %d x %d x %d"):format(format.name, rows, out, k)
        assert(y:hash() == op.linear(x, numbers):hash(), name)
        assert(op.linear(x, w, bias):hash() == op.linear(x, numbers, bias):hash(), name)
        assert(op.quantized_matmul(x, w):hash() == y:hash(), name)
        if rows > 1 then assert(op.linear(x["1:2"], w):hash() == y["1:2"]:hash(), name) end -- batched as alone
        local wide = x:cast "f64"
        assert(op.linear(wide, w):hash() == op.linear(wide, w:cast "f64"):hash(), name)
        local brain = op.linear(x:cast "bf16", w)
        assert(brain:hash() == op.linear(x:cast("bf16"):cast "f32", numbers):cast("bf16"):hash(), name)
      end
    end
  end
end
local isa = tessera.core.isa()
for _, other in ipairs { "avx512", "avx2", "base" } do
  if pcall(tessera.core.isa, other) then all_formats() end
end
tessera.core.isa(isa)

-- Leading axes, views, vectors, nothing.
local w = normal({ 24, 64 }, 4):cast "q5_1"
local x = normal({ 2, 64, 3 }, 5):transpose(1, 2)
op.linear(x, w):hash() == op.linear(x, w:cast "f32"):hash() --> true
op.linear(x[1][2], w).shape --> {24}
op.linear(op.zeros { 0, 64 }, w).shape --> {0, 24}

-- Captured, and the gradient of x and of the bias.
local f = graph.module(function(x, w, b) return op.silu(op.linear(x, w, b)) end)
local b = normal({ 24 }, 6)
f(x, w, b):hash() == op.silu(op.linear(x, w:cast "f32", b)):hash() --> true
local slope = graph.grad(function(x, b) return op.linear(x, w, b):square():sum() end, { 1, 2 })
local same = graph.grad(function(x, b) return op.linear(x, w:cast "f32", b):square():sum() end, { 1, 2 })
local gx, gb = slope(x, b)
local sx, sb = same(x, b)
gx:hash() == sx:hash() and gb:hash() == sb:hash() --> true

op.linear(normal({ 2, 32 }, 1), w) --! linear: x [.., in] does not fit w [out, in]: f32[2,32] x q5_1[24,64]
op.quantized_matmul(x, normal({ 24, 64 }, 1)) --! w must be stored in blocks, not f32[24,64]
op.linear(x, w, normal({ 23 }, 1)) --! bias must be [24]
op.linear(x, w, { bias = 0.5 }) --! bias must be [24]
op.quantized_matmul(x, w, tessera.tensor(0.5)) --! bias must be [24]
op.linear(x, w, b, { epilogue = "bias_silu" }) --! no epilogue where w is stored in blocks
op.matmul(x, w) --! q5_1 is a storage format
