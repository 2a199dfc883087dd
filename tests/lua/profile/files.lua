-- Files of profiles as others read them: timelines in Perfetto's trace processor, tables in Python's csv. _check.py says
-- what must hold of each: tracks with names, slices within or behind one another, stages that add up, as many as rows.
local tessera = require "tessera"
local op, graph, jit, profile = tessera.op, tessera.graph, tessera.jit, tessera.profile
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)
local function path(name) return folder .. "/" .. name end
local function report(name, f, ...)
  profile.report(f, { args = { ... }, runs = 2, warm = 1, trace = path(name .. ".json"), csv = path(name .. ".csv") })
end
local function check(...)
  local list = {}
  for i, name in ipairs { ... } do list[i] = path(name) end
  local pipe = io.popen("python3 tests/lua/profile/_check.py " .. table.concat(list, " ") .. " 2>&1")
  local said = pipe:read "*a"
  pipe:close()
  return said
end
local function write(name, text)
  local f = assert(io.open(path(name), "w"))
  f:write(text)
  f:close()
end

-- On the processor: a captured function, loops within one, a kernel of op.kernel.
jit.eager(true)
local w, x = op.linspace(-1, 1, 96 * 64):reshape { 96, 64 }, op.linspace(-2, 2, 48 * 96):reshape { 48, 96 }
local f = graph.module("f", function(v) return op.softmax(op.gelu(v:matmul(w)), { axis = 1 }) end)
for _ = 1, 3 do f(x) end
report("captured", f, x)
report("loop", graph.module("loop", function(v)
  return op.while_loop(function(i) return i:lt(5) end, function(i, u) return i + 1, u:tanh() end, op.zeros({}, { dtype = "i64" }), v)
end), x)
local twice = op.kernel("twice", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
  for i in t:parallel(0, t.N, 64) do
    local v = t:stage("load", "mine", function() return x:load({ i }, 64) end)
    t:stage("store", "and away", function() y:store({ i }, v + v) end)
  end
end)
for _ = 1, 3 do twice(op.ones(640)) end
report("kernel", twice, op.ones(640))
jit.eager(false)

-- On a device, which is simulated; what is no captured function; a whole program.
local a, b = op.ones({ 64, 32 }, { dtype = "bf16" }):to "sim:0", op.ones({ 32, 64 }, { dtype = "bf16" }):to "sim:0"
report("device", graph.module("g", function(u, v) return op.softmax(u:matmul(v):cast "f32", { axis = 1 }) end), a, b)
report("device_kernel", twice, op.ones(640):to "sim:0")
report("plain", function(u, v) return u:matmul(v):cast "f32":sum() end, a, b)
write("s.lua", [[
local t = require "tessera"
local f = t.graph.module("f", function(x) return t.op.softmax(x * 2, {axis = 0}) end)
for i = 1, 20 do f(t.op.ones(64)) end
print(t.op.ones(8):to("sim:0"):sum():item())]])
os.execute(("%s --profile-to=%s --profile-to=%s %s > /dev/null 2>&1"):format(arg[-1] or "bin/tessera", path "program.json", path "program.csv", path "s.lua"))

local said = check("captured", "loop", "kernel", "device", "device_kernel", "plain", "program")
said:match "wrong: [^\n]*", said:match "Traceback.*" --> nil, nil
if said:find "^skipped: " then print((said:gsub("\n$", "")))
else
  local facts = {}
  for line in said:gmatch "[^\n]+" do facts[line:match "^[^:]+"] = line end
  assert(facts.captured:find "^captured: 2 processes, [^;]*; .*mma %d+.*; tracks beside: mma$", said)
  assert(facts.loop:find "instruction 17;", said)
  assert(facts.kernel:find "load %d+.*store %d+; tracks beside: loads$", said)
  assert(facts.device:find "^device: 3 processes, .*block %d+.*kernel 2.*warp %d+; tracks beside: copies, mma$", said)
  assert(facts.device_kernel:find "^device_kernel: 2 processes.*load 10,", said)
  assert(facts.plain and facts.program:find "function 20, ", said)
end

-- The check finds what it is for: spans across each other, a number that is missing without a reason, parts that do not add up.
if not said:find "^skipped: " then
  local files = require "tessera.profile.files"
  local start = { files.process(1, "p"), files.track(1, 0, "t") }
  write("across.json", files.trace { start[1], start[2], files.span(1, 0, "a", 0, 10, '"x":1'), files.span(1, 0, "b", 5, 10, '"x":1') })
  assert(check("across"):find "what the trace processor found wrong: 1")
  write("nameless.json", files.trace { start[1], files.span(1, 7, "a", 0, 10, '"x":1') })
  assert(check("nameless"):find "tracks without names")
  write("short.json", files.trace { start[1], start[2], files.span(1, 0, "a", 0, 10, '"x":1', "warp"), files.span(1, 0, "b", 0, 9, '"x":1', "load") })
  assert(check("short"):find "stages that do not add up")
  write("short.csv", "path,kind,us,own_us,reason\nx,program,,1,\"\"\n")
  assert(check("short"):find "us is empty, and nobody says why")
end
os.execute("rm -r " .. folder)
