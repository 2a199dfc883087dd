-- Values that a captured function takes from outside: another value is captured again, with the reason.
local tessera = require "tessera"
local op, nn, graph, rng, optim, core = tessera.op, tessera.nn, tessera.graph, tessera.rng, tessera.optim, tessera.core
graph.verbose = false
local x = op.ones { 4 }
local function last(f) return f.history[#f.history] or "" end
local function count(f)
  local n = 0
  for _ in pairs(f.cache) do n = n + 1 end
  return n
end

-- ---- numbers, flags, strings: upvalues, globals, fields
local rate, config, flag = 2, { scale = 3, steps = 0, nested = { on = true } }, false
shift = 1
local f = graph.module("f", function(a)
  local y = a * rate * config.scale + shift
  if flag then y = -y end
  if config.nested.on then y = y + 100 end
  return y:sum()
end)
f(x):item() --> 428
f(x):item() --> 428
count(f) --> 1
rate = 5
f(x):item() --> 464
last(f):match "upvalue rate is 5, was 2 %(a number; a tensor among the arguments would be an input%)" ~= nil --> true
config.scale = 1
f(x):item() --> 424
last(f):match "config.scale is 1, was 3" ~= nil --> true
shift = 0
f(x):item() --> 420
last(f):match "global shift is 0, was 1" ~= nil --> true
flag = true
f(x):item() --> 380
config.nested.on = false
f(x):item() --> -20
config.nested = { on = true }
f(x):item() --> 380
-- What comes back is found again.
count(f) --> 6
flag = false
f(x):item() --> 420
flag = true
f(x):item() --> 380
count(f) --> 7
-- What no function of it names is no reason.
config.steps, config.unrelated = 7, 9
f(x):item() --> 380
count(f) --> 7
shift = nil
f(x) --! add: input 'y' is missing
shift = 0
f(x):item() --> 380

-- NaN is itself and no number; 0 has two signs.
local odd, zero, put = 0 / 0, 0, { rate = 0 / 0 }
loose = 0 / 0
local g = graph.module("g", function(a) return (a * odd):sum() end)
local gz = graph.module("gz", function(a) return a / (a * zero) end)
local gf = graph.module("gf", function(a) return (a * put.rate):sum() end)
local gg = graph.module("gg", function(a) return (a * loose):sum() end)
for _ = 1, 3 do g(x) gf(x) gg(x) end
count(g) + count(gf) + count(gg) --> 3
odd, put.rate, loose = 2, 3, 4
g(x):item() + gf(x):item() + gg(x):item() --> 36
odd, put.rate, loose = 0 / 0, 0 / 0, 0 / 0
g(x):eq(g(x)):item() or gf(x):eq(gf(x)):item() or gg(x):eq(gg(x)):item() --> false
gz(x)[0]:item() --> inf
zero = -zero
gz(x)[0]:item() --> -inf
put.rate = 0
1 / gf(x):item() --> inf
put.rate = -put.rate
1 / gf(x):item() --> -inf

-- Numbers of C by their values, other keys than names.
local long, set, ffi = 1LL, { [true] = 1 }, require "ffi"
local point = ffi.new "struct { int x; }"
local cpx = ffi.new("complex", 1, 2)
local gc = graph.module("gc", function(a)
  return a * tonumber(long) * set[true] * (point.x + 1) * cpx.re
end)
gc(x)[0]:item() --> 1
long, cpx = long + 1 - 1, ffi.new("complex", 1, 2)
gc(x)[0]:item() --> 1
count(gc) --> 1
long = 3LL
gc(x)[0]:item() --> 3
set[true] = 2
gc(x)[0]:item() --> 6
point = ffi.new("struct { int x; }", 1)
gc(x)[0]:item() --> 12
cpx = ffi.new("complex", 2, 2)
gc(x)[0]:item() --> 24

-- ---- what is not there yet
local late = { list = {} }
local function helper(t) return t.bias or 0 end
local ga = graph.module("ga", function(a)
  for _, k in ipairs(late.list) do a = a * k end
  return a * (late.scale or 1) + helper(late)
end)
ga(x)[0]:item() --> 1
late.scale = 2
ga(x)[0]:item() --> 2
last(ga):match "late.scale is 2, was nil" ~= nil --> true
late.bias = 3
ga(x)[0]:item() --> 5
late.list[1] = 10
ga(x)[0]:item() --> 23
late.other = 1
ga(x)
count(ga) --> 4
late.scale = nil
ga(x)[0]:item() --> 13
-- A table that it keeps what it makes in.
local memo = {}
local gm = graph.module("gm", function(a)
  memo.parts = memo.parts or { 2 }
  return a * memo.parts[1]
end)
for _ = 1, 3 do gm(x) end
count(gm) --> 1
#gm.history --> 0

-- ---- metatables
local object = setmetatable({}, { __index = { k = 1 } })
local go = graph.module("go", function(a) return a * object.k end)
go(x)[0]:item() --> 1
getmetatable(object).__index.k = 2
go(x)[0]:item() --> 2
object.k = 3
go(x)[0]:item() --> 3
object.k = nil
setmetatable(object, { __index = setmetatable({}, { __index = { k = 4 } }) })
go(x)[0]:item() --> 4
getmetatable(getmetatable(object).__index).__index.k = 5
go(x)[0]:item() --> 5
getmetatable(object).__index.k = 6
go(x)[0]:item() --> 6
getmetatable(object).__index = function() return 7 end
go(x)[0]:item() --> 7
last(go):match "the __index of object is a function, was a table" ~= nil --> true
local event = setmetatable({}, {
  __call = function(_, a) return a end,
  __add = function(_, a) return a + 1 end,
})
local ge = graph.module("ge", function(a) return event + event(a) end)
ge(x)[0]:item() --> 2
getmetatable(event).__call = function(_, a) return a * 10 end
ge(x)[0]:item() --> 11
getmetatable(event).__add = function(_, a) return a - 1 end
ge(x)[0]:item() --> 9
-- Classes of two levels, a number and a method of the upper one.
local Base = { size = 1 }
Base.__index = Base
function Base:grow(a) return a * self.size end
local Derived = setmetatable({}, Base)
Derived.__index = Derived
local instance = setmetatable({}, Derived)
local gd = graph.module("gd", function(a) return instance:grow(a) end)
gd(x)[0]:item() --> 1
Base.size = 2
gd(x)[0]:item() --> 2
Derived.size = 3
gd(x)[0]:item() --> 3
function Base:grow(a) return a + self.size end
gd(x)[0]:item() --> 4
function Derived:grow(a) return a - self.size end
gd(x)[0]:item() --> -2
count(gd) --> 5

-- ---- modules of the program: global, by require, and the globals as a table
rates = { rate = 1 }
package.loaded.rates = rates
package.loaded["rates.more"] = { rate = 1 }
spare = 1
local gr = graph.module("gr", function(a) return a * rates.rate * require "rates.more".rate * _G.spare * (_G.none or 1) end)
gr(x)[0]:item() --> 1
rates.rate = 2
gr(x)[0]:item() --> 2
package.loaded["rates.more"].rate = 3
gr(x)[0]:item() --> 6
spare = 4
gr(x)[0]:item() --> 24
none = 2
gr(x)[0]:item() --> 48
package.loaded["rates.more"] = { rate = 1 }
gr(x)[0]:item() --> 16
-- An environment with others behind it.
local place = setmetatable({}, { __index = setmetatable({ k = 1 }, { __index = _G }) })
local gp = graph.module("gp", setfenv(function(a) return a * k end, place))
gp(x)[0]:item() --> 1
getmetatable(place).__index.k = 2
gp(x)[0]:item() --> 2
place.k = 3
gp(x)[0]:item() --> 3

-- ---- functions, and what they take from outside themselves
local power = 2
local function inner(a) return a ^ power end
local activation = op.relu
local h = graph.module("h", function(a) return activation(inner(a * 3)):sum() end)
h(x):item() --> 36
power = 1
h(x):item() --> 12
activation = function(a) return -a end
h(x):item() --> -12
inner = function(a) return a + 1 end
h(x):item() --> -16
local wrapped = graph.module("wrapped", function(a) return h(a) * 2 end)
wrapped(x):item() --> -32
inner = function(a) return a end
wrapped(x):item() --> -24
local again = graph.checkpoint(function(a) return a * power end)
local outer = graph.module("outer", function(a) return again(a):sum() end)
outer(x):item() --> 4
power = 3
outer(x):item() --> 12

-- A counter in the function itself: of the capture, and no reason.
local calls = 0
local counted = graph.module("counted", function(a) calls = calls + 1 return a * calls end)
local firsts = {}
for i = 1, 3 do firsts[i] = counted(x)[0]:item() end
table.concat(firsts, " ") --> 1 1 1
count(counted) --> 1
last(counted):match "it changes upvalue calls itself: that happens once" ~= nil --> true

-- ---- tensors and modules
local w = op.ones { 4 }
local t = graph.module("t", function(a) return (a * w):sum() end)
t(x):item() --> 4
w:mul_(2) -- in place: the same tensor
t(x):item() --> 8
count(t) --> 1
w = op.full({ 4 }, 3)
t(x):item() --> 12
last(t):match "upvalue w is another f32%[4%]" ~= nil --> true
count(t) --> 1

local net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm(4), op.relu)
local run = graph.module("run", function(a) return net(a) end)
local b = rng.normal { 8, 4 }
run(b)
net:eval()
run(b):hash() == net(b):hash() --> true
last(run):match "training is false, was true" ~= nil --> true
net:train()
run(b)
net:eval()
run(b):hash() == net(b):hash() --> true
count(run) --> 2
tessera.no_grad(function() net[1].weight = op.ones { 4, 4 } end)
run(b):hash() == net(b):hash() --> true
net[3].eps = 0.5
run(b):hash() == net(b):hash() --> true
net:to "f64"
run(b:cast "f64"):hash() == net(b:cast "f64"):hash() --> true
net[4] = op.tanh
run(b:cast "f64"):hash() == net(b:cast "f64"):hash() --> true

