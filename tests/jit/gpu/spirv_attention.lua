-- Attention and its gradients for Intel's GPUs with a matrix unit, by Intel's compiler offline where it is there: DPAS,
-- operands by 2D block loads, nothing spilled, and no thread that waits for another.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
local function output(command)
  local p = io.popen(command .. " 2>&1")
  local text = p:read "*a"
  p:close()
  return text
end
if output "command -v ocloc" == "" then return print "skipped: there is no ocloc" end
local as = output "ls build/python/lib/python3*/site-packages/cmeel.prefix/bin/spirv-as":match "^(%S+spirv%-as)\n"
if not as or as:find "^ls" then return print "skipped: there is no spirv-as" end
local dir = os.tmpname()
os.remove(dir)

-- Threads with 256 registers are asked for by a name in the module, and by an option of the compiler.
local function compile(what, text)
  assert(not text:find "no kernel:", what .. ": " .. text)
  assert(os.execute("rm -rf " .. dir .. " && mkdir -p " .. dir .. "/dump") == 0)
  local f = assert(io.open(dir .. "/k.spvasm", "w"))
  f:write((text:gsub("//[^\n]*\n", "")))
  f:close()
  local large = text:find "large_registers" and "-cl-intel-256-GRF-per-thread" or ""
  local said = output(("%s --target-env spv1.2 %s/k.spvasm -o %s/k.spv"):format(as, dir, dir))
  assert(said == "", said)
  said = output(("cd %s && ocloc compile -file k.spv -spirv_input -device pvc -output k -options '-cl-fp32-correctly-rounded-divide-sqrt %s'")
    :format(dir, large))
  assert(said:find "Build succeeded" and not said:find "spilled", what .. ": " .. said)
  output(("for f in /usr/lib/*/libiga64.so.1; do ln -s $f %s/libiga64.so; done"):format(dir))
  output(("cd %s && LD_LIBRARY_PATH=. ocloc disasm -file k_*.bin -device pvc -dump dump"):format(dir))
  return output(("cat $(grep -l dpas %s/dump/*_KernelHeap.asm)"):format(dir)), large ~= "" -- phases that multiply
end
local function count(text, what) return select(2, text:gsub(what, "")) end

local function zeros(d, ...) return op.zeros({ ... }):cast(d) end
local function attention(d, e, o, mask)
  local x = zeros(e, 1, 4, 1000, d)
  local m = graph.module("attention", function(q, k, v, seen) return op.attention(q, k, v, seen, nil, o) end)
  m(x, x, x, mask and zeros(e, 1, 1, 1000, 1000) or nil)
  return m:ir("asm", { target = "pvc" })
end
local function gradients(d, o, mask, sink)
  local x = zeros("bf16", 1, 4, 1000, d)
  local m = graph.module("gradients", function(q, k, g, seen, s) return op.attention_grad(q, k, k, seen, s, g, g, o) end)
  m(x, x, x, mask and zeros("bf16", 1, 1, 1000, 1000) or nil, sink and zeros("f32", 4) or nil)
  return m:ir("asm", { target = "pvc" })
end

-- Of a step of 32 keys: products of scores, and of sums, of 8 columns by 16 steps of k each; twice of two bands.
for d, bands in pairs { [64] = 2, [96] = 1, [128] = 1 } do
  for _, o in ipairs { {}, { causal = true }, { causal = true, window = 300 } } do
    local what = ("heads of %d, %s"):format(d, o.window and "window" or o.causal and "causal" or "plain")
    local code, large = compile(what, attention(d, "bf16", o))
    assert(count(code, "dpas%.8x8") == bands * (4 * d / 16 + d / 8 * 2) and large, what .. ": " .. count(code, "dpas%.8x8"))
    assert(count(code, "load_block2d") == d / 16 * bands + 4 * d / 16 + d / 16 * 2, what .. ": " .. count(code, "load_block2d"))
    assert(not code:find "scratch" and not code:find "barrier", what)
  end
end
for _, d in ipairs { 32, 128 } do
  local code, large = compile("mask", attention(d, "f16", {}, true))
  assert(code:find "dpas%.8x8" and not code:find "scratch" and large == (d == 128))
end
for _, d in ipairs { 64, 128 } do
  local code = compile("gradients of " .. d, gradients(d, { causal = true }))
  assert(code:find "dpas%.8x8" and not code:find "scratch" and not code:find "barrier", "gradients of " .. d)
end
assert(compile("gradients with a mask", gradients(64, {}, true)):find "dpas%.8x8")
assert(compile("gradients with a sink", gradients(128, {}, false, true)):find "dpas%.8x8")
os.execute("rm -rf " .. dir)

-- Few queries, f32 and heads of 128 have kernels on every target, whatever memory a block has.
for _, case in ipairs { { "bf16", 1, 128 }, { "bf16", 15, 64 }, { "f32", 40, 128 }, { "f64", 40, 64 } } do
  local e, s, d = unpack(case)
  local q, k = zeros(e, 1, 4, s, d), zeros(e, 1, 2, 300, d)
  local m = graph.module("few", function(x, y) return op.attention(x, y, y) end)
  m(q, k)
  for _, target in ipairs { "gfx942", "gfx1200", "pvc", e ~= "f64" and "dg2" or nil } do
    local text = m:ir("asm", { target = target })
    assert(not text:find "no kernel:", ("%s, %d queries, heads of %d, for %s: %s"):format(e, s, d, target, text:sub(1, 300)))
  end
end
