-- Captured functions beside the functions themselves: arguments that are given twice, overlap, are
-- views,
-- have other sizes and types; parameters that are changed; results that are written to afterwards;
-- control operators with writes and draws inside.
local steps = dofile "tests/fuzz/programs/_steps.lua"
local words = steps.words
local control = dofile "tests/fuzz/programs/_control.lua"

-- Arguments like those of the first set: the text of a function that makes them.
local function variant(W, types, which)
  local R, parts, before = W.R, {}, ""
  local map = {}
  local function size(d)
    map[d] = map[d] or (which == "sizes" and R:pick { d + 1, 2 * d, d + 3, R(12), R(12), d, 0 }) or d
    return map[d]
  end
  for i, t in ipairs(types) do
    local s = {}
    for k, d in ipairs(t.shape) do s[k] = size(d) end
    local dtype = which == "types" and R:chance(0.6) and words.dtype(R) or t.dtype
    parts[i] = words.data(R, s, dtype, which == "special" and "special" or nil)
  end
  if which == "twice" then
    before = "local x = " .. parts[1] .. " "
    for i = 1, #parts do parts[i] = (i == 1 or R:chance(0.6)) and "x" or R:chance(0.5)
      and R:pick { "x:flip()", "x:reshape(-1)", "x:T()", "x * 1", "x:clone()" } or parts[i] end
  elseif which == "parts" and #types[1].shape > 0 then
    local s = { unpack(types[1].shape) }
    s[1] = 2 * s[1] + 1
    before = "local x = " .. words.data(R, s, types[1].dtype) .. " "
    local n = types[1].shape[1]
    for i = 1, #parts do parts[i] = R:pick { ('x["0:%d"]'):format(n), ('x["%d:%d"]'):format(n, 2 * n),
      ('x["1:%d"]'):format(n + 1), parts[i] } end
  elseif which == "stretched" and #types[1].shape > 0 then
    local s = { unpack(types[1].shape) }
    s[1] = 1
    parts[1] = ("T(%d, %s, %q):expand%s"):format(R(99), words.list(s), types[1].dtype,
      words.list(types[1].shape))
  end
  return ("function() %sreturn %s end"):format(before, table.concat(parts, ", "))
end

local exact = { infix = 3, number = 9, unary = 8, negate = 4, binary = 3, ternary = 3, cast = 4,
  fill = 7, view = 3, move = 3, slice = 1, reduce = 1, rule = 12, layer = 2 }
local ragged = { slice = 8, view = 6, move = 7, reduce = 4, unary = 2, number = 2, infix = 3, row = 5,
  layer = 2 }

-- how: "mixed", "control", "exact" (special values in short expressions), "sizes" (many of them)
return function(W, how)
  local R = W.R
  local sizes = how == "sizes" and { R:pick { 2, 4, 6, 8 }, R:pick { 4, 6, 16 }, 4,
    3 } or words.sizes(R)
  local weights = how == "exact" and exact or how == "sizes" and ragged or nil
  W.wild = how == "exact"
  W.errors = how == "sizes" and 0 or 0.02
  if how == "exact" and R:chance(0.7) then W:line 'profile "strict"'
  elseif R:chance(0.3) then W:line('profile "%s"', R:pick { "strict", "fast" }) end
  local count = R:pick { 1, 2, 2, 3 }
  local params, kept = {}, how ~= "exact" and R:chance(how == "sizes" and 0.1 or 0.5)
  for i = 1, count do params[i] = "x" .. i end
  W:open "local function build()"
  if kept or how == "control" then steps.inputs(W, { "k" }, { 1, 1, sizes[1] },
    how == "control" and "f32" or nil) end
  local main = R:chance(0.5) and words.dtype(R) or nil
  local types, shape = {}, words.shape(R, how == "exact" and 1 or R:pick { 1, 1, 2, 2, 3 }, sizes)
  if how == "exact" then shape[1] = R:pick { 16, 17, 33 } end
  for i, name in ipairs(params) do
    local s, dtype = { unpack(shape) }, how == "control" and R:pick { "f32", "f32",
      "f64" } or main or words.dtype(R)
    if R:chance(0.2) and how ~= "control" and #s > 0 then s[R(#s)] = 1 end
    if R:chance(0.1) and how ~= "control" then s = words.shape(R, nil, sizes) end
    types[i] = { shape = s, dtype = dtype }
    local fine, t = W:run("return " .. words.data(R, s, dtype, how == "exact" and "special" or nil))
    if not fine then error(t, 0) end
    W.env[name] = t
    W.values[#W.values + 1] = name
  end
  W:open("return function(%s)", table.concat(params, ", "))
  for _ = 1, R:between(1, how == "exact" and 4 or 8) do
    local what = R:weighed { value = 10, write = how == "mixed" and 3 or how == "control" and 1 or 0.3,
      control = how == "control" and 5 or how == "mixed" and 0.3 or 0 }
    if what == "value" then steps.value(W, weights)
    elseif what == "write" then steps.write(W)
    else control.add(W) end
  end
  local results, seen = {}, {}
  for _ = 1, R:between(1, 4) do
    local v = W:pick()
    if not seen[v] or R:chance(0.2) then results[#results + 1] = v end
    seen[v] = true
  end
  if how == "exact" then results = { W.values[#W.values], R:chance(0.5) and W:pick() or nil } end
  if R:chance(0.15) then
    local x = W:pick()
    results[#results + 1], results[#results + 2] = ("op.zeros_like(%s)"):format(x),
      ("op.zeros_like(%s)"):format(x)
  end
  if kept or how == "control" then results[#results + 1] = R:pick { "k", "k * 1" } end
  W:line("return %s", table.concat(results, ", "))
  W:close "end"
  W:close "end"
  local sets = { variant(W, types, how == "exact" and "special" or nil) }
  for _ = 1, how == "sizes" and R:between(3, 8) or R:between(0, 3) do
    sets[#sets + 1] = variant(W, types, how == "sizes" and "sizes" or how == "exact"
      and R:pick { "special", "types", "twice" } or R:pick { "plain", "sizes", "twice", "parts",
      "types", "special", "stretched" })
  end
  W:open 'same("f", build, {'
  for _, set in ipairs(sets) do W:line("%s,", set) end
  W:close("}, %d)", how == "sizes" and 2 or 3)
  if how == "exact" then -- the same values in a hot loop
    W:line "local f = build()"
    W:line("local make = %s", sets[1])
    W:line "local c = T(9, {3}, 'f32')"
    W:open("for i = 1, %d do", R:pick { 14, 14, 30, 120 })
    W:line 'c = (c * 0.5):tanh() + 0.1'
    W:line 'note("hot", f(make()))'
    W:close "end"
  end
end
