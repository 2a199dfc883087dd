-- Operators that are a kernel by themselves: rows of exponentials and norms, and long products with an
-- epilogue. The same bits as the VM's.
local ts = require "tessera"
local op, rng, graph, jit = ts.op, ts.rng, ts.graph, ts.jit
if not jit.status() then print "skipped: nothing is compiled here: kernels" end

local function alike(f, ...)
  jit.off()
  local want = f(...):hash()
  jit.on()
  jit.eager(true)
  local before, m = jit.stats().kernels, graph.module("f", f)
  local same = m(...):hash() == want and m(...):hash() == want
  return same and (not jit.status() or jit.stats().kernels > before)
end

local x, t = rng.normal { 70, 333 } * 4, op.arange(70):cast "i64"
print(alike(function(x) return op.softmax(x) end, x)) --> true
print(alike(function(x) return op.log_softmax(x) end, x)) --> true
local w, b = rng.normal { 333 }, rng.normal { 333 }
print(alike(function(x) return op.layernorm(x, w, b) end, x)) --> true
print(alike(function(x) return op.rmsnorm(x, w) end, x)) --> true
print(alike(function(x, t) return op.cross_entropy(x, t) end, x, t)) --> true
local slope = graph.grad(function(x) return op.cross_entropy(x, t) end)
print(alike(function(x) return (slope(x)) end, x)) --> true

for _, m in ipairs { 32, 70 } do
  for _, n in ipairs { 48, 100, 515 } do
    local a, w, b, r = rng.normal { m, 1100 }, rng.normal { 1100, n }, rng.normal { n }, rng.normal { m, n }
    local words = { epilogue = "bias_gelu_residual" }
    assert(alike(function(a, w, b, r) return op.matmul(a, w, b, r, words) end, a, w, b, r), m .. " " .. n)
  end
end
