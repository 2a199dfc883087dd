-- What the code of the dearest kernels says of itself, without a card: registers, memory of a block, how many waves
-- a processor holds, spills, and instructions for one multiply-add in the main loop. Of AMD's targets by LLVM's text,
-- of Intel's by ocloc (Debian's intel-opencl-icd) and spirv-as (scripts/python.sh).
--   bin/tessera scripts/bench/static_figures.lua [--write]      --write: into docs/performance_devices.md
local ts = require "tessera"
local op, graph = ts.op, ts.graph
local DOC = "docs/performance_devices.md"
local BEGIN, END = "<!-- static figures -->", "<!-- end of static figures -->"

local function fail(...) io.stderr:write("static_figures: ", ..., "\n") os.exit(1) end
local function output(command)
  local p = assert(io.popen(command .. " 2>&1"))
  local text = p:read "*a"
  p:close()
  return text
end
local function read(path)
  local f = io.open(path)
  if not f then return nil end
  local text = f:read "*a"
  f:close()
  return text
end
local function write(path, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
end

-- ---- the main loop: of all that goes back to a label, the smallest one that multiplies most
-- list: {label = name} or {op = word, to = label}; works(op): multiply-adds of an instruction by all its lanes.
local function main_loop(list, works)
  local place, best = {}, nil
  for i, x in ipairs(list) do
    if x.label then place[x.label] = i end
    local from = x.to and place[x.to]
    if from then
      local n, macs, units = 0, 0, 0
      for k = from, i do
        local w = list[k].op and works(list[k].op) or 0
        n, macs, units = n + (list[k].op and 1 or 0), macs + w, units + (w > 0 and 1 or 0)
      end
      if units > 0 and (not best or units > best.units or units == best.units and n < best.n) then
        best = { n = n, macs = macs, units = units }
      end
    end
  end
  return best
end

-- ---- AMD: registers of a SIMD for a lane, in steps of so many; the most waves of one; SIMDs and bytes of a unit
local amd = { gfx942 = { file = 512, step = 8, most = 8, simds = 4, lanes = 64, shared = 65536 },
  gfx950 = { file = 512, step = 8, most = 8, simds = 4, lanes = 64, shared = 163840 },
  gfx1200 = { file = 1536, step = 24, most = 16, simds = 2, lanes = 32, shared = 65536 } }

local function amd_works(word)
  local m, n, k = word:match "^v_mfma_f32_(%d+)x(%d+)x(%d+)"
  if not m then m, n, k = word:match "^v_wmma_f32_(%d+)x(%d+)x(%d+)" end
  return m and m * n * k or 0
end

local function amd_code(text, phase)
  local body, list = text:match("\n" .. phase .. ":(.-)\n%s*s_endpgm"), {}
  for line in (body or ""):gmatch "[^\n]+" do
    local label = line:match "^(%.L[%w_]+):"
    local word, rest = line:match "^\t([a-z][%w_]*)%s*(.*)"
    if label then list[#list + 1] = { label = label } end
    if word then list[#list + 1] = { op = word, to = word:find "branch" and rest:match "(%.L[%w_]+)" } end
  end
  return list
end

local function amd_row(target, text)
  local t, rows = amd[target], {}
  for phase, threads, shared in text:gmatch "// (phase%d+): blocks of (%d+) threads, (%d+) bytes" do
    threads, shared = tonumber(threads), tonumber(shared)
    local meta = text:match("%.name:%s+" .. phase .. "\n(.-)%.wavefront_size")
    local function field(name) return tonumber(meta and meta:match("%." .. name .. ":%s+(%d+)")) or 0 end
    local registers = field "vgpr_count" -- of both halves, where there are two
    local waves = math.min(t.most, math.floor(t.file / (math.ceil(registers / t.step) * t.step)))
    local of_block = threads / t.lanes
    local blocks = math.floor(waves * t.simds / of_block)
    if shared > 0 then blocks = math.min(blocks, math.floor(t.shared / shared)) end
    rows[#rows + 1] = { phase = phase, threads = threads, registers = registers, spills = field "vgpr_spill_count", shared = shared,
      held = blocks * of_block / t.simds, loop = main_loop(amd_code(text, phase), amd_works), word = target:find "^gfx9" and "MFMA" or "WMMA" }
  end
  return rows
end

-- ---- Intel: threads of a vector engine with 128 registers of 64 bytes; bytes of an Xe core
local INTEL = { threads = 8, engines = 8, shared = 131072 }

-- unit: other multiply-adds are no part of a product
local function intel_works(word, lanes, unit)
  if word:find "^dpas" then return 8 * lanes * 16 end
  return not unit and (word == "mad" or word == "madm") and lanes or 0
end

local function intel_code(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local label = line:match "^(L%d+):"
    local bare = line:gsub("^%b()", "") -- who does it
    local word, lanes, rest = bare:match "^%s*([a-z][%w_%.]*)%s*%((%d+)|M%d+%)(.*)"
    if label then list[#list + 1] = { label = label } end
    local jump = line:match "jmpi%s.-(L%d+)" -- without lanes
    if jump then list[#list + 1] = { op = "jmpi 1", to = jump } end
    if word and not jump then
      local to = (word:find "^goto" or word:find "^jmpi" or word:find "^while") and rest:match "(L%d+)"
      list[#list + 1] = { op = word .. " " .. lanes, to = to }
    end
  end
  return list
end

-- The bytes of variables that a phase's block shares.
local function intel_shared(text, phase)
  local bytes, id = 0, text:match('OpName %%(%d+) "' .. phase .. '"')
  local body = text:match("%%" .. id .. " = OpFunction .-OpFunctionEnd")
  for variable, pointer in text:gmatch "%%(%d+) = OpVariable %%(%d+) Workgroup" do
    local array = text:match("%%" .. pointer .. " = OpTypePointer Workgroup %%(%d+)")
    local elem, count = text:match("%%" .. array .. " = OpTypeArray %%(%d+) %%(%d+)")
    local width, n = text:match("%%" .. elem .. " = OpType%a+ (%d+)"), text:match("%%" .. count .. " = OpConstant %%%d+ (%d+)")
    if body:find("%%" .. variable .. "%f[%D]") then bytes = bytes + (tonumber(width) or 8) / 8 * (tonumber(n) or 0) end
  end
  return bytes
end

local function intel_row(target, text)
  local dir = os.tmpname()
  os.remove(dir)
  os.execute("mkdir -p " .. dir .. "/dump")
  write(dir .. "/k.spvasm", (text:gsub("//[^\n]*\n", "")))
  local as = output "ls build/python/lib/python3*/site-packages/cmeel.prefix/bin/spirv-as":match "^(%S+)\n"
  if not as or as:find "^ls" then return nil, "no spirv-as: run sh scripts/python.sh" end
  if output "command -v ocloc" == "" then return nil, "no ocloc: install intel-opencl-icd" end
  local said = output(("%s --target-env spv1.2 %s/k.spvasm -o %s/k.spv"):format(as, dir, dir))
  if said ~= "" then return nil, "spirv-as: " .. said:match "[^\n]*" end
  local large = text:find "large_registers" -- threads are to have 256 of them (devices/target.h)
  said = output(("cd %s && ocloc compile -file k.spv -spirv_input -device %s -output k -options '%s'"):format(dir, target,
    large and "-cl-intel-256-GRF-per-thread" or ""))
  if not said:find "Build succeeded" then return nil, "ocloc: " .. said:match "[^\n]*" end
  -- Debian's ocloc asks for the disassembler by a name that only its development package has.
  output(("for f in /usr/lib/*/libiga64.so.1; do ln -s $f %s/libiga64.so; done"):format(dir))
  output(("cd %s && LD_LIBRARY_PATH=. ocloc disasm -file k_*.bin -device %s -dump dump"):format(dir, target))
  local rows = {}
  for phase, threads in text:gmatch "// (phase%d+): blocks of (%d+) threads" do
    local code = read(("%s/dump/%s_KernelHeap.asm"):format(dir, phase))
    if not code then return nil, "ocloc gave no code of " .. phase end
    local spill = said:match("kernel " .. phase .. "%s.-spilled around (%d+)")
    local registers = said:match("kernel " .. phase .. "%s.-allocated (%d+) regs")
    local shared, unit = intel_shared(text, phase), code:find "dpas"
    local of_block = threads / (unit and 16 or 32)
    local blocks = math.floor(INTEL.threads / (large and 2 or 1) * INTEL.engines / of_block)
    if shared > 0 then blocks = math.min(blocks, math.floor(INTEL.shared / shared)) end
    rows[#rows + 1] = { phase = phase, threads = tonumber(threads), registers = tonumber(registers) or large and 256 or 128, spills = tonumber(spill) or 0,
      shared = shared, held = blocks * of_block / INTEL.engines,
      loop = main_loop(intel_code(code), function(x)
        local word, lanes = x:match "(%S+) (%d+)"
        return intel_works(word, tonumber(lanes), unit)
      end), word = unit and "DPAS" or "mad of 32 lanes" }
  end
  os.execute("rm -r " .. dir)
  return rows
end

-- ---- the kernels
local function zeros(...) return op.zeros({ ... }):cast "bf16" end
local product = graph.module("product", function(x, y) return op.matmul(x, y) end)
product(zeros(4096, 4096), zeros(4096, 4096))
local along = graph.module("along", function(x, y) return op.matmul(x, y:transpose(0, 1)) end)
along(zeros(4096, 4096), zeros(4096, 4096))
local q = zeros(1, 16, 2048, 64)
local attention = graph.module("attention", function(x, y, z) return op.attention(x, y, z) end)
attention(q, q, q)
local wide = zeros(1, 16, 2048, 128)
local attention_wide = graph.module("attention_wide", function(x, y, z) return op.attention(x, y, z, nil, nil, { causal = true }) end)
attention_wide(wide, wide, wide)
local gradients = graph.module("gradients", function(x, y, g) return op.attention_grad(x, y, y, nil, nil, g, g, { causal = true }) end)
gradients(wide, wide, wide)
local kernels = { { "product of bf16, 4096 x 4096 x 4096", product }, { "the same, B along k", along },
  { "attention of bf16, heads of 64, 2048 keys", attention },
  { "attention of bf16, causal, heads of 128, 2048 keys", attention_wide }, { "its gradients", gradients } }

-- Published kernels: {target, what, threads, registers, spilled, bytes, held, instructions, source}.
local published = {
  { "gfx942", "product of f16, 256 x 256 x 64 (hipBLASLt's assembly)", "256", "512", "0", "64 KiB", "1",
    "1.86 for each MFMA (477 for 256), 2198 multiply-adds an instruction", "hipBLASLt, `tensilelite/Tensile/CustomKernels/Custom_Cijk_Ailk_Bljk_HSS_BH_Bias_GG_AS_SAV_UserArgs_shortname10_gfx942.s` at 7d9fb683: its head, and its words disassembled by llvm-mc" },
  { "gfx942", "attention of bf16, causal, heads of 128 (AITER's assembly)", "512", "256", "-", "64 KiB", "2",
    "17.16 for each MFMA (3020 for 176 of 32 x 32 x 8), 477 multiply-adds an instruction", "ROCm/aiter, `hsa/gfx942/fmha_v3_fwd/MI300/fwd_hd128_bf16_causal_rtne.co` at e4048607: its notes, and its words disassembled by llvm-objdump" },
  { "gfx942", "its gradients (AITER's assembly)", "256", "512", "-", "64 KiB", "1",
    "9.62 for each MFMA (4617 for 480), 426 multiply-adds an instruction", "ROCm/aiter, `hsa/gfx942/fmha_v3_bwd/bwd_hd128_bf16_causal_a32_rtne.co` at e4048607, likewise" },
  { "pvc", "product of bf16, 256 x 256 x 32 (XeTLA)", "512 (32 of 16 lanes)", "256", "-", "none: operands by 2D block loads", "4", "-",
    "intel/xetla, basic_gemm.cpp of its examples: tiles of 32 x 64 a sub-group, of which the sums alone take 128 registers" },
  { "pvc", "product of bf16, 256 x 256 x 32 (CUTLASS for SYCL)", "512 (32 of 16 lanes)", "256", "-", "none: operands by 2D block loads", "4", "-",
    "intel/sycl-tla, pvc_sycl.cpp of its tutorial: DPAS of 8 x 16 x 16, 8 x 4 sub-groups, three stages ahead" },
}

local function number(x) return (("%.2f"):format(x):gsub("0$", "")) end
local lines = { "| target | kernel | threads | registers | spilled | memory of a block | waves held by a SIMD or engine | instructions of the main loop | from |",
  "| --- | --- | --- | --- | --- | --- | --- | --- | --- |" }
local function put(...) lines[#lines + 1] = "| " .. table.concat({ ... }, " | ") .. " |" end
for _, target in ipairs { "gfx942", "gfx950", "gfx1200", "pvc" } do
  for _, k in ipairs(kernels) do
    local text = k[2]:ir("asm", { target = target })
    local none = text:match "// no kernel: ([^\n]*)"
    local rows, why
    if not none then rows, why = (amd[target] and amd_row or intel_row)(target, text) end
    if not rows then put(target, k[1], "-", "-", "-", "-", "-", none and "no kernel: " .. none or "not known: " .. tostring(why), "ours") end
    for _, r in ipairs(rows or {}) do
      local l = r.loop
      put(target, k[1] .. (#rows > 1 and ", " .. r.phase or ""), tostring(r.threads), tostring(r.registers), tostring(r.spills),
        ("%d bytes"):format(r.shared), number(r.held),
        l and ("%s for each %s (%d for %d), %.0f multiply-adds an instruction"):format(number(l.n / l.units), r.word, l.n, l.units, l.macs / l.n) or "no loop that multiplies",
        "ours")
    end
  end
  for _, p in ipairs(published) do
    if p[1] == target then put(unpack(p)) end
  end
end
local text = table.concat(lines, "\n") .. "\n"
if arg[1] == "--write" then
  local doc = read(DOC) or fail("no ", DOC)
  local a, b = doc:find(BEGIN .. "\n", 1, true), doc:find(END, 1, true)
  if not a or not b then fail(DOC, " has no place for it: ", BEGIN) end
  write(DOC, doc:sub(1, a + #BEGIN) .. "\n" .. text .. "\n" .. doc:sub(b))
else
  io.write(text)
end
