-- Control operators: choices and loops that depend on data. Eagerly they are Lua's own; in
-- a captured function they become nodes whose functions are graphs.
--
--   op.cond(p, f, g, args...)              f(args...) if the bool p is true, else g(args...)
--   op.while_loop(test, body, values...)   values = body(values...) while test(values...)
--   op.scan(f, carry, xs)                  carry, y = f(carry, x) for each x along axis 0
--   op.map(f, xs)                          f(x) for each x along axis 0, stacked
--   op.fixed_point(f, x, {tol, max})       x = f(x) until no element moves by more than tol
--   op.recursive(f, {max})                 a function that calls itself: f(self, args...)
--
-- Carries, xs and results may be tables of tensors. Functions may use tensors from outside, and
-- change none of them in place, nor their arguments: they return new values.
-- Results are tensors of their own: where a function returns what it was given, a copy.

local core = require "tessera.core"
local tree = require "tessera.tree"
local op = core.op
local control = {}

-- An error at the line of the program that is being run.
local function fail_outside(text)
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info or not (info.what == "C" or info.what == "tail" or info.source:find "^=tessera") then break end
    level = level + 1
  end
  error(text, level)
end

local function need_function(f, name) core.need_function(f, "op." .. name) end

-- Regions hold tensors: numbers that a function returns become tensors, of the dtype of like
-- where it says one. numbers, where given, gets the places of the others, which are i64 or f32.
local function tensors(values, like, numbers)
  local list = {}
  local spec = tree.flatten(values, list, nil, nil, function(v, i)
    if type(v) ~= "number" then return end
    local dtype = like and like[i] and like[i].dtype
    if numbers and (not dtype or (numbers[i] and dtype == "i64" and v % 1 ~= 0)) then
      numbers[i], dtype = true, v % 1 == 0 and "i64" or "f32"
    end
    return dtype and core.tensor(v, { dtype = dtype })
  end)
  return list, spec
end

