-- Control operators: choices and loops that depend on data. Eagerly they are Lua's own; in
-- a captured function they become nodes whose functions are graphs.
--
--   op.cond(p, f, g, args...)              f(args...) if the bool p is true, else g(args...)
--   op.while_loop(test, body, values...)   values = body(values...) while test(values...)
--   op.scan(f, carry, xs)                  carry, y = f(carry, x) for each x along axis 0
--   op.map(f, xs)                          f(x) for each x along axis 0, stacked
--   op.fixed_point(f, x, {tol, max})       x = f(x) until no element moves by more than tol
--   op.recursive(f, {depth})               a function that may call itself, unrolled
--
-- Carries, xs and results may be tables of tensors. Functions may use tensors from outside.

local core = require "tessera.core"
local tree = require "tessera.tree"
local op = core.op
local control = {}

local function need_function(f, name)
  local mt = getmetatable(f)
  if type(f) == "function" or (type(mt) == "table" and mt.__call) then return end
  error(("op.%s: a function is needed, not a %s"):format(name, type(f)), 3)
end

-- Regions hold tensors: numbers that a function returns become tensors.
local function tensors(values, like)
  local list, names = {}, {}
  local spec = tree.flatten(values, list, names, "", function(v, i)
    if type(v) == "number" and like and like[i] then return core.tensor(v, { dtype = like[i].dtype }) end
  end)
  return list, spec
end

