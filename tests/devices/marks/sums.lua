-- Stages of kernels with profile marks add up to the time of their warps within 2%, for kernels of every form; none is
-- outside of its launch, and each block that has stages has them for all of its roles that work.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local op, rng, graph, nn, optim = tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if os.getenv "TESSERA_SIM" == "emulate" then return print "skipped: the emulator has no marks" end
local kernels = require "tessera.kernel.profile"
rng.seed(1)
local large = device.kind ~= "sim" -- some waves of blocks, or as few as there can be
local function N(dtype, ...) return rng.normal({ ... }):cast(dtype):to(name) end

local function check_launch(title, k)
  local wanted, warps = {}, 0
  for _, p in pairs(k.processors) do
    for number in pairs(p.blocks) do wanted[number] = true end
  end
  kernels.each_warp(k, wanted, function(block, _, stays, start, stop)
    local sum, cycles = 0, 0
    for _, s in ipairs(stays) do
      assert(s.stage and s.stop >= s.start, title)
      sum, cycles = sum + s.stop - s.start, cycles + s.cycles
    end
    assert(start >= 0 and stop <= k.span + 1e-6, title .. ": outside of its launch")
    assert(math.abs(sum - (stop - start)) <= 0.02 * (stop - start), ("%s, block %d: stages of %.3f us in %.3f us"):format(title, block, sum, stop - start))
    assert(block % k.apart == 0, title)
    warps = warps + 1
  end)
  assert(warps > 0, title .. ": no warp has stages")
  for _, role in ipairs(k.roles) do
    local parts = 0
    for _, s in ipairs(role.stages) do parts = parts + s.part end
    assert(#role.stages == 0 or math.abs(parts - 1) < 1e-9, title .. ": parts add up to " .. parts)
  end
end

-- COSTS=1 says what marks cost.
local function check(title, f, ...)
  f(...)
  local list = kernels.run(f, ...)
  assert(#list > 0, title .. ": no launch")
  for _, k in ipairs(list) do check_launch(title .. ": " .. k.name, k) end
  if os.getenv "COSTS" then
    for _, k in ipairs(list) do print(("%-28s %-40s %8.2f us, with marks %8.2f us"):format(title, k.name:sub(1, 40), k.usec, k.marked)) end
  end
end

local function size(big, little) return large and big or little end

local a = N("bf16", size(2048, 256), size(2048, 128))
check("matmul", function(x) return x:matmul(x:T()) end, a)
if os.getenv "TESSERA_GPU" == "sm_80" then return end -- of that file
local q = N("bf16", size(4, 1), size(8, 2), size(1024, 128), 64)
check("attention", function(x) return op.attention(x, x, x, { causal = true }) end, q)
check("its gradients", graph.grad(function(x, g) return op.sum(op.attention(x, x, x) * g) end, { 1 }), q, N("bf16", unpack(q.shape)))
check("decode", function(x, k) return op.attention(x, k, k) end, N("bf16", size(8, 1), 8, 1, 64), N("bf16", size(8, 1), 8, size(4096, 64), 64))
local x = N("f32", size(8192, 12), size(4096, 256))
check("softmax", op.softmax, x)
check("layernorm", op.layernorm, x)
local z = N("f32", size(8192, 4), size(1024, 256))
check("fft", op.fft, op.complex(z, z))
check("sort", op.sort, N("f32", size(32, 2), size(65536, 1500)))
check("a fused chain", graph.module("chain", function(v) return op.relu(v * 2 + 1) * 0.5 end), x)

-- A step of training of a GPT-2 with fewer layers, and of a small one where the device is simulated.
local step, ids
local width, heads, context, vocabulary = size(768, 64), size(12, 2), size(1024, 64), size(50304, 128)
tessera.device(name, function()
  local token, position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
  local blocks = nn.Sequential(nn.TransformerBlock(width, heads, { causal = true }), nn.TransformerBlock(width, heads, { causal = true }))
  local GPT = nn.Module:extend "GPT"
  function GPT:init()
    self.token, self.position, self.blocks = token, position, blocks
    self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, { bias = false })
  end
  function GPT:forward(of) return self.head(self.norm(self.blocks(self.token(of) + self.position(op.arange(context))))) end
  local model = GPT()
  local function loss(m, from, to) return op.cross_entropy(m(from):cast "f32", to) end
  step = graph.training_step(model, function(...) return tessera.autocast("bf16", loss, ...) end, optim.AdamW(model:parameters(), { lr = 1e-4 }))
  ids = rng.randint({ size(8, 1), context }, { low = 0, high = vocabulary })
end)
for _ = 1, 3 do step(ids, ids) end
check("a step of training", step, ids, ids)
