-- What a program has set for a while is as before when an error ends it; what ends is told with its
-- line; parameters are never mixed.
local tessera = require "tessera"
local core, op, nn, optim, graph = tessera.core, tessera.op, tessera.nn, tessera.optim, tessera.graph
local tiers = dofile "tests/jit/_tiers.lua"

local function error_of(f, ...)
  local ok, why = pcall(f, ...)
  return not ok and tostring(why) or nil
end

-- ---- a coroutine that yields out of what is set
local f = graph.module("yields", function(x)
  coroutine.yield(x)
  return x
end)
local co = coroutine.create(function(x) return f(x) end)
local ok, why = coroutine.resume(co, op.ones(3))
ok --> false
why:match "a coroutine yields inside of a function that is captured.*" --> a coroutine yields inside of a function that is captured, that a control operator runs, or that has set something (no_grad, autocast, device, ..) meanwhile
-->   hint: yield outside of it
core.capturing() --> 
op.ones(3):sum():item() --> 3
co = coroutine.wrap(function() tessera.no_grad(coroutine.yield) end)
(error_of(co) or ""):find "yields inside" ~= nil --> true
core.recording() --> true
-- Inside of what is run whole it may.
local generator = graph.module("generator", function(x)
  local sum = x
  for y in coroutine.wrap(function() coroutine.yield(x * 2) coroutine.yield(x * 3) end) do sum = sum + y end
  return sum
end)
generator(op.ones(2)):sum():item() --> 12

-- ---- errors
local model = nn.Linear(3, 2)
local weight = model.weight
local fails = graph.module("fails", function() error "here" end)
error_of(fails, model, op.ones { 1, 3 }):match "%d+: .*" --> 38: here
rawequal(model.weight, weight) and model.weight:hash() == weight:hash() --> true
graph.module("works", function(m, x) return m(x) end)(model, op.ones { 1, 3 }).shape --> {1, 2}
error_of(tessera.device, "null:0", function() error("there", 0) end) --> there
core.default_device() --> auto
error_of(tessera.numerics.profile, "strict", function() error("then", 0) end) --> then
core.profile() --> deterministic
error_of(tessera.numerics.trap, function() error("why", 0) end) --> why
core.trap() --> false
-- An error that the function itself catches gives up the region, not the function.
local catches = graph.module("catches", function(x)
  pcall(op.cond, x:sum():gt(0), function() error "no" end, function(y) return y end, x)
  return x + 1
end)
catches(op.ones(2)):sum():item() --> 4

local w = op.ones(4)
local opt = optim.LBFGS { w }
local step = graph.training_step({}, function() error("bad loss", 0) end, opt)
error_of(step) --> bad loss
core.recording() --> true
opt.steps --> 0

-- ---- parameters: a loss that fails behind a change, a gradient that does not fit
local mean, index = op.zeros(3), core.tensor({ 5 }, { dtype = "i64" })
local norm = graph.module("norm", function(x, i)
  mean:copy_(mean * 0.5 + x:mean { axis = 0 })
  return x:select(0, 0):index_select(i)
end)
error_of(norm, op.ones { 2, 3 }, index) ~= nil --> true
mean --> [0. 0. 0.]
--> f32[3]
norm(op.ones { 2, 3 }, core.tensor({ 1 }, { dtype = "i64" })) --> [1.]
--> f32[1]
mean --> [1. 1. 1.]
--> f32[3]

local a, b = op.ones(3), op.ones(2)
local sgd = optim.SGD({ a, b }, { lr = 1 })
error_of(sgd.step, sgd, { op.ones(3), op.ones(5) }) ~= nil --> true
a:sum():item() --> 3
sgd.steps --> 0
sgd:step { op.ones(3), op.ones(2) }
a:sum():item() + b:sum():item() --> 0
error_of(model.load_state_dict, model, { weight = op.zeros { 2, 3 }, bias = op.zeros { 3 } }) ~= nil --> true
model.weight:hash() == weight:hash() --> true

-- Moved only when all can be: what reads a parameter behind its change, and may fail, sees it in time.
local p, q = op.ones(3), op.ones(3)
local both = graph.module("both", function(g)
  p:sub_(g)
  q:sub_(p * 2)
  return p:sum(), op.cumsum(q):sum()
end)
tessera.no_grad(both, op.full({ 3 }, 0.5)):item() --> 1.5
p:sum():item() + q:sum():item() --> 1.5

