-- Operators in hot loops as functions that LuaJIT compiles: with them and without, the same
-- notes; tensors that they make differ from others in nothing that a program sees.

local tessera = require "tessera"
local core = require "tessera.core"
local ffi = require "ffi"
local op, rng, jit = tessera.op, tessera.rng, tessera.jit
local luajit = require "jit"

jit.traces(true)
luajit.opt.start("hotloop=4", "hotexit=2")

package.path = "tests/jit/trace/?.lua;" .. package.path
local both = require "_traces" -- both(f) runs f(note) twice; gives how the tracer's counts changed

local function normal(shape, seed) return rng.normal(shape, {seed = seed}) end

-- Every way to write a call, numbers on both sides, numbers that vary.
local s = both(function(note)
  local x, a, b = normal({16}, 1), normal({16}, 2), normal({16}, 3)
  for i = 1, 400 do
    local y = (x * a + b):relu() - 0.5
    local z = 1 - y * 0.25
    local w = op.maximum(op.neg(z), -y):tanh() / 2
    x = op.mul(w, w) + (i % 3) * 0.125 + op.abs(a)
    if i % 50 == 0 then note(x) end
  end
end)
s.quick > 2500 --> true

-- What was collected has given its memory back.
collectgarbage()
collectgarbage()
core.memory().live < 10000 --> true

-- Operators with options, which are their defaults or not; wrong ones.
s = both(function(note)
  local x, w = normal({4, 4}, 1), normal({4, 4}, 2)
  for i = 1, 300 do
    local y = op.softmax(x:matmul(w)) + x:sum{axis = 0}
    local m = y:mean()
    local v = op.sum(y - m)
    x = op.softmax(y, {axis = 1}) * 0.5 + v * 0.01 + w:T():matmul(x):max(1, true)
    if i % 60 == 0 then note(x) note(select(2, pcall(op.matmul, x, normal({3, 3}, 1)))) end
    if i % 70 == 0 then note(select(2, pcall(op.matmul, x, 2))) note(select(2, pcall(op.sum, x, 5))) end
  end
end)
s.quick > 1200 --> true