-- A class of the program's own, its methods, and what they take from outside.
local slope = 2
local Scale = nn.Module:extend "Scale"
function Scale:init(n) self.n = n end
function Scale:forward(a) return a * self.n * slope end
local scale = Scale(3)
local s = graph.module("s", function(a) return scale(a):sum() end)
s(x):item() --> 24
scale.n = 4
s(x):item() --> 32
slope = 1
s(x):item() --> 16
function Scale:forward(a) return a - self.n end
s(x):item() --> -12

-- Modules among the arguments: flags, numbers and functions of those below count.
local m = nn.Sequential(nn.Sequential(nn.Dropout(0.5)))
local arg = graph.module("arg", function(model, a) return model(a) end)
arg(m, op.ones { 100 }):eq(0):cast "i64":sum():item() > 0 --> true
m[1][1]:eval()
arg(m, op.ones { 100 }):sum():item() --> 100
local one, two = Scale(2), Scale(5)
function Scale:forward(a) return a * self.n end
arg(one, x):sum():item() --> 8
arg(two, x):sum():item() --> 20
two.n = 6
arg(two, x):sum():item() --> 24
two.n = 0 / 0
arg(two, x):eq(arg(two, x))[0]:item() --> false
two.n = 2
arg(two, x):sum():item() --> 8

