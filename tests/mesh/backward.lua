-- Gradients of tensors over a mesh where what comes back is one number, or the gradient of a part of something.
local tessera = require "tessera"
local dist, op, rng = tessera.dist, tessera.op, tessera.rng
local mesh = dist.Mesh { axes = { "dp" }, devices = { "cpu:0", "cpu:0" } }

local function both(f)
  local x = rng.normal { 4, 3, 5 }
  local there = dist.shard(x, mesh, { "dp" })
  for _, t in ipairs { x, there } do
    t.requires_grad = true
    f(t):sum():backward()
  end
  assert(tostring(dist.spec_of(there.grad)) == '{"dp"}')
  return there.grad:hash() == x.grad:hash()
end
both(function(x) return x end) --> true
both(function(x) return x * 2 end) --> true
both(function(x) return x:select(1, 0) end) --> true
both(function(x) return x:narrow(1, 0, 2):square() end) --> true
both(function(x) return x:select(1, 1) * x:select(1, 2) end) --> true
