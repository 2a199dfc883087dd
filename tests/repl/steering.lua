-- Commands that steer and compare kernels: options, errors as JSON, messages that say what is legal and what was meant, and
-- what :edit, :choose, :tune and :diff say of each other.
local tessera = require "tessera"
local core, op, graph, rng, jit, autotune = tessera.core, tessera.op, tessera.graph, tessera.rng, tessera.jit, tessera.autotune
local decode = core.open_json().decode
local null = decode "[null]"[1]
local program = arg[-1] or "bin/tessera"

local begin = [[
autotune.mode "off";
f = graph.module("f", function(a, b) return op.softmax(a:matmul(b)) end)
function norm(x) return x * 2 end
k = op.kernel("scale", {x = "f32[M,N]"}, {y = "f32[M,N]"}, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] / x[r]:abs():max() end
end)
x = rng.normal{64, 64}
f(x, x);
]]
local function said(commands)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(begin, commands, "\n")
  file:close()
  local p = io.popen(program .. " -i < " .. path .. " 2>&1")
  local text = p:read "*a"
  p:close()
  os.remove(path)
  return (text:gsub("%s+$", ""))
end
local function all(commands, ...)
  local text = said(commands)
  for _, words in ipairs { ... } do assert(text:find(words, 1, true), commands .. " says " .. text) end
  return text
end

-- ---- options: every command refuses those that it does not have
for name in pairs(require("tessera.prompt").commands) do
  if name ~= "shell" then all(":" .. name .. " f --jsn", ":" .. name .. " has no option '--jsn'; did you mean '--json'?", "usage: ") end
end
all(":tiles f --verbose", ":tiles has no option '--verbose'; all commands have --json: JSON instead of text")
all("!echo a --jsn", "a --jsn") -- another program's
all(":time ('--jsn'):len() -- a comment", "median of")
decode(said ":tiles --json f").level --> tiles
decode(said ":ir --json f tile").level --> tile

-- ---- errors are objects
local function failed(command) return decode(said(command):match "[^\n]*$") end
local e = failed ":ir f tlie --json"
e.code --> argument
e.error:match "^there is no level 'tlie'; levels are captured" ~= nil, e.hint --> true, did you mean 'tile'?
e.place --> :ir:1
e = failed ":tils f --json"
e.error --> there is no command ':tils'; did you mean ':tiles'?
e.place == null, e.place_reason --> true, it comes from no line of the program
e = failed ":tune f( --json"
e.error, e.hint --> :tune cannot read 'f(', usage: :tune f(x, y)
e = failed "g = function(y) return x:matmul(y) end\n:time g(op.ones{3, 3}) --json"
e.error, e.code, e.place --> matmul: inner sizes differ (64 vs 3): f32[64,64] x f32[3,3], shape, input 7:1
e = failed ":time nosuch.field --json"
e.code, e.error:match "attempt to index" --> lua, attempt to index
e = failed ":choose f 0 rows=x --json"
e.error --> :choose: option 'rows' must be an integer above 0, not a string
e = failed "x:matmul(op.ones{3, 3});\n:err --json"
e.code, e.place, e.message:match "inner sizes" --> shape, input 7:1, inner sizes
-- No escape sequences, whatever a command prints.
for _, command in ipairs { ":diff f tile sm_80 sm_90a", ":why f", ":help tile", ":device" } do
  assert(not said("core = require 'tessera.core' core.is_terminal = function() return true end\n" .. command .. " --json"):find("\27", 1, true))
end

-- ---- places
local p = decode(said "jit.status = nil\n:profile k(x) --json":match "[^\n]*$")
assert(p.instructions[1].phases[1] == nil or p.instructions[1].phases[1].stages == null or
  p.instructions[1].phases[1].stages[1].where ~= nil)
if jit.status() then
  p = decode(said "tessera.jit.pin(f);\n:profile f(x, x) --json":match "[^\n]*$")
  local row = p.instructions[1]
  assert(row.what == "matmul" and row.where == "input 2:1", row.what)
  for _, phase in ipairs(row.phases) do
    for _, s in ipairs(type(phase.stages) == "table" and phase.stages or {}) do assert(s.where == "input 2:1" and not s.stage:find "input", s.stage) end
  end
end

-- ---- :diff
all(":diff f tile sm_80 sm_99", "there is no target 'sm_99'; targets are avx512", "did you mean 'sm_90a'?")
all(":diff f tiel", "there is no level 'tiel'; levels are captured", "did you mean 'tile'?")
all(":diff f norm tile", "not a plain function; 'norm' stands for a function to compare with", "graph.module(f) captures it")
all(":diff f tile", "no difference: f runs as the passes make it; :edit and :choose change it") -- all kernels
all(":diff f tile 0", "no difference: f runs as the passes make it; :edit and :choose change it")
all(":diff f nothing", ":diff does not know 'nothing': it is no level, no target and no kernel of f")
all(":diff f tile sm_80", ":diff compares two targets, and sm_80 is one")
all(":diff f k tile", "not the kernel scale")
all(":diff f tile graph", ":diff takes one level, and 'graph' is another")
for _, level in ipairs { "captured", "rewrites", "graph", "concrete", "bytecode", "why", "dot", "json", "places" } do
  all(":diff f " .. level, "level '" .. level .. "' is of a whole function, not of one kernel", "kernels have schedule, tile, explicit, llvm, asm, tiles")
