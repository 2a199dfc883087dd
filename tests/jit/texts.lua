-- Texts of kernels are kept: the same ones, shown again, are the same; where somebody will look they are there before.
local tessera = require "tessera"
local core, op, graph, jit = tessera.core, tessera.op, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end

local w = op.normal({ 64, 64 }, { seed = 1 })
local f = graph.module("f", function(x)
  for _ = 1, 3 do x = op.gelu(x:matmul(w)) end
  return op.softmax(x)
end)
local x = op.normal({ 32, 64 }, { seed = 2 })
jit.eager(true)
for _ = 1, 3 do f(x) end

core.jit_texts(true)
core.jit_texts() --> 0
local levels = { "explicit", "llvm", "asm" }
local first, again, bytes = {}, {}, 0
for i, level in ipairs(levels) do
  first[i] = f:ir(level)
  assert(core.jit_texts() > bytes, level)
  bytes = core.jit_texts()
  again[i] = f:ir(level)
end
core.jit_texts() == bytes --> true
for i, level in ipairs(levels) do assert(again[i] == first[i], level) end
-- One text for three kernels that are the same, but one for each target.
assert(#first[3] > 0 and f:ir("asm", { target = "avx2" }) ~= f:ir("asm", { target = "base" }))
assert(core.jit_texts() > bytes)
-- What is made anew is what was kept.
core.jit_texts(true)
for i, level in ipairs(levels) do assert(f:ir(level) == first[i], level) end

-- At a prompt they are made behind the code, in the background.
core.jit_texts(true)
core.jit_shows()
local g = graph.module("g", function(x) return op.softmax(op.tanh(x:matmul(w)) * 2) end)
for _ = 1, 3 do g(x) end
jit.wait()
local made = core.jit_texts()
assert(made > 0)
local text = g:ir "asm" .. g:ir "llvm"
core.jit_texts() == made --> true
core.jit_texts(true)
g:ir "asm" .. g:ir "llvm" == text --> true
