-- Pages of profiles in headless Chromium, light and dark: _page.py says what must hold of each.
local tessera = require "tessera"
local op, graph, jit, profile = tessera.op, tessera.graph, tessera.jit, tessera.profile
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)
local function path(name) return folder .. "/" .. name .. ".html" end
local function report(name, f, ...) profile.report(f, { args = { ... }, runs = 2, warm = 1, html = path(name) }) end

jit.eager(true)
local w, x = op.linspace(-1, 1, 96 * 64):reshape { 96, 64 }, op.linspace(-2, 2, 48 * 96):reshape { 48, 96 }
local f = graph.module("f", function(v)
  local h = v:matmul(w)
  return op.softmax(op.gelu(h), { axis = 1 })
end)
for _ = 1, 3 do f(x) end
report("captured", f, x)
report("kernel", op.kernel("twice", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
  for i in t:parallel(0, t.N, 64) do
    local v = x:load({ i }, 64)
    y:store({ i }, v + v)
  end
end), op.ones(640))
jit.eager(false)
local a = op.ones({ 64, 64 }, { dtype = "bf16" }):to "sim:0"
report("device", graph.module("g", function(u) return op.softmax(u:matmul(u):cast "f32", { axis = 1 }) end), a)
report("plain", function(u) return op.softmax(u:matmul(w), { axis = 1 }):sum() end, x)
local script = assert(io.open(folder .. "/s.lua", "w"))
script:write [[
local t = require "tessera"
local f = t.graph.module("f", function(x) return t.op.softmax(x * 2, {axis = 0}) end)
for i = 1, 20 do f(t.op.ones(64)) end
print("<b>&amp;", t.op.ones(8):to("sim:0"):sum():item())]]
script:close()
os.execute(("%s --profile-to=%s %s/s.lua > /dev/null 2>&1"):format(arg[-1] or "bin/tessera", path "program", folder))

local pipe = io.popen(("cd %s && python3 $OLDPWD/tests/lua/profile/_page.py captured.html kernel.html device.html plain.html program.html 2>&1"):format(folder))
local said = pipe:read "*a"
pipe:close()
said:match "wrong: [^\n]*", said:match "Traceback.*" --> nil, nil
if said:find "^skipped: " then print((said:gsub("\n$", "")))
else
  local facts = {}
  for line in said:gmatch "[^\n]+" do facts[line:match "^(%w+)%.html:"] = line end
  local function lit(name) return tonumber(facts[name]:match "(%d+) lines lit") end
  assert(facts.captured:find("What ran when, Stages of kernels, Roofline, The program, and what runs; ", 1, true), said)
  assert(facts.captured:find " 2 points, 3 rows" and lit "captured" >= 3 and lit "kernel" >= 1, said)
  assert(facts.device:find("Kernels on devices, ", 1, true) and facts.device:find "on sim:0, Roofline of sim:0, The program" and lit "device" >= 3, said)
  assert(facts.plain:find "^plain.html: What called what, What ran when" and facts.program:find "What called what", said)
end
os.execute("rm -r " .. folder)
