-- Captured functions with kernels in them: what runs, what it says, where values lie.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end

-- At tier 0 with the bits of tier 1, and the function that has them.
local function both(f, options, ...)
  local g = graph.module("f", f, options)
  local hashes = {}
  for _, on in ipairs { false, true } do
    if on then jit.on() else jit.off() end
    jit.eager(on)
    core.seed(4)
    local t = { g(...) }
    for i = 1, #t do t[i] = core.type_text(t[i]) .. t[i]:hash() end
    hashes[#hashes + 1] = table.concat(t, " ")
  end
  jit.eager(false)
  return hashes[1] == hashes[2], g
end
local x, w = op.uniform({ 6, 40 }, { seed = 1, low = -1, high = 1 }), op.uniform({ 40 }, { seed = 2 })

-- The levels: each names the lines that it came from.
local same, f = both(function(a, b)
  local h = op.gelu(a * 2 + b)
  local y = op.layernorm(h)
  return y
end, nil, x, w)
same --> true
f:ir "schedule":match "^schedule @f target %w+ threads %d+ {" ~= nil --> true
f:ir "schedule":match "at .-schedule.lua:([%d,]+)" --> 26,27
f:ir "tile":match "tile @f" --> tile @f
f:ir "explicit":match "tile @f" --> tile @f
f:ir "llvm":match "define" --> define
f:ir "asm":match "ret" --> ret
f:ir "bytecode":match "= (fused r0.-) at" --> fused r0, r1 : f32[6,40] fresh  // mul add gelu_erf layernorm
f:ir "bytecode":match "// tier[^\n]*" --> // tier 1: 1 kernel of 4 operators
f:ir "tiles":match "rows space %b[] tile %b[]" --> rows space [6,40] tile [40]
f:ir "why":match "0 [^:]*:[%d,]+: kernel of 4 operators" ~= nil --> true
f:ir "nothing" --! there is no level 'nothing'
-- Before there are kernels, what they would be.
jit.off()
local g = graph.module("g", function(a) return op.exp(a + 1), op.matmul(a, a:T()) end)
g(x)
g:ir "bytecode":match "// tier[^\n]*" --> // tier 0
g:ir "why":match "would be a kernel of 2 operators" --> would be a kernel of 2 operators
g:ir "why":match "matmul[^,]*: ([^,]*)," --> the VM's own kernel is used
jit.on()

-- Bodies of loops have kernels of their own.
local function body(h) return op.tanh(h * 0.5 + 1) * h end
same, f = both(function(a) return op.while_loop(function(h) return h:sum():lt(1e6) end, function(h) return body(h) + 1 end, a) end, nil, x)
same, f:ir "bytecode":match "fused" --> true, fused
f:ir "why":match "in @(%w+):" --> while

-- A view of what a group makes, where the group has no kernel, stands behind its node.
same = both(function(a)
  local c = op.cumsum(a, 0):cast "i32"
  return (c * 3):reshape { 40, 6 } + 1, op.exp(a * 2)
end, nil, x)
same --> true

-- Results of maps lie over operands that die there.
same, f = both(function(a)
  local h = op.matmul(a, a:T())
  return op.matmul(op.exp(h * 0.1) + h, h:T() * 0 + 1)
end, nil, x)
same --> true
same, f = both(function(a)
  local h = op.cumsum(a, 0)
  return op.cumsum(op.exp(h * 0.1) + h, 0)
end, nil, x)
same, f:ir "bytecode":match "slab (%d+)" --> true, 960
-- And over arguments that are given away.
f = graph.module("f", function(a, b) return a * 2 + b end, { donate = { 1 } })
jit.eager(true)
local y = x + 0
local at = y:data_ptr()
f(y, w):data_ptr() == at --> true
f:ir "bytecode":match "into r0" --> into r0
-- But not where another element is read after it.
f = graph.module("f", function(a) return a * 2 + a:T() end, { donate = { 1 } })
local q = op.uniform({ 9, 9 }, { seed = 3 })
local want = (q * 2 + q:T()):hash()
f(q + 0):hash() == want --> true
f:ir "bytecode":match "into r0" --> nil
jit.eager(false)

-- Kernels need no more memory than the VM alone, by a quarter at most.
local nn, optim = tessera.nn, tessera.optim
local model = nn.Sequential { nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3) }
local step = graph.training_step(model, function(m, a, b) return op.cross_entropy(m(a), b) end,
  optim.AdamW(model:parameters()))
local px, py = op.uniform({ 200, 8 }, { seed = 5 }), op.randint({ 200 }, { low = 0, high = 3, seed = 6 })
local function slab() return tonumber(step:ir "bytecode":match "slab (%d+)") end
jit.off()
step(px, py)
local vm_bytes = slab()
jit.on()
jit.eager(true)
step(px, py)
step:ir "bytecode":match "// tier %d" --> // tier 1
slab() <= 1.25 * vm_bytes --> true
jit.eager(false)
