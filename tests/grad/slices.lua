-- Gradients of many parts of one tensor: values beside those of one part alone, added up here; the
-- same bits by the tape and captured, in every type; and as much memory as there are elements.
local tessera = require "tessera"
local core = require "tessera.core"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph

-- Whole numbers are exact in any order.
local function whole(shape, stream) return rng.randint(shape, { low = -4, high = 5, seed = 5, stream = stream }) end

local function rows(n) -- for i in rows(n): the parts in order
  return function(part)
    return function(x)
      local list = {}
      for i = 0, n - 1 do list[#list + 1] = part(x, i) end
      return list
    end
  end
end

-- Shape of x, and the parts that are read.
local cases = {
  every = { { 9, 4 }, rows(9)(function(x, i) return x:select(0, i) end) },
  inner = { { 3, 8, 2 }, rows(8)(function(x, i) return x:select(1, 7 - i) end) },
  last = { { 3, 8 }, rows(4)(function(x, i) return x:narrow(-1, 2 * i, 2) end) },
  gaps = { { 4, 20 }, rows(6)(function(x, i) return x:narrow(1, 3 * i + 1, 2) end) },
  two = { { 6, 3 }, rows(2)(function(x, i) return x:narrow(0, 2 * i, 3) end) },
  windows = { { 12, 3 }, rows(10)(function(x, i) return x:narrow(0, i, 3) end) },
  inner_windows = { { 3, 12, 2 }, rows(10)(function(x, i) return x:narrow(1, i, 3) end) },
  same = { { 5, 2 }, rows(9)(function(x, i) return x:narrow(0, i % 3, 2) end) },
  mixed = { { 8, 3 }, rows(7)(function(x, i) return i % 2 == 0 and x:select(0, i) or x:narrow(0, i, 2) end) },
  backwards = { { 10, 3 }, rows(9)(function(x, i) return x[("%d::-1"):format(i + 1)] end) },
  strided = { { 12, 3 }, rows(6)(function(x, i) return x[("%d::6"):format(i)] end) },
  pairs = { { 3, 8 }, rows(2)(function(x, i) return x[(":, %d::2"):format(i)] end) },
  stripes = { { 8, 6 }, rows(3)(function(x, i) return x[("::2, %d:%d"):format(2 * i, 2 * i + 2)] end) },
  grid = { { 6, 8, 2 }, rows(12)(function(x, i)
    local r, c = math.floor(i / 4) * 2, i % 4 * 2
    return x[("%d:%d, %d:%d"):format(r, r + 2, c, c + 2)]
  end) },
  points = { { 3, 4 }, rows(12)(function(x, i) return x:select(1, i % 4):select(0, math.floor(i / 4)) end) },
  patches = { { 5, 6, 2 }, rows(12)(function(x, i)
    local r, c = math.floor(i / 4), i % 4
    return x[("%d:%d, %d:%d"):format(r, r + 3, c, c + 3)]
  end) },
  crossed = { { 6, 6 }, rows(10)(function(x, i)
    return i % 2 == 0 and x:narrow(0, i / 2, 2) or x[("%d::-1, ::2"):format((i + 1) / 2)]
  end) },
  empty = { { 7, 2 }, rows(7)(function(x, i) return x:narrow(0, i, i % 2) end) },
  nothing = { { 4, 2 }, rows(6)(function(x, i) return x:narrow(0, i % 3, 0) end) },
  split = { { 10, 3 }, function(x) return { x:split(3) } end },
  unbind = { { 6, 2 }, function(x) return { x:unbind() } end },
  nested = { { 8, 6 }, function(x)
    local list = {}
    for i = 0, 6 do
      local two = x:narrow(0, i, 2)
      for k = 0, 5 do list[#list + 1] = two:select(1, k) end
    end
    return list
  end },
}

local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)

-- The parts weighted, and something of all of x in between if asked for.
local function loss_of(parts, dtype, stream, whole_too)
  return function(x)
    local sum
    for i, p in ipairs(parts(x)) do
      local term = (p * whole(p.shape, stream + i):cast(dtype)):cast("f64"):sum()
      if whole_too and i % 5 == 3 then term = term + (x * i):cast("f64"):sum() end
      sum = sum and sum + term or term
    end
    return sum
  end
end

-- One part at a time.
local function expected(shape, parts, stream, whole_too)
  local zeros = op.zeros(shape, { dtype = "f64" })
  local g = zeros
  for i = 1, #parts(zeros) do
    local at = zeros:clone()
    local into = parts(at)[i]
    into:copy_(whole(into.shape, stream + i):cast "f64")
    g = g + at
    if whole_too and i % 5 == 3 then g = g + i end
  end
  return g
end

local function by_tape(f, x)
  x = x:clone():requires_grad_()
  f(x):backward()
  return x.grad
end

local wrong = {}
local function equal(a, b) return a.dtype == b.dtype and a:hash() == b:hash() end
for n, name in ipairs(names) do
  local shape, parts = unpack(cases[name])
  for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "complex128" } do
    for _, whole_too in ipairs { false, true } do
      local real = dtype:match "^complex" and "complex128" or "f64"
      local f = loss_of(parts, dtype, n * 100, whole_too)
      if real == "complex128" then
        local inner = f
        f = function(x) return inner(x):real() end
      end
      local x = whole(shape, n):cast(dtype)
      local want = expected(shape, parts, n * 100, whole_too)
      local tape, captured = by_tape(f, x), graph.grad(f)(x)
      -- + 0: whatever the sign of a zero
      if real == "f64" and not equal(tape:cast "f64" + 0, want + 0) then wrong[#wrong + 1] = name .. " " .. dtype end
      if real ~= "f64" and not equal(op.real(tape) + 0, want + 0) then wrong[#wrong + 1] = name .. " " .. dtype end
      if not equal(tape, captured) then wrong[#wrong + 1] = name .. " " .. dtype .. " captured" end
    end
  end
end
table.concat(wrong, "; ") --> 

-- Numbers that round: the order is that of the tape, backwards, also where some are added by index.
for _, name in ipairs { "windows", "patches", "crossed", "nested" } do
  local shape, parts = unpack(cases[name])
  local function part(k)
    return function(x)
      local p = parts(x)[k]
      return (p * rng.normal(p.shape, { dtype = "f32", seed = 3, stream = k })):sum()
    end
  end
  local function all(x)
    local sum
    for k = 1, #parts(x) do sum = sum and sum + part(k)(x) or part(k)(x) end
    return sum
  end
  local x, want = rng.normal(shape), nil
  if name ~= "nested" then -- whose inner parts are added up first
    for k = #parts(x), 1, -1 do
      local g = by_tape(part(k), x)
      want = want and want + g or g
    end
  end
  local tape = by_tape(all, x)
  if want and not equal(tape + 0, want + 0) then wrong[#wrong + 1] = name end
  if not equal(tape, graph.grad(all)(x)) then wrong[#wrong + 1] = name .. " captured" end
end
table.concat(wrong, "; ") --> 

-- A zero keeps its sign where parts lie beside each other.
local function minus(x) return (x:select(0, 0) * -0.0 + x:select(0, 1) * -0.0):sum() end
(1 / by_tape(minus, op.ones { 2, 1 })):max():item() --> -inf
(1 / graph.grad(minus)(op.ones { 2, 1 })):max():item() --> -inf

-- More parts than a call takes operands.
local function many(x)
  local sum
  for i = 0, 1499 do
    local part = (x:select(0, i) * (i % 7)):sum()
    sum = sum and sum + part or part
  end
  return sum
end
local ramp = op.mod(op.arange(1500), 7):cast("f32"):unsqueeze(1)
by_tape(many, op.ones { 1500, 1 }):hash() == ramp:hash() --> true
graph.grad(many)(op.ones { 1500, 1 }):hash() == ramp:hash() --> true

-- Second derivatives.
local function cubes(x)
  local sum
  for i = 0, 9 do
    local c = (x:narrow(0, i, 2) ^ 3):sum() * (i + 1)
    sum = sum and sum + c or c
  end
  return sum
end
local slope = graph.grad(function(x) return (graph.grad(cubes)(x) * op.arange(11):cast "f64"):sum() end)
local ones, counts = op.ones({ 11 }, { dtype = "f64" }), { 1 }
for i = 1, 9 do counts[i + 1] = 2 * i + 1 end
counts[11] = 10
slope(ones):hash() == (tessera.tensor(counts, { dtype = "f64" }) * 6 * op.arange(11):cast "f64"):hash() --> true

-- Twice as many parts of twice as many elements take twice the memory.
local function bytes(part, n)
  local g = graph.grad(function(x)
    local sum
    for i = 0, n - 1 do
      local s = (part(x, i) ^ 2):sum()
      sum = sum and sum + s or s
    end
    return sum
  end)
  g(op.ones { n + 2, 64 })
  return g:stats().sum
end
local function linear(part) return bytes(part, 100) <= 2.2 * bytes(part, 50) end
linear(function(x, i) return x:select(0, i) end) --> true
linear(function(x, i) return x:narrow(0, i, 3) end) --> true
linear(function(x, i) return x[("%d:%d:2"):format(i, i + 3)] end) --> true
-- Parts beside each other are made where they belong.
bytes(function(x, i) return x:select(0, i) end, 100) --> 0