-- Values that are kept, read later, read in between, changed in place.
s = both(function(note)
  local x, a, kept = normal({8}, 1), normal({8}, 2), {}
  for i = 1, 600 do
    local y = x * a
    local z = y + 0.5
    local v = z:abs() - y
    x = v:tanh()
    if i % 31 == 0 then kept[#kept + 1] = y end
    if i % 43 == 0 then note(z:sum():item()) end
    if i % 57 == 0 then z:mul_(2) note(z) note(y) end
    if i % 71 == 0 then a:add_(0.01) end
    if i % 17 == 0 then collectgarbage() end
  end
  for _, y in ipairs(kept) do note(y) end
  note(x)
end)
s.quick > 1000 --> true

-- Branches, another shape, another loop with the same beginning.
both(function(note)
  local x, a = normal({8}, 1), normal({8}, 2)
  for i = 1, 500 do
    local y = x * a
    if i % 7 == 0 then x = (y + a):sin() else x = (y - a):tanh() + 0.5 end
  end
  note(x)
  x, a = normal({5}, 4), normal({5}, 2)
  for _ = 1, 200 do x = ((x * a):abs() + 0.25):sqrt() end
  note(x)
end)

-- Errors are told at their own lines, and what came before stays.
s = both(function(note)
  local x, a, bad = normal({8}, 1), normal({8}, 2), normal({3}, 3)
  local function round(i)
    local y = x * a
    local z = y + (i % 40 == 0 and bad or a)
    x = z:tanh() * 0.5
  end
  for i = 1, 300 do
    local ok, why = pcall(round, i)
    if not ok then note(why) end
    ok, why = pcall(op.mul, x)
    if i % 100 == 0 then note(why) end
    ok, why = pcall(function() return x * {} * "a" end)
    if i % 100 == 0 then note(why) end
  end
  note(x)
end)
s.quick > 300 --> true

-- Gradients, under no_grad and not.
both(function(note)
  local w = normal({8}, 5)
  w.requires_grad = true
  for i = 1, 120 do
    local x = normal({8}, i % 5)
    if i % 2 == 0 then
      local loss = ((x * w):tanh() * x):sum()
      loss:backward()
      note(w.grad)
      w.grad = nil
    else
      tessera.no_grad(function()
        for _ = 1, 4 do x = (x * w):tanh() - 0.25 end
      end)
      note(x)
    end
  end
end)

-- A value of a compiled call.
local made
do
  local x, a = normal({4}, 1), normal({4}, 2)
  for _ = 1, 300 do
    made = (x * a):tanh() + x
    x = made * 0.5
  end
end
type(made) --> userdata
getmetatable(made) --> tensor
core.is_tensor(made) --> true
made.shape[1], made.dtype, #made --> 4, f32, 4
made[0].ndim --> 0
made == made, made == made + 0, made ~= nil --> true, false, true
({[made] = 3})[made] --> 3
tostring(made) == tostring(made * 1) --> true
made["1:3"] = 0
made[1]:item(), made[2]:item() --> 0, 0
made:mul_(2) == made --> true
made .. "" == tostring(made) --> true
made < made --! Lua's < and <= give one boolean
made.frobnicate --! a tensor has no field or method 'frobnicate'
made:add(made, 3) --! no place for the number
type() --! bad argument #1 to
type(1LL), type(ffi.new("int[2]")), type(2), type(nil) --> cdata, cdata, number, nil
core.is_tensor(1LL), core.is_tensor(ffi.new "uint8_t") --> false, false

-- Coroutines, and boxes that outlive their loop.
both(function(note)
  local list = {}
  local co = coroutine.wrap(function()
    local x, a = normal({6}, 1), normal({6}, 2)
    for i = 1, 300 do
      x = (x * a + 0.5):tanh()
      list[#list + 1] = x
      if i % 10 == 0 then coroutine.yield(x) end
    end
  end)
  for _ = 1, 30 do note(co()) end
  collectgarbage()
  for i = 1, #list, 37 do note(list[i]) end
end)

-- What a program puts in the place of an operator is called, whether the loop is hot or was.
local function replaced(where, key, f)
  local x, before, n = normal({4}, 1), rawget(where, key), 0
  for i = 1, 900 do
    if i == 1 or i == 450 then rawset(where, key, function(...) n = n + 1 return f(before, ...) end) end
    x = (op.tanh(x) + x:sin() * 0.5):tanh() - op.mul(x, 0.25)
    if i == 200 or i == 800 then rawset(where, key, before) end
  end
  return n .. " " .. x:hash()
end
local function hot_and_cold(where, key, f)
  jit.traces(false)
  local cold = replaced(where, key, f)
  jit.traces(true)
  local first, second = replaced(where, key, f), replaced(where, key, f)
  return first == cold and second == cold or cold .. ", " .. first .. ", " .. second
end
local meta = debug.getmetatable(made)
hot_and_cold(op, "tanh", function(tanh, x) return tanh(x) * 0.5 end) --> true
hot_and_cold(core.methods, "sin", function(sin, x) return sin(x) + 1 end) --> true
hot_and_cold(meta, "__add", function(add, x, y) return add(x, y) / 2 end) --> true
hot_and_cold(meta, "__index", function(index, x, key) return index(x, key == "sin" and "cos" or key) end) --> true
local others = setmetatable({tanh = function(x) return op.tanh(x) * 0.25 end}, {__index = op})
tessera.op = others
local function through(n)
  local x = normal({4}, 1)
  for _ = 1, n do x = tessera.op.tanh(x) + tessera.op.sin(x) end
  return x:hash()
end
local hash = through(900)
jit.traces(false)
through(900) == hash --> true
jit.traces(true)
tessera.op = op
