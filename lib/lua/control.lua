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
local options = require "tessera.options"
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

-- Numbers among the values of a loop, or among results, as tensors.
local function no_numbers(...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if type(v) == "number" or type(v) == "table" then
      local numbers = {}
      local list, spec = tensors({ ... }, nil, numbers)
      if next(numbers) == nil then return ... end
      return unpack(tree.unflatten(spec, list), 1, select("#", ...))
    end
  end
  return ...
end

-- Results that are no tensors are those of the capture: they cannot depend on what runs.
local function same_form(a, b)
  if a.kind ~= b.kind or a.value ~= b.value or a.module ~= b.module then return false end
  if a.kind ~= "table" then return true end
  for i = 1, math.max(#a, #b) do
    if not a[i] or not b[i] or a.keys[i] ~= b.keys[i] or not same_form(a[i], b[i]) then return false end
  end
  return true
end

local ONE = { kind = "tensor", at = 1 } -- the structure of a tensor

-- What comes back of a loop's values: name, who gives it, what it is; the values of before, and
-- their structures.
local function values_of(name, who, what, list, specs)
  local spec = { kind = "table", keys = {}, unpack(specs) }
  for i = 1, #specs do spec.keys[i] = i end
  return { name = name, who = who, what = what, list = list, spec = spec, flat = #list == #specs, nothing = ONE }
end

local function check_form(of, spec)
  if not same_form(of.spec, spec) then
    core.fail(("%s: %s returns values of another form than it gets"):format(of.name, of.who))
  end
end

-- They have the types and the form of before, as in a captured function, which has one of each for
-- all rounds.
local function carried(of, ...)
  if of.flat and core.region_alike(of.list, ...) or (...) == of.nothing then return ... end
  local list, spec = tensors({ ... }, of.list)
  core.region_check(of.name, of.who, of.what, list, of.list)
  check_form(of, spec)
  return unpack(tree.unflatten(spec, list), 1, #of.spec)
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

--- f(args...) or g(args...), by a bool tensor of one element. Eagerly the other function does not
--- run, and is not looked at: a captured cond says where the types of their results differ, and
--- gives numbers the type of the other's. A boolean of Lua is not data: the function is called as
--- if it stood there alone.
function control.cond(p, f, g, ...)
  need_function(f, "cond")
  need_function(g, "cond")
  if p == true then return f(...) end
  if p == false then return g(...) end
  local _, yes = core.region_condition("cond", p)
  if not core.capturing() then return inside("cond", eager_call, yes and f or g, ...) end
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

local function eager_while(region, test, body, max, of, values)
  local n, _, yes = 0, nil, nil
  while n < max do
    core.region_round(region, n)
    _, yes = core.region_condition("while_loop", test(unpack(values)))
    if not yes then break end
    values = { carried(of, body(unpack(values))) }
    n = n + 1
  end
  return own(unpack(values))
end

local read_while = options.of("while_loop", { max = options.whole { least = 0 } })

--- values = body(values...) while test(values...). A last argument {max = n} bounds the
--- rounds, which makes the loop differentiable. Numbers among the values become tensors.
function control.while_loop(test, body, ...)
  need_function(test, "while_loop")
  need_function(body, "while_loop")
  local values, max = { ... }, nil
  local last = values[#values]
  if type(last) == "table" and last.max and not core.is_tensor(last.max) then max = read_while(table.remove(values)).max end
  values = { no_numbers(unpack(values)) }
  local list, specs = flatten_all(unpack(values))
  local of = values_of("while_loop", "the body", "the body's result", list, specs)
  if not core.capturing() then return inside("while_loop", eager_while, test, body, max or math.huge, of, values) end
  local first = region("while", function(...) return (core.region_condition("while_loop", test(...))) end, specs, list, {})
  local second, spec, results = region("do", body, specs, list, { like = list })
  core.region_check(of.name, of.who, of.what, results, list)
  check_form(of, spec)
  return node("while_loop", spec, list, { first, second }, { max or false })
end

local function eager_scan(region, f, of, carry, xs, length, reverse)
  local list, slices = {}, {}
  local spec = tree.flatten(xs, list)
  local outs, out_spec, first = {}, nil, nil
  for i = 0, length - 1 do
    local at, y = reverse and length - 1 - i or i, nil
    for k = 1, #list do slices[k] = list[k]:select(0, at) end
    core.region_round(region, at)
    carry, y = f(carry, tree.unflatten(spec, slices))
    carry = carried(of, carry)
    local ys, now = { y }, ONE
    if not core.is_tensor(y) then ys, now = tensors(y, nil, {}) end
    if i == 0 then
      first, out_spec = ys, now
    elseif now ~= ONE or out_spec ~= ONE or not core.region_alike(first, y) then
      core.region_check("scan", "the function", "the result", ys, first)
      if not same_form(now, out_spec) then core.fail "scan: the function's results have another form than in the first round" end
    end
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

local read_scan = options.of("scan", { length = options.whole { least = 0 }, reverse = options.flag }, { reverse = false })

--- carry, y = f(carry, x) along axis 0 of xs: the last carry, and the ys stacked. {length = n}
--- without xs, {reverse = true} from the end. Numbers in the carry and in y become tensors.
function control.scan(f, carry, xs, given)
  need_function(f, "scan")
  local o = read_scan(given)
  carry = no_numbers(carry)
  local list, specs = flatten_all(carry, xs)
  local first = {}
  tree.flatten(carry, first)
  local carries = #first
  local of = values_of("scan", "the function", "the carry", first, { specs[1] })
  if carries == 0 then of.nothing = carry end
  local length = o.length or (list[carries + 1] and list[carries + 1].shape[1])
  if not length then error("op.scan: xs or {length = n} is needed", 2) end
  for i = carries + 1, #list do
    if list[i].shape[1] ~= length then
      error(("op.scan: xs have lengths %d and %s along axis 0"):format(length, tostring(list[i].shape[1])), 2)
    end
  end
  if not core.capturing() then
    if length == 0 then return empty_scan(f, carry, xs, given) end
    return inside("scan", eager_scan, f, of, carry, xs, length, o.reverse)
  end
  local body, spec = region("scan", function(c, x)
    local next_carry, y = f(c, x)
    return next_carry, y
  end, specs, list, { from = carries + 1, like = first, numbers = {} })
  local last, ys = node("scan", spec, list, { body }, { carries, #list - carries, o.length or false, o.reverse })
  check_form(of, { kind = "table", keys = { 1 }, spec.keys[1] == 1 and spec[1] or nil })
  return last, ys -- two values, as eagerly
end

--- f(x) for each x along axis 0 of xs, a tensor or tensors in a table, stacked along a new axis 0.
function control.map(f, xs)
  need_function(f, "map")
  if next((flatten_all(xs))) == nil then fail_outside "op.map: a tensor, or tensors in a table, are needed" end
  local nothing = {}
  local _, y = control.scan(function(_, x) return nothing, f(x) end, nothing, xs)
  return y
end

local function eager_fixed_point(region, f, of, x0, tol, max)
  for n = 1, max do
    core.region_round(region)
    local x = carried(of, f(x0))
    local moved = (x - x0):abs():max():item()
    x0 = x
    if moved <= tol then return own(x0) end
    if moved ~= moved then fail_outside(("fixed_point: a value is NaN after %d rounds"):format(n)) end
  end
  fail_outside(("fixed_point: not found in %d rounds"):format(max))
end

local read_fixed = options.of("fixed_point", { tol = options.number { least = 0 }, max = options.whole { least = 1 } },
  { tol = 1e-6, max = 100 })

--- x = f(x, args...) from x0 until no element moves by more than tol (1e-6 by default), at
--- most max rounds (100). Differentiated implicitly, by what f uses, not by x0.
function control.fixed_point(f, x0, given)
  need_function(f, "fixed_point")
  local o = read_fixed(given)
  local tol, max = o.tol, o.max
  x0 = options.argument("fixed_point", "the start", options.tensor, (no_numbers(x0)))
  local list, specs = flatten_all(x0)
  local of = values_of("fixed_point", "the function", "the result", list, specs)
  if not core.capturing() then return inside("fixed_point", eager_fixed_point, f, of, x0, tol, max) end
  local body = region("round", f, specs, list, { like = list })
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

local function captured(f, most, ...)
  local list, specs = flatten_all(...)
  local rec = { args = describe_args(specs, list) }
  local known, spec, likes = capture_function(rec, f, list, specs)
  local body
  if known and rec.calls > 0 then
    rec.spec, rec.likes = spec, likes
    body = capture_function(rec, f, list, specs)
  end
  if not body then
    return unrolled(f, most or 64, rec.why and (" (unrolled: %s)"):format(rec.why))(...)
  end
  return node("recursive", spec, list, { body }, { most or 10000, false })
end

local read_recursive = options.of("recursive", { max = options.whole { least = 1 } })

--- A function that gets itself as first argument: f(self, args...). At most max calls (10000)
--- stand inside each other. In a captured function the recursion is one node if op.cond on
--- tensors ends it and all levels have the same types, and f is captured twice; otherwise,
--- as when a Lua number counts the levels, the calls are unrolled, at most max (64).
function control.recursive(f, given)
  need_function(f, "recursive")
  local most = read_recursive(given).max
  return core.keep_line(function(...)
    if core.capturing() then return captured(f, most, ...) end
    return inside("recursive", eager_recursion, f, most or 10000, 1, ...)
  end)
end

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
