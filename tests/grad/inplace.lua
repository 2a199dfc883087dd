-- Writes in place on the tape: random programs that write into tensors, into views of them, and
-- read what was written, beside differences of what they compute. Programs of whole tensors
-- beside graph.grad.
local tessera = require "tessera"
local op, rng, graph, tensor = tessera.op, tessera.rng, tessera.graph, tessera.tensor

local CASES = tonumber(os.getenv "INPLACE_CASES") or 60

-- A generator of its own, so that a program is the same each time it runs.
local function numbers(seed)
  local state = seed * 7919 + 17
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return math.floor(state / 65536) % n
  end
end

local shape = { 3, 4 }
local views = {
  function(y) return y[1] end,
  function(y) return y["0:2"] end,
  function(y) return y["..., 1"] end,
  function(y) return y["1:, ::2"] end,
  function(y) return y:T() end,
  function(y) return y["::-1"] end,
  function(y) return y:flatten() end,
  function(y) return y:reshape { 2, 6 } end,
  function(y) return y["1:, 1:3"]:T() end,
  function(y) return y[2]["1:"] end,
  function(y) return y:flatten():unsqueeze(0) end,
  function(y) return y end,
}

-- What fits into y, computed from the tensors at hand.
local function value(pick, at, y)
  local from = at[pick(#at) + 1]
  local e = from:flatten():take((op.arange(y.numel) + pick(5)) % from.numel):reshape(y.shape)
  local kind = pick(4)
  if kind == 0 then return e * 0.5 end
  if kind == 1 then return e * e * 0.25 + 0.5 end
  if kind == 2 then return e end
  return op.sin(e)
end

local writes = {
  function(pick, at, y) y:copy_(value(pick, at, y)) end,
  function(pick, at, y) y:add_(value(pick, at, y)) end,
  function(pick, at, y) y:mul_(value(pick, at, y)) end,
  function(pick, at, y) y:sub_(value(pick, at, y)) end,
  function(pick, at, y) y[0] = value(pick, at, y[0]) end,
  function(pick, at, y) y["-1:"] = value(pick, at, y["-1:"]) end,
  function(pick, at, y) y["..., 0"] = 0.75 end,
  function(pick, at, y) y[y:gt(0.4)] = 0.3 end,
  function(pick, at, y) y[y:lt(0.6)] = value(pick, at, y) end,
  function(pick, at, y) y:tanh_() end,
  function(pick, at, y) y:add_(y["::-1"]) end,
  function(pick, at, y)
    y:scatter_(op.zeros(y.shape, { dtype = "i64" })["..., :1"], value(pick, at, y["..., :1"]))
  end,
  function(_, _, y) y:copy_(0.2) end,
  function(_, _, y) y:mul_(2) end,
}

local function program(seed, whole)
  return function(x)
    local pick = numbers(seed)
    local at = { x, x * 1.5, op.full(shape, 0.5, { dtype = "f64" }), op.ones(shape, { dtype = "f64" }) }
    local early = views[pick(#views) + 1](at[3])
    local sum = x:sum() * 0.1
    for _ = 1, 3 + pick(8) do
      local y = at[2 + pick(#at - 1)]
      if not whole then
        local view = pick(4) == 0 and early or views[pick(#views) + 1](y)
        writes[pick(#writes) + 1](pick, at, view)
        if pick(5) == 0 then early = view end
        if pick(3) == 0 then at[#at + 1] = value(pick, at, op.zeros(shape)) end
        if pick(6) == 0 then sum = sum + (view * view):sum() end
        if pick(6) == 0 then collectgarbage() end
        if pick(9) == 0 then at[2 + pick(#at - 1)] = op.full(shape, 0.25, { dtype = "f64" }) end
      else
        local k = pick(5)
        writes[k == 4 and 10 or k + 1](pick, at, y)
      end
    end
    for _, y in ipairs(at) do sum = sum + (y * y * 0.5 + y):mean() end
    if not whole then sum = sum + (early * early):sum() end
    return sum
  end
end

local function differences(f, x)
  local h, slopes = 1e-5, {}
  for i = 0, x.numel - 1 do
    local function at(by)
      local y = x:clone()
      y:flatten()[i] = x:flatten()[i] + by
      return f(y):item()
    end
    slopes[i + 1] = (at(h) - at(-h)) / (2 * h)
  end
  return tensor(slopes, { dtype = "f64" }):reshape(x.shape)
end

local function slopes(f, x)
  x = x:clone()
  x.requires_grad = true
  f(x):backward()
  return x.grad
end

-- What was filled without gradients, and is filled anew without them, is not kept: an error.
local function is_refused(why) return why:match "backward: a tensor that .* used was changed in place since" end

local refused = 0
for seed = 1, CASES do
  local x = op.uniform(shape, { dtype = "f64", seed = seed, stream = 0 })
  local f = program(seed, false)
  local fine, got = pcall(slopes, f, x)
  if fine then
    local want = differences(f, x)
    local off = ((got - want):abs() / (want:abs() + 1)):max():item()
    if not (off < 1e-6) then error(("program %d: off by %g\n%s\n%s"):format(seed, off, got, want), 0) end
  else
    if not is_refused(got) then error(("program %d: %s"):format(seed, got), 0) end
    refused = refused + 1
  end
end
assert(refused < CASES / 20, refused)

for seed = 1, CASES do
  local x = op.uniform(shape, { dtype = "f64", seed = seed, stream = 1 })
  local f = program(seed, true)
  local got, want = slopes(f, x), graph.grad(f)(x)
  local off = (got - want):abs():max():item()
  if not (off < 1e-13) then error(("program %d: off by %g\n%s\n%s"):format(seed, off, got, want), 0) end
end

-- ---- ways to write, beside what PyTorch gives for them
local function leaf(...) return tensor({ ... }):requires_grad_() end
local x, got
local function through(write)
  x = leaf(1, 2, 3)
  local y = write(x)
  ;(y * y + x):sum():backward()
  return x.grad
end
got = through(function(x) local y = op.zeros { 3 } y:copy_(x * 2) return y end)
got --> [ 9. 17. 25.]
--> f32[3]
got = through(function(x) local y = op.ones { 3 } y:mul_(x * 2) return y end)
got --> [ 9. 17. 25.]
--> f32[3]
got = through(function(x) local y = op.zeros { 3 } for i = 0, 2 do y[i] = x[i] * x[i] end return y end)
got --> [  5.  33. 109.]
--> f32[3]
got = through(function(x) local y = op.zeros { 3 } y["0:2"] = x["0:2"] * 2 return y end)
got --> [ 9. 17.  1.]
--> f32[3]
got = through(function(x) local y = op.zeros { 3 } y[tensor { true, false, true }] = x * 2 return y end)
got --> [ 9.  1. 25.]
--> f32[3]
got = through(function(x) local y = op.zeros { 3 } y:scatter_(op.arange(3), x * 2) return y end)
got --> [ 9. 17. 25.]
--> f32[3]
-- A base, its views and what was written before.
got = through(function(x)
  local y = op.zeros { 3 }
  local early, apart = y["::-1"], y:detach()
  y:copy_(x * 2)
  assert(early.requires_grad and y.requires_grad and not apart.requires_grad)
  return early
end)
got --> [ 9. 17. 25.]
--> f32[3]
-- Another type: rounded, or stretched, or one part of complex numbers.
got = through(function(x)
  local y = op.zeros({ 2, 3 }, { dtype = "f64" })
  y:copy_(x)
  return y:cast "f32"
end)
got --> [ 6. 10. 14.]
--> f32[3]
got = through(function(x)
  local y = op.zeros({ 3 }, { dtype = "complex64" })
  y:real_view()["..., 1"]:copy_(x)
  return y:imag()
end)
got --> [3. 5. 7.]
--> f32[3]
got = through(function(x)
  local y = op.zeros { 3, 2 }
  y:copy_(op.complex(x, x):real_view())
  return y["..., 0"]
end)
got --> [3. 5. 7.]
--> f32[3]
-- Integers pass nothing on.
local whole = op.zeros({ 3 }, { dtype = "i32" })
whole:copy_(leaf(1, 2, 3))
whole.requires_grad --> false

-- ---- captured functions that change a tensor
local weight = op.ones { 3 }
local scaled = graph.module("scaled", function(a) weight:mul_(a) return a * 1 end)
x = leaf(1, 2, 3)
local once = scaled(x)
;(weight * weight + once):sum():backward()
x.grad --> [3. 5. 7.]
--> f32[3]
-- Their argument, and what they give of it; two parts of one tensor.
local multiply = graph.module("multiply", function(b, a) b:mul_(a) return b end)
local given = op.full({ 3 }, 2)
x = leaf(1, 2, 3)
local result = multiply(given, x)
multiply(given, x)
;(given * given + result):sum():backward() -- 4 x^4 + 2 x^2
x.grad --> [ 20. 136. 444.]
--> f32[3]
local parts = op.ones { 2, 3 }
x = leaf(1, 2, 3)
graph.module("both", function(b, c, a) b:mul_(a) c:copy_(a * a) end)(parts[0], parts[1], x)
;(parts * parts):sum():backward() -- x^2 + x^4
x.grad --> [  6.  36. 114.]
--> f32[3]
-- What a function has changed is no value of before.
local shift = op.ones { 3 }
x = leaf(1, 2, 3)
local before = shift * x
graph.module("shifted", function() shift:add_(1) end)()
before:sum():backward() --! was changed in place since
-- Statistics of a layer have no gradients.
local norm = tessera.nn.BatchNorm(3)
norm(leaf(1, 2, 3):reshape { 1, 3 } * op.ones { 4, 1 })
norm.running_mean.requires_grad --> false
local captured = graph.module("captured", function(a) return norm(a) end)
captured(rng.normal { 4, 3 }:requires_grad_())
norm.running_var.requires_grad --> false

-- ---- what nobody can know
x = leaf(1, 2, 3)
x:mul_(2) --! requires_grad is set is changed in place by what has gradients
x:copy_(x * 2) --! tessera.no_grad(function() ... end)
x[0] = 5 --! a view of a tensor whose requires_grad is set
x:copy_(tensor { 3, 2, 1 })
tessera.no_grad(function() x[0] = 1 end)
x --> [1. 2. 1.]
--> f32[3] requires_grad
local doubled = x * 2
doubled:detach():copy_(x) --! without its gradients
tessera.no_grad(function() return doubled["0:2"] end):copy_(x["0:2"]) --! without its gradients
tessera.no_grad(function() doubled:mul_(2) end)
doubled[0] = x[0] --! was changed by tessera.no_grad, and is written in part now
op.sum(doubled * doubled):backward() --! had been changed in place by tessera.no_grad
doubled:copy_(x)
;(doubled * 3):sum():backward()
x.grad --> [3. 3. 3.]
--> f32[3]
doubled.requires_grad = false
doubled.requires_grad --> false
doubled:sum():backward() --! does not depend on a tensor that requires gradients
-- A leaf that was changed between two calls has the gradients of both.
x = leaf(1, 2, 3)
local old = (x * 2):sum()
tessera.no_grad(function() x:add_(10) end)
;(old + (x * x):sum()):backward()
x.grad --> [24. 26. 28.]
--> f32[3]
x = leaf(1, 2, 3)
old = (x * x):sum()
tessera.no_grad(function() x:add_(10) end)
op.add(old, (x * x):sum()):backward() --! a tensor that mul at

-- ---- what has no slope anywhere: zeros, as by graph.grad
x = leaf(1.5, 2, 3)
x:floor():sum():backward()
x.grad --> [0. 0. 0.]
--> f32[3]
x = leaf(1.5, 2, 3)
op.where(x:gt(2), x:round(), x:ceil() * x):sum():backward()
x.grad --> [2. 2. 0.]
--> f32[3]
x:argmax():cast("f32"):backward() --! integers, comparisons, detach() and no_grad pass no gradients on
x:detach():sum():backward() --! does not depend
op.stop_gradient(x):sum():backward() --! does not depend

-- ---- nothing is kept longer than somebody can ask for it
local core = require "tessera.core"
local function rounds(n)
  local leaf_ = op.ones { 1000 }:requires_grad_()
  for _ = 1, n do
    local y = op.zeros { 1000 }
    y:copy_(leaf_)
    local z = y * 2
    y:add_(z)
    y["0:10"]:mul_(z["0:10"])
    y:reshape { 10, 100 }:sin_()
    y:sum():backward()
    scaled(leaf_["0:3"])
  end
  weight:copy_(1)
  leaf_, x, doubled, old = nil, nil, nil, nil
  collectgarbage()
  collectgarbage()
  return core.memory().live
end
weight:copy_(1)
rounds(2)
local few = rounds(2)
rounds(30) - few --> 0
