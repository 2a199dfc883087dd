-- Each rule of hot loops by itself: with them and without, the same notes.

local tessera = require "tessera"
local core = require "tessera.core"
local ffi = require "ffi"
local op, rng, jit, graph = tessera.op, tessera.rng, tessera.jit, tessera.graph

jit.traces(true)

package.path = "tests/jit/trace/?.lua;" .. package.path
local both = require "_traces" -- both(f) runs f(note) twice; gives how the tracer's counts changed

local function normal(shape, seed) return rng.normal(shape, {seed = seed}) end

-- A plain loop: nearly every call is put off, one value a round is computed.
local s = both(function(note)
  local x, a = normal({4, 6}, 1), normal({6}, 2)
  for _ = 1, 200 do x = ((x * a):tanh() + 0.25) * 0.5 end
  note(x)
end)
s.deferred > 700 --> true
s.runs > 170 --> true

-- Rows that no list of the tracer's knows: a pointwise one, and the parts of composed ones.
s = both(function(note)
  local x, at = normal({6, 6}, 1), normal({6}, 2):sort()
  for _ = 1, 200 do
    local h = op.heaviside(x, 0.5)
    x = x:rot90() * 0.5 + op.trapezoid(h, at) - 0.1
  end
  note(x)
end)
s.deferred > 1500 --> true
s.runs > 170 --> true

-- Branches that alternate: both ways are traced.
s = both(function(note)
  local x = normal({8}, 1)
  for i = 1, 400 do
    local y = x * 0.5 + 0.1
    if i % 2 == 0 then x = y:tanh() - 0.3 else x = (y * y):relu() end
  end
  note(x)
end)
s.deferred > 1200 --> true

-- A value is read in the middle of every round: traces end there.
s = both(function(note)
  local x = normal({8}, 1)
  for _ = 1, 200 do
    local y = (x * 0.9):sin() + 0.01
    note(y:sum():item())
    x = y * 1.01 - 0.001
  end
end)
s.deferred > 900 --> true
s.observed < 20 --> true