-- ---- derivatives and steps
local factor = 1
local grad = graph.grad(function(a) return (a * a * factor):sum() end)
grad(x)[0]:item() --> 2
factor = 3
grad(x)[0]:item() --> 6
graph.vjp(function(a) return a * factor end)(x, x)[0]:item() --> 3

core.seed(1)
local weight = 1
local model = nn.Linear(4, 1)
local function loss(model, a) return (model(a) * weight):sum() end
local step = graph.training_step(model, loss, optim.SGD(model:parameters(), { lr = 0.5 }))
local before = model.bias:item()
step(op.ones { 1, 4 })
before - model.bias:item() --> 0.5
weight = 2
before = model.bias:item()
step(op.ones { 1, 4 })
before - model.bias:item() --> 1
-- Its own parameters change in place: one capture for each weight.
for _ = 1, 5 do step(op.ones { 1, 4 }) end
local n = 0
for _ in pairs(step.cache) do n = n + 1 end
n --> 2

-- Lists of data beside it are no part of it.
local list = {}
for i = 1, 1000 do list[i] = op.full({ 4 }, i) end
local at = graph.module("at", function(a) return a + list[1] end)
at(x)[0]:item() --> 2
for i = 1, 50 do list[i + 1000] = x end
at(x)[0]:item() --> 2
count(at) --> 1

-- Keys of tables say nothing of themselves, and the names of tail calls are no values of the program.
local odd = setmetatable({}, { __tostring = function() error "not yet" end })
local kept = { [odd] = { rate = 2 }, rate = 3 }
local keyed = graph.module("keyed", function(a) return a * kept.rate end)
keyed(x)[0]:item() --> 3
kept.rate = 4
keyed(x)[0]:item() --> 4
local look, tails = require("tessera.outside").look { keyed.body }, 0
for _, list in ipairs { look.named, look.fields.path, look.none.path, look.metas.path } do
  for _, path in ipairs(list) do tails = tails + (path:find("(tail)", 1, true) and 1 or 0) end
end
tails --> 0

-- What a module is, is remembered as long as the module is: nothing keeps one that the program has dropped.
local alive = setmetatable({}, { __mode = "k" })
for _ = 1, 3 do
  local m = nn.Linear(2, 2)
  m.options = { list = { 1, 2 }, f = function() return m end }
  alive[m] = true
  graph.module(function(m, a) return m(a) end)(m, op.ones { 1, 2 })
end
for _ = 1, 4 do collectgarbage() end
next(alive) --> nil
-- A field that held a table which is gone is another one.
local m, again = nn.Linear(2, 2), graph.module(function(m, a) return m(a) end)
m.options = { 1 }
again(m, op.ones { 1, 2 })
m.options = nil
collectgarbage()
again(m, op.ones { 1, 2 })
count(again) --> 2
