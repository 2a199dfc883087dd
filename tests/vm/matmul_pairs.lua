-- Products of bf16 in the profile "fast", two steps of k at a time where the processor can: near
-- the product in f64, and the same bits for any batch, layout, number of threads and tier.
local ts = require "tessera"
local op, rng, graph, numerics = ts.op, ts.rng, ts.graph, ts.numerics
if not ts.jit.status() then print "skipped: nothing is compiled here: kernels" end

local function half(shape) return op.cast(rng.normal(shape), { dtype = "bf16" }) end
local function wide(x) return op.cast(x, { dtype = "f64" }) end
local function same(a, b) return numerics.hash(a) == numerics.hash(b) end

numerics.profile "fast"
local far, differ = 0, 0
for _, m in ipairs { 1, 2, 5, 6, 7, 13, 50 } do
  for _, n in ipairs { 1, 15, 16, 63, 64, 65, 130 } do
    for _, k in ipairs { 1, 2, 3, 31, 32, 33, 64, 511, 512, 1030 } do
      local x, w = half { m, k }, half { k, n }
      local y = op.matmul(x, w)
      local exact = op.matmul(wide(x), wide(w))
      local error = op.max(op.abs(op.sub(wide(y), exact))):item()
      if error > 0.004 * (1 + op.max(op.abs(exact)):item()) then far = far + 1 end
      local turned = op.transpose(op.clone(op.transpose(w)))
      local across = op.transpose(op.clone(op.transpose(x)))
      if not same(y, op.matmul(x, turned)) or not same(y, op.matmul(across, w)) then differ = differ + 1 end
      if not same(y[0], op.matmul(x[0], w)) then differ = differ + 1 end
    end
  end
end
print(far, differ) --> 0	0

-- No steps at all.
print(op.sum(op.matmul(half { 3, 0 }, half { 0, 4 })):item()) --> 0

-- Batches, an epilogue, threads, tiers.
local x, w, b = half { 3, 70, 96 }, half { 96, 80 }, half { 80 }
local f = graph.module("f", function(x, w, b) return op.relu(x:matmul(w) + b) end)
ts.jit.off()
local first = f(x, w, b)
ts.jit.on()
ts.jit.eager(true)
print(same(first, f(x, w, b)), same(first, f(x, w, b))) --> true	true
print(same(first, op.relu(op.matmul(x, w) + b))) --> true

-- Results that the processor's own rounding would change: denormals, and NaN beside them.
local tiny = op.cast(op.full({ 70 }, 1e-40), { dtype = "bf16" })
local zero, some = op.cast(op.zeros { 9, 32 }, { dtype = "bf16" }), half { 32, 70 }
print(same(op.matmul(zero, some, tiny), op.broadcast_to(tiny, { shape = { 9, 70 } })), tiny[0]:item() > 0) --> true	true
local odd = op.concat(zero, op.cast(op.full({ 1, 32 }, 0 / 0), { dtype = "bf16" }), { axis = 0 })
local y = op.matmul(odd, some, tiny)
print(same(y["0:9"], op.matmul(zero, some, tiny)), y[9][69]:item() ~= y[9][69]:item()) --> true	true
-- Whole vectors go to the result from the registers, others by way of sums in memory.
local first64 = op.clone(some[":, 0:64"])
print(same(op.matmul(odd, first64), op.clone(op.matmul(odd, some)[":, 0:64"]))) --> true
print(op.matmul(odd, first64)[9][63]:item() ~= 0, same(op.matmul(odd, first64)["0:9"], op.matmul(zero, first64))) --> true	true

-- What follows a product is one kernel.
local g = graph.module("g", function(x, w, b) return op.tanh(x:matmul(w) * 2 + b) * 0.5 end)
local apart = op.tanh(op.matmul(x, w) * 2 + b) * 0.5
print(same(apart, g(x, w, b)), same(apart, g(x, w, b))) --> true	true
print(not ts.jit.status() or g:ir("schedule"):match "mul add tanh mul" ~= nil) --> true
local threads = ts.threads()
ts.threads(1)
print(same(first, f(x, w, b))) --> true
ts.threads(threads)
numerics.profile "deterministic"
