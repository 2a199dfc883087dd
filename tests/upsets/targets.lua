-- Memory that runs out while code of a GPU that is not here is made: each allocation fails in turn, and what
-- comes says so or is code; no other reason is given.
local tessera = require "tessera"
local core, op, graph = tessera.core, tessera.op, tessera.graph
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
local function zeros(d, ...) return op.zeros({ ... }, { dtype = d }) end
local made = {
  { op.softmax, zeros("f32", 5, 300) },
  { function(x, y) return op.gelu(op.matmul(x, y)) end, zeros("bf16", 65, 64), zeros("bf16", 64, 40) },
}
core.arena_single(true)
for _, case in ipairs(made) do
  local f = graph.module("made", case[1])
  f(unpack(case, 2))
  for _, target in ipairs { "gfx942", "gfx1200" } do
    local n, more = 1, true
    while more do
      core.fail_after(n)
      local ok, text = pcall(f.ir, f, "asm", { target = target })
      more = core.fail_after(0) < 0
      if not ok then assert(text:find "out of memory", text) end
      assert(not ok or not text:find "no kernel", ok and text:match "no kernel[^\n]*")
      n = n + 1
    end
    assert(n > 50, n)
  end
end
core.arena_single(false)
