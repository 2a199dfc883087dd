-- Derivatives against central differences in f64: first order of every input, and the
-- derivative of the derivative. Inputs that are alike are one tensor as well, in a captured
-- function, where equal calls are one. Library of the tests in this folder.
--
--   local check = dofile("tests/grad/_check.lua")
--   check("softmax", { check.random{3, 5} }, { axis = -1 })
--
-- Inputs are f64 or complex128 where they are to be differentiated; others (indices,
-- masks) are passed along. Inputs should keep a distance of 1e-2 from kinks and poles.

local core = require "tessera.core"
local op = core.op
local graph = require "tessera.graph"
local M = {}
local seed = 0

--- Uniform f64 numbers in [low, high), -1 and 1 by default, never the same twice.
function M.random(shape, low, high)
  seed = seed + 1
  return op.uniform(shape, { low = low or -1, high = high or 1, dtype = "f64", seed = 77, stream = seed })
end

--- Numbers in [low, high) in random order, at equal distances: for rows with jumps where
--- elements are equal.
function M.distinct(shape, low, high)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  seed, low, high = seed + 1, low or -1, high or 1
  local x = op.permutation(n, { dtype = "f64", seed = 77, stream = seed })
  return (x * ((high - low) / math.max(n, 1)) + low):reshape(shape)
end

function M.complex(shape) return op.complex(M.random(shape), M.random(shape)) end

local function is_complex(x) return x.dtype:match "^complex" ~= nil end
local function differentiable(x) return x and (x.dtype == "f64" or x.dtype == "complex128") end

-- Inputs go by place: optional ones in the middle can be left out with false.
local function call(name, inputs, options)
  return { core.run(name, inputs, options) }
end

-- The real pairing under which gradients are defined: sum of re*re + im*im.
local function pair(a, b)
  if is_complex(a) or is_complex(b) then
    return (a:real() * b:real() + a:imag() * b:imag()):sum():item()
  end
  return (a * b):sum():item()
end

-- d/dt of f at x + t e by the five-point rule.
local function slope(f, h) return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h) end

