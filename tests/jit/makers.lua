-- Kernels of makers' GPUs that are not here: each function has all of its kernels for each target, in the words of
-- its maker alone, from one schedule.
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here" end

local words = { -- of LLVM's text, of the code
  gfx942 = { "amdgpu_kernel", 'amdgcn_target "amdgcn%-amd%-amdhsa%-%-gfx942"' },
  gfx1100 = { "amdgpu_kernel", 'amdgcn_target "amdgcn%-amd%-amdhsa%-%-gfx1100"' },
  gfx950 = { "amdgpu_kernel", 'amdgcn_target "amdgcn%-amd%-amdhsa%-%-gfx950"' },
  ["gfx12-generic"] = { "amdgpu_kernel", 'amdgcn_target "amdgcn%-amd%-amdhsa%-%-gfx12%-generic"' },
  sm_80 = { "ptx_kernel", "%.target sm_80" },
  sm_90a = { "ptx_kernel", "%.target sm_90a" },
}
local spirv = { "spir_kernel", "OpMemoryModel Physical64 OpenCL" } -- of other makers', one text
do
  local f = graph.module("one", op.tanh)
  f(op.ones { 3 })
  if f:ir("llvm", { target = "spirv" }):find "has no SPIR%-V" then print "skipped: this LLVM has no SPIR-V"
  else 
    for _, target in ipairs { "spirv", "spirv_cpu", "pvc", "cooperative", "dg2", "tgllp" } do words[target] = spirv end
  end
end
local x, a, b = op.uniform { 16, 1000 }, op.uniform { 100, 60 }, op.uniform { 60, 70 }
local functions = {
  map = { function(t) return op.gelu(t) * 2 + t end, x },
  softmax = { function(t) return op.softmax(t) end, x },
  sum = { function(t) return t:sum() end, x },
  columns = { function(t) return t:sum { axis = 0 } end, x },
  scan = { function(t) return op.cumsum(t, { axis = 1 }) end, x },
  sort = { function(t) return (op.sort(t, { axis = 1 })) end, x },
  product = { function(t, u) return op.gelu(op.matmul(t, u)) end, a, b },
}
for name, case in pairs(functions) do
  local f = graph.module(name, case[1])
  f(unpack(case, 2))
  for target, word in pairs(words) do
    local code, text = f:ir("llvm", { target = target }), f:ir("asm", { target = target })
    local where = name .. " for " .. target .. ":\n"
    assert(code:find(word[1]) and text:find(word[2]), where .. code .. text)
    assert(not code:find "no kernel" and not text:find "no kernel", where .. code)
    assert(not code:find(word[1]:find "^amdgpu" and "nvvm" or "amdg"), where .. code)
    if word == spirv then assert(not code:find "nvvm" and not text:find "OpTypeFloat 64" or target:find "^spirv", where .. text) end
    -- nothing is called, and nothing lies on a stack
    for bytes in text:gmatch "%.private_segment_fixed_size: (%d+)" do assert(bytes == "0", where .. text) end
    assert(not text:find "s_swappc" and not text:find "s_setpc", where .. text)
  end
end