-- f(symbols...) as a region, of the types of list; returns it and the structure of its results.
-- how.from: from there on the types are those of slices; how.like, how.numbers: see tensors;
-- how.instead: a region that does not run if this one does. An error gives it up: calls go where
-- they went before.
local function region(name, f, specs, list, how)
  return core.guarded(false, function()
    core.region_begin(name, how.instead)
    local symbols, args = {}, {}
    for i, t in ipairs(list) do symbols[i] = core.region_param(t, i >= (how.from or math.huge)) end
    for i, spec in ipairs(specs) do args[i] = tree.unflatten(spec, symbols) end
    local results, spec = tensors({ f(unpack(args, 1, #specs)) }, how.like, how.numbers)
    return core.region_end(results), spec, results
  end)
end

-- An operator of regions as a node; spec is the structure of their results.
local function node(kind, spec, list, regions, attrs)
  return unpack(tree.unflatten(spec, { core.control(kind, list, regions, attrs) }))
end

local function flatten_all(...)
  local list, specs = {}, {}
  for i = 1, select("#", ...) do specs[i] = tree.flatten((select(i, ...)), list) end
  return list, specs
end

-- ---- eagerly
-- What a function of a control operator does is the same as in a captured function (vm/core/region.h):
-- it changes nothing from outside, its random calls have streams of their own, and results are
-- tensors of their own.

local function leave(region, ok, ...)
  core.region_leave(region)
  if not ok then error((...), 0) end
  return ...
end

-- A stack of Lua holds some thousand calls inside each other: every so often a new one begins.
local SEGMENT = 128
local segments = setmetatable({}, { __mode = "k" })

local function ended(thread, ok, ...)
  if ok and coroutine.status(thread) ~= "dead" then
    return false, "a coroutine yields inside of a function of a control operator\n  hint: yield outside of it"
  end
  local why = ...
  if not ok and type(why) == "string" and why:find "^op%." then -- no line of the program was left in there
    return false, select(2, pcall(core.fail, why))
  end
  return ok, ...
end

local function protected(nested, run, ...)
  if nested % SEGMENT ~= SEGMENT - 1 then return xpcall(run, core.keep_calls, ...) end
  local thread = coroutine.create(run)
  segments[thread] = true
  return ended(thread, coroutine.resume(thread, ...))
end

-- run(region, ...) in a region that was entered. Nobody may leave it but by its end: a coroutine
-- that yields could be resumed anywhere, or never. In one of the program's the call goes through
-- C, which cannot be left so; a thread of ours sees who yields.
local function run_inside(run, region, nested, thread, ...)
  if thread and not segments[thread] then
    return core.guarded(function() core.region_leave(region) end, run, region, ...)
  end
  return leave(region, protected(nested, run, region, ...))
end

-- As an operator's call.
local function inside(name, run, ...)
  local region, nested, thread = core.region_enter(name)
  return run_inside(run, region, nested, thread, ...)
end

local function own(...)
  if core.region_are_own(...) then return ... end
  local list, specs = flatten_all(...)
  core.region_own(list)
  for i, spec in ipairs(specs) do specs[i] = tree.unflatten(spec, list) end
  return unpack(specs, 1, select("#", ...))
end

local function eager_call(_, f, ...) return own(f(...)) end

local function true_value(p, name)
  if core.is_tensor(p) then
    if p.numel ~= 1 then error(("op.%s: the condition is %s, not one bool"):format(name, core.type_text(p)), 3) end
    p = p:item()
  end
  return p ~= false and p ~= nil and p ~= 0
end

-- f(list), of concat or stack, along axis 0. A call takes no more than MOST tensors.
local MOST = 1024
local function joined(f, list)
  if #list <= MOST then return f(list, { axis = 0 }) end
  local parts = {}
  for i = 1, #list, MOST do parts[#parts + 1] = f({ unpack(list, i, math.min(i + MOST - 1, #list)) }, { axis = 0 }) end
  return joined(op.concat, parts)
end

local ENDLESS, UNROLL = {}, {} -- errors in a recursion: no types yet; it is not one node
local open = {} -- recursions whose functions are being captured, the innermost last

-- A branch as a region. One of several runs: they count inner calls of a recursion alike. While
-- its types are looked for, nil if they are needed to capture the branch.
local function branch(before, ...)
  local rec = open[#open]
  if not rec then return region(...) end
  local calls = rec.calls
  rec.calls = before
  local found = { pcall(region, ...) }
  rec.calls = math.max(calls, rec.calls)
  if found[1] then return unpack(found, 2, 4) end
  if rec.likes or found[2] ~= ENDLESS then error(found[2], 0) end
end

-- Whether a number that the first function gave has another dtype in the second one.
local function renumbered(numbers, first, second)
  for i in pairs(numbers) do
    if first[i] and second[i] and first[i].dtype ~= second[i].dtype then return true end
  end
  return false
end

-- Results that are no tensors are those of the capture: they cannot depend on the condition.
local function same_form(a, b)
  if a.kind ~= b.kind or a.value ~= b.value or a.module ~= b.module then return false end
  if a.kind ~= "table" then return true end
  for i = 1, math.max(#a, #b) do
    if a.keys[i] ~= b.keys[i] or not same_form(a[i], b[i]) then return false end
  end
  return true
end

--- f(args...) or g(args...), by a bool tensor of one element.
function control.cond(p, f, g, ...)
  need_function(f, "cond")
  need_function(g, "cond")
  if not core.is_tensor(p) then
    if true_value(p, "cond") then return f(...) end
    return g(...)
  end
  if not core.capturing() then return inside("cond", eager_call, true_value(p, "cond") and f or g, ...) end
  local list, specs = flatten_all(...)
  local numbers, before = {}, open[1] and open[#open].calls
  local first, spec, results = branch(before, "if", f, specs, list, { numbers = numbers })
  local second, other, others = branch(before, "else", g, specs, list, { like = results, numbers = numbers, instead = first })
  if not first and not second then error(ENDLESS, 0) end
  if first and second and renumbered(numbers, results, others) then
    first, spec = branch(before, "if", f, specs, list, { like = others, instead = second })
  end
  first, second, spec, other = first or second, second or first, spec or other, other or spec
  table.insert(list, 1, p)
  local out = { core.control("cond", list, { first, second }, {}) }
  if not same_form(spec, other) then fail_outside "op.cond: the functions' results have different forms" end
  return unpack(tree.unflatten(spec, out))
end

local function eager_while(region, test, body, max, values)
  local n = 0
  while n < max do
    core.region_round(region, n)
    if not true_value(test(unpack(values)), "while_loop") then break end
    values = { body(unpack(values)) }
    n = n + 1
  end
  return own(unpack(values))
end

--- values = body(values...) while test(values...). A last argument {max = n} bounds the
--- rounds, which makes the loop differentiable.
function control.while_loop(test, body, ...)
  need_function(test, "while_loop")
  need_function(body, "while_loop")
  local values, options = { ... }, {}
  local last = values[#values]
  if type(last) == "table" and not core.is_tensor(last) and last.max then options = table.remove(values) end
  if not core.capturing() then return inside("while_loop", eager_while, test, body, options.max or math.huge, values) end
  for i, v in ipairs(values) do
    if type(v) == "number" then values[i] = core.tensor(v, { dtype = v % 1 == 0 and "i64" or "f32" }) end
  end
  local list, specs = flatten_all(unpack(values))
  local first = region("while", test, specs, list, {})
  local second, spec = region("do", body, specs, list, { like = list })
  return node("while_loop", spec, list, { first, second }, { options.max or false })
end

local function eager_scan(region, f, carry, xs, length, reverse)
  local list, slices = {}, {}
  local spec = tree.flatten(xs, list)
  local outs, out_spec = {}, nil
  for i = 0, length - 1 do
    local at, ys, y = reverse and length - 1 - i or i, {}, nil
    for k = 1, #list do slices[k] = list[k]:select(0, at) end
    core.region_round(region, at)
    carry, y = f(carry, tree.unflatten(spec, slices))
    out_spec = tree.flatten(y, ys)
    for k = 1, #ys do
      outs[k] = outs[k] or {}
      outs[k][at + 1] = ys[k]
    end
  end
  for k, ts in ipairs(outs) do outs[k] = joined(op.stack, ts) end
  return own(carry), out_spec and tree.unflatten(out_spec, outs)
end

-- Without a round nobody knows the types of what f returns: they are captured.
local function empty_scan(f, carry, xs, options)
  return require("tessera.graph").module("scan", function(c, x) return control.scan(f, c, x, options) end)(carry, xs)
end

--- carry, y = f(carry, x) along axis 0 of xs: the last carry, and the ys stacked. {length = n}
--- without xs, {reverse = true} from the end.
function control.scan(f, carry, xs, options)
  need_function(f, "scan")
  options = options or {}
  local list, specs = flatten_all(carry, xs)
  local first = {}
  tree.flatten(carry, first)
  local carries = #first
  local length = options.length or (list[carries + 1] and list[carries + 1].shape[1])
  if not length then error("op.scan: xs or {length = n} is needed", 2) end
  for i = carries + 1, #list do
    if list[i].shape[1] ~= length then
      error(("op.scan: xs have lengths %d and %s along axis 0"):format(length, tostring(list[i].shape[1])), 2)
    end
  end
  if not core.capturing() then
    if length == 0 then return empty_scan(f, carry, xs, options) end
    return inside("scan", eager_scan, f, carry, xs, length, options.reverse)
  end
  local body, spec = region("scan", function(c, x)
    local next_carry, y = f(c, x)
    return next_carry, y
  end, specs, list, { from = carries + 1, like = first })
  local last, ys = node("scan", spec, list, { body }, { carries, #list - carries, options.length or false, options.reverse or false })
  return last, ys -- two values, as eagerly
end

--- f(x) for each x along axis 0 of xs, stacked.
function control.map(f, xs)
  need_function(f, "map")
  if next((flatten_all(xs))) == nil then fail_outside "op.map: a tensor, or tensors in a table, are needed" end
  local _, y = control.scan(function(_, x) return {}, f(x) end, {}, xs)
  return y
end

local function eager_fixed_point(region, f, x0, tol, max)
  for n = 1, max do
    core.region_round(region)
    local x = f(x0)
    local moved = (x - x0):abs():max():item()
    x0 = x
    if moved <= tol then return own(x0) end
    if moved ~= moved then fail_outside(("fixed_point: a value is NaN after %d rounds"):format(n)) end
  end
  fail_outside(("fixed_point: not found in %d rounds"):format(max))
end

--- x = f(x, args...) from x0 until no element moves by more than tol (1e-6 by default), at
--- most max rounds (100). Differentiated implicitly, by what f uses, not by x0.
function control.fixed_point(f, x0, options)
  need_function(f, "fixed_point")
  options = options or {}
  local tol, max = options.tol or 1e-6, options.max or 100
  if not core.capturing() then return inside("fixed_point", eager_fixed_point, f, x0, tol, max) end
  local list, specs = flatten_all(x0)
  local body = region("round", f, specs, list, {})
  return (core.control("fixed_point", list, { body }, { tol, max }))
end

-- ---- recursion
--
-- A captured recursion is one node if it can be: its function is captured once, as a region
-- in which self(...) is a node too, and op.cond on data ends it. The types of self's results
-- have to be known before its function is complete, so the function is captured twice. The
-- first time self(...) breaks off whatever asks for it, up to a cond whose other branch gives
-- types; this capture is thrown away.
--
-- Where an inner call differs from the outer one in more than the values of tensors (a Lua
-- number, a shape) or no branch ends without a call, Lua decides when it ends: then every
-- call is captured where it stands, the recursion is unrolled.

local function deeper(limit, why)
  fail_outside(("op.recursive: recursion deeper than %d calls%s"):format(limit, why or ""))
end

local OUTSIDE = "op.recursive: the inner call stands outside of its function"

-- Eagerly every call is one of Lua. What an inner one draws and may change is its own.
local function eager_recursion(region, f, limit, depth, ...)
  local function self(...)
    if depth == limit then deeper(limit) end
    local inner, nested, thread = core.region_enter_again(region)
    if not inner then fail_outside(OUTSIDE) end
    return run_inside(eager_recursion, inner, nested, thread, f, limit, depth + 1, ...)
  end
  return own(f(self, ...))
end

--- f with itself as first argument, called where it stands.
local function unrolled(f, limit, why)
  local function at(depth)
    return function(...)
      if depth > limit then deeper(limit, why) end
      return f(at(depth + 1), ...)
    end
  end
  return at(1)
end

-- What must not change from level to level, as texts, one an argument.
local function describe_args(specs, list)
  local texts = {}
  for i, spec in ipairs(specs) do
    texts[i] = tree.describe(spec, list) .. (spec.kind == "module" and tostring(spec.module) or "")
  end
  return texts
end

local function give_up(rec, why, ...)
  rec.why = why:format(...)
  error(UNROLL, 0)
end

local function call_self(rec, ...)
  local innermost = open[#open]
  if not innermost then fail_outside(OUTSIDE) end
  if innermost ~= rec then give_up(innermost, "it calls the recursion around it") end
  local list, specs = flatten_all(...)
  local now, before = describe_args(specs, list), rec.args
  for i = 1, math.max(#now, #before) do
    if now[i] ~= before[i] then
      give_up(rec, "argument %d is %s, then %s", i, before[i] or "missing", now[i] or "missing")
    end
  end
  rec.calls = rec.calls + 1
  if not rec.likes then error(ENDLESS, 0) end
  return unpack(tree.unflatten(rec.spec, { core.recur(list, rec.likes, rec.calls - 1) }))
end

-- The function as a region, or nil if it is none; other errors go on. A region without calls
-- of self, and one that only gives types, are thrown away.
local function capture_function(rec, f, list, specs)
  local graph, streams = core.capture_mark()
  local inside = #open
  rec.calls = 0
  local function leave()
    for i = #open, inside + 1, -1 do open[i] = nil end
  end
  local fine, body, spec, results = pcall(core.guarded, leave, function()
    open[inside + 1] = rec
    return region("recursive", function(...)
      return f(function(...) return call_self(rec, ...) end, ...)
    end, specs, list, { like = rec.likes })
  end)
  if fine and not rec.likes then core.capture_reset(graph, streams) end
  if not fine and body == ENDLESS then rec.why = "no branch ends it" end
  if not fine and body ~= ENDLESS and body ~= UNROLL then error(body, 0) end
  if fine then return body, spec, results end
end

local function captured(f, options, ...)
  local list, specs = flatten_all(...)
  local rec = { args = describe_args(specs, list) }
  local known, spec, likes = capture_function(rec, f, list, specs)
  local body
  if known and rec.calls > 0 then
    rec.spec, rec.likes = spec, likes
    body = capture_function(rec, f, list, specs)
  end
  if not body then
    return unrolled(f, options.max or 64, rec.why and (" (unrolled: %s)"):format(rec.why))(...)
  end
  return node("recursive", spec, list, { body }, { options.max or 10000, false })
end

--- A function that gets itself as first argument: f(self, args...). At most max calls (10000)
--- stand inside each other. In a captured function the recursion is one node if op.cond on
--- tensors ends it and all levels have the same types, and f is captured twice; otherwise,
--- as when a Lua number counts the levels, the calls are unrolled, at most max (64).
function control.recursive(f, options)
  need_function(f, "recursive")
  options = options or {}
  return core.keep_line(function(...)
    if core.capturing() then return captured(f, options, ...) end
    return inside("recursive", eager_recursion, f, options.max or 10000, 1, ...)
  end)
end

for name, f in pairs(control) do rawset(op, name, f) end
core.keep_line(op, true)

--- f as one call of a captured function: its inner values are not kept for the derivative
--- but computed again when it is made. graph.checkpoint(f)(args...) is f(args...).
function control.checkpoint(f)
  need_function(f, "checkpoint")
  return core.keep_line(function(...)
    if not core.capturing() then return inside("checkpoint", eager_call, f, ...) end
    local list, specs = flatten_all(...)
    local body, spec = region("checkpoint", f, specs, list, {})
    return node("call", spec, list, { body }, {})
  end)
end

return control
