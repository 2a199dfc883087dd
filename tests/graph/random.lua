-- Random straight-line programs: eager against captured bits, backward() against the
-- gradients in the graph, text, the memory plan. GRAPH_COUNT in the environment makes it
-- longer, GRAPH_SEED chooses others, GRAPH_RATIO prints what the plan gives away.
local tessera = require "tessera"
local core = require "tessera.core"
local fuzz = dofile "tests/fuzz/_text.lua"
local graph, op = tessera.graph, tessera.op

local count = fuzz.open("GRAPH", 500, 88172645)
local random, pick = fuzz.random, fuzz.pick

-- A step is a function from the list of values so far to a new one, or nil where it does
-- not fit; everything that it chooses is chosen once.
local function some(values) return 1 + random(#values) end

local unary = { "sin", "tanh", "exp", "neg", "square", "sigmoid", "relu", "abs", "softplus", "cos", "gelu", "atan", "silu" }
local binary = { "add", "sub", "mul", "maximum", "minimum" }
local reduce = { "sum", "mean", "max", "logsumexp", "norm", "var" }

local step = {
  function(v)
    local f, i = pick(unary), some(v)
    return function(t) return op[f](t[i]) end
  end,
  function(v)
    local f, i, k = pick(binary), some(v), some(v)
    return function(t) return op[f](t[i], t[k]) end
  end,
  function(v)
    local i, k = some(v), some(v)
    return function(t) return t[i] / (t[k]:square() + 1) end
  end,
  function(v)
    local i, a, b = some(v), random(7) - 3, random(5) - 2
    return function(t) return t[i] * (a / 2) + b end
  end,
  function(v)
    local i = some(v)
    if v[i].ndim == 0 then return end
    local f, axis, keep = pick(reduce), random(v[i].ndim), random(2) == 0
    return function(t) return op[f](t[i], { axis = axis, keepdims = keep }) end
  end,
  function(v)
    local i = some(v)
    if v[i].ndim == 0 then return end
    local f, axis = pick { "softmax", "cumsum", "log_softmax" }, random(v[i].ndim)
    return function(t) return op[f](t[i], { axis = axis }) end
  end,
  function(v)
    local i = some(v)
    if v[i].ndim < 2 then return end
    local a, b = random(v[i].ndim), random(v[i].ndim)
    return function(t) return t[i]:transpose(a, b) end
  end,
  function(v)
    local i = some(v)
    local flat = random(2) == 0
    return function(t) return flat and t[i]:reshape(-1) or t[i]:reshape { 1, -1 } end
  end,
  function(v)
    local i = some(v)
    if v[i].ndim == 0 or v[i].shape[v[i].ndim] < 2 then return end
    local key = pick { "..., 1:", "..., ::2", "..., :-1", "..., ::-1" }
    return function(t) return t[i][key] end
  end,
  function(v)
    local i, k = some(v), some(v)
    if v[i].ndim < 1 or v[k].ndim < 2 or v[i].shape[v[i].ndim] ~= v[k].shape[v[k].ndim - 1] then return end
    return function(t) return t[i]:matmul(t[k]) * 0.3 end
  end,
  function(v)
    local i, k = some(v), some(v)
    return function(t) return op.where(t[i]:gt(0), t[i], t[k]) end
  end,
  function(v)
    local i, k = some(v), some(v)
    if v[i].ndim == 0 or v[i].ndim ~= v[k].ndim then return end
    local axis = random(v[i].ndim)
    return function(t) return op.concat { t[i], t[k], axis = axis } end
  end,
  function(v)
    local i = some(v)
    if v[i].ndim == 0 then return end
    return function(t) return op.layernorm(t[i]) end
  end,
  function(v)
    local i = some(v)
    return function(t) return t[i]:unsqueeze(0):broadcast_to(2, unpack(t[i].shape)) end
  end,
  function(v)
    local i, k = some(v), some(v)
    return function(t)
      local x = t[i] * 1
      if x.requires_grad then return (x + t[k]):cast(x.dtype):broadcast_to(x.shape) * 0.5 end -- the tape refuses what follows
      x:add_(t[k])
      x:mul_(0.5)
      return x
    end
  end,
  function(v)
    local i = some(v)
    return function(t) return t[i]:clamp { min = -0.7, max = 0.8 } end
  end,
  function(v)
    local i = some(v)
    if v[i].ndim == 0 then return end
    local index = tessera.tensor({ 0, v[i].shape[1] - 1, 0 }, { dtype = "i64" })
    return function(t) return t[i]:index_select(index, { axis = 0 }) end
  end,
  function(v)
    local i = some(v)
    local to = pick { "f32", "f64" }
    return function(t) return t[i]:cast(to) end
  end,
}

local shapes = { { 3, 4 }, { 4 }, { 4, 3 }, { 2, 3, 4 }, { 1, 4 }, { 3, 1 }, {}, { 2, 1, 3 }, { 300 } }
local stream = 0
local function input(dtype)
  stream = stream + 1
  return op.uniform(pick(shapes), { low = -1, high = 1, dtype = dtype, seed = 21, stream = stream })
end

-- A program: inputs, steps, the values that its results are made of.
local function program()
  local dtype = pick { "f32", "f64" }
  local values, steps, inputs = {}, {}, {}
  for i = 1, 1 + random(3) do inputs[i] = input(dtype) end
  for i, x in ipairs(inputs) do values[i] = x end
  local length = 2 + random(16)
  for _ = 1, 10 * length do
    if #steps == length then break end
    local f = pick(step)(values)
    local ok, y = pcall(f or error, values)
    if ok and f and y.numel <= 4000 then
      steps[#steps + 1], values[#values + 1] = f, y
    end
  end
  local out = { #values, 1 + random(#values) }
  local function f(...)
    local t, uses = { ... }, 0
    -- Each use has a factor of its own, so that nothing is computed twice. A graph has one node for
    -- that, also where the tape cannot know: of masks, and of what nobody uses, it has no record.
    local used = setmetatable({}, { __index = function(_, i)
      uses = uses + 1
      return t[i] * (1 + uses / 1024)
    end })
    for _, s in ipairs(steps) do t[#t + 1] = s(used) end
    return used[out[1]], used[out[2]]
  end
  local function scalar(...)
    local a, b = f(...)
    return a:cast("f64"):mean() + b:cast("f64"):square():mean()
  end
  return f, scalar, inputs
end

local function bits(list)
  local h = {}
  for i, t in ipairs(list) do h[i] = core.type_text(t) .. t:hash() end
  return table.concat(h, " ")
end

local slab, bound, sum, worst, most = 0, 0, 0, 1, 0
local function measure(f)
  local s = f:stats()
  if s.slab < s.bound or s.sum < s.bound then error "the plan is smaller than its bound" end
  slab, bound, sum = slab + s.slab, bound + s.bound, sum + s.sum
  if s.bound > 0 then worst = math.max(worst, s.slab / s.bound) end
  most = math.max(most, s.instructions)
end

local function check(number)
  local f, scalar, inputs = program()
  local g = graph.module("p" .. number, f)
  local eager = bits { f(unpack(inputs)) }
  for _ = 1, 2 do
    local got = bits { g(unpack(inputs)) }
    if got ~= eager then return ("%s, not %s\n%s"):format(got, eager, g:ir "bytecode") end
  end
  local text = g:ir()
  if core.graph_parse(text) ~= text then return "the text reads back differently\n" .. text end
  measure(g)
  -- Gradients: in the graph, by the tape call by call, by the tape through the function.
  local wrt = {}
  for i in ipairs(inputs) do wrt[i] = i end
  local d = graph.grad(scalar, wrt)
  local want = bits { d(unpack(inputs)) }
  measure(d)
  for _, run in ipairs { scalar, graph.module("s", scalar) } do
    local leaves = {}
    for i, x in ipairs(inputs) do leaves[i] = x:clone():requires_grad_() end
    local y = run(unpack(leaves))
    if y.requires_grad then y:backward() end
    local grads = {}
    for i, x in ipairs(leaves) do grads[i] = x.grad or op.zeros_like(x) end
    local got = bits(grads)
    if got ~= want then
      return ("%s: %s, not %s\n%s"):format(run == scalar and "backward()" or "through the function", got, want, d:ir())
    end
  end
end

core.profile "strict"
local failed, first = 0, nil
for i = 1, count do
  local was = fuzz.seed()
  local ok, why = pcall(check, i)
  if not ok or why then
    failed = failed + 1
    first = first or ("program %d (GRAPH_SEED=%d): %s"):format(i, was, tostring(why))
  end
  if i % 20 == 0 then collectgarbage() end
end
core.profile "deterministic"
first --> nil
failed --> 0
slab <= bound * 1.25 --> true
if os.getenv "GRAPH_RATIO" then
  print(("%d programs, up to %d instructions: slab/bound %.4f, worst %.3f; sum of values/slab %.2f"):format(count, most,
    slab / bound, worst, sum / slab))
end