end
all(":ir f tile sm_91", "did you mean 'sm_90a'?")

-- ---- :choose
if jit.status() then
  all(":choose f 0 vector 17", "options look like vector=17, not 'vector 17'", "hint: group 0 (matmul) has rows (1 to ", "usage: :choose f")
  all(":choose f {rows=12}", "a group stands behind the function, in front of {rows=12}: groups of f are 0 matmul, 1 softmax")
  all(":choose f 1 {vector = 32}", "group 1 (softmax) for ", "vector 32, chosen by the user")
  all(":choose f 1 {vector = ", "cannot read")
  all(":choose f 1 vectr=16", "did you mean 'vector'?", "group 1 (softmax) has stages (1 to 4)")
  all(":choose f 1 vector", ":choose: a value stands behind vector, as in vector=1", "group 1 (softmax) has stages")
end

-- ---- missing arguments
all("f(x)", "input 7:1: f(a, b) was called without b: matmul: input 'b' is missing")
all(":tune f(x)", "f(a, b) was called without b")
all(":profile f(x)", "f(a, b) was called without b")
all(":profile norm()", "norm(x) was called without x")
all("graph.grad(function(u, v) return (u * v):sum() end)(x)", "(u, v) was called without v")
all("k()", "scale: takes 1 tensor, 0 given", "hint: its arguments are x")

-- ---- help
all("? f:wth", "did you mean 'with'?")
all("? x:matmull", "did you mean 'matmul'?")
all("? dist.shrd", "did you mean 'shard'?")

-- ---- an edit and a choice tell of each other
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
autotune.mode "off"
local f = graph.module("f", function(a, b) return op.softmax(a:matmul(b)) end)
local x = rng.normal { 64, 64 }
f(x, x)
jit.pin(f)
local before = f(x, x):hash()
local edit = f:with("schedule", (f:ir("schedule", { kernel = 1 }):gsub("row 1 in (%S+) out (%S+)[^\n]*", "row 1 in %1 out %2 with vector 32 grain 3")))
assert(edit.equal and not edit.unchanged, tostring(edit))
f:choose(1, { vector = 16 })
edit:keep()
local told = f:choose(1)
told.edited --> true
tostring(told):match "^group 1 %(softmax%) for %w+: edited by the user, which f:without '1' takes back" ~= nil --> true
tostring(told):match "remark: vector 16 has no effect: the kernel was edited, and what was written runs" ~= nil --> true
tostring(f:choose(1, { grain = 2 })):match "grain 2 has no effect" ~= nil --> true
tostring(f:why()):match "edited by the user" ~= nil --> true
local tiles = decode(f.current.graph:facts "tiles").kernels
tiles[2].choice, tiles[2].choice_reason --> nil, it was edited by the user: its text says what it has
tiles[1].choice_reason --> nil
local tuned = autotune.tune(f)
for _, r in ipairs(tuned) do if r.kernel:find "softmax" then assert(r.why == "edited by the user", r.why) end end
f(x, x):hash() == before --> true
f:without(1) --> true
tostring(f:choose(1)):match "grain 2, chosen by the user" ~= nil --> true
-- A grain is no other code, and another kernel all the same.
local grain = f:with("schedule", (f:ir("schedule", { kernel = 1 }):gsub("grain %d+", "grain 7")))
grain.unchanged --> false

-- ---- Ctrl-C while candidates are measured: whoever has no time says why, and what is known stays
local k = op.kernel("scale", { x = "f32[M,N]" }, { y = "f32[M,N]" }, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] / x[r]:abs():max() end
end)
autotune.budget { ms = 1e5, total = 1e6, candidates = 31 }
local came = 0
for _, n in ipairs { 3, 40, 200, 400, 800, 1600 } do
  local from = #core.autotune_records()
  core.interrupt_after(n, "looks")
  local ok, why = pcall(autotune.tune, k, x)
  core.interrupt_after(0)
  for _, r in ipairs(core.autotune_records(from)) do
    if r.why then
      came = came + 1
      assert(r.why == "interrupted", r.why)
      for _, c in ipairs(r) do
        assert(c.us or c.why == "not measured: interrupted" or c.why == nil and not r[2].us, ("%s: %s"):format(c.choice, c.why))
      end
      local text = autotune.text { r }
      assert(text:find(r[1].us and ": interrupted, so the default runs; what was measured until then:" or ": not measured, interrupted", 1, true), text)
    end
  end
  assert(ok or why:find "interrupted", why)
end
came > 0 --> true

-- What captured functions have, kernels of op.kernel say that they have not.
said 'k:with("tile", "x")':find("kernel has no 'with'", 1, true) ~= nil --> true
said 'k:why()':find("hint: k:status() says how a kernel ran", 1, true) ~= nil --> true
said '? k:why' --> no help on 'k:why'; k:status() says how a kernel ran
-- Of a field that is missing no message says that __index looked for it.
said 'k.why':find "__index" --> nil
