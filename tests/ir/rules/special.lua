-- Every rule that its pattern alone makes a program of, over every type and special value, on both
-- sides of the line that its types draw: it fires where they say so and not elsewhere; what is
-- exact keeps every bit, what rounds keeps whether a result is finite.
local tessera = require "tessera"
local op = tessera.op
local rules = dofile "tests/ir/rules/_rules.lua"
local S = dofile "tests/ir/rules/_special.lua"
local values, empty = {}, {}
for _, d in ipairs(S.dtypes) do
  values[d] = S.values(d)
  empty[d] = values[d]["0:0"]
end

-- Rules whose guards look at values or constants say where they fire in other tests. What others
-- take away first: pow_minus_half is a rule for square roots of what is known.
local guarded, told = {}, {}
for line in io.lines "ir/rules/rules.def" do
  local name, guard = line:match '^%u+%(([%w_]+),.-"%(.-%)", ([%w_]+),'
  if name then guarded[name] = guard ~= "always" end
end

local failures, count, fired_somewhere = {}, 0, {}
local function fail(name, types, constants, what)
  if #failures < 40 then failures[#failures + 1] = ("%s of %s%s: %s"):format(name, types, constants, what) end
end

local function one(name, f, types, constants, ...)
  local exact, column = rules.kind[name] ~= "rounding", rules.types[name]
  count = count + 1
  -- Exact rules: in strict, where nothing else is allowed.
  local before, after, g, why, why_not = S.both("strict", f, ...)
  local wrong = S.differ(before, after, why, why_not)
  if wrong then fail(name, types, constants, "in strict " .. wrong) end
  if not before or not after then return end
  if not exact then
    before, after, g = S.both("deterministic", S.finite_inputs(f, ...))
    local n, first = S.turned(before, after)
    if n > 0 then fail(name, types, constants, ("%d results, %s"):format(n, first)) end
  end
  local list = { before.dtype }
  for t in types:gmatch "%S+" do list[#list + 1] = t end
  local fires, should = S.fired(g, name), S.takes(column, list, false)
  fired_somewhere[name] = fired_somewhere[name] or fires
  if fires and not should then fail(name, types, constants, "fires against its types") end
  if should and not fires and not guarded[name] and constants == "" and column ~= "*" then fail(name, types, constants, "does not fire") end
end

local numbers = { 0, -0.0, 1, -1, 2, 0.5, -8, 0.1, -3, 1e30, 1e-30, 2 ^ -140, 1 / 0, 0 / 0, 5 }

local function over_types(name, f, nvar, nconst)
  for _, d in ipairs(S.dtypes) do
    for _, e in ipairs(nvar > 1 and S.dtypes or { "" }) do
      local x, y = values[d], nil
      local types = d .. (nvar > 1 and " " .. e or "")
      if nvar > 1 then x, y = S.pairs(x, values[e]) end
      if nconst == 0 then
        one(name, f, types, "", x, y)
        if nvar == 1 then one(name, f, types, "", empty[d]) else one(name, f, types, "", empty[d], empty[e]) end
      end
      for i = 1, nconst > 0 and #numbers or 0 do
        local a, b = numbers[i], numbers[(i * 7) % #numbers + 1]
        local function with(v) return function(x) if nconst == 1 then return f(x, v(a)) end return f(x, v(a), v(b)) end end
        one(name, with(function(v) return v end), types, (" and %g, %g"):format(a, b), x)
        one(name, with(function(v) return op.full({ x.numel }, v, { dtype = d }) end), types, (" and filled %g, %g"):format(a, b), x)
      end
    end
  end
end

local made = {}
for _, name in ipairs(rules.names) do
  local f, nvar, nconst = S.program(rules.pattern[name])
  if f and (nvar == 1 or (nvar == 2 and nconst == 0)) and not rules.pattern[name]:find "fft" and not rules.pattern[name]:find "dct" then
    made[#made + 1] = name
    over_types(name, f, nvar, nconst)
  end
end
table.concat(failures, "\n") -->
#made > 55 --> true
count > 5000 --> true
