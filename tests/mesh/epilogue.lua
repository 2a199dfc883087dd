-- A product with an epilogue over split inner sizes sends its sum, not its operands; what is done to it comes behind the sum.
local tessera = require "tessera"
local op, dist, rng, graph = tessera.op, tessera.dist, tessera.rng, tessera.graph

local mesh = dist.Mesh { axes = { "tp" }, devices = { "cpu:0", "cpu:0" } }
local cases = {
  relu = function(x, w) return op.relu(op.matmul(x, w)) end,
  several = function(x, w, b, r) return op.silu(op.matmul(x, w) + b) + r end,
  words = function(x, w, b, r) return op.matmul(x, w, { bias = b, residual = r, epilogue = "residual_gelu_bias" }) end,
  bias = function(x, w, b) return op.matmul(x, w, { bias = b }) end,
}
for _, dtype in ipairs { "f64", "f32", "bf16" } do
  rng.seed(1)
  local x, w = rng.normal({ 8, 32 }):cast(dtype), rng.normal({ 32, 16 }):cast(dtype)
  local b, r = rng.normal({ 16 }):cast(dtype), rng.normal({ 8, 16 }):cast(dtype)
  local on = { dist.shard(x, mesh, { nil, "tp" }), dist.shard(w, mesh, { "tp" }), dist.replicate(b, mesh), dist.replicate(r, mesh) }
  for name, f in pairs(cases) do
    local g = graph.module("g", f)
    local sent = tostring(g:collectives(unpack(on)))
    assert(sent:match "^all_reduce  over tp" and not sent:find "all_gather", name)
    dist.leaves(2, function()
      local want = f(x, w, b, r):hash()
      assert(f(unpack(on)):gather():hash() == want and graph.module("g", f)(unpack(on)):gather():hash() == want, name)
      assert(graph.module("g", f)(x, w, b, r):hash() == want, name)
    end)
  end
end