-- Values that nobody was expected to read, read much later.
both(function(note)
  local x, kept = normal({8}, 1), {}
  for i = 1, 100 do
    local y = x * 0.5
    local z = y + 1
    x = z:tanh()
    if i % 31 == 0 then kept[#kept + 1] = y end
    if i % 17 == 0 then collectgarbage() end
  end
  for _, y in ipairs(kept) do note(y) end
end)

-- What they were computed from is changed in place in between.
both(function(note)
  local x, w, kept = normal({8}, 1), normal({8}, 2), {}
  for i = 1, 60 do
    local y = x * w
    local z = y + w
    x = z:tanh()
    if i % 7 == 0 then kept[#kept + 1] = y end
    if i % 10 == 0 then w:mul_(0.5) end
    if i % 13 == 0 then w["0:2"] = 3 end
  end
  for _, y in ipairs(kept) do note(y) end
end)

-- A view and what it shows are changed in place, both pending before.
both(function(note)
  local x, kept = normal({4, 6}, 1), {}
  for i = 1, 60 do
    local y = x * 0.5
    local v = y:T()
    local u = v:reshape(2, 3, 4)
    x = (y + 0.1):tanh()
    if i % 9 == 0 then kept[#kept + 1] = {y, v, u} end
  end
  for i, k in ipairs(kept) do
    k[i % 3 + 1]:add_(1)
    note(k[1]) note(k[2]) note(k[3])
  end
end)
both(function(note)
  local x = normal({4, 6}, 1)
  for i = 1, 60 do
    local y = x * 0.5
    local v = y["1:3"]
    v:mul_(2)
    y[0] = i
    note(v)
    x = (y + 0.1):tanh()
  end
  note(x)
end)

-- Errors come from their own line, and can be caught there.
both(function(note)
  local x, bad, weight = normal({6}, 1), op.ones {5}, normal({4, 2}, 2)
  for i = 1, 40 do
    local y = x * 0.5 + 1
    note(select(2, pcall(function() return y + bad end)))
    note(select(2, pcall(function()
      return op.embedding(weight, op.full({2}, i % 6):cast("i64"))
    end)))
    x = y:tanh()
  end
  note(x)
end)

-- Random numbers, and the generator's state, in the order of the program.
both(function(note)
  local x = normal({6}, 1)
  for i = 1, 60 do
    local noise = rng.normal {6}
    local unused = rng.uniform {6}
    x = op.dropout(x * 0.9 + noise, 0.25)
    if i == 30 then rng.seed(5) end
    if i % 8 == 0 then note(unused) end
    if i % 10 == 0 then note(select(2, rng.state())) end
    if i % 12 == 0 then note(op.bernoulli({4}, 0.5)) end
  end
  note(x)
end)

-- A number that changes, as i / 4 does between whole and not.
s = both(function(note)
  local x = normal({6}, 1)
  local n = tessera.tensor({1, 2, 3}, {dtype = "i32"})
  for i = 1, 100 do
    x = x * (i / 4) - x * (i / 4 - 0.5) + 0.125
    n = n * 3 - n * 2
  end
  note(x) note(n)
end)
s.deferred > 200 --> true

-- Rewrites of hot loops keep every bit: signs that wrap in narrow types, -0.0, constants as their
-- type stores them. The values are NumPy's.
local function hot(f)
  local last
  both(function(note)
    for _ = 1, 60 do
      last = f()
      note(last)
    end
  end)
  return last
end
local u, i8 = tessera.tensor({1, 200, 128, 0}, {dtype = "u8"}), tessera.tensor({-128, 127, -1, 0}, {dtype = "i8"})
local ones, wide = op.ones {4}, tessera.tensor({1, 2, 3, -2 ^ 31}, {dtype = "i32"})
hot(function() return (ones + (-u)) * 0.5 end) --> [128.0000  28.5000  64.5000   0.5000]
--> f32[4]
hot(function() return (-u):abs() + 0 end) --> [255  56 128   0]
--> u8[4]
hot(function() return (wide - (-i8)) * 1 end) --> [        129         129           2 -2147483648]
--> i32[4]
hot(function() return (ones - (-i8)) * 2 end) --> [258. 256.   0.   2.]
--> f32[4]
local zeros, sides = tessera.tensor {-0.0, -0.0, 0, 0}, tessera.tensor {1, -1, 2, -2}
local none = op.zeros({4}, {dtype = "i32"})
hot(function() return 1 / (zeros + (-none)) end) --> [inf inf inf inf]
--> f32[4]
hot(function() return 1 / (-(sides * 0)) end) --> [-inf  inf -inf  inf]
--> f32[4]
hot(function() return -(sides / 0) + 1 end) --> [-inf  inf -inf  inf]
--> f32[4]
hot(function() return 1 / (zeros - (-0.0)) end) --> [inf inf inf inf]
--> f32[4]
hot(function() return op.atan2(-0.0, sides) * 1 end) --> [-0.0000 -3.1416 -0.0000 -3.1416]
--> f32[4]
hot(function() return op.atan2(-op.zeros_like(sides), sides) * 1 end) --> [-0.0000 -3.1416 -0.0000 -3.1416]
--> f32[4]
hot(function() return 1 / op.where(sides:gt(0), -op.zeros_like(sides), sides) end) --> [   -inf -1.0000    -inf -0.5000]
--> f32[4]
hot(function() return 1 / (op.complex(zeros, sides) / 1):real() end):isinf():all():item() --> true
local half = tessera.tensor({-1, 1000, 0}, {dtype = "f16"})
hot(function() return op.full_like(half, 1.0005) + half end) --> [9.7656e-04 1.0010e+03 1.0010e+00]
--> f16[3]
hot(function() return op.full({3}, 70000, {dtype = "f16"}) * half end) --> [-inf  inf  nan]
--> f16[3]
hot(function() return op.full({3}, 1.0000001) * half:cast "f64" * 1e9 end) --> [-1.0000e+09  1.0000e+12  0.0000e+00]
--> f64[3]
hot(function() return op.full({3}, 16777216):eq(tessera.tensor({16777217, 16777216, 1}, {dtype = "i32"})) end)
--> [ true  true false]
--> bool[3]
hot(function() return (op.full({3}, 2 ^ 53, {dtype = "i64"}) + 1) - 2 ^ 53 end) --> [1 1 1]
--> i64[3]

-- Captured functions and the tape get values, and change them.
both(function(note)
  local f = graph.module("f", function(x, y) return x * y + 1 end)
  local update = graph.module("update", function(x) x:mul_(0.5) return x + 1 end)
  local x, w, state = normal({6}, 1), normal({6}, 2), normal({6}, 3)
  for i = 1, 40 do
    local y = (x * 0.5):tanh() + 0.1
    local kept = y * state
    note(f(y, w))
    note(update(state))
    if i % 5 == 0 then note(kept) end
    x = y - 0.2
  end
end)
both(function(note)
  local w = normal({6}, 2)
  w.requires_grad = true
  for i = 1, 40 do
    local x = (normal({6}, i) * 0.5):tanh() + 0.1
    local loss = (x * w):square():sum()
    loss:backward()
    tessera.no_grad(function() w:sub_(w.grad * 0.1) end)
    w.grad = nil
    note(loss:item())
  end
  note(w)
end)

-- Whoever has the address of a tensor may write when they like.
both(function(note)
  local x, w = normal({6}, 1), normal({6}, 2)
  local p = ffi.cast("float *", w:data_ptr())
  for i = 1, 60 do
    local y = x * w
    p[i % 6] = i
    x = (y + w):tanh()
    note(y)
  end
  note(x)
end)

-- Everything else that reads.
both(function(note)
  local x = normal({2, 2}, 1)
  for i = 1, 60 do
    local y = (x * 0.5):tanh() + 0.1
    local what = i % 6
    if what == 0 then note(tostring(y)) end
    if what == 1 then note(y:totable()[1][2]) end
    if what == 2 then note(y:bytes()) end
    if what == 3 then note(y[0]) end
    if what == 4 then note(y:detach()) end
    if what == 5 then note(table.concat(y:T().strides, " ")) end
    x = y - 0.2
  end
end)

-- off() in the middle of a round computes what is pending; on() goes on.
both(function(note)
  local x = normal({6}, 1)
  for i = 1, 90 do
    local y = x * 0.5
    local was = jit.status()
    if i == 40 then jit.off() end
    if i == 60 and s then jit.on() end
    x = (y + 0.1):tanh()
    note(was ~= nil)
  end
  note(x)
end)
jit.on()

-- A program with shapes that come once only has nothing put off.
s = both(function(note)
  for i = 1, 300 do note(((op.ones {i} * 0.5) + 1):sum():item()) end
end)
s.deferred --> 0

-- Memory runs out anywhere: an error, and the values of before are right.
jit.flush()
for n = 1, 120 do
  local x = normal({2000}, 1)
  local want = ((x * 0.5):tanh() + 0.1):hash()
  for _ = 1, 12 do
    local y = (x * 0.5):tanh() + 0.1
    assert(y:hash() == want)
  end
  local last = {}
  core.fail_after(n)
  pcall(function()
    for i = 1, 12 do
      local y = (x * 0.5):tanh() + 0.1
      last[1] = y
      if i % 3 == 0 then y:hash() end
    end
  end)
  core.fail_after(0)
  assert(not last[1] or last[1]:hash() == want)
end

-- What is retained for values that nobody reads goes with them.
local function most(on)
  if on then jit.on() else jit.off() end
  collectgarbage()
  local x, peak = normal({500000}, 1), 0
  for i = 1, 300 do
    local y = x * 0.5
    x = ((y + 1):tanh() * y) + x
    if i % 10 == 0 then
      collectgarbage()
      local held = core.memory().live
      if i > 100 and held > peak then peak = held end
    end
  end
  return peak
end
local eager = most(false)
most(true) <= eager * 1.25 --> true