-- f(symbols...) as a region; returns it and the structure of its results.
local function region(name, f, specs, likes, slices, out_like)
  core.region_begin(name)
  local symbols = {}
  for i, t in ipairs(likes) do symbols[i] = core.region_param(t, slices and slices[i] or false) end
  local args = {}
  for i, spec in ipairs(specs) do args[i] = tree.unflatten(spec, symbols) end
  local results = { f(unpack(args, 1, #specs)) }
  local list, spec = tensors(results, out_like)
  return core.region_end(list), spec, list
end

local function flatten_all(...)
  local list, specs = {}, {}
  for i = 1, select("#", ...) do specs[i] = tree.flatten((select(i, ...)), list, {}, "") end
  return list, specs
end

local function true_value(p, name)
  if core.is_tensor(p) then
    if p.numel ~= 1 then error(("op.%s: the condition is %s, not one bool"):format(name, core.type_text(p)), 3) end
    p = p:item()
  end
  return p ~= false and p ~= nil and p ~= 0
end

--- f(args...) or g(args...), by a bool tensor of one element.
function control.cond(p, f, g, ...)
  need_function(f, "cond")
  need_function(g, "cond")
  if not core.capturing() or not core.is_tensor(p) then
    if true_value(p, "cond") then return f(...) end
    return g(...)
  end
  local list, specs = flatten_all(...)
  local first, spec, results = region("if", f, specs, list)
  local second = region("else", g, specs, list, nil, results)
  local inputs = { p }
  for i, t in ipairs(list) do inputs[i + 1] = t end
  local out = tree.unflatten(spec, { core.control("cond", inputs, { first, second }, {}) })
  return unpack(out)
end

local function eager_while(test, body, max, values)
  local n = 0
  while n < max and true_value(test(unpack(values)), "while_loop") do
    values = { body(unpack(values)) }
    n = n + 1
  end
  return unpack(values)
end

--- values = body(values...) while test(values...). A last argument {max = n} bounds the
--- rounds, which makes the loop differentiable.
function control.while_loop(test, body, ...)
  need_function(test, "while_loop")
  need_function(body, "while_loop")
  local values, options = { ... }, {}
  local last = values[#values]
  if type(last) == "table" and not core.is_tensor(last) and last.max then options = table.remove(values) end
  if not core.capturing() then return eager_while(test, body, options.max or math.huge, values) end
  for i, v in ipairs(values) do
    if type(v) == "number" then values[i] = core.tensor(v, { dtype = v % 1 == 0 and "i64" or "f32" }) end
  end
  local list, specs = flatten_all(unpack(values))
  local first = region("while", test, specs, list)
  local second, spec = region("do", body, specs, list, nil, list)
  return unpack(tree.unflatten(spec, { core.control("while_loop", list, { first, second }, { options.max or false }) }))
end

local function eager_scan(f, carry, xs, length, reverse)
  local list, names = {}, {}
  local spec = tree.flatten(xs, list, names, "")
  local outs, out_spec = {}, nil
  for i = 0, length - 1 do
    local at = reverse and length - 1 - i or i
    local slices = {}
    for k, x in ipairs(list) do slices[k] = x:select(0, at) end
    local y
    carry, y = f(carry, tree.unflatten(spec, slices))
    local ys = {}
    out_spec = tree.flatten(y, ys, {}, "")
    for k, t in ipairs(ys) do
      outs[k] = outs[k] or {}
      outs[k][at + 1] = t
    end
  end
  local stacked = {}
  for k, ts in ipairs(outs) do stacked[k] = op.stack(ts, { axis = 0 }) end
  return carry, out_spec and tree.unflatten(out_spec, stacked)
end

--- carry, y = f(carry, x) along axis 0 of xs: the last carry, and the ys stacked. {length = n}
--- without xs, {reverse = true} from the end.
function control.scan(f, carry, xs, options)
  need_function(f, "scan")
  options = options or {}
  local list, specs = flatten_all(carry, xs)
  local first = {}
  tree.flatten(carry, first, {}, "")
  local carries = #first
  local length = options.length or (list[carries + 1] and list[carries + 1].shape[1])
  if not length then error("op.scan: xs or {length = n} is needed", 2) end
  for i = carries + 1, #list do
    if list[i].shape[1] ~= length then
      error(("op.scan: xs have lengths %d and %s along axis 0"):format(length, tostring(list[i].shape[1])), 2)
    end
  end
  if not core.capturing() then return eager_scan(f, carry, xs, length, options.reverse) end
  local slices = {}
  for i = 1, #list do slices[i] = i > carries end
  local body, spec = region("scan", function(c, x)
    local next_carry, y = f(c, x)
    return next_carry, y
  end, specs, list, slices, first)
  local out = { core.control("scan", list, { body }, { carries, #list - carries, options.length or false, options.reverse or false }) }
  local values = tree.unflatten(spec, out)
  return values[1], values[2]
end

--- f(x) for each x along axis 0 of xs, stacked.
function control.map(f, xs)
  need_function(f, "map")
  local _, y = control.scan(function(_, x) return {}, f(x) end, {}, xs)
  return y
end

--- x = f(x, args...) from x0 until no element moves by more than tol (1e-6 by default), at
--- most max rounds (100). Differentiated implicitly, by what f uses, not by x0.
function control.fixed_point(f, x0, options)
  need_function(f, "fixed_point")
  options = options or {}
  local tol, max = options.tol or 1e-6, options.max or 100
  if not core.capturing() then
    for _ = 1, max do
      local x = f(x0)
      local moved = (x - x0):abs():max():item()
      x0 = x
      if moved <= tol then return x0 end
    end
    error(("fixed_point: not found in %d rounds"):format(max), 2)
  end
  local list, specs = flatten_all(x0)
  local body = region("round", f, specs, list)
  return (core.control("fixed_point", list, { body }, { tol, max }))
end

--- A function that gets itself as first argument: f(self, args...). Each call below the
--- depth (64 by default) is unrolled; deeper ones are an error.
function control.recursive(f, options)
  need_function(f, "recursive")
  local limit = options and options.depth or 64
  local function at(depth)
    return function(...)
      if depth > limit then error(("op.recursive: deeper than %d"):format(limit), 2) end
      return f(at(depth + 1), ...)
    end
  end
  return at(1)
end

for name, f in pairs(control) do rawset(op, name, f) end

--- f as one call of a captured function: its inner values are not kept for the derivative
--- but computed again when it is made. graph.checkpoint(f)(args...) is f(args...).
function control.checkpoint(f)
  need_function(f, "checkpoint")
  return function(...)
    if not core.capturing() then return f(...) end
    local list, specs = flatten_all(...)
    local body, spec = region("checkpoint", f, specs, list)
    return unpack(tree.unflatten(spec, { core.control("call", list, { body }, {}) }))
  end
end

return control
