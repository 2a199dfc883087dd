-- A kernel of one's own: the recurrence h[t] = a[t] h[t-1] + b[t] of gated networks, which no
-- operator covers, with its derivative. The same by operators has the same bits.

local tessera = require "tessera"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng
local core = tessera.core

-- A round of the parallel loop owns `wide` columns and walks along t with what it carries.
-- edge: beyond the last column, or before the first row, a load gives 0 and a store drops.
local edge, wide, zero = { edge = true }, 128, "f32[128]"
local types = { a = "f32[T,C]", b = "f32[T,C]", h = "f32[T,C]" }

-- Backwards the gradient is the same recurrence: g[t] = dh[t] + a[t+1] g[t+1].
local backward = op.kernel("recurrence_grad", { a = types.a, h = types.h, dh = types.h },
  { da = types.a, db = types.b }, function(t, a, h, dh, da, db)
    for c in t:parallel(0, t.C, wide) do
      t:fold({ 0, t.T }, { t:full(zero, 0) }, function(i, after)
        local r = t.T - 1 - i
        local g = dh:load({ r, c }, wide, edge) + after
        db:store({ r, c }, g, edge)
        da:store({ r, c }, g * h:load({ r - 1, c }, wide, edge), edge)
        return a:load({ r, c }, wide, edge) * g
      end)
    end
  end)

local recurrence = op.kernel("recurrence", { a = types.a, b = types.b }, { h = types.h },
  function(t, a, b, h)
    for c in t:parallel(0, t.C, wide) do
      t:fold({ 0, t.T }, { t:full(zero, 0) }, function(i, s)
        s = a:load({ i, c }, wide, edge) * s + b:load({ i, c }, wide, edge)
        h:store({ i, c }, s, edge)
        return s
      end)
    end
  end, { adjoint = function(a, _, h, dh) return backward(a, h, dh) end })

-- By operators: a loop over t.
local function by_operators(a, b)
  local rows, s = {}, op.zeros { a.shape[2] }
  for i = 1, a.shape[1] do
    s = a[i - 1] * s + b[i - 1]
    rows[i] = s
  end
  return op.stack(rows)
end

rng.seed(1)
local T, C = 256, 1000
local a, b = rng.uniform { T, C }, rng.normal { T, C }
local h = recurrence(a, b)
assert(h:hash() == by_operators(a, b):hash())

-- In a captured function it is a node, and its derivative the other kernel.
local function loss(f) return function(x, y) return (f(x:sigmoid(), y) ^ 2):mean() end end
local slope, reference = graph.grad(loss(recurrence), { 1, 2 }), graph.grad(loss(by_operators), { 1, 2 })
local da, db = slope(a, b)
local ra, rb = reference(a, b)
assert((da - ra):abs():max():item() < 1e-9 and (db - rb):abs():max():item() < 1e-9)

local function msec(f)
  local best = math.huge
  for _ = 1, 5 do
    local start = core.now()
    f(a, b):data_ptr()
    best = math.min(best, core.now() - start)
  end
  return best * 1e3
end
print(("%d x %d: the kernel %.2f ms, a loop of operators %.2f ms, captured %.2f ms"):format(T, C,
  msec(recurrence), msec(by_operators), msec(graph.module("loop", by_operators))))
return { h, da, db }
