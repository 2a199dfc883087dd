-- Tests of rewriting rules: each fires where it should, not where its guard forbids it, and
-- keeps the bits (exact) or the accuracy (rounding). Library of this folder.
--
--   local rules = dofile "tests/ir/rules/_rules.lua"
--   rules.check("mul_one", yes, no, x...)   -- "ok", or what is wrong
--   rules.ops(f, x...)                      -- "matmul add": the operators after rewriting
--   rules.fired(f, x...)                    -- "mul_one fold": each once, in order
--   rules.fast.check(..), .ops(..), ..      -- in the profile fast; there check wants that the
--                                           -- rule does not fire in deterministic
local core = require "tessera.core"
local graph = require "tessera.graph"
local numerics = require "tessera.numerics"
local M = { seen = {} }

--- Every rule's kind, types and pattern by its name, in the order of ir/rules/rules.def.
M.kind, M.types, M.pattern, M.names = {}, {}, {}, {}
for line in io.lines "ir/rules/rules.def" do
  local name, kind, types, pattern = line:match '^%u+%(([%w_]+), +(%l+), "([^"]*)", "([^"]*)"'
  if name then
    M.kind[name], M.types[name], M.pattern[name] = kind, types, pattern
    M.names[#M.names + 1] = name
  end
end

local function captured(f, ...)
  local g = graph.module("f", f)
  return g, { g(...) }
end

local function names(g)
  local list, had = {}, {}
  if g:rewrites() == "no rule fired\n" then return "" end
  for name in ("\n" .. g:rewrites()):gmatch "\n([%w_]+)" do
    if not had[name] then list[#list + 1] = name end
    had[name] = true
  end
  return table.concat(list, " ")
end

function M.fired(f, ...) return names((captured(f, ...))) end

function M.ops(f, ...)
  local g = captured(f, ...)
  local list = {}
  for name in g:ir("graph"):gmatch "\n +%%[^=\n]+ = ([%w_]+)" do list[#list + 1] = name end
  return table.concat(list, " ")
end

--- The line of the only node with that operator, without its operands' names.
function M.line(f, op, ...)
  return (captured(f, ...)):ir("graph"):match("= (" .. op .. "[^\n]*)")
end

local function wide(x, inputs)
  if not core.is_tensor(x) or (inputs and (x.dtype == "bool" or x.dtype == "i64")) then return x end
  local to = ({ bool = "f64", i64 = "f64", f32 = "f64", bf16 = "f64", f16 = "f64", complex64 = "complex128" })[x.dtype]
  return to and x:cast(to) or x
end

local function distance(a, b)
  local d = (wide(a) - wide(b)):abs():max():item()
  return d
end

--- How far the captured function is from its evaluation in f64, beside the eager one.
function M.inaccurate(f, ...)
  local args = {}
  for i = 1, select("#", ...) do args[i] = wide((select(i, ...)), true) end
  local truth = { f(unpack(args)) }
  local eager, _, made = { f(...) }, captured(f, ...)
  local step = { f32 = 2 ^ -23, f64 = 2 ^ -52, bf16 = 2 ^ -8, f16 = 2 ^ -11, complex64 = 2 ^ -23 }
  for i, y in ipairs(truth) do
    local t = made[i]
    local unit = (step[t.dtype] or 0) * wide(y):abs():max():item()
    local before, after = distance(eager[i], y), distance(t, y)
    if not (after <= 2 * before + 4 * unit) then
      return ("result %d is %g from the f64 one, eagerly %g, one unit is %g"):format(i, after, before, unit)
    end
  end
  return nil
end

local function different(f, ...)
  local eager, _, made = { f(...) }, captured(f, ...)
  for i, y in ipairs(eager) do
    if core.type_text(y) ~= core.type_text(made[i]) or y:hash() ~= made[i]:hash() then
      return ("result %d has other bits than eagerly"):format(i)
    end
  end
end

local function has(list, name) return (" " .. list .. " "):find(" " .. name .. " ", 1, true) ~= nil end

function M.check(name, yes, no, ...)
  local args, n = { ... }, select("#", ...)
  local exact = M.kind[name] ~= "rounding"
  if M.types[name]:find "^|" and numerics.profile() ~= "fast" then return M.fast.check(name, yes, no, ...) end
  M.seen[name] = true
  if not M.kind[name] then return name .. " is no rule" end
  local fired = M.fired(yes, ...)
  if not has(fired, name) then return ("%s did not fire, but %s"):format(name, fired) end
  if no and has(M.fired(no, ...), name) then return name .. " fired against its guard" end
  local strict = numerics.profile("strict", function() return M.fired(yes, unpack(args, 1, n)) end)
  if has(strict, name) ~= exact then return ("%s in the strict profile: %s"):format(name, strict) end
  for _, f in ipairs { yes, no } do
    local why = numerics.profile("strict", function() return different(f, unpack(args, 1, n)) end)
      or M.inaccurate(f, ...)
    if why then return name .. ": " .. why end
  end
  return "ok"
end

M.fast = {}
for _, name in ipairs { "ops", "line", "fired", "inaccurate", "check" } do
  M.fast[name] = function(...)
    local args, n = { ... }, select("#", ...)
    return numerics.profile("fast", function() return M[name](unpack(args, 1, n)) end)
  end
end
local check = M.fast.check
M.fast.check = function(name, yes, no, ...)
  if has(M.fired(yes, ...), name) then return name .. " fires in deterministic" end
  return check(name, yes, no, ...)
end

return M
