-- tessera.jit.prepare(device): fills the disk cache with the kernels of a GPU that programs share, so that
-- no first call of them waits for a compiler. Most do not depend on a program's sizes; those of rows
-- depend on their width. Calls ask for kernels and launch nothing meanwhile; these are compiled side
-- by side.

local core = require "tessera.core"
local op = core.op

-- Sizes (m, n, k) at which products change their tiles, by those of GPT-2 and of large models.
local PRODUCTS = {
  { 16, 256, 256 }, { 64, 64, 64 }, { 256, 256, 256 }, { 768, 768, 256 }, { 1000, 1000, 1000 }, { 1536, 768, 512 },
  { 1536, 1536, 512 }, { 3072, 1024, 512 }, { 2048, 2048, 2048 }, { 3072, 3072, 3072 }, { 4096, 4096, 4096 },
  { 128, 50304, 768 }, { 8192, 768, 3072 }, { 8192, 1024, 28672 }, { 8192, 16384, 4096 },
}
-- (batches, query heads, key heads, queries, keys): short, long, and decoding of one token.
local ATTENTION = {
  { 1, 2, 2, 64, 64 }, { 4, 4, 4, 512, 512 }, { 1, 16, 4, 4096, 4096 }, { 4, 64, 8, 1, 512 }, { 4, 64, 8, 1, 4096 },
  { 4, 64, 8, 1, 131072 },
}
-- Widths of rows: of models, and powers of two.
local WIDTHS = { 64, 128, 256, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 5120, 8192 }
local GRADIENTS = { { 1, 2, 2, 64, 64 }, { 1, 4, 4, 512, 512 }, { 1, 8, 2, 1024, 1024 } }

local FLOATS = 8 -- of an operator's `types`
local TYPES = { "f32", "bf16", "f16" }

local function pointwise(empty)
  for _, dtype in ipairs(TYPES) do
    local x = empty(dtype, 64, 64)
    for _, o in ipairs(core.operators()) do
      local f = o.class == "pointwise" and bit.band(o.types, FLOATS) ~= 0 and o.name ~= "clamp" and op[o.name]
      if f and o.inputs == "x" then
        f(x)
      elseif f and o.inputs == "x g" then
        f(x, x)
      elseif f and o.inputs == "x y" then
        f(x, x)
        f(x, 2)
        f(2, x)
      end
    end
    for _, other in ipairs(TYPES) do x:cast(other) end
  end
end

local function rows(empty)
  for _, dtype in ipairs(TYPES) do
    for _, n in ipairs(WIDTHS) do
      local x, v = empty(dtype, 64, n), empty(dtype, n)
      op.softmax(x)
      op.log_softmax(x)
      op.layernorm(x, v, v)
      op.rmsnorm(x, v)
      op.sum(x, { axis = -1 })
      op.mean(x, { axis = -1 })
      op.add(x, v)
      op.mul(x, v)
    end
  end
end

local function products(empty)
  for _, dtype in ipairs(TYPES) do
    for _, s in ipairs(PRODUCTS) do
      local m, n, k = s[1], s[2], s[3]
      local a, b = { empty(dtype, m, k), empty(dtype, k, m):T() }, { empty(dtype, k, n), empty(dtype, n, k):T() }
      for i = 1, 2 do
        for j = 1, 2 do op.matmul(a[i], b[j]) end
      end
    end
  end
end

-- attend(q, k, v, causal) with heads of both usual widths, as they lie in a model: one behind the other,
-- or beside each other as a projection leaves them.
local function heads(empty, shapes, attend)
  for _, dtype in ipairs { "bf16", "f16" } do
    for _, d in ipairs { 64, 128 } do
      for _, s in ipairs(shapes) do
        for _, causal in ipairs { false, true } do
          attend(empty(dtype, s[1], s[2], s[4], d), empty(dtype, s[1], s[3], s[5], d), causal)
          attend(empty(dtype, s[1], s[4], s[2], d):transpose(1, 2), empty(dtype, s[1], s[5], s[3], d):transpose(1, 2), causal)
        end
      end
    end
  end
end

local function attention(empty)
  heads(empty, ATTENTION, function(q, k, causal) op.attention(q, k, k, { causal = causal }) end)
end

-- Attention of a step keeps what its gradients want, so it is another kernel.
local function gradients(empty)
  local graph = require "tessera.graph"
  heads(empty, GRADIENTS, function(q, k, causal)
    local function of(turned)
      return function(q, k, v)
        local y = op.attention(q, k, v, { causal = causal })
        if turned then y = y:transpose(1, 2):contiguous() end -- as the next product wants it
        return (y * y):sum() -- of a sum alone the gradient would be one number, which is another kernel
      end
    end
    graph.grad(of(false), { 1, 2, 3 })(q, k, k)
    graph.grad(of(true), { 1, 2, 3 })(q, k, k)
  end)
end

return function(device)
  device = device or "cuda:0"
  local function empty(dtype, ...) return op.empty({ ... }, { dtype = dtype, device = device }) end
  local before, begun = core.jit_device(), core.now()
  local x = empty("f32", 1)
  core.guarded(function() core.jit_prepare(false) end, function()
    core.jit_prepare(true)
    op.neg(x)
    if core.jit_device().calls == before.calls then
      core.fail(("jit.prepare: %s runs no kernels that could be compiled beforehand\n  hint: a GPU such as 'cuda:0'"):format(x.device))
    end
    pointwise(empty)
    rows(empty)
    products(empty)
    attention(empty)
    gradients(empty)
  end)
  core.jit_wait()
  local after = core.jit_device()
  return {
    kernels = after.kernels - before.kernels,
    from_disk = after.from_disk - before.from_disk,
    ms = (core.now() - begun) * 1e3,
  }
end
