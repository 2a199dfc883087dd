-- Attention and its gradients by the matrix unit of Intel's GPUs, whose functions are made here of shuffles (_dpas.lua):
-- the interpreter's bits, on whole blocks and over the edge, and where parameters begin so that no 2D block load reaches them.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
opencl.set("DEV", "opencl:0")
opencl.set("TESSERA_GPU", "pvc")
opencl.set("TESSERA_OPENCL_FUNCTIONS", require "_dpas")
local skipped = opencl.missing()
if skipped then return print(skipped) end
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
tessera.core.jit_later(false)
rng.seed(7)


local function random(d, ...) return op.cast(rng.normal { ... }, d) end

local function check(what, make, list, later)
  local before = tessera.core.jit_device()
  local function on(device)
    local moved = {}
    for i = 1, 7 do
      local x = list[i]
      if x and later then
        local n = 1
        for _, size in ipairs(x.shape) do n = n * size end
        x = op.concat({ op.zeros({ 1 }):cast(x.dtype), x:reshape { n } }):to(device)["1:"]:reshape(x.shape)
      end
      moved[i] = x and x:to(device)
    end
    return { make(moved) }
  end
  local got, want = on "opencl:0", on "sim:0"
  local after = tessera.core.jit_device()
  assert(after.fallback == before.fallback and after.refused == before.refused, what .. ": the CPU ran it")
  for i = 1, #got do assert(got[i]:hash() == want[i]:hash(), what .. ": result " .. i .. " differs") end
end

local function attention(what, size, d, o, mask, sink, later)
  local b, h, j, s, t, e, v = unpack(size)
  local list = { random(d, b, h, s, e), random(d, b, j, t, e), random(d, b, j, t, v) }
  if mask == "bool" then list[4] = op.gt(rng.normal { b, 1, s, t }, -0.5) end
  if mask == "added" then list[4] = random(d, b, 1, s, t) end
  if sink then list[5] = rng.normal { h } end
  check(what, function(x) return op.attention(x[1], x[2], x[3], x[4], x[5], o) end, list, later)
  local m = tessera.graph.module("attention", function(x, y, z) return op.attention(x, y, z, nil, nil, o) end)
  m(list[1], list[2], list[3])
  local code = m:ir("llvm", { target = "pvc" })
  assert(code:find "matrix_mad" and code:find "block_read_flat" and not code:find "ControlBarrier", code)
end
local function gradients(what, size, d, o, mask, sink)
  local b, h, j, s, t, e, v = unpack(size)
  local list = { random(d, b, h, s, e), random(d, b, j, t, e), random(d, b, j, t, v) }
  mask = mask == "bool" and op.gt(rng.normal { b, 1, s, t }, -0.5) or mask and random(d, b, 1, s, t)
  sink = sink and rng.normal { h }
  list[4] = op.attention(list[1], list[2], list[3], mask, sink, { causal = o.causal, window = o.window })
  list[5], list[6], list[7] = random(d, b, h, s, v), mask, sink
  check(what, function(x) return op.attention_grad(x[1], x[2], x[3], x[6], x[7], x[4], x[5], o) end, list)
end

-- Intel's compiler for CPUs takes seconds for each of these kernels, and more for wider heads.
attention("two bands, sink", { 1, 2, 1, 40, 50, 32, 32 }, "bf16", { causal = true, window = 20 }, nil, true)
attention("begins elsewhere", { 1, 1, 1, 16, 16, 32, 32 }, "bf16", { causal = true }, nil, nil, true)
gradients("gradients", { 1, 2, 1, 20, 40, 32, 32 }, "bf16", { causal = true })
if not os.getenv "LONG" then return end
attention("heads of 64", { 1, 2, 1, 40, 70, 64, 64 }, "bf16", {})
attention("heads of 128", { 1, 1, 1, 33, 40, 128, 128 }, "f16", { causal = true })
attention("mask of bool", { 1, 1, 1, 20, 50, 96, 64 }, "bf16", {}, "bool")
attention("mask that is added", { 1, 1, 1, 20, 50, 64, 64 }, "f16", {}, "added")
gradients("gradients, heads of 64", { 1, 2, 1, 70, 90, 64, 64 }, "bf16", {})
gradients("gradients, heads of 128", { 1, 1, 1, 20, 40, 128, 128 }, "f16", { causal = true })
gradients("gradients, window", { 1, 2, 2, 70, 70, 32, 96 }, "bf16", { causal = true, window = 20 })
gradients("gradients, mask of bool and sink", { 2, 2, 1, 40, 50, 32, 32 }, "bf16", {}, "bool", true)
gradients("gradients, mask that is added", { 1, 1, 1, 20, 50, 64, 64 }, "f16", { causal = true, scores = true }, "added")
