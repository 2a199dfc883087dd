-- Derivatives of functions: graph.grad and its kin, captured functions themselves. Loaded by graph; gives what
-- training.lua makes its steps of.

local captured = require "tessera.captured"
local core = require "tessera.core"
local options = require "tessera.options"
local specialise = require "tessera.graph.specialise"
local tree = require "tessera.tree"
local fail, flatten, unflatten = core.fail, tree.flatten, tree.unflatten

-- Which arguments: the first, or a number, or a list of numbers.
local function positions(wrt, what)
  if wrt == nil then return { 1 } end
  local list, n = type(wrt) == "table" and not core.is_tensor(wrt) and wrt or { wrt }, 0
  for k, i in pairs(list) do
    n = n + 1
    if type(k) ~= "number" or type(i) ~= "number" or i < 1 or i % 1 ~= 0 then
      if core.is_tensor(i) then fail(("%s takes a function, and what it gives takes tensors\n  hint: %s(f)(x)"):format(what, what)) end
      local given = type(k) == "number" and core.shown(tostring(i)) or "'" .. core.shown(tostring(k)) .. "'"
      fail(("%s: the arguments to differentiate by are numbers from 1 on, not %s\n  hint: %s(f, {1, 2})"):format(what, given, what))
    end
  end
  if n == 0 or n ~= #list then
    fail(("%s: a list of arguments to differentiate by has none, or gaps\n  hint: %s(f, {1, 2})"):format(what, what))
  end
  return list
end

-- Integers and truth values do not move, so nothing is differentiated by them.
local function check_moves(what, x, i)
  if not core.is_tensor(x) or not (x.dtype:match "^[iu]%d" or x.dtype == "bool") then return end
  fail(("%s: argument %d is %s; only floats and complex numbers have derivatives\n  hint: cast it first, x:cast(\"f32\")")
    :format(what, i, core.type_text(x)))
end

-- The leaves of the arguments at the given positions. what: the function that the program named
-- them to, or nil if it means all of them.
local function chosen(wrt, args, n, what)
  local list, names, specs = {}, {}, {}
  for k, i in ipairs(wrt) do
    if i > n then fail(("graph.grad: there is no argument %d"):format(i)) end
    if what then check_moves(what, args[i], i) end
    specs[k] = flatten(args[i], list, names, "x")
  end
  return list, specs
end

local function filled(list, xs)
  for i, x in ipairs(xs) do
    if not list[i] then list[i] = core.op.zeros_like(x) end
  end
  return list
end

