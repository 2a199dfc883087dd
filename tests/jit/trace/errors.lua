-- Messages in hot loops are those of a cold call, byte by byte: each kind of wrong call stands in the
-- last round of a loop, once of one round and once of 3000, whose values were made by compiled code.

local tessera = require "tessera"
local core = require "tessera.core"
local op, rng, jit = tessera.op, tessera.rng, tessera.jit

jit.traces(true)

-- x, y: tensors of the loop. A line each: a statement, or an expression whose values are compared.
local kinds = [[
table.concat({x})
for k in pairs(x) do return k end
for k in ipairs(x) do return k end
for k in next, x do return k end
for k in x do return k end
x()
x(1, 2)
x.shape()
x < 1
x <= y
x > y
"a" < x
{} < x
1 >= x
math.floor(x)
math.max(1, x)
tonumber(x)
tonumber("10", x)
io.write(x)
io.open(x)
io.type(x)
string.len(x)
("a"):rep(x)
("%d"):format(x)
("%q"):format(x)
("x"):find(x)
("x"):gsub("x", x)
("x"):byte(x)
string.char(x)
string.dump(x)
setmetatable(x, {})
getmetatable(x)
setmetatable({}, x)
rawget(x, 1)
rawset(x, 1, 2)
rawequal(x, x)
rawequal(x, y)
next(x)
next({}, x)
unpack(x)
select(x, 1)
({[x] = 4})[x]
x == y
x == x
x ~= 1
x == nil
type(x)
debug.getmetatable(x) == debug.getmetatable(y)
type(debug.getuservalue)
debug.setmetatable
debug.getinfo(x)
debug.getlocal(x, 1)
debug.getupvalue(x, 1)
debug.sethook(x)
debug.traceback(x) == x
for i = 1, x do return i end
for i = x, 2 do return i end
for i = 1, 2, x do return i end
x.foo
x[{}]
x[nil]
x[true]
x[9]
x[0.5]
x["0:9:0"]
x["abc"]
x[math.floor]
x.foo = 3
x[99] = 3
x[0] = {}
x[0] = "a"
x[true] = 1
x[nil] = 1
x.shape = {2}
x.requires_grad = x
x.grad = 3
x.nomethod(x)
x:nomethod()
x:nomethod_()
x.shape.foo.bar
#x
#x:sum()
x .. "a" == tostring(x) .. "a"
x .. {}
x .. nil
-x
-x:sum():gt(1)
error(x)
error(x, 2)
error("m" .. #x)
error({x})
assert(false, x)
assert(x, "m") == x
assert(nil)
x + {}
x + "a"
x + "2"
x + nil
x + true
{} * x
nil - x
"a" / x
x ^ true
x % {}
x + function() end
x + op
x + print
x + io.stdout
x + coroutine.create(print)
x + op.ones{3}
op.ones{3} - x
x * op.ones{2, 3}
x / op.ones{5}
x % op.ones{5}
x ^ op.ones{5}
x + require("ffi").new("int[2]")
x * 2LL
x * 2i
2LL * x
loadstring(x)
load(x)
dofile(x)
require(x)
loadfile(x)
table.insert(x, 1)
table.sort(x)
table.sort({x, 1, x})
table.remove(x)
table.maxn(x)
coroutine.create(x)
coroutine.resume(x)
coroutine.wrap(x)
coroutine.status(x)
coroutine.wrap(function(a) return coroutine.yield(a) end)(x) == x
coroutine.wrap(function() return x + {} end)()
setfenv(x, {})
getfenv(x)
require("bit").band(x, 1)
require("bit").tobit(x)
require("ffi").istype("int", x)
require("ffi").sizeof(x)
require("ffi").new(x)
require("ffi").cast("int", x)
require("ffi").fill(x, 1, x)
os.date("%Y", x)
os.time(x)
os.rename(x, x)
os.getenv(x)
newproxy(x)
collectgarbage(x)
collectgarbage("step", x)
pcall(x)
xpcall(error, x)
xpcall(x, type)
pcall(error, x)
select("#", pcall(error, x))
op.tanh(x, 1)
op.tanh()
op.tanh({})
op.tanh("a")
op.tanh(nil)
op.tanh(print)
op.tanh(x, {bad = 1})
op.tanh(x, x)
op.add(x)
op.add(x, y, 1)
op.add(x, {bad = 1})
op.add(nil, x)
op.add({}, {})
op.add(x, op.ones{3})
op.mul(x, op.ones{3, 2})
op.maximum(x, op.ones{7})
op.matmul(x, op.ones{3})
op.matmul(x, 3)
op.matmul(x)
op.where(x, x, x)
op.sum(x, 9)
op.sum(x, {axis = 7})
op.sum(x, {axis = x})
op.softmax(x, "a")
op.reshape(x, 3, 3)
op.cast(x, "f99")
op.concat{x, 3}
op.concat(x, op.ones{2, 2})
op.stack({x, op.ones{3}})
op.nothing(x)
op.tanh.foo
op.tanh < op.tanh
x:tanh(1, 2)
x.tanh()
x.tanh(3, 4)
x:add({1, 2, 3})
x:add("1")
x:add()
x:add_(op.ones{9})
x:copy_(op.ones{9})
x:copy_("a")
x:expand{3, 4}:add_(1)
x:sum{axis = 3}
x:sum("a")
x:reshape(7)
x:item()
x:sum():gt(0):add_(0.5)
x:cast()
x:to("nowhere")
x:backward()
tessera.tensor({x, 1})
tessera.tensor("a")
tessera.tensor(x, 3)
tessera.foo
tessera.foo()
tessera.save(x, x)
tessera.load(x)
rng.normal(x)
rng.normal{x}
rng.seed(x)
op.cond(x, 1, 2)
op.cond(x:gt(0), print, print)
op.scan(x, x)
op.map(print, 3)
op.while_loop(3)
op.einsum("ij->i", x)
op.einsum(x)
op.zeros(x)
op.full({2}, x)
op.arange(x)
op.linspace(0, x, 3)
core.run("add", {x}, {})
core.run("nothing", {x}, {})
core.is_tensor(x)
core.type_text(x)
core.type_text(3)
]]

local text = [[
local core, op, rng, tessera, start, w, rounds = ...
local y = w
local x = start
for i = 1, rounds do
  x = ((x * 0.9):tanh() + w * 0.1):sin() - 0.25
  y = op.tanh(op.add(x, w)) * 0.5
  if i == rounds then
    %s
  end
end]]

local function said(f, rounds)
  local start, w = rng.normal({ 4 }, { seed = 1 }), rng.normal({ 4 }, { seed = 2 })
  local function where(e) return { e, debug.traceback("", 2):gsub("\n[^\n]*trace/errors.lua.*", "") } end
  local r = { xpcall(f, where, core, op, rng, tessera, start, w, rounds) }
  if not r[1] then r = { r[1], r[2][1], r[2][2] } end
  for i = 1, table.maxn(r) do
    local kind = type(r[i])
    r[i] = core.is_tensor(r[i]) and core.type_text(r[i]) or kind == "table" and kind or tostring(r[i])
    r[i] = r[i]:gsub("0x%x+", "P"):gsub("%-?%d+%.%d+", "N"):gsub("[%s%[]+N", " N") -- values are others
  end
  return table.concat(r, " | ")
end

local count, different = 0, {}
for line in kinds:gmatch "[^\n]+" do
  for _, form in ipairs { "return %s", "local v = %s return v", "return (%s)", "return nil, %s", "%s" } do
    local f = loadstring(text:format(form:gsub("%%s", (line:gsub("%%", "%%%%")))), "=loop")
    if f then
      local cold = said(f, 1)
      local hot = said(f, 3000)
      count = count + 1
      if hot ~= cold then different[#different + 1] = line .. "\n  cold " .. cold .. "\n  hot  " .. hot end
    end
  end
end
count > 800 --> true
table.concat(different, "\n") -->
jit.traces().quick > 1e6 --> true
