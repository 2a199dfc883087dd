-- `--json` behind commands: two other readers of JSON read the same, each field is told of in docs/commands.md, each that is
-- told of is there, and what is null has its reason.
local tessera = require "tessera"
local core = tessera.core
local decode = core.open_json().decode
local program = arg[-1] or "bin/tessera"

local function run(lines)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(lines)
  file:close()
  local p = io.popen(program .. " -i < " .. path .. " 2>&1")
  local text = p:read "*a"
  p:close()
  os.remove(path)
  return text
end

local begin = [[
f = graph.module("f", function(x, w) return op.softmax(op.exp(x:matmul(w)) * 2) * 1 end)
x = op.ones{64, 64}
g = function(x) local y = x for i = 1, 3000 do y = (y * 1.01 + x):tanh() end return y end
k = op.kernel("scale", {x = "f32[M,N]"}, {y = "f32[M,N]"}, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] / x[r]:abs():max() end
end)
h = graph.module("h", function(x) return op.sort(x, {stages = 2}) end)
f(x, x); h(x); g(op.ones{64});
]]
local commands = {
  ":why f", ":why f(x, x)", ":tiles f", ":ir f", ":ir f tile", ":ir f json", ":ir f bytecode", ":ir f tile sm_90a", ":rewrites f",
  ":ir k(x) tile", ":why g", ":tiles g", ":ir g graph", ":rewrites g", ":profile f(x, x)", ":profile k(x)", ":profile g(op.ones{8})",
  ":tune f", ":tune k(x)", ":choose f", ":choose f 0 grain=2", ":diff f tile", ":diff f bytecode", ":diff f h", ":edit", ":who", ":devices", ":mem", ":err", ":time x:sum()", ":device", ":threads", ":why h", ":hints", ":pager", ":why f", ":tiles f",
}
local lines = {}
for i, c in ipairs(commands) do lines[i] = c .. " --json\n" end
-- Kernels run for the last of them, and for the two of a device.
table.insert(lines, #lines - 1, "tessera.jit.pin(f);\n")
table.insert(lines, "x:matmul(op.ones{3, 3});\n:err --json\n")
local said = run(begin .. table.concat(lines))
lines = {}
for line in said:gmatch "[^\n]+" do
  if line:find "^[{%[]" then lines[#lines + 1] = line end
end
if #lines ~= #commands + 1 then print(said) end
assert(#lines == #commands + 1)
local on_device = run([[
f = graph.module("f", function(x, w) return op.softmax(x:matmul(w)) end)
x = op.ones({64, 64}):to "sim:0"
f(x, x); f(x, x); tessera.jit.pin(f);
:tiles f --json
:profile f(x, x) --json
]])
local on_mesh = run([[
m = dist.Mesh {axes = {"tp"}, devices = {"cpu:0", "cpu:0"}}
f = graph.module("f", function(x, w) return op.softmax(op.matmul(x, w)) end)
x, w = dist.shard(op.ones{8, 4}, m, {nil, "tp"}), dist.shard(op.ones{4, 8}, m, {"tp"})
f(x, w);
:tiles f --json
:why f --json
:ir f tile --json
:collectives f --json
:profile f --json
]])
local of_mesh = 0
for line in on_mesh:gmatch "[^\n]+" do
  if line:find "^[{%[]" then lines[#lines + 1], of_mesh = line, of_mesh + 1 end
end
assert(of_mesh == 5, on_mesh)
for line in on_device:gmatch "[^\n]+" do
  if line:find "^[{%[]" then lines[#lines + 1] = line end
end

-- ---- Python reads the same: written again by it, with sorted names, and read by the other.
local from, to = os.tmpname(), os.tmpname()
local file = assert(io.open(from, "w"))
file:write(table.concat(lines, "\n"), "\n")
file:close()
local script = "import json,sys\nfor line in open(sys.argv[1], encoding=\"utf-8\"):\n  print(json.dumps(json.loads(line), sort_keys=True))\n"
local python = os.execute(("python3 -c '%s' %s > %s 2>/dev/null"):format(script, from, to)) == 0
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b or type(a) == "number" and type(b) == "number" and math.abs(a - b) <= 1e-14 * math.abs(a)
  end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end
if python then
  local n = 0
  for line in io.lines(to) do
    n = n + 1
    assert(same(decode(line), decode(lines[n])), lines[n])
  end
  assert(n == #lines, n .. " of " .. #lines .. " lines")
else
  print "no Python here"
end
os.remove(from)
os.remove(to)

-- ---- fields and the page
local null = decode "[null]"[1]
local used, wrong = {}, {}
-- Numbers of reasons have the names of their rows; a graph has those of the level "json".
local numbers = {}
for line in io.lines "ir/sched/why.def" do
  local a, b = line:match '^WHY%([%w_]+, +%d, "([%w_]*)", "([%w_]*)"'
  if a then numbers[a], numbers[b] = true, true end
end
local function walk(v, reason)
  if type(v) ~= "table" then return end
  for k, e in pairs(v) do
    if type(k) == "string" and not (reason and numbers[k]) then
      local absent = k:match "^(.+)_reason$"
      if absent then
        if v[absent] ~= null or e == "" then wrong[#wrong + 1] = k .. " beside a value" end
      else
        used[k] = true
        if e == null and type(v[k .. "_reason"]) ~= "string" then wrong[#wrong + 1] = k .. " is null without a reason" end
      end
    end
    if k ~= "graph" then walk(e, type(e) == "table" and e.reason ~= nil) end
  end
end
for _, line in ipairs(lines) do walk(decode(line)) end

local page = assert(io.open "docs/commands.md"):read "*a"
local told = {}
for row in page:gmatch "\n(|[^\n]+)" do
  for word in row:gmatch "`([%l_]+)`" do told[word] = true end
end
for k in pairs(used) do
  if not told[k] then wrong[#wrong + 1] = k .. " is not told of" end
end
-- What only other machines or moments have.
local elsewhere = { absent = true, refused = true, stages = true }
for k in pairs(told) do
  if not used[k] and not elsewhere[k] then wrong[#wrong + 1] = k .. " is told of, and nowhere" end
end
table.sort(wrong)
table.concat(wrong, "\n") -->

-- The tables of Lua are the same.
local op, graph = tessera.op, tessera.graph
local f = graph.module("f", function(x) return op.softmax(x + 1) end)
f(op.ones { 3, 4 })
f:ir "why" == tostring(f:why()) and f:ir "tiles" == tostring(f:tiles()) --> true
f:facts("tile").kernels[1].text:match "^tile @f" --> tile @f
f:facts "graph" --! level 'graph' is not of kernels
f:facts "nothing" --! there is no level 'nothing'
tessera.profile.measure(f, { args = { op.ones { 3, 4 } }, runs = 2 }).instructions[1].time_ns > 0 --> true

-- What a command refuses it refuses as data, too, and does nothing.
said = run ":threads 2\n:threads abc --json\n:threads 1.5 --json\n:mem 3 --json\n:threads\n"
for _, words in ipairs { ":threads takes a whole number from 0 to 256, not 'abc'", "not '1.5'", ":mem takes nothing, not '3'" } do
  local line = said:match('{[^\n]*' .. words:gsub("%p", "%%%0") .. "[^\n]*}")
  assert(line and decode(line).code == "argument", said)
end
said:match "(%d+) threads\n$" --> 2
