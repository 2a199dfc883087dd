-- ":choose" and ":tune" at the prompt: what they say before, of each kernel, and of what is wrong.
local tessera = require "tessera"
local core, jit = tessera.core, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
local program = arg[-1] or "bin/tessera"
local begin = [[
tessera.autotune.mode "off";
tessera.jit.eager(true)
f = graph.module("f", function(a, b) return op.softmax(a:matmul(b)) end)
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

local all = said ":choose f"
all:match "group 0 %(matmul%) for %w+: default by the model\n  its kernel has rows = %d+, columns = %d+\n  rows +1 to %d+: of a block's tile" ~= nil --> true
all:match "\ngroup 1 %(softmax%) for %w+: default by the model\n" ~= nil --> true
said ":choose f 1 vector=32 grain=2":match "^group 1 %(softmax%) for %w+: vector 32 grain 2, chosen by the user\n" ~= nil --> true
said ":choose f softmax rows=3":match "remark: rows = 3 has no effect: a kernel of rows" ~= nil --> true
said ":choose f 0 tile_shape=12,64":match "rows 12 columns 64, chosen by the user" ~= nil --> true
said ":choose f 1 grain=2\n:choose f 1 default":match "\ngroup 1 %(softmax%) for %w+: default by the model" ~= nil --> true
said ":choose f 1 grain=2\n:why f":match "choice: grain 2, chosen by the user" ~= nil --> true
said ":choose(f, 1)" --> tessera: :choose cannot read '(f, 1)'
-->   usage: :choose f [group [option=value ..]]
local function head(text) return text:match "^[^\n]*" end
head(said ":choose f 7") --> :choose:1: there is no group 7; there is 0 matmul, 1 softmax
head(said ":choose f 0 row=1") --> :choose:1: there is no option 'row'; did you mean 'rows'?
head(said ":choose f 0 rows=x") --> :choose:1: option 'rows' must be an integer above 0, not a string
said ":choose f rows=3" --> tessera: :choose: a group stands behind the function, in front of rows=3: groups of f are 0 matmul, 1 softmax
-->   usage: :choose f [group [option=value ..]]
said ":choose f(":match "^[^\n]*" --> tessera: :choose cannot read 'f('
local help = said "? :choose"
for _, c in ipairs(core.choices()) do
  assert(help:find("  " .. c.name .. " ", 1, true), c.name)
  assert(#c.help > 10)
end

-- What is about to be measured is said before.
local tuned = said "autotune.budget{ms = 300, candidates = 2};\n:tune f"
tuned:match "^f: 2 kernels, up to 2 candidates of each, in at most 600 ms, shared by run time\n  %(300 ms for a kernel, 20 s left of 20 s in all: autotune.budget{[^\n]*} gives more%)\n%w+ at [^\n]*, %d+%% of the run time, at most %d+ ms\n" ~= nil --> true
select(2, tuned:gsub("  <%- runs: ", "")) --> 2
tuned:match ": not tried: the model expects less of it" ~= nil --> true
said "autotune.budget{ms = 300, candidates = 1};\n:choose f 0 rows=12\n:tune f":match "\nmatmul at [^\n]*: not measured, chosen by the user\n" ~= nil --> true

-- Ctrl-C: what is known stays, what is not says so.
local path = os.tmpname()
local file = assert(io.open(path, "w"))
file:write([[
local tessera = require "tessera"
local graph, op, rng = tessera.graph, tessera.op, tessera.rng
]], begin, [[
io.stdout:setvbuf "no"
local choices = {}
tessera.autotune.budget{ms = 1e5, total = 1e6, candidates = 31}
print "GO"
while true do
  local ok, why = pcall(tessera.autotune.tune, f)
  if not ok then print(why) break end
end
local text = tessera.autotune.report()
print(text:match ": not measured, interrupted" ~= nil or text:match ": interrupted, so" ~= nil, f(x, x):hash() == op.softmax(x:matmul(x)):hash())
]])
file:close()
-- Between two measurements there is nothing to say: then once more.
local text
for _ = 1, 8 do
  local p = io.popen(("sh tests/stop.sh 0.5 %s %s 2>&1"):format(program, path))
  text = p:read "*a"
  p:close()
  assert(text:match "^[^\n]*interrupted\n%a+%s+true\n$", text)
  if text:match "\ntrue%s" then break end
end
os.remove(path)
text:match "^[^\n]*interrupted\ntrue%s+true\n$" ~= nil or text --> true
