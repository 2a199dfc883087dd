-- Kernels of captured functions edited as text: what is taken runs and has its times, bits that differ are told and
-- not kept, what leaves its memory never runs, what is kept runs from then on, in later processes too.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit, rng = tessera.op, tessera.graph, tessera.jit, tessera.rng
if not jit.status() then return print "skipped: nothing is compiled here" end
core.patches_forget()

local function body(x, w, b) return op.softmax(op.gelu(op.matmul(x, w) + b)) end
local f = graph.module("f", body)
local x, w, b = rng.normal{ 192, 160 }, rng.normal{ 160, 256 }, rng.normal{ 256 }
jit.off()
local want = f(x, w, b):hash() -- the VM's
jit.on()
f(x, w, b)

-- ---- schedules: shapes, what they become, what is not free
local text = f:ir("schedule", { kernel = 0 })
assert(text:find "^// group 0: matmul" and text:find "with rows %d+ columns %d+\n}", text)
local e = f:with("schedule", text)
assert(e.equal and e.unchanged and e.elements == 192 * 256, tostring(e))
e = f:with("schedule", (text:gsub("rows %d+", "rows 50")))
assert(e.equal and not e.unchanged and e.was_usec > 0 and e.usec > 0, tostring(e))
assert(table.concat(e.remarks, " "):find "rows = 50 becomes %d+", tostring(e))
assert(tostring(e):find "now .*edited .*bits    equal", tostring(e))
local function refused(level, changed, ...)
  local ok, why = pcall(f.with, f, level, changed)
  assert(not ok, "it was taken")
  for _, words in ipairs { ... } do assert(tostring(why):find(words, 1, true), tostring(why)) end
