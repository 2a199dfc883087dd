-- The table of scripts/bench/on_card.sh: what machine, driver and program; whether a fixed slice of the agreement
-- cases has the CPU's bits on the device; then products, attention, copies, element-wise operators, and a training
-- step. Sizes grow until a call takes too long for the device: what is left out is said.
package.path = "tests/agree/?.lua;scripts/bench/?.lua;" .. package.path
local ts = require "tessera"
local core, op, rng = ts.core, ts.op, ts.rng
local ffi = require "ffi"
ffi.cdef "typedef struct { long s, ns; } TsCardTime; int clock_gettime(int, TsCardTime *);"
local MOST, RUNS = tonumber(os.getenv "SECONDS_A_ROW") or 2, tonumber(os.getenv "RUNS") or 7
if MOST <= 0 or RUNS < 1 then core.fail "on_card: SECONDS_A_ROW and RUNS are positive numbers" end

local function say(...)
  io.write(...)
  io.write "\n"
  io.flush()
end

local function refuse(...)
  io.stderr:write("on_card: ", table.concat { ... }, "\n")
  os.exit(2, true)
end

-- ---- which device
local GPUS = { cuda = true, hip = true, level_zero = true }

local function find(wanted)
  local devices = ts.devices()
  for _, d in ipairs(devices) do
    if wanted == "" and GPUS[d.name:match "^[%a_]+"] then return d.name end
  end
  if wanted == "" then
    local why = {}
    for kind, text in pairs(devices.missing) do why[#why + 1] = ("  %s: %s\n"):format(kind, (text:gsub("\n.*", ""))) end
    table.sort(why)
    refuse("there is no GPU here:\n", table.concat(why), "name a device to measure another one: \"opencl:0\", \"cpu\"")
  end
  local ok, why = pcall(function() return op.ones(1):to(wanted).device end)
  if not ok then refuse((tostring(why):gsub("^[^:]*:%d+: ", ""))) end
  if why == "null:0" or why:find "^sim" then refuse(why, " runs nothing that could be measured") end
  return why
end

local function first_line(path, pattern)
  for line in io.lines(path) do
    local found = line:match(pattern)
    if found then return found end
  end
  return "unknown"
end

local function output(command)
  local p = io.popen(command)
  local line = p:read "*l" or ""
  p:close()
  return line
end

-- on_card.lua DEVICE SECTION: each section is a process of its own, as drivers may end one.
local section = arg[2] or "head"
local name = find(arg[1] or "")
if section == "name" then
  print(name)
  os.exit(0, true)
end
local is_cpu = name:find "^cpu" ~= nil
core.jit_later(false) -- kernels are measured, not the CPU meanwhile
local text = ""
for _, d in ipairs(ts.devices()) do
  if d.name == name then text = d.text end
end
local function head()
  say("# Tessera ", ts.version, " on ", name, "\n")
  say("- device: ", (text:gsub(";.*", "")))
  say("- machine: ", first_line("/proc/cpuinfo", "^model name%s*:%s*(.*)"), ", ", output "uname -sr")
  say("- program: ", output "git rev-parse --short HEAD 2>/dev/null", ", LuaJIT ", jit.version:match "%S+$")
  say("- when: ", os.date "!%Y-%m-%d %H:%M UTC")
end

-- ---- whether it is right: the first case of each row
local cases = require "_cases"
local by_unit = { matmul = true, attention = true } -- sums of 16 bits have another chain there
local unspecified = { empty = true, empty_like = true }

local function outputs(c, x, where)
  core.seed(17)
  local ok, out = pcall(function()
    if #c.x > 0 or not where then return cases.call(c, x) end
    return ts.device(where, cases.call, c, x)
  end)
  return ok and out or tostring(out):gsub("^[^:]*:%d+: ", "")
end

local function near(got, want)
  if not want.dtype:find "16$" or got.dtype ~= want.dtype then return false end
  local x, y = op.cast(got:to "cpu", "f32"), op.cast(want, "f32")
  local function most(t) return op.max(op.abs(t)):item() end
  return most(x - y) <= most(y) * (want.dtype == "bf16" and 2 ^ -6 or 2 ^ -9)
end

-- "same", "near", or what differs.
local function compare(c, x)
  local there = {}
  for i, t in ipairs(x) do there[i] = t and t:to(name) end
  local want, got = outputs(c, x), outputs(c, there, name)
  if type(want) == "string" or type(got) == "string" then return want == got and "same" or tostring(got) end
  local how = "same"
  for i, y in ipairs(want) do
    if core.is_tensor(y) and not unspecified[c.row] and got[i]:hash() ~= y:hash() then
      if not by_unit[c.row] or not near(got[i], y) then return ("output %d has other bits"):format(i) end
      how = "near"
    end
  end
  return how
end

local function correctness()
  local seen, count, wrong = {}, { same = 0, near = 0 }, {}
  local before = core.jit_device()
  for c in cases.each() do
    local x = not seen[c.row] and cases.inputs(c)
    if x then
      seen[c.row] = true
      local how = compare(c, x)
      if count[how] then count[how] = count[how] + 1 else wrong[#wrong + 1] = ("%s: %s"):format(cases.name(c), how) end
    end
  end
  local s = core.jit_device()
  local all = count.same + count.near + #wrong
  say(("- right: %d of %d operators have the bits of the CPU%s; %s"):format(count.same, all,
    count.near > 0 and (", %d those of a matrix unit"):format(count.near) or "",
    is_cpu and "it is the CPU" or ("%d calls, %d of them by the CPU"):format(s.calls - before.calls, s.fallback - before.fallback)))
  for _, line in ipairs(wrong) do say("  - wrong: ", line) end
  return #wrong == 0
end

-- ---- how fast it is
local function now()
  local t = ffi.new "TsCardTime"
  ffi.C.clock_gettime(1, t) -- CLOCK_MONOTONIC
  return tonumber(t.s) + 1e-9 * tonumber(t.ns)
end

local function seconds_of(f, n)
  ts.synchronize()
  local begun = now()
  for _ = 1, n do f() end
  ts.synchronize()
  return (now() - begun) / n
end

-- The median of several measurements, each of so many calls that it takes some 50 ms.
local function measure(f)
  f()
  local once = seconds_of(f, 1)
  local n, all = math.max(1, math.floor(0.05 / math.max(once, 1e-7))), {}
  for i = 1, once > MOST / 4 and 1 or RUNS do all[i] = seconds_of(f, n) end
  table.sort(all)
  return all[math.floor((#all + 1) / 2)]
end

local rate, left_out, failed = {}, {}, false
local function row(kind, what, work, unit, make)
  -- What the size before did says how long this one takes: compilers' time is none of it.
  if rate[kind] and work / rate[kind] > MOST then
    left_out[#left_out + 1] = kind .. " | " .. what
    return
  end
  local before = core.jit_device()
  local ok, why = pcall(function()
    local seconds = measure(make())
    local after = core.jit_device()
    local by_cpu = after.fallback > before.fallback or after.meanwhile > before.meanwhile
    rate[kind] = work / seconds
    say(("| %s | %s | %.4g ms | %.4g %s | %s |"):format(kind, what, seconds * 1e3, work / seconds / unit[2], unit[1],
      (is_cpu or not by_cpu) and name or "the CPU, in part or all"))
  end)
  failed = failed or not ok
  if not ok then say(("| %s | %s | | %s | |"):format(kind, what, (tostring(why):gsub("\n.*", ""):gsub("|", "/")))) end
  collectgarbage()
end
local TFLOPS, GBYTES = { "TFLOP/s", 1e12 }, { "GB/s", 1e9 }
local function normal(shape, dtype) return rng.normal(shape):cast(dtype or "f32"):to(name) end

local sections = {}
sections.head = function()
  head()
  if not correctness() then failed = true end
  say "\n| what | size | time | rate | computed by |\n| --- | --- | --- | --- | --- |"
end

sections["products"] = function()
  for _, n in ipairs { 256, 512, 1024, 2048, 4096, 8192, 16384 } do
    row("product, bf16", ("%d x %d x %d"):format(n, n, n), 2 * n ^ 3, TFLOPS, function()
      local a, b = normal({ n, n }, "bf16"), normal({ n, n }, "bf16")
      return function() return op.matmul(a, b) end
    end)
  end
  for _, n in ipairs { 256, 1024, 4096 } do
    row("product, f32", ("%d x %d x %d"):format(n, n, n), 2 * n ^ 3, TFLOPS, function()
      local a, b = normal { n, n }, normal { n, n }
      return function() return op.matmul(a, b) end
    end)
  end
end

sections["attention"] = function()
  for _, d in ipairs { 64, 128 } do
    for _, causal in ipairs { false, true } do
      local kind = ("attention, bf16, heads of %d%s"):format(d, causal and ", causal" or "")
      for _, s in ipairs { 256, 1024, 4096, 16384 } do
        row(kind, ("16 heads, %d keys"):format(s), 4 * 16 * s * s * d / (causal and 2 or 1), TFLOPS, function()
          local q = normal({ 1, 16, s, d }, "bf16")
          return function() return op.attention(q, q, q, nil, nil, { causal = causal }) end
        end)
      end
    end
  end
end

sections["copies"] = function()
  for _, mib in ipairs { 1, 16, 256, 1024 } do
    local n = mib * 2 ^ 18
    row("copy on it", mib .. " MiB", 2 * 4 * n, GBYTES, function()
      local x = normal { n }
      return function() return x:clone() end
    end)
  end
  for _, mib in ipairs { 1, 64 } do
    local n = mib * 2 ^ 18
    if not is_cpu then -- asking for its address makes the host's copy the valid one
      row("copy to it, and x + 1", mib .. " MiB", 4 * n, GBYTES, function()
        local x = rng.normal { n }
        return function()
          x:data_ptr()
          return x:to(name) + 1
        end
      end)
      row("x + 1, and copy back", mib .. " MiB", 4 * n, GBYTES, function()
        local x = normal { n }
        return function() return (x + 1):to "cpu":data_ptr() end
      end)
    end
  end
end

sections["element-wise"] = function()
  for _, mib in ipairs { 1, 16, 256 } do
    local n = mib * 2 ^ 18
    row("gelu(x) * y, f32", mib .. " MiB each", 3 * 4 * n, GBYTES, function()
      local f, x, y = ts.graph.module("f", function(a, b) return op.gelu(a) * b end), normal { n }, normal { n }
      return function() return f(x, y) end
    end)
  end
  for _, n in ipairs { 256, 4096 } do
    row("softmax, f32", ("%d x 4096"):format(n), 2 * 4 * n * 4096, GBYTES, function()
      local f, x = ts.graph.module("f", function(a) return op.softmax(a) end), normal { n, 4096 }
      return function() return f(x) end
    end)
  end
end

-- Layers, width, heads, context, batch, vocabulary; GPT-2's own sizes are the last.
sections["steps"] = function()
  for _, size in ipairs { { 2, 128, 4, 64, 2, 512 }, { 4, 256, 8, 128, 4, 2048 }, { 12, 768, 12, 1024, 4, 50304 } } do
    local layers, width, _, context, batch, words = unpack(size)
    local parameters = 12 * layers * width ^ 2 + width * (words + context)
    local tokens = batch * context
    -- Operations, so that sizes compare; tokens are said.
    row("training step of a GPT", ("%d layers of %d, %d x %d tokens"):format(layers, width, batch, context),
      6 * parameters * tokens, TFLOPS, function()
        arg = {}
        local new = dofile "scripts/bench/gpt.lua"
        local step = ts.device(name, new, unpack(size))
        return function() return step() end
      end)
  end
end

if not sections[section] then refuse("no section ", section) end
sections[section]()
if #left_out > 0 then
  for _, what in ipairs(left_out) do say(("| %s | a call would take more than %g s | | |"):format(what, MOST)) end
end
if failed then os.exit(1, true) end