-- The gradient of the number f() by the tensor at inputs[i], element by element; of a
-- Hermitian matrix along Hermitian changes.
local function differences(inputs, i, f, hermitian)
  local x, h = inputs[i], 1e-3
  local parts = is_complex(x) and 2 or 1
  local g = {}
  for k = 0, x.numel - 1 do
    for part = 1, parts do
      local function at(t)
        local moved = x:clone():contiguous()
        local flat = moved:reshape(-1)
        local e = core.tensor(t, { dtype = "f64" })
        if part == 2 then e = op.complex(e * 0, e) end
        flat:narrow(0, k, 1):copy_(flat:narrow(0, k, 1) + e)
        if hermitian then moved = (moved + moved:T():conj()) * 0.5 end
        inputs[i] = moved
        local y = f()
        inputs[i] = x
        return y
      end
      g[#g + 1] = slope(at, h)
    end
  end
  return g
end

local function flat_numbers(x)
  local v = {}
  x = x:contiguous():reshape(-1)
  if is_complex(x) then x = x:real_view():contiguous():reshape(-1) end
  for k = 1, x.numel do v[k] = x:select(0, k - 1):item() end
  return v
end

local function compare(what, got, want, x, tolerance)
  local numbers = got and flat_numbers(got) or {}
  if got then
    assert(got.dtype == x.dtype, ("%s: gradient is %s of %s"):format(what, got.dtype, x.dtype))
    assert(table.concat(got.shape, ",") == table.concat(x.shape, ","), what .. ": gradient of another shape")
  end
  for k = 1, #want do
    local a, b = numbers[k] or 0, want[k]
    local size = math.max(1, math.abs(b))
    if not (math.abs(a - b) <= tolerance * size) then
      error(("%s, element %d: %.12g, by differences %.12g"):format(what, k - 1, a, b), 0)
    end
  end
end

local function cotangents(outputs, only)
  local u = {}
  for i, y in ipairs(outputs) do
    u[i] = (only or i) == i and differentiable(y) and (is_complex(y) and M.complex(y.shape) or M.random(y.shape)) or false
  end
  return u
end

local function weighted(outputs, u)
  local sum = 0
  for i, y in ipairs(outputs) do
    if u[i] then sum = sum + pair(y, u[i]) end
  end
  return sum
end

-- ---- one tensor in several places: captured, as the sum of what copies of it get
local function pair_tensor(a, b)
  if not is_complex(a) and not is_complex(b) then return (a * b):sum() end
  return (a:real() * b:real() + a:imag() * b:imag()):sum()
end

local function with(inputs, places, xs)
  local args = {}
  for i = 1, inputs.n do args[i] = inputs[i] end
  for k, i in ipairs(places) do args[i] = xs[k] or xs[1] end
  return args
end

local function total(g)
  local sum = g[1]
  for k = 2, #g do sum = sum + g[k] end
  return sum
end

local function near(what, got, want, tolerance)
  local a, b = flat_numbers(got), flat_numbers(want)
  for k = 1, #b do
    local fine = math.abs(a[k] - b[k]) <= tolerance * math.max(1, math.abs(b[k])) or (a[k] ~= a[k] and b[k] ~= b[k])
      or a[k] == b[k]
    if not fine then error(("%s, element %d: %.12g, of copies %.12g"):format(what, k - 1, a[k], b[k]), 0) end
  end
end

local function repeated_at(name, inputs, options, more, places)
  local x, n = inputs[places[1]], #places
  local u = cotangents(call(name, with(inputs, places, { x }), options), more.only)
  local function value(...)
    local sum
    for i, y in ipairs(call(name, with(inputs, places, { ... }), options)) do
      local part = u[i] and pair_tensor(y, u[i])
      sum = part and (sum and sum + part or part) or sum
    end
    return sum
  end
  local all, copies = {}, {}
  for k = 1, n do all[k], copies[k] = k, x:clone() end
  local same, apart = graph.grad(function(a) return value(a) end), graph.grad(value, all)
  local what = ("%s with inputs %s the same tensor: "):format(name, table.concat(places, ", "))
  near(what .. "gradient", same(x), total { apart(unpack(copies)) }, 1e-9)
  if more.second == false then return end
  local v = is_complex(x) and M.complex(x.shape) or M.random(x.shape)
  local same2 = graph.grad(function(a) return pair_tensor(same.body(a), v) end)
  local apart2 = graph.grad(function(...) return pair_tensor(total { apart.body(...) }, v) end, all)
  near(what .. "second gradient", same2(x), total { apart2(unpack(copies)) }, 1e-8)
  near(what .. "second gradient, forwards", graph.hvp(function(a) return value(a) end)(x, v), same2(x), 1e-8)
end

local function repeated(name, inputs, options, more)
  local before = seed
  local function alike(i, j)
    local a, b = inputs[i], inputs[j]
    return differentiable(a) and differentiable(b) and a.numel > 0 and core.type_text(a) == core.type_text(b)
  end
  for i = 1, inputs.n do
    local all = { i }
    for j = i + 1, inputs.n do
      if alike(i, j) then
        all[#all + 1] = j
        repeated_at(name, inputs, options, more, { i, j })
      end
    end
    if #all > 2 then repeated_at(name, inputs, options, more, all) end
  end
  seed = before -- what other checks draw stays what it is
end

--- Checks the row `name` at inputs; options are those of the call. more: {tolerance = 1e-7,
--- second = false (first order only), inputs = number of inputs when the last are absent,
--- hermitian = true (the inputs are Hermitian matrices and change as such), only = the one
--- output that has a gradient}.
function M.check(name, inputs, options, more)
  options, more = options or {}, more or {}
  local n = more.inputs or #inputs
  inputs.n = n
  local u = cotangents(call(name, inputs, options), more.only)
  local tolerance = more.tolerance or 1e-7
  local g = { core.vjp(name, inputs, options, u) }
  for i = 1, n do
    if differentiable(inputs[i]) then
      local want = differences(inputs, i, function() return weighted(call(name, inputs, options), u) end,
        more.hermitian)
      compare(("%s: gradient of input %d"):format(name, i), g[i], want, inputs[i], tolerance)
    end
  end
  repeated(name, inputs, options, more)
  if more.second == false then return end
  local v = {}
  for i = 1, n do
    v[i] = differentiable(inputs[i]) and (is_complex(inputs[i]) and M.complex(inputs[i].shape) or M.random(inputs[i].shape)) or false
  end
  local all = { n = n + #u }
  for i = 1, n do all[i] = inputs[i] end
  for i = 1, #u do all[n + i] = u[i] end
  local function first()
    local uu = {}
    for i = 1, #u do uu[i] = all[n + i] end
    local xs = {}
    for i = 1, n do xs[i] = all[i] end
    local gg, sum = { core.vjp(name, xs, options, uu) }, 0
    for i = 1, n do
      if v[i] and gg[i] then sum = sum + pair(gg[i], v[i]) end
    end
    return sum
  end
  local uu = {}
  for i = 1, #u do uu[i] = all[n + i] end
  local gg = { core.vjp(name, inputs, options, uu, v) }
  for i = 1, n + #u do
    if differentiable(all[i]) then
      local what = i <= n and ("second gradient of input %d"):format(i) or ("derivative of the gradient by gradient %d"):format(i - n)
      local want = differences(all, i, first, more.hermitian and i <= n)
      compare(name .. ": " .. what, gg[i], want, all[i], tolerance * 20)
    end
  end
end

--- Gradients of f32 and bf16 inputs have their dtype and are near those of f64.
function M.narrow(name, inputs, options, tolerance)
  options = options or {}
  local u = cotangents(call(name, inputs, options))
  local want = { core.vjp(name, inputs, options, u) }
  for dtype, eps in pairs { f32 = 1e-5, bf16 = 0.03 } do
    local function cast(list)
      local to = {}
      for i, x in ipairs(list) do to[i] = x and x.dtype == "f64" and x:cast(dtype) or x end
      return to
    end
    local g = { core.vjp(name, cast(inputs), options, cast(u)) }
    for i, x in ipairs(inputs) do
      if want[i] then
        assert(g[i].dtype == dtype, ("%s: gradient of %s is %s"):format(name, dtype, g[i].dtype))
        local distance = (g[i]:cast "f64" - want[i]):abs():max():item()
        local size = math.max(1, want[i]:abs():max():item())
        assert(distance <= (tolerance or 1) * eps * size, ("%s: %s is off by %g"):format(name, dtype, distance))
      end
    end
  end
end

return setmetatable(M, { __call = function(_, ...) return M.check(...) end })
