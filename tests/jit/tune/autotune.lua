-- The tuner: every candidate has the bits of the VM, winners outlive the process, damaged files
-- are none. Nothing here looks at times.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit, autotune = tessera.op, tessera.graph, tessera.jit, tessera.autotune
if not jit.status() then return print "skipped: nothing is compiled here" end

local folder = os.tmpname()
os.remove(folder)
local BIN = arg[-1] or "bin/tessera"
local function child(code, before)
  local file = folder .. ".lua"
  local f = io.open(file, "w")
  f:write(code)
  f:close()
  local p = io.popen(("TESSERA_CACHE=%s %s %s %s 2>&1"):format(folder, before or "", BIN, file))
  local text = p:read "*a"
  p:close()
  os.remove(file)
  return (text:gsub("\n+$", ""):gsub("\t", " "))
end

-- Each candidate of groups of each kind, by the VM and by kernels; the count of them is printed.
local every = [[
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local function R(shape, seed, dtype)
  return op.uniform(shape, {seed = seed, low = -2, high = 2, dtype = dtype or "f32"})
end
local labels = op.randint({300}, {low = 0, high = 200, seed = 5, dtype = "i64"})
local cases = {
  {function(a, b) return op.gelu(a * 2 + b), a - b end, R({70001}, 1), R({70001}, 2)},
  {function(a, b) return op.tanh(a) * b end, R({37, 20011}, 3), R({20011}, 4)},
  {function(a, b) return (a:T() + b):exp() end, R({130, 70}, 5, "f64"), R({70, 130}, 6, "f64")},
  {function(a, b) return (a * b):relu() end, R({9, 1031}, 7, "bf16"), R({1031}, 8, "bf16")},
  {function(a, b) return op.layernorm(op.gelu(a + b)) end, R({67, 771}, 9), R({771}, 10)},
  {function(a) local y = a * 3 return op.softmax(y), y:sum {axis = 1}, y:max {axis = 1} end, R({1025, 33}, 11)},
  {function(a, b) return (a * b):sum {axis = 1} end, R({40, 9000}, 12), R({40, 9000}, 13)},
  {function(a, b) return (a * b):sum {axis = 0} end, R({300, 133}, 14), R({300, 133}, 15)},
  {function(a, b, c) return op.gelu(a:matmul(b) + c) end, R({133, 70}, 16), R({70, 99}, 17), R({99}, 18)},
  {function(a, b) return a:T():matmul(b) * 2 end, R({1100, 70}, 19), R({1100, 99}, 20)},
  {function(a, b) return a:matmul(b):relu() end, R({3, 90, 66}, 21, "bf16"), R({66, 80}, 22, "bf16")},
  {function(a, b, c) return a:relu():matmul(b * c):tanh() end, R({1500, 555}, 26), R({555, 99}, 27), R({99}, 28)},
  {function(q, k, v)
    return op.attention(q, k, v, {causal = true}):transpose(1, 2):reshape {2, 150, 96}
  end, R({2, 3, 150, 32}, 23), R({2, 3, 150, 32}, 24), R({2, 3, 150, 32}, 25)},
  {function(a, b) return a:matmul(b):relu() end, R({90, 66}, 29, "f64"), R({66, 80}, 30, "f64")},
  {function(a, b, s) return a:matmul(b:cast "f32" * s) end, R({64, 300}, 31),
    op.randint({300, 256}, {low = -100, high = 100, seed = 32, dtype = "i8"}), R({256}, 33)},
  {function(x, w, b) return op.conv2d(x:relu(), w, b, {padding = 1}):relu() * 2 end,
    R({2, 16, 20, 20}, 34), R({24, 16, 3, 3}, 35), R({24}, 36)},
  {function(x, w) return op.conv2d(x, w, nil, {padding = 1, stride = 2}):relu() end,
    R({2, 16, 21, 21}, 37), R({24, 16, 3, 3}, 38)},
  {function(x) return op.cross_entropy(x * 2, labels) end, R({300, 200}, 39)},
  {graph.grad(function(x) return op.cross_entropy(x * 2, labels) end), R({300, 200}, 40)},
  {graph.grad(function(x, w, b) return op.layernorm(x, w, b):square():sum() end, {1, 2, 3}),
    R({130, 257}, 41), R({257}, 42), R({257}, 43)},
  {graph.grad(function(x, w) return op.rmsnorm(x, w):square():sum() end, {1, 2}), R({130, 257}, 44), R({257}, 45)},
  {graph.grad(function(x) return op.softmax(x * 3):square():sum() end), R({130, 257}, 46)},
  {graph.grad(function(x, w, b) return op.gelu(x:matmul(w) + b):sum() end, {1, 2, 3}),
    R({64, 90}, 47), R({90, 66}, 48), R({66}, 49)},
  {function(x) return op.softmax(x:T() * 2) end, R({133, 70}, 50)},
  {function(x) return op.layernorm(x * 2) end, R({90, 771}, 51, "f16")},
  {function(x, y) return (x * y):sum {axis = 0}, (x * y):max {axis = 0} end, R({600, 133}, 52), R({600, 133}, 53)},
  {function(x) return op.dropout(x * 2, {p = 0.3, seed = 3, stream = 1}) + 1 end, R({300, 133}, 54)},
  {function(w, g, m, v)
    m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    return w - m / (v:sqrt() + 1e-8), m, v
  end, R({50000}, 55), R({50000}, 56), R({50000}, 57), R({50000}, 58):abs()},
}
local most, kinds = 0, {}
for n, case in ipairs(cases) do
  local f = type(case[1]) == "table" and case[1] or graph.module("f", case[1])
  local function hash()
    local t = {f(unpack(case, 2))}
    for i = 1, #t do t[i] = t[i]:hash() end
    return table.concat(t, " ")
  end
  jit.off()
  local want = hash()
  jit.on()
  jit.eager(true)
  local seen = {}
  for i = 0, 31 do
    core.autotune_force(i)
    jit.flush()
    local have = hash()
    if have ~= want then print("case " .. n, "candidate " .. i, "other bits") end
    if jit.stats().promoted ~= 1 then print("case " .. n, "candidate " .. i, "no kernel") end
    local text = f:ir "schedule"
    if seen[text] and i > 0 then break end -- the passes' own choice again: there are no more
    seen[text] = i
    if i > most then most = i end
    for kind in text:gmatch "\n  (%l+) +%%" do kinds[kind] = true end
  end
  jit.flush()
end
local words = {}
for kind in pairs(kinds) do if kind ~= "vm" then words[#words + 1] = kind end end
table.sort(words)
print("candidates", most > 8, table.concat(words, " "))
]]
child(every) --> candidates true attention columns conv map matmul rows
child(every, "TESSERA_ISA=avx2") --> candidates true attention columns conv map matmul rows

-- A winner that is on disk runs in a process that measures nothing.
local kernel = [[
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit, autotune = tessera.op, tessera.graph, tessera.jit, tessera.autotune
local f = graph.module("f", function(a, b) return op.tanh(a * b + 1) end)
local x = op.uniform({ 300, 500 }, { seed = 1 })
jit.eager(true)
f(x, x)
]]
local function files()
  local p = io.popen("ls " .. folder .. "/*.t 2>/dev/null")
  local list = {}
  for path in p:lines() do list[#list + 1] = path end
  p:close()
  return list
end
local function read(path)
  local f = io.open(path, "rb")
  local text = f:read "*a"
  f:close()
  return text
end
local function write(path, text)
  local f = io.open(path, "wb")
  f:write(text)
  f:close()
end
local out
#files() --> 0
out = child(kernel .. [[
autotune.budget { ms = 1e5, total = 1e6, candidates = 3 }
local r = autotune.tune(f, x, x)
print(#r, r[1].why, r[1].differing, r[1].kernel:match "^mul add tanh", #r[1] > 3, r[1][4].us ~= nil, r[1][1].choice)
]])
out --> 1 nil 0 mul add tanh true true as it was
#files() --> 1
local file = files()[1]
local text = read(file)
text:match "^tessera tune 1\nkey %x+\nchoice" ~= nil --> true
text:match "\ndate %d+%-%d+%-%d+T" ~= nil and text:match "\nmachine " ~= nil and text:match "\nversion " ~= nil --> true

-- With another choice in it, under its right hash: who chose is not asked.
local resum = [[
local path, choice = %q, %q
local f = io.open(path); local text = f:read "*a"; f:close()
text = text:gsub("\nchoice[^\n]*", "\nchoice" .. choice):gsub("hash %%x+\n$", "")
local p = io.popen("sha256sum > " .. path .. ".sum", "w"); p:write(text); p:close()
f = io.open(path .. ".sum"); local hash = f:read "*a":match "^%%x+"; f:close()
os.remove(path .. ".sum")
f = io.open(path, "w"); f:write(text, "hash ", hash, "\n"); f:close()
]]
local show = kernel .. [[print(f:ir "schedule":match "with ([^:]-):" or "as it was", f:ir "tile":match "unroll %d+")]]
child(resum:format(file, " unroll 8"))
child(show) --> unroll 8 unroll 8
child("require('tessera').autotune.mode 'off'\n" .. show) --> as it was nil
child(resum:format(file, " unroll 7")) -- no candidate
child(show) --> as it was nil
child(resum:format(file, " unroll 8 unroll 8"))
child(show) --> as it was nil

-- Damage of any kind: a byte, an end, nothing, another kernel's, no text.
child(resum:format(file, " unroll 8"))
local good = read(file)
local taken = {}
for i, bad in ipairs {
  (good:gsub("unroll 8", "unroll 4")), good:sub(1, -2), good:sub(1, 100), "", good .. good, good .. "\n",
  "\0" .. good, ("\255"):rep(5000), (good:gsub("key %x", "key z")), (good:gsub("tune 1", "tune 2")),
} do
  write(file, bad)
  if child(show) ~= "as it was nil" then taken[#taken + 1] = i end
end
table.concat(taken, " ") --> 
write(file, good)
child(show) --> unroll 8 unroll 8

-- Kernels of op.kernel: each candidate has the bits of the interpreter, and a winner is remembered.
local user = [[
local tessera = require "tessera"
local core = require "tessera.core"
local op, autotune = tessera.op, tessera.autotune
local function norm(t, x, w, y)
  for r in t:rows(x) do
    local a = x[r]
    y[r] = a * ((a * a):mean() + 1e-6):rsqrt() * w:load()
  end
end
local function times(t, a, b, y)
  for i in t:parallel(0, 2) do
    local m = i * 48
    y:store({m, 0}, t:mma(a:load({m, 0}, {48, 200}, {edge = true}), b:load({0, 0}, {200, 64}, {edge = true})), {edge = true})
  end
end
local function kernels(options)
  return op.kernel("norm", {x = "f32[M,N]", w = "f32[N]"}, {y = "f32[M,N]"}, norm, options),
    op.kernel("times", {a = "f32[90,200]", b = "f32[200,64]"}, {y = "f32[90,64]"}, times, options)
end
local x, w = op.uniform({37, 771}, {seed = 1}), op.uniform({771}, {seed = 2})
local a, b = op.uniform({90, 200}, {seed = 3}), op.uniform({200, 64}, {seed = 4})
]]
child(user .. [[
local n, t = kernels {interpret = true}
local want, least = n(x, w):hash() .. t(a, b):hash(), 99
for i = 0, 31 do
  core.autotune_force(i)
  local n, t = kernels()
  if n(x, w):hash() .. t(a, b):hash() ~= want then print("candidate " .. i, "other bits") end
  if n:status() == "interpreted" or t:status() == "interpreted" then print("candidate " .. i, "no kernel") end
end
core.autotune_force()
autotune.budget { ms = 1e5, total = 1e6, candidates = 3 }
local n, t = kernels()
local r = autotune.tune(n, x, w)
print(#r, r[1].why, r[1].differing, r[1].kernel, r[1][2].us ~= nil, n(x, w):hash() .. t(a, b):hash() == want)]])
--> 1 nil 0 kernel norm true true
#files() --> 2
child(user .. "local n = kernels() autotune.tune(n, x)") :match "takes 2 tensors" --> takes 2 tensors
child(user .. "local n = kernels {interpret = true} autotune.tune(n, x, w)"):match "it is interpreted" --> it is interpreted

-- Clearing takes winners away, not kernels.
child(kernel .. "autotune.clear() print(autotune.report())") --> no kernel was measured
#files() --> 0

-- In the background: only what is asked for, and within the budget.
child(kernel .. "jit.wait() print(autotune.mode(), autotune.report())") --> cached no kernel was measured
#files() --> 0
out = child([[require("tessera").autotune.mode "on"
require("tessera").autotune.budget { ms = 1e5, total = 1e6, candidates = 2 }
]] .. kernel .. [[
local before = f(x, x):hash()
jit.wait()
print(autotune.report():match "^mul add tanh", f(x, x):hash() == before, jit.stats().promoted)]])
out --> mul add tanh true 1
#files() --> 1
out = child(kernel .. [[
autotune.clear()
for _, b in ipairs { { ms = 0 }, { ms = 10, total = 0 }, { mb = 0, ms = 1e5, total = 1e6 } } do
  autotune.budget(b)
  print(autotune.text(autotune.tune(f)))
end]]):gsub("mul[^\n]*:[%d,]+: ", ""):gsub("\n+", "; ")
out --> not measured, no budget; not measured, no budget; not measured, larger than the memory of the budget
#files() --> 0

-- Ending while something is measured does not hang.
out = child([[require("tessera").autotune.mode "on"
require("tessera").autotune.budget { ms = 1e8, total = 1e9, candidates = 30 }
]] .. kernel .. "print 'left'")
out --> left

-- What is misused says so.
autotune.mode "sometimes" --! autotune.mode is "off", "cached" or "on", not sometimes
autotune.mode(true) --! not true
autotune.budget(5) --! takes a table such as {ms = 1000}, not a number
autotune.tuen(print) --! did you mean 'tune'?
autotune.budget { seconds = 3 } --! not 'seconds'
autotune.budget { ms = -1 } --! not negative
autotune.tune(print) --! a captured function
os.execute("rm -rf " .. folder)

autotune.text { {} } --! it takes what autotune.tune gives
autotune.text(5) --! it takes what autotune.tune gives
autotune.budget { candidates = 1.5 } --! candidates is a whole number
