-- Products of few rows, which are bound by reading the matrix, have kernels of their own: a row's bits are those that it has among many
-- rows, with rows behind the product and without, captured and not; also as a batch of single rows.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local device = "sim:0"
tessera.jit.later(false)

local function same(a, b, what) assert(a:to("cpu"):contiguous():hash() == b:to("cpu"):contiguous():hash(), what) end
local function drawn(shape, seed) return op.normal(shape, { seed = seed, dtype = "bf16", device = device }) end

tessera.no_grad(function()
  for _, size in ipairs { { 64, 128 }, { 80, 192 }, { 48, 64 }, { 256, 512 }, { 40, 72 } } do
    local n, k = unpack(size)
    local x, w, bias = drawn({ 128, k }, 1), drawn({ n, k }, 2), drawn({ n }, 3)
    local all = op.linear(x, w, bias)
    for _, m in ipairs { 1, 5, 16, 20, 33, 64 } do
      same(op.linear(x:narrow(0, 0, m):contiguous(), w, bias), all:narrow(0, 0, m), ("%d rows of %dx%d"):format(m, n, k))
    end
  end

  tessera.jit.eager(true)
  for _, dims in ipairs { { 3, 1 }, { 2, 3, 1 }, { 5, 1, 1 }, { 1, 1 }, { 1, 4, 1 }, { 20, 1 } } do
    for _, where in ipairs { "cpu", device } do
      local function shape(last)
        local s = { unpack(dims) }
        s[#s + 1] = last
        return s
      end
      local function on(t) return t:to(where) end
      local x, w, r, b = on(drawn(shape(64), 1)), on(drawn({ 96, 64 }, 2)), on(drawn(shape(96), 3)), on(drawn({ 96 }, 4))
      local function f(x_, r_) return op.silu(op.matmul(x_, w:T()) + b) * r_, op.matmul(op.relu(x_), w:T()) + r_ end
      local g, text = graph.module("g", f), where .. " " .. table.concat(dims, ",")
      local y, z
      for _ = 1, 3 do y, z = g(x, r) end
      local y0, z0 = f(x, r)
      same(y, y0, text)
      same(z, z0, text)
    end
  end
  tessera.jit.eager(false)
end)
