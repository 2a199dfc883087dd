-- SPIR-V made between other makers' kernels, many times: LLVM knows blocks of what it made before by
-- addresses that come again, so modules are made until their ids are unique (jit/compile/llvm.c).
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
local function zeros(d, ...) return op.zeros({ ... }, { dtype = d }) end
local function attend(q, k, v, g)
  local out = op.attention(q, k, v, { causal = true })
  return out, op.attention_grad(q, k, v, nil, nil, out, g, { causal = true })
end
local function steps(x)
  local y = x
  for i = 1, 3 do y = y + i end
  return y, y:max()
end
local made = {
  { attend, zeros("bf16", 1, 2, 70, 64), zeros("bf16", 1, 1, 70, 64), zeros("bf16", 1, 1, 70, 32), zeros("bf16", 1, 2, 70, 32) },
  { function(x) return op.logical_not(x), x:any() end, zeros("bool", 5, 7) },
  { steps, zeros("f32", 7) },
  { function(x, w) return op.conv2d(x, w, nil, { padding = 1 }) end, zeros("f16", 1, 33, 9, 9), zeros("f16", 17, 33, 3, 3) },
  { function(x) return x:sum() end, zeros("i64", 5) },
}
local first = graph.module("first", op.tanh)
first(op.ones { 3 })
if first:ir("llvm", { target = "spirv" }):find "has no SPIR%-V" then return print "skipped: this LLVM has no SPIR-V" end
for round = 1, 3 do
  for i, case in ipairs(made) do
    local f = graph.module("again", case[1])
    f(unpack(case, 2))
    for _, target in ipairs { "gfx942", "sm_80", "gfx1100", "pvc", "spirv" } do
      f:ir("llvm", { target = target })
      local text = f:ir("asm", { target = target })
      assert(not text:find "not unique", ("round %d, function %d for %s"):format(round, i, target))
    end
  end
end