-- ---- memory is bounded by what is left
local endless = graph.module("endless", function(x)
  return op.recursive(function(self, n, y)
    return op.cond(n:ge(0), function(m, z) return self(m + 1, z * 0.5) end, function(_, z) return z end, n, y)
  end, { max = 3037000500 })(op.full({}, 1, { dtype = "i64" }), x)
end)
core.memory_left(24 * 2 ^ 20)
why = error_of(endless, op.ones(100))
core.memory_left(-1)
why:find "out of memory" and why:match "does it come to an end.*" --> does it come to an end?
core.memory_left(16 * 2 ^ 20)
local list = {}
why = error_of(function() while true do list[#list + 1] = op.ones(100000) end end)
core.memory_left(-1)
list = nil
why:match "out of memory: %d+ bytes for a tensor; tensors hold %d+, caches %d+, and the machine has %d+ left" ~= nil --> true
-- Garbage goes before anybody is refused.
collectgarbage()
core.trim()
core.memory_left(48 * 2 ^ 20)
for _ = 1, 200 do op.ones(1000000) end
core.memory_left(-1)

-- What Lua is refused at once is one error: the pcall around it has it, and nothing comes behind.
local long = ("x"):rep(2 ^ 22)
local function too_long()
  core.fail_after(1, "lua")
  return #(long .. long)
end
local refused = { pcall(too_long) }
local twice = { pcall(pcall, too_long) }
refused --> {false, not enough memory}
twice --> {true, false, not enough memory}
core.fail_after(0, "lua") --> -1

-- ---- Ctrl-C while a loop of the program calls the library, all compiled, is not put off: it comes
-- where the library returns, at whichever instruction of the library it was
local stack = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
local most, told = 0, 0
for at = 1, 40 do
  local rounds = 0
  why = error_of(function()
    for i = 1, 3000 do
      if i == 150 then core.interrupt_after(at, "instructions") end
      if i > 150 then rounds = rounds + 1 end
      tostring(stack)
    end
  end)
  core.interrupt_after(0)
  most = math.max(most, rounds)
  if why and why:match "states.lua:%d+: interrupted" then told = told + 1 end
end
most <= 1 or most --> true
told --> 40

-- ---- what Ctrl-C ends says where
local GO = 'io.stderr:write "GO\\n" '
local function interrupted(code, seconds)
  local out, status = tiers.shell(("sh tests/stop.sh %s %s -e '%s'"):format(seconds, tiers.program, code))
  return status, ((out:match "^%s*(.-)\n" or out):gsub("%(command line%)", ""))
end
interrupted(GO .. [[os.execute "sleep 60"]], 0.5) --> 130, :1: os.execute: interrupted
interrupted([[local op = require "tessera".op local x = op.normal({3500, 3500}, {seed = 1}) ]] .. GO .. [[op.svd(x)]], 1) --> 130, :1: svd: interrupted
local status, said = interrupted(GO .. [[local op = require "tessera".op local function loop() while true do op.ones(9) end end error(select(2, xpcall(loop, function(e) for i = 1, 50 do tostring(i) end return e end)), 0)]], 0.5)
status --> 130
said:match "^:1: .*interrupted$" ~= nil --> true
local training = [[local t = require "tessera" local m = t.nn.Linear(4, 2)
local step = t.graph.training_step(m, function(m, x) return m(x):square():sum() end, t.optim.Adam(m:parameters()))
local x = t.op.ones { 3, 4 } while true do step(x) end]]
status, said = interrupted(GO .. training, 0.7)
status --> 130
said:match "^:3: .*interrupted$" ~= nil --> true
tiers.run [[print(os.execute("exit 3"), os.execute(), os.execute("true"))]] --> 768	1	0
--> , 0

-- ---- a coroutine that yields out of a control operator: an error there, and the session goes on
local a = op.ones { 2 }
for _, run in ipairs {
  function(f) return op.map(f, a) end, function(f) return op.cond(a:sum():gt(0), f, f, a) end,
  function(f) return op.scan(function(c, x) return c, f(x) end, a, a) end,
  function(f) return op.while_loop(function(i) return i:lt(3) end, function(i) f(i) return i + 1 end, op.zeros {}) end,
  function(f) return op.fixed_point(function(x) return f(x) * 0.5 end, a) end,
  function(f) return op.recursive(function(self, x) f(x) return x end)(a) end,
} do
  local thread = coroutine.create(function() return run(function(x) coroutine.yield(x) return x end) end)
  local fine, said = coroutine.resume(thread)
  (not fine and said or ""):find "yields inside of a function" ~= nil --> true
  a:add_(1)[0]:item() > 1 --> true
  -- one that yields to the function itself may
  local inside = coroutine.create(function()
    return run(function(x) local next_one = coroutine.wrap(function() coroutine.yield(x * 1) end) return next_one() end)
  end)
  (coroutine.resume(inside)) --> true
end