local function as_results(specs, list)
  local out = {}
  for k = 1, #specs do
    local spec = specs[k]
    if spec.kind == "module" then
      local t = {}
      for i, field in ipairs(spec) do t[field.name] = list[spec.at + i] end
      out[k] = t
    else
      out[k] = unflatten(spec, list)
    end
  end
  return unpack(out, 1, #specs)
end

local function scalar(y, what)
  if core.is_tensor(y) and y.numel == 1 then return y end
  fail(("%s: the function must return one number as a tensor, not %s"):format(what,
    core.is_tensor(y) and core.type_text(y) or type(y)))
end

-- graph.name of a function alone: arguments beside it belong to what it gives.
local function alone(name, usage, make)
  local made = options.described(function(f, ...)
    if select("#", ...) > 0 then
      fail(("graph.%s takes a function, and what it gives takes its arguments\n  hint: graph.%s%s"):format(name, name, usage))
    end
    return make(f)
  end)
  return made
end

local function gradient_of(f, wrt, with_value)
  wrt = positions(wrt, with_value and "graph.value_and_grad" or "graph.grad")
  return function(...)
    local args, n = { ... }, select("#", ...)
    local xs, specs = chosen(wrt, args, n, "graph.grad")
    local y = scalar((f(...)), "graph.grad")
    local dx = filled(core.gradient({ y }, { false }, xs), xs)
    if with_value then return y, as_results(specs, dx) end
    return as_results(specs, dx)
  end
end

local function body_of(f, what)
  core.need_function(f, "graph." .. what)
  return captured.is_function(f) and f.body or f
end
-- A derivative's arguments have the names of the function's own.
local function named_like(f, derivative)
  derivative.derives = captured.is_function(f) and f.body or f
  if captured.is_function(f) then derivative.params = f.params end
  if type(f) == "function" then derivative.params = specialise.parameter_names(f, 16) end
  return derivative
end
local function name_of(f, prefix) return prefix .. (captured.is_function(f) and "_" .. f.name or "") end

return function(graph)
  -- from: whose values from outside count, not those of what the library makes of it. how: it runs on a mesh, see
  -- tessera.dist.pipeline.
  local function derivative(name, body, from, how)
    local f = graph.module(name, body)
    f.derivative, f.roots, f.how = true, from, how
    return f
  end

  --- The gradient of a function that returns one number, by its arguments wrt (1 by default;
  --- a list of positions). Returns one value for each.
  --   local slope = graph.grad(function(w) return (w * w):sum() end)
  --   print(slope(op.ones{3}))      -- {2, 2, 2}
  function graph.grad(f, wrt)
    return named_like(f, derivative(name_of(f, "grad"), gradient_of(body_of(f, "grad"), wrt, false),
      { body_of(f, "grad") }))
  end

  --- As grad, with the function's value in front.
  --   local both = graph.value_and_grad(function(w) return (w * w):sum() end)
  --   local y, dw = both(op.ones{3})      -- 3, and {2, 2, 2}
  function graph.value_and_grad(f, wrt)
    return named_like(f, derivative(name_of(f, "value_and_grad"), gradient_of(body_of(f, "value_and_grad"), wrt, true),
      { body_of(f, "value_and_grad") }))
  end

  --- vjp(f)(args..., u): u times the Jacobian, one result for each argument.
  --   local dx = graph.vjp(function(x) return op.sin(x) end)(x, op.ones_like(x))
  graph.vjp = alone("vjp", "(f)(x, u)", function(f)
    local body = body_of(f, "vjp")
    return derivative(name_of(f, "vjp"), function(...)
      local n = select("#", ...)
      local args = { ... }
      local u = args[n]
      args[n] = nil
      local all = {}
      for i = 1, n - 1 do all[i] = i end
      local xs, specs = chosen(all, args, n - 1)
      local y = body(unpack(args, 1, n - 1))
      return as_results(specs, filled(core.gradient({ y }, { u }, xs), xs))
    end, { body })
  end)

  --- jvp(f)(args..., v...): the value and its derivative when the arguments move along v. An
  --- argument whose v is false stays where it is; a number stands for all elements of v. Derivatives of derivatives
  --- are computed as jets, and sums of them (a Laplacian) as one.
  --   local moved = graph.jvp(function(x) return op.sin(x) end)
  --   local y, dy = moved(x, op.ones_like(x))
  graph.jvp = alone("jvp", "(f)(x, v)", function(f)
    local body = body_of(f, "jvp")
    return derivative(name_of(f, "jvp"), function(...)
      local n = select("#", ...)
      if n % 2 ~= 0 then fail("graph.jvp: as many directions as arguments are needed") end
      local args = { ... }
      local xs, vs, names = {}, {}, {}
      for i = 1, n / 2 do
        if args[n / 2 + i] then
          local v = args[n / 2 + i]
          check_moves("graph.jvp", args[i], i)
          flatten(args[i], xs, names, "x")
          if type(v) ~= "number" then flatten(v, vs, names, "v") end
          while #vs < #xs and type(v) == "number" do vs[#vs + 1] = core.op.full_like(xs[#vs + 1], v) end
        end
      end
      local y = body(unpack(args, 1, n / 2))
      return y, filled(core.jvp(xs, vs, { y }), { y })[1]
    end, { body })
  end)

  --- hvp(f)(x, v): the Hessian of a function with one number as result, times v.
  --   local hv = graph.hvp(function(x) return (x ^ 3):sum() end)
  --   print(hv(x, op.ones_like(x)))
  graph.hvp = alone("hvp", "(f)(x, v)", function(f)
    local slope = gradient_of(body_of(f, "hvp"), 1, false)
    return derivative(name_of(f, "hvp"), function(x, v)
      local g = slope(x)
      return filled(core.jvp({ x }, { v }, { g }), { g })[1]
    end, { body_of(f, "hvp") })
  end)

  --- checkpoint(f): f whose inner values are computed again for the derivative instead of being kept.
  --   local y = graph.checkpoint(function(x) return op.gelu(x) end)(x)
  graph.checkpoint = alone("checkpoint", "(f)(x)", function(f) return require("tessera.control").checkpoint(body_of(f, "checkpoint")) end)

  --- f with another derivative: adjoint(arguments..., results..., gradients...) returns a
  --- gradient for each argument. Other tensors that f uses get none.
  --   local clip = graph.custom_adjoint(function(x) return x * 1 end,
  --     function(x, y, dy) return dy:clamp(-1, 1) end)
  function graph.custom_adjoint(f, adjoint) return require("tessera.foreign").custom_adjoint(f, adjoint) end

  return { derivative = derivative, scalar = scalar }
end
