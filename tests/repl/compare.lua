-- x == 0 of a tensor: Lua asks nobody, so the prompt and -jv tell. Sizes and state dicts print as values.
local tessera = require "tessera"
local op, nn = tessera.op, tessera.nn
local program = arg[-1] or "bin/tessera"
local path = os.tmpname()

local function run(arguments, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
  local p = io.popen(program .. " " .. arguments:gsub("{F}", path) .. " 2>&1")
  local out = p:read "*a"
  p:close()
  return out
end
local function notes(out)
  local list = {}
  for line, x, what in out:gmatch ":(%d+): note: (%S+) is a tensor, which (%S+) a number" do
    list[#list + 1] = line .. x .. what
  end
  return table.concat(list, " ")
end

local script = [[
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local x, n, t = op.ones { 3 }, 0, { x = 1 }
local y = tessera.tensor { 1 }
if x == 0 then n = 1 end
if n == 0 and t.x == 1 and x.ndim == 1 then n = 2 end
if 0 ~= y or 1 == y[0] then n = 3 end
z = rng.normal { 2 }
print(z ~= -1, z == 1, "x == 0") -- x == 0
]]
notes(run("-jv {F}", script)) --> 7y~= 9z==
notes(run("{F}", script)) == "" --> true
-- Names that are numbers, or functions, by then: nothing is said of what is right.
script = [[
local tessera = require "tessera"
local op = tessera.op
local n, f = op.sum(op.ones { 3 }):item(), op.relu
local k = op.sum(op.ones { 3 }):item()
local relu = op.relu
if n == 3 or k == 3 or relu == 1 then n = 0 end
local y = op.ones { 1 }
if y == 0 then n = 1 end
y = y:item()
if y == 1 then n = 2 end
local x = op.ones { 1 }
local function zero(x) return x == 0 end
x = op.ones { 1 } * 2
for x = 1, 2 do n = x == 2 end
]]
notes(run("-jv {F}", script)) --> 8y==
notes(run("-i < {F}", "x, n = op.ones { 3 }, 0\nx == 0\nn == 0\nif n == 1 or x ~= 2 then print(1) end\n0 == x\nx.ndim == 1\n")) --> 1x== 1x~= 1x==

-- What a captured function changes outside itself: once for each function.
local counter = [[
n, st = 0, { n = 0 }
f = graph.module("f", function(x) n = n + 1 st.n = st.n + 1 return op.relu(x) * n end)
f(op.ones { 3 })
f(op.ones { 3, 3 })
h = graph.module("h", function(x) memo = memo or {} return rng.bernoulli(x) end)
h(op.ones { 3 })
]]
local out = run("-i < {F}", counter)
local _, often = out:gsub("note: ", "")
often --> 1
out:match "input 2:1: note: (f changes [^\n]*)" --> f changes global n, st.n itself: that happens once, when it is captured; make them arguments
run("-i < {F}", "n = 0 f = graph.module('f', function(x) n = n + 1 return x end) f(op.ones { 3 })"):match "note: [^\n]*" --> note: f changes global n itself: that happens once, when it is captured; make it an argument
os.remove(path)

local x = op.ones { 3, 4 }
tostring(x.shape) --> [3,4]
"of " .. x.shape .. " by " .. x.strides --> of [3,4] by [4,1]
x.shape == op.zeros { 3, 4 }.shape --> true
x.shape == op.zeros { 4, 3 }.shape --> false
x.shape == x[0].shape --> false
op.ones(x.shape).numel --> 12
x:reshape { x.shape[2], x.shape[1] }.shape[1] --> 4
tostring(op.ones({}).shape) --> []
x:shape() --! a shape is a list, not a function: x.shape, x.shape[1]
tostring(nn.Linear(2, 3):state_dict()) --> bias: f32[3]
--> weight: f32[3,2]
tostring(tessera.devices()[1]):match "^cpu:0  %d+ thread" ~= nil --> true
