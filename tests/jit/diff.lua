-- Differences of texts: as diff(1) finds them, but for names that were only renumbered.
local tessera = require "tessera"
local diff = require "tessera.debug.diff"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng

local function lines(t) return table.concat(t, "\n") .. "\n" end
assert(diff.text("a\nb\n", "a\nb\n", "x", "y") == "")
local d = diff.text(lines { "a", "b", "c" }, lines { "a", "x", "c" }, "one", "two")
assert(d == "--- one\n+++ two\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n", d)

-- Renumbered names are the same; those that meet others are not.
assert(diff.text("%1 = f\n%2 = g %1\n", "%4 = f\n%7 = g %4\n", "x", "y") == "")
d = diff.text("%1 = f\n%2 = g\n%3 = add %1, %2\n", "%1 = f\n%2 = g\n%3 = add %2, %1\n", "x", "y")
assert(d:find "\n%-%%3 = add %%1, %%2\n%+%%3 = add %%2, %%1\n", d)
d = diff.text("%0 = f\n%1 = h %0\n", "%0 = f\n%1 = k\n%2 = h %0\n", "x", "y")
assert(d:find "\n %%0 = f\n%+%%1 = k\n %%2 = h %%0\n", d)
assert(diff.text("%0 = f  // a.lua:3\n", "%0 = f  // b.lua:4\n", "x", "y") == "")

-- As many lines go and come as diff(1) says, and the second text is what comes out.
math.randomseed(7)
local function texts()
  local a, b = {}, {}
  for i = 1, math.random(0, 40) do a[i] = ("line %d"):format(math.random(6)) end
  for _, line in ipairs(a) do
    local r = math.random(8)
    if r > 1 then b[#b + 1] = line end
    if r > 6 then b[#b + 1] = ("line %d"):format(math.random(6)) end
  end
  return a, b
end
local function write(name, text)
  local file = io.open(name, "w")
  file:write(text)
  file:close()
end
local function count(text)
  local n = 0
  for line in text:gmatch "[^\n]+" do
    if line:find "^[-+]" and not line:find "^%-%-%- " and not line:find "^%+%+%+ " then n = n + 1 end
  end
  return n
end
local one, two = os.tmpname(), os.tmpname()
for _ = 1, 40 do
  local a, b = texts()
  local s, t = #a > 0 and lines(a) or "", #b > 0 and lines(b) or ""
  write(one, s)
  write(two, t)
  local p = io.popen("diff -d -u " .. one .. " " .. two)
  local want = p:read "*a"
  p:close()
  local got = diff.text(s, t, "a", "b")
  assert(count(got) == count(want), got .. want)
  write(one, s)
  local q = io.popen("patch -s -o - " .. one .. " - > " .. two .. ".out 2>/dev/null", "w")
  local patched = q and got ~= ""
  if q then q:write(got) q:close() end
  local file = io.open(two .. ".out")
  local out = file and file:read "*a" or ""
  if file then file:close() end
  if patched and out ~= "" then assert(out == t, got) end
end
os.remove(one) os.remove(two) os.remove(two .. ".out")

-- Of functions, targets and specialisations.
local f = graph.module("f", function(x) return op.softmax(x * 2) end)
local g = graph.module("g", function(x) return op.softmax(x * 3) end)
local x = rng.normal{ 40, 64 }
f(x) g(x)
d = f:diff(g, "graph")
assert(d:find "^%-%-%- f graph\n%+%+%+ g graph\n", d)
assert(f:diff(f, "graph") == "")
d = f:diff("tile", { target = { "avx2", "avx512" } })
assert(d:find "\n%-tile @f[^\n]* target avx2 " and d:find "\n%+tile @f[^\n]* target avx512 ", d)
d = f:diff("concrete", { args = { { x }, { rng.normal{ 40, 65 } } } })
assert(d:find "%-[^\n]*f32%[40,64%]" and d:find "%+[^\n]*f32%[40,65%]", d)
f:diff("tile", { args = { x, x } }) --! must be a list of two lists of arguments, {{x}, {y}}
f:diff("tiel") --! did you mean 'tile'?
f:diff("tile", { target = { "avx2" } }) --! must be a list of two
f:diff(5) --! f:diff: a level is a word, 'tile' where none is given, not 5
pcall(f.diff, f, 5) --> false, tests/jit/diff.lua:81: f:diff: a level is a word, 'tile' where none is given, not 5
-->   hint: of kernel 5: f:diff("tile", 5)
f:diff { kernel = 0 } --! a level is a word, 'tile' where none is given, not a table
-- With another function options are of both, in their order.
d = f:diff(g, "tile", { target = { "avx2", "avx512" } })
assert(d:find "^%-%-%- f tile avx2\n%+%+%+ g tile avx512\n", d)
d = f:diff(g, "concrete", { args = { { x }, { rng.normal{ 40, 65 } } } })
assert(d:find "%-[^\n]*f32%[40,64%]" and d:find "%+[^\n]*f32%[40,65%]", d)
-- Of a kernel as the passes make it and as it runs there are the levels of kernels; without a number all are compared.
local part = {}
for _, l in ipairs(tessera.jit.status() and require "tessera.core".jit_levels "part" or {}) do
  part[l.name] = true
  assert(f:diff(l.name) == "")
end
for _, l in ipairs(require "tessera.core".jit_levels "function") do
  local ok, why = pcall(f.diff, f, l.name)
  if not part[l.name] and tessera.jit.status() then
    assert(not ok and why:find("level '" .. l.name .. "' is of a whole function, not of one kernel", 1, true), why)
  end
  if tessera.jit.status() then f:diff(g, l.name) end
end

-- A text for which memory runs out is an error, and never another text.
local core = require "tessera.core"
local both = { target = { "sm_80", "sm_90a" } }
local h = graph.module("h", function(a, b) return op.softmax(op.gelu(a:matmul(b))) end)
h(rng.normal{ 128, 128 }, rng.normal{ 128, 128 })
local whole = h:diff("tile", both)
core.arena_single(true)
for n = 30, 90 do
  core.fail_after(n)
  local ok, said = pcall(h.diff, h, "tile", both)
  core.fail_after(0)
  assert(ok and said == whole or not ok and tostring(said):find "out of memory", n .. " " .. tostring(said))
end
core.arena_single(false)