end
-- "line 8, column 10" of where these words stand.
local function at(changed, words)
  local from = assert(changed:find(words, 1, true), words)
  local _, line = changed:sub(1, from):gsub("\n", "")
  return ("line %d, column %d: "):format(line + 1, from - #changed:sub(1, from):match "^.*\n" )
end
refused("schedule", (text:gsub("space %[192,256%]", "space [256,192]")), "line 3", "not free", "edit what stands behind 'with'")
refused("schedule", (text:gsub("rows %d+", "rows 0")), "line 3, column ", "no choice 'rows 0'")
refused("schedule", (text:gsub("rows %d+", "lines 8")), "line 3, column ", "no choice 'lines 8'")
refused("schedule", (text:gsub("%%x", "%%nosuch")), "line 3, column ", "the graph has no value")
refused("schedule", text .. "\0", "zero byte")
refused("llvm", text, "schedule and tile, not llvm")

-- ---- kernels
local soft = f:ir("tile", { kernel = 1 })
e = f:with("tile", (soft:gsub("mul (%%%d+), (%%%d+) : f32%[256%]", "mul %2, %1 : f32[256]")))
assert(e.equal, tostring(e)) -- factors the other way round
local add = soft:gsub("mul (%%%d+), (%%%d+) : f32%[256%]", "add %1, %2 : f32[256]")
e = f:with("tile", add)
assert(not e.equal and e.differing > 0 and e.first:find "^%%y0%[0,%d+%]: now .*, edited ", tostring(e))
e:keep() --! f: the edited kernel has other bits, in
local misspelt = soft:gsub("exp (%%%d+)", "expp %1")
refused("tile", misspelt, at(misspelt, "expp"), "did you mean 'exp'?")
local outside = soft:gsub("load %%x0%[%%2", "load %%x0[%%1")
refused("tile", outside, at(outside, outside:match "%%%d+ = load"), "position 192 is outside of axis 0")
local inputs = soft:gsub("store %%y0%[%%2, %%0%]", "store %%x0[%%2, %%0]")
refused("tile", inputs, at(inputs, "store"), "is read only")
refused("tile", (soft:gsub("%%y0: f32%[M,256%]", "%%y0: f32[M,300]")), "has another type than the kernel has: f32[M,300], not f32[M,256]")
refused("tile", (soft:gsub("target %S+", "target sm_90a")), "is for sm_90a")
refused("tile", (soft:gsub("load %%x0%[%%2, %%0%]", "load %%x0[%%2, %%0] {edge=tru}")), "line 6, column ")
-- Its arguments could lead it anywhere, although these do not.
refused("tile", (soft:gsub("(  store %%y0%[)%%2", "  %%90 = cast %%4 : i64[]\n    %%91 = minimum %%90, 3 : i64[]\n    %%92 = maximum %%91, 0 : i64[]\n%1%%92")),
  "what is read decides where memory is touched", "sizes, loops and constants")
refused("tile", (soft:gsub("= %%(%d+)\n  }", "= %%%1 {aligned=true}\n  }"):gsub("(store[^\n]*)(  //[^\n]*)", "%1 {aligned=true}%2")), "promise")
-- A loop without an end, and tiles that no memory holds, are no end of the program.
refused("tile", (soft:gsub("load %%x0%[%%2, %%0%] : f32%[256%]", "load %%x0[%%2, %%0] : f32[256000000000]")), "line 6")
-- One whose elements only the sizes say; so in an operator's own kernel.
local squares = (soft:gsub("(  store %%y0)", "  %%90 = const {value=0} : f32[M,M,M,M,M,M]\n  %1", 1))
refused("tile", squares, at(squares, "%90 = const"), "elements that a round of a kernel computes")
local own = op.kernel [[
tile @own<M>(%x: f32[M]) -> (%y: f32[M]) target cpu {
  for %i in 0..1 parallel {
    %a = const {value=0} : f32[M,M,M,M]
    %b = load %x[0] : f32[M]
    store %y[0] = %b
  }
}]]
own(b["0:8"]):hash() == b["0:8"]:hash() --> true
own(rng.normal{ 10000 }) --! elements that a round of a kernel computes are at most
local product = f:ir("tile", { kernel = 0 })
-- Rounds that are no blocks of the product, and what follows at another place, are a product for the vectoriser.
e = f:with("tile", (product:gsub("mul (%%%d+), 96 : i64", "mul %1, 51 : i64", 1)))
assert(e.differing <= 45 * 256, tostring(e)) -- rows behind 51 + 96 are not written
e = f:with("tile", (product:gsub("load %%b%[%%%d+%]", "load %%b[%%1]")))
assert(e.differing > 0 and e.differing <= 96 * 256 and e.first:find "^%%y0%[96,", tostring(e))
-- A load of what follows, in front of the product.
local first, mma, behind, rest = product:match "^(.-)\n( *%%%d+ = mma [^\n]*)\n([^\n]*)(\n.*)$"
e = f:with("tile", first .. "\n" .. behind .. "\n" .. mma .. rest)
assert(e.equal and not e.unchanged, tostring(e))

-- ---- kept, named, taken back
e = f:with("schedule", (text:gsub("rows %d+", "rows 48")))
assert(f:diff("schedule", 0) == "")
e:keep()
assert(tostring(e):find "kept for this process")
assert(f:ir "why":find "kernel of %d operators?, edited by the user" and f:ir "tiles":find "edited by the user", f:ir "why")
f(x, w, b):hash() == want --> true
local d = f:diff("schedule", 0)
assert(d:find "\n%-  matmul[^\n]*\n%+  matmul[^\n]* with rows 48", d)
local g = graph.module("g", body) -- another function with the same kernel
g(x, w, b)
jit.pin(g)
assert(g:ir "why":find "edited by the user", g:ir "why")
f:without(0) --> true
f:without(0) --> false
assert(not f:ir "why":find "edited by the user" and f:diff("schedule", 0) == "")
e = f:with("tile", (soft:gsub("mul (%%%d+), (%%%d+) : f32%[256%]", "mul %2, %1 : f32[256]"))):keep()
assert(f:diff("tile", 1):find "\n%+ +%%%d+ = mul", f:diff("tile", 1))
f(x, w, b):hash() == want --> true
e:drop() --> true
f(x, w, b):hash() == want --> true

-- ---- which kernel, which arguments
f:ir("tile", { kernel = 7 }) --! there is no kernel 7
f:ir("tile", { kernal = 1 }) --! did you mean 'kernel'?
f:with("tile", soft:gsub("^[^\n]*\n", ""), { kernel = 1 }).unchanged --> true
f:with("tile", (soft:gsub("^[^\n]*\n", ""))) --! which of its kernels is meant must be said
f:with("schedule", f:ir "schedule", { kernel = 1 }).unchanged --> true
f:with("tile") --! a level and the edited text are needed
f:with("tile", soft, { kernels = 1 }) --! did you mean 'kernel'?
f:with("schedule", text, { args = { x, w, b } }).unchanged --> true
local fresh = graph.module("fresh", body)
fresh:with("tile", soft) --! fresh's last arguments are gone, or it has not run
f:debug(x, x, w, b) --! a kernel stands in front of the arguments, by its number or name

-- ---- a file whose name has a line end
local odd = loadstring("local graph, op = ... return graph.module('odd', function(a) return op.softmax(a) * 2 end)", "@a\nb")(graph, op)
odd(x)
jit.pin(odd, x)
odd(x)
for _, level in ipairs { "tile", "schedule" } do
  assert(odd:with(level, odd:ir(level, { kernel = 0 }), { args = { x } }).unchanged)
end

-- ---- on disk: later processes run it; what is damaged is none
local PROGRAM = [[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local f = graph.module("f", function(x) return op.softmax(x * 2) end)
local x = op.linspace(0, 1, 64 * 160):reshape{64, 160}
jit.pin(f, x)
local h = f(x):hash()
local text = f:ir("tile", {kernel = 0})
if arg[1] == "keep" then f:with("tile", (text:gsub("mul (%%%d+), (%%%d+) : f32%[160%]\n?", "mul %2, %1 : f32[160]"))):keep "disk" end
if arg[1] == "drop" then assert(f:without(0)) end
if f:ir "why":find "kept is not taken: its entry on disk is damaged" then io.write "damaged " end
print(h == f(x):hash(), f:ir "why":find("edited by the user", 1, true) ~= nil)
]]
tiers.directory(function(dir)
  local function program(word)
    local name = dir .. "/program.lua"
    local file = io.open(name, "w")
    file:write(PROGRAM)
    file:close()
    return (tiers.shell(("TESSERA_CACHE=%s/cache %s %s %s"):format(dir, tiers.program, name, word or "")):gsub("%s+", " "))
  end
  local function says(out, what) assert(out == what, out) end
  says(program(), "true false ")
  says(program "keep", "true true ")
  says(program(), "true true ")
  tiers.shell(("for f in %s/cache/*.t; do sed -i s/softmax/softmin/ $f; done"):format(dir))
  says(program(), "damaged true false ")
  says(program "keep", "true true ")
  says(program "drop", "true false ")
  says(program(), "true false ")
  -- A file where the folder should be: it is not kept there, and that is said.
  tiers.shell(("rm -r %s/cache; touch %s/cache"):format(dir, dir))
  local said = program "keep 2>&1"
  assert(said:find("f: it is kept for this process, not for later ones: its folder cannot be written", 1, true), said)
  assert(said:find("hint: the folder is $TESSERA_CACHE", 1, true), said)
end)
core.patches_forget()
